"""Terms of a glossary, and texts that are not translated, are found in a text."""

import pytest

from interlinear.errors import RequestError
from interlinear.generation.terms import GlossaryEntry, Term, TermFinder, TermOptions, check_terms, only_terms
from interlinear.generation.terms.finder import PhraseIndex


def finder(
    glossary: dict[str, str] | None = None, keep: tuple[str, ...] = (), language: str | None = "de"
) -> TermFinder:
    entries = tuple(GlossaryEntry(source, target) for source, target in (glossary or {}).items())
    return TermFinder(TermOptions(entries, keep), language)


def found(text: str, by: TermFinder) -> list[tuple[str, str]]:
    return [(text[term.start : term.end], term.target) for term in by.find(text) if not term.plain_number]


def test_terms_are_whole_words_whatever_their_case() -> None:
    by = finder({"hund": "hound", "Großer Hund": "mastiff"})
    assert found("Der HUND und ein großer Hund, kein Hundehaus.", by) == [("HUND", "hound"), ("großer Hund", "mastiff")]


def test_the_longest_term_is_taken_and_terms_do_not_overlap() -> None:
    by = finder({"New York": "NY", "York Times": "Times", "New York Times Square": "place"})
    assert found("New York Times liest er", by) == [("New York", "NY")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028"])
def test_no_term_reaches_into_another_line(end: str) -> None:
    by = finder({"New York": "NY"}, ("Grüner Punkt",))
    text = end.join(
        ["Zutaten für 4", "- 500 g Mehl", "- 2 €", "$ 3 in New", "York, Grüner", "Punkt <b", "> {a", "} 1 -", "2 km"]
    )
    assert found(text, by) == [("500 g", "500 g"), ("2 €", "2 €"), ("$ 3", "$ 3"), ("2 km", "2 km")]


def test_inflected_forms_are_found() -> None:
    by = finder({"Vertrag": "agreement", "schneller Hund": "greyhound"})
    assert found("Die Verträge und des Vertrages", by) == [("Verträge", "agreement"), ("Vertrages", "agreement")]
    assert found("zwei schnelle Hunde", by) == [("schnelle Hunde", "greyhound")]
    assert found("zwei schnelle Hunde", finder({"schneller Hund": "greyhound"}, language=None)) == []


@pytest.mark.parametrize(
    ("language", "glossary", "text", "expected"),
    [
        (
            "en",
            {"credit": "Kredit", "credit card": "Kreditkarte"},
            "My credit cards, on credit.",
            [("credit cards", "Kreditkarte"), ("credit", "Kredit")],
        ),
        ("de", {"Neue": "new", "Neue Vertrag": "new contract"}, "neue Vertrages", [("neue Vertrages", "new contract")]),
        ("en", {"credit": "Kredit", "credit card": "A", "credit cards": "B"}, "credit carded", [("credit", "Kredit")]),
    ],
)
def test_a_longer_term_in_another_form_is_preferred_to_a_shorter_one(
    language: str, glossary: dict[str, str], text: str, expected: list[tuple[str, str]]
) -> None:
    assert found(text, finder(glossary, language=language)) == expected


def test_a_form_of_its_own_entry_is_preferred_to_a_stem() -> None:
    by = finder({"Haus": "house", "Häuser": "buildings"})
    assert found("Haus, Häuser", by) == [("Haus", "house"), ("Häuser", "buildings")]
    assert found("Hauses", by) == [], "two targets would fit"


def test_a_text_that_is_not_translated_is_found_as_it_is_given() -> None:
    by = finder(keep=("Blaue Blume", "C++"))
    assert found("Die Blaue Blume, blaue Blume und C++.", by) == [("Blaue Blume", "Blaue Blume"), ("C++", "C++")]


def test_what_is_protected_by_its_form_is_not_divided() -> None:
    by = finder({"example": "sample", "name": "Name"})
    assert found("example {name} https://example.org", by) == [
        ("example", "sample"),
        ("{name}", "{name}"),
        ("https://example.org", "https://example.org"),
    ]
    unprotected = TermFinder(TermOptions((GlossaryEntry("name", "Name"),), protect=False))
    assert found("{name}", unprotected) == [("name", "Name")]


def test_scripts_without_spaces_are_searched_by_characters() -> None:
    assert found("我喜欢机器翻译。", finder({"机器翻译": "MT"}, language="zh")) == [("机器翻译", "MT")]


def test_a_term_does_not_reach_over_a_line() -> None:
    assert found("großer\nHund", finder({"großer Hund": "mastiff"})) == []


@pytest.mark.parametrize(
    ("options", "where", "said"),
    [
        (
            TermOptions((GlossaryEntry("Hund", "dog"), GlossaryEntry("HUND", "hound"))),
            "glossary",
            "'Hund' has the target",
        ),
        (TermOptions((GlossaryEntry("Hund", " "),)), "glossary", "the target of 'Hund' is empty"),
        (TermOptions((GlossaryEntry(" ", "x"),)), "glossary", "a source is empty"),
        (TermOptions((GlossaryEntry("a", "x\ny"),)), "glossary", "line break"),
        (TermOptions(do_not_translate=("",)), "do_not_translate", "empty"),
        (TermOptions((GlossaryEntry("Ada", "Ida"),), ("Ada",)), "glossary", "not to be translated"),
    ],
)
def test_contradictory_and_empty_entries_are_refused(options: TermOptions, where: str, said: str) -> None:
    with pytest.raises(RequestError) as error:
        TermFinder(options)
    assert error.value.where == where and said in str(error.value)


def test_an_entry_given_twice_is_one() -> None:
    assert found("Hund", TermFinder(TermOptions((GlossaryEntry("Hund", "dog"), GlossaryEntry("hund", "dog"))))) == [
        ("Hund", "dog")
    ]


class CountingWords(list):
    """Words that count how often one of them is read."""

    reads = 0

    def __getitem__(self, place):
        self.reads += len(range(*place.indices(len(self)))) if isinstance(place, slice) else 1
        return super().__getitem__(place)


def test_a_long_entry_reads_no_word_of_a_text_more_often_than_it_has_words() -> None:
    index: PhraseIndex[int] = PhraseIndex(str)
    index.add(("a",) * 99 + ("b",), 1)
    index.add(("a", "a"), 2)
    words = CountingWords(["a"] * 1000 + ["b"])
    found = [index.longest_at(words, i) for i in range(len(words))]
    assert words.reads <= 100 * len(words)
    assert found[0] == (2, 2) and found[901] == (100, 1) and found[999] is found[1000] is None


def test_a_hundred_thousand_terms_are_found_by_an_index() -> None:
    """A pattern for each term would be applied a hundred million times here."""
    entries = tuple(GlossaryEntry(f"wort{i} nummer", f"word {i}") for i in range(100_000))
    by = TermFinder(TermOptions(entries))
    for i in range(0, 100_000, 100):
        assert found(f"das Wort{i} Nummer steht hier", by) == [(f"Wort{i} Nummer", f"word {i}")]


@pytest.mark.parametrize(
    "terms",
    [[Term(0, 3, "a"), Term(2, 5, "b")], [Term(3, 5, "b"), Term(0, 2, "a")], [Term(0, 99, "a")], [Term(2, 2, "a")]],
)
def test_terms_that_do_not_follow_each_other_are_refused(terms: list[Term]) -> None:
    with pytest.raises(RequestError, match="overlaps another, or is outside"):
        check_terms("ein Hund", terms)


def test_a_text_of_terms_alone_is_its_own_translation() -> None:
    def alone(text: str, by: TermFinder) -> bool:
        return only_terms(text, by.find(text))

    assert alone("https://example.org (5 km) {name}!", finder())
    assert not alone("siehe https://example.org", finder())
    assert not alone("Hund", finder({"Hund": "dog"})), "it is translated"
    assert all(alone(text, finder()) for text in ("!", "-", "1234", "12:30", "***", "27 %"))
