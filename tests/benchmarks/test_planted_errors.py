"""Planted errors: what is wrong in the text, and which doubts name it."""

import random

import pytest

from benchmarks.search.planted_errors import detection, plant, unspoilt
from seq2seq.explain import Doubt

SOURCE, TARGET = "Der kleine Hund schläft.", "The small dog is sleeping."
GOLD = [(0, 0), (1, 1), (2, 2), (3, 3), (3, 4), (4, 5)]
LOW, LEFT_OUT = "low_probability", "untranslated"


def planted(kind, seed):
    return plant(kind, SOURCE, TARGET, GOLD, ["cat", "house"], random.Random(seed))


@pytest.mark.parametrize("seed", range(12))
def test_a_replaced_word_is_wrong_and_what_it_stood_for_is_left_out(seed):
    error = planted("replaced", seed)
    words, (place,) = error.text.removesuffix(".").split(), error.target
    assert words[place] in ("cat", "house") and error.after == place + 1
    right = TARGET.removesuffix(".").split()
    assert place > 0 and words[:place] == right[:place] and words[place + 1 :] == right[place + 1 :]
    assert error.source == {1: {1}, 2: {2}, 3: set(), 4: set()}[place], "the verb has another word"


@pytest.mark.parametrize("seed", range(12))
def test_a_dropped_word_leaves_a_gap(seed):
    error = planted("dropped", seed)
    (gap,) = error.target
    expected = TARGET.removesuffix(".").split()
    del expected[gap]
    assert error.text == " ".join(expected) + "."


@pytest.mark.parametrize("seed", range(12))
def test_a_repeated_word_stands_after_the_first(seed):
    error = planted("repeated", seed)
    words, (second,) = error.text.removesuffix(".").split(), error.target
    assert words[second] in words[:second]
    del words[second]
    assert " ".join(words) + "." == TARGET and error.source == frozenset()


def test_precision_counts_doubts_and_recall_counts_errors():
    replaced, right = planted("replaced", 0), unspoilt(SOURCE, TARGET)
    (place,) = replaced.target
    named = Doubt(reason=LOW, side="target", word=place)
    beside = Doubt(reason=LOW, side="target", word=place + 1)
    elsewhere = Doubt(reason=LOW, side="target", word=0)
    dropped, repeated = planted("dropped", 0), planted("repeated", 0)
    found = detection([(replaced, [named, beside]), (dropped, []), (repeated, []), (right, [elsewhere]), (right, [])])
    assert found.precision == {LOW: pytest.approx(1 / 3)} and found.beside == {LOW: pytest.approx(1 / 3)}
    assert found.recall == {"replaced": 1.0, "dropped": 0.0, "repeated": 0.0}
    assert found.named["replaced"] == {LOW: 1.0} and found.false_alarms == 0.5


def test_a_doubt_about_the_source_names_an_error_by_its_source_word():
    error = next(one for one in (planted("dropped", seed) for seed in range(50)) if one.source)
    (word,) = error.source
    assert error.is_found(Doubt(reason=LEFT_OUT, side="source", word=word))
    assert not error.is_found(Doubt(reason=LEFT_OUT, side="source", word=word + 1))
