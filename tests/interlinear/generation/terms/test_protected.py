"""What must not change is found, and nothing else."""

import pytest

from interlinear.generation.terms import protected_spans


def found(text: str, plain_number: bool = False) -> list[str]:
    return [text[start:end] for start, end, plain in protected_spans(text) if plain == plain_number]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Siehe https://example.org/a?b=1&c=2#d, bitte.", ["https://example.org/a?b=1&c=2#d"]),
        ("(siehe http://de.wikipedia.org/wiki/Hund_(Haustier))", ["http://de.wikipedia.org/wiki/Hund_(Haustier)"]),
        ("Auf www.example.org!", ["www.example.org"]),
        ("An max.mustermann+x@mail.example.org.", ["max.mustermann+x@mail.example.org"]),
        ("[url=https://x.de/a]hier[/url] [x](https://x.de/b)c **www.x.de/d** <https://x.de/e|da>",
         ["https://x.de/a", "https://x.de/b", "www.x.de/d", "https://x.de/e"]),
        ("https://x.de/?a[]=1&b=, https://x.de/{id}/%s?x={{y}}. „https://x.de/f“ 'http://x.de'",
         ["https://x.de/?a[]=1&b=", "https://x.de/{id}/%s?x={{y}}", "https://x.de/f", "http://x.de"]),
        ("请访问https://x.cn/狗。ftp://x.de/ (mailto:a@b.de) a@x.example.",
         ["https://x.cn/狗", "ftp://x.de/", "mailto:a@b.de", "a@x.example"]),
        ("Hallo {name}, {0} von {{ user.name }}", ["{name}", "{0}", "{{ user.name }}"]),
        ("Pfad ${HOME} und #{id} und %{count}", ["${HOME}", "#{id}", "%{count}"]),
        ("%s hat %d Dateien, %(n)d, %1$s, %.2f", ["%s", "%d", "%(n)d", "%1$s", "%.2f"]),
        ('Klicken <x id="1"/> <b>hier</b>', ['<x id="1"/>', "<b>", "</b>"]),
        ("Schön 😀👩‍👩‍👧 und 🇩🇪 und 👍🏽!", ["😀👩‍👩‍👧", "🇩🇪", "👍🏽"]),
        ("Er läuft 5 km in 3,5 % Steigung bei -10 °C.", ["5 km", "3,5 %", "-10 °C"]),
        ("Der {% if x %} Hund {{{name}}} {a:{b}} <%= x %>", ["{% if x %}", "{{{name}}}", "{a:{b}}", "<%= x %>"]),
        ("Sieht :name und %name%, $NAME$, $t(a), <0>müde</0>", [":name", "%name%", "$NAME$", "$t(a)", "<0>", "</0>"]),
        ("Groß: %dx%d, %ds, %*d, <#123>", ["%d", "%d", "%d", "%*d", "<#123>"]),
        ("Das kostet $20, 1.000,50 € oder 10-15 GBP", ["$20", "1.000,50 €", "10-15 GBP"]),
    ],
)  # fmt: skip
def test_it_is_found_as_it_stands(text: str, expected: list[str]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2 Hunde laufen im Jahr 2015 um 12:30 Uhr.",
        "die Hälfte der Leute",
        "<Der Hund schläft.> :-) Feld:name, std::x, in % der",
        "100%ige Sicherheit",
        "a < b und c > d",
        "Er sagt: {\nnein\n}",
        "5 kleine Hunde",
        "Haus-nr. 7a",
        "Zutaten für 4\n- 500 Eier",
        "Kosten: 20\n€ und 5\u2028km",
    ],
)
def test_other_text_is_translated(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Der Hund sieht 27 Katzen und (3) Ziegen.", ["27", "3"]),
        ("Am 12.05.2023 um 12:30 Uhr, 1/2 Stunde, 1.000,50 Schritte", ["12.05.2023", "12:30", "1/2", "1.000,50"]),
        ("v2.1.3, ISO-9001, COVID-19, A4 und H2O", ["v2.1.3", "ISO-9001", "COVID-19", "A4", "H2O"]),
        ("Ruf +49 30 123456 an, bei -5 Grad.", ["+49 30 123456", "-5"]),
        ("有27只猫", ["27"]),
        ("24-Stunden-Dienst, 80er, 100%ige Sicherheit, Nr. 7a, abc123, x86_64", []),
    ],
)
def test_a_plain_number_or_code_is_found_where_it_is_no_part_of_a_word(text: str, expected: list[str]) -> None:
    assert found(text, plain_number=True) == expected


def test_a_percentage_before_a_word_is_no_format() -> None:
    assert found("50 % der Leute, 20 % sind da") == ["50 %", "20 %"]


@pytest.mark.parametrize(
    "part",
    [
        "a",
        "1 ",
        "1.",
        "{",
        "{{",
        "<a",
        "a@",
        "a.",
        "%",
        "http://",
        "http://.",
        "http://a(",
        "http://a{",
        "http://a[].",
        "😀",
        "(",
        "@a.",
        "-1-",
        "A-",
        "1 2",
        "v",
        "{%",
        "{{ ",
        "<a b='",
        "<a b ",
        "$t(",
        "{x:",
        "%(",
        "$a",
        ":a_",
        "%|",
        "<!--",
        "&a",
        "${x{",
        "{a,",
    ],
)
def test_no_text_takes_quadratic_time(part: str) -> None:
    """Patterns that try every length at every position would not end before the test's time is over."""
    text = part * (100_000 // len(part))
    assert all(0 <= start < end <= len(text) for start, end, _ in protected_spans(text))
