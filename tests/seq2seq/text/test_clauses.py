"""Division of sentences that are longer than a model reads."""

import pytest

from seq2seq.text.clauses import REACH, divide


def parts(text: str, most: int) -> list[str]:
    return [text[start:end] for start, end in divide(text, 0, len(text), lambda part: len(part) <= most)]


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("Ein Hund läuft, und eine Katze sitzt.", 37, ["Ein Hund läuft, und eine Katze sitzt."]),
        ("Ein Hund läuft, und eine Katze sitzt.", 30, ["Ein Hund läuft,", "und eine Katze sitzt."]),
        ("eins zwei drei vier", 12, ["eins zwei", "drei vier"]),
        ("ja, aber eins zwei drei vier", 20, ["ja, aber eins", "zwei drei vier"]),  # the comma is too near to the begin
        ("einszweidreivier", 4, ["einszweidreivier"]),
        ("你好，世界很大", 5, ["你好，", "世界很大"]),
    ],
)
def test_sentences_are_divided_near_the_middle(text, most, expected):
    assert parts(text, most) == expected


@pytest.mark.parametrize("gap", [REACH // 2, 3 * REACH, 20 * REACH])
def test_the_nearest_place_is_found_however_far_it_is(gap):
    text = "a" * gap + " " + "b" * (gap + 50) + " " + "c" * (2 * gap)
    assert parts(text, 2 * gap + 55) == ["a" * gap + " " + "b" * (gap + 50), "c" * (2 * gap)]


def test_nothing_but_white_space_is_lost():
    text = ("Wort, " * 5000).strip()
    assert " ".join(parts(text, 40)) == text
