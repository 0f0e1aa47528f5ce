"""Texts in capitals, as titles and with a small first letter are read as training text, and get their case back."""

import pytest

from interlinear.text import TextConfig, Tokenizer
from interlinear.text.casing import Casing, CasingCounter, recased

GERMAN = [
    "Der Hund sieht den Mann.",
    "Die Straße ist weiß.",
    "Im Haus sieht der Mann den Hund.",
    "Heute ist die Straße weiß.",
]


def counted(lines: list[str]) -> Casing | None:
    counter = CasingCounter()
    assert list(counter.watch(iter(lines))) == lines
    return counter.casing()


@pytest.fixture(scope="module")
def casing() -> Casing:
    found = counted(GERMAN * 2)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "read", "case"),
    [
        ("DER HUND SIEHT DEN MANN.", "Der Hund sieht den Mann.", "capitals"),
        ("DIE STRASSE IST WEISS!", "Die Straße ist weiß!", "capitals"),
        ("der Hund sieht den Mann.", "Der Hund sieht den Mann.", "small"),
        ("der hund sieht den mann.", "Der Hund sieht den Mann.", "small"),
        ("Der Hund Sieht Den Mann", "Der Hund sieht den Mann", "title"),
        ("Der Hund sieht den Mann.", "Der Hund sieht den Mann.", None),
        ("HUND", "Hund", "capitals"),
        ("USA", "USA", None),
        ("Im NATO-Haus", "Im NATO-Haus", None),
        ("12:30 有狗", "12:30 有狗", None),
        ("", "", None),
    ],
)
def test_each_word_takes_the_form_that_training_saw(casing: Casing, text: str, read: str, case: str | None) -> None:
    mapped, found = casing.restored(text)
    assert (mapped.text, found) == (read, case)
    words = [("Hund", "HUND"), ("weiß", "WEISS"), ("Mann", "MANN")] if case == "capitals" else []
    for word, own in words:
        if (start := read.find(word)) >= 0:
            assert text[slice(*mapped.span(start, start + len(word)))] == own


def test_terms_keep_their_letters_and_places(casing: Casing) -> None:
    text = "DER HUND {Name} IST WEISS"
    mapped, case = casing.restored(text, [(9, 15)])
    assert case == "capitals" and mapped.text == "Der Hund {Name} ist weiss"
    assert recased("The dog {Name} is white", "capitals", None, [(8, 14)]) == "THE DOG {Name} IS WHITE"


@pytest.mark.parametrize(
    ("text", "case", "expected"),
    [
        ("The dog sees the street.", "capitals", "THE DOG SEES THE STREET."),
        ("Die Straße", "capitals", "DIE STRAẞE"),
        ("The dog sees the man", "title", "The Dog Sees The Man"),
        ("The dog sleeps.", "small", "the dog sleeps."),
        ("Hunde schlafen.", "small", "Hunde schlafen."),
        ("I sleep.", "small", "I sleep."),
    ],
)
def test_an_output_gets_the_case_of_the_input(text: str, case: str, expected: str) -> None:
    forms = Casing(("the", "Hunde", "I"), capitalised=True, rare_capitalised=False)
    assert recased(text, case, forms) == expected  # type: ignore[arg-type]


def test_text_without_capitals_has_no_forms() -> None:
    assert counted(["der hund sieht den mann"] * 3) is None
    assert counted(["狗看见人"] * 3) is None


def test_the_forms_are_in_the_tokenizers_file() -> None:
    tokenizer = Tokenizer.train(GERMAN * 2, TextConfig(units="bpe", vocabulary=330))
    again = Tokenizer.from_json(tokenizer.to_json())
    assert again.casing == tokenizer.casing is not None
    assert again.fingerprint() == tokenizer.fingerprint()
