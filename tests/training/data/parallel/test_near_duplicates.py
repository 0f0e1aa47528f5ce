"""Near-duplicates are those that a comparison of every pair of texts finds."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.parallel.near_duplicates import NearDuplicateIndex, normalized_words


def jaccard(one: list[str], other: list[str]) -> float:
    sets = [set(words) | {f"{a} {b}" for a, b in pairwise(words)} for words in (one, other)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


texts = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=12)


@given(st.lists(texts, min_size=1, max_size=8), st.lists(texts, min_size=1, max_size=8))
def test_the_search_is_exact(indexed: list[list[str]], queries: list[list[str]]):
    index = NearDuplicateIndex(indexed)
    for query in queries:
        assert index.matches(query) == any(jaccard(query, text) >= 0.7 - 1e-12 for text in indexed)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ein  HUND, läuft!", "ein hund läuft"),
        ("Straße №7 kostet 1.000 €", "strasse no 0 kostet 0 0"),
        ("日本語。ABC", "日 本 語 abc"),
        ("don't_stop", "don t stop"),
        ("!?", ""),
    ],
)
def test_normalized_words(text: str, words: str):
    assert " ".join(normalized_words(text)) == words


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("Press the red button on the left side of panel 3.", "press the red button on the left side of panel 4", True),
        ("Press the red button on the left side of the panel.", "Press the red button on the left side.", True),
        ("Press the red button.", "Press the green button.", False),
        ("Remove the cover.", "Do not remove the cover before the fan stops.", False),
        ("我们在北京的一家很小的饭馆里吃了晚饭。", "我们在北京的一家很小的饭馆里吃了午饭。", True),
    ],
)
def test_examples(one: str, other: str, near: bool):
    assert NearDuplicateIndex([normalized_words(one)]).matches(normalized_words(other)) is near


def test_texts_without_words_match_nothing():
    assert not NearDuplicateIndex([[]]).matches([])
    assert not NearDuplicateIndex([]).matches(["a"])
