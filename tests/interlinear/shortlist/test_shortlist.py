"""Shortlists: made from counted links, kept in a file, and what they cover."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from interlinear.errors import BundleError
from interlinear.explanation import to_text_with_words
from interlinear.models.attention_reading import READINGS
from interlinear.models.attention_weights import AttentionWeights
from interlinear.shortlist import Coverage, LinkCounts, Shortlist, build_shortlist, coverage, link_counts
from interlinear.shortlist.link_counts import attention_links, word_links
from interlinear.shortlist.shortlist import WordLists
from interlinear.text import DELETE, KEEP, SPECIAL, TextConfig, Tokenizer
from interlinear.text.vocabulary import Vocabulary

WORDS = TextConfig(units="words", vocabulary=20)
SPECIALS = list(range(len(SPECIAL)))


def tokenizers() -> dict[str, Tokenizer]:
    """German: ein 4, Hund 5, Paris 6. English: a 4, dog 5, Paris 6, the 7."""
    return {
        "source": Tokenizer(WORDS, Vocabulary((*SPECIAL, "ein", "Hund", "Paris"))),
        "target": Tokenizer(WORDS, Vocabulary((*SPECIAL, "a", "dog", "Paris", "the"))),
    }


def made(words: int, frequent: int, links: list[tuple[int, int]], target: list[int]) -> Shortlist:
    both = tokenizers()
    counts = LinkCounts(both["source"].size, both["target"].size)
    pairs = np.array(links, np.int64).reshape(-1, 2)
    counts.add(pairs[:, 0], pairs[:, 1])
    return build_shortlist({"source": counts}, np.bincount(target, minlength=8), both, words, frequent)


def test_the_likeliest_words_of_a_source_word_and_the_most_frequent_ones() -> None:
    links = [(4, 4), (4, 4), (4, 7), (4, 7), (4, 5), (5, 5)]
    alone = made(1, 0, links, [])
    assert alone.words({"source": [4]}).tolist() == [*SPECIALS, 4]  # before 7, which is linked as often
    assert alone.words({"source": [5, 5]}).tolist() == [*SPECIALS, 5]
    assert made(2, 0, links, []).words({"source": [4]}).tolist() == [*SPECIALS, 4, 7]
    assert made(9, 0, links, []).words({"source": [4, 5]}).tolist() == [*SPECIALS, 4, 5, 7]
    common = made(1, 1, links, [4, 4, 7])  # 4 is common, so that its place is free for the next one
    assert common.words({"source": []}).tolist() == [*SPECIALS, 4]
    assert common.words({"source": [4]}).tolist() == [*SPECIALS, 4, 7]


def test_a_word_without_links_can_be_copied() -> None:
    assert made(1, 0, [], []).words({"source": [6]}).tolist() == [*SPECIALS, 6]


def test_operations_of_a_post_editing_model_are_always_there() -> None:
    both = tokenizers()
    config = WORDS.model_copy(update={"operations_on": "source"})
    both["target"] = Tokenizer(config, Vocabulary((*config.reserved, "a", "dog")))
    shortlist = build_shortlist({"source": LinkCounts(7, 8)}, np.zeros(8, np.int64), both, 1, 0)
    assert {KEEP, DELETE} <= set(shortlist.words({}).tolist())


def test_words_that_never_occur_are_not_frequent() -> None:
    assert made(1, 5, [], [7, 7, 5]).words({}).tolist() == [*SPECIALS, 5, 7]


@given(links=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), max_size=60), words=st.integers(1, 4))
def test_counting_in_parts_equals_counting_at_once(links: list[tuple[int, int]], words: int) -> None:
    """Beside a count of all pairs; some links are merged early, as more than PENDING are."""
    counts = LinkCounts(6, 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link_counts, "PENDING", 7)
        for source, target in links:
            counts.add(np.array([source]), np.array([target]))
    common = np.array([3])
    for source, own in enumerate(counts.likeliest(words, common)):
        counted = Counter(t for s, t in links if s == source and t not in common)
        assert own.tolist() == sorted(counted, key=lambda t: (-counted[t], t))[:words]


def test_a_batch_has_each_sentences_own_words() -> None:
    shortlist = made(2, 0, [(4, 4), (4, 7), (5, 5)], [])
    candidates = shortlist.candidates([{"source": [4, 5]}, {"source": [5]}, {}])
    assert candidates.words_BC.tolist() == [[*SPECIALS, 4, 5, 7], [*SPECIALS, 5, 0, 0], [*SPECIALS, 0, 0, 0]]
    assert candidates.lengths == (7, 5, 4) == tuple(candidates.lengths_B.tolist())


def test_a_union_has_the_words_of_all() -> None:
    one, other = made(1, 1, [(4, 4), (5, 5)], [7]), made(1, 1, [(4, 5)], [4])
    union = Shortlist.union([one, other])
    for ids in ([], [4], [5], [6], [4, 5]):
        both = {*one.words({"source": ids}).tolist(), *other.words({"source": ids}).tolist()}
        assert union.words({"source": ids}).tolist() == sorted(both)


def test_a_file_has_the_same_shortlist(tmp_path: Path) -> None:
    shortlist = made(2, 1, [(4, 4), (4, 7), (5, 5)], [7])
    for name in ("file", "other"):
        shortlist.save(tmp_path / name)
    assert (tmp_path / "file").read_bytes() == (tmp_path / "other").read_bytes()
    again = Shortlist.load(tmp_path / "file", tokenizers())
    assert again.common.tolist() == shortlist.common.tolist()
    for token in range(7):
        assert again.lists["source"].of(token).tolist() == shortlist.lists["source"].of(token).tolist()


def test_a_shortlist_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    made(1, 0, [], []).save(tmp_path / "file")
    others = tokenizers() | {"target": Tokenizer(WORDS, Vocabulary((*SPECIAL, "the", "dog", "Paris", "a")))}
    with pytest.raises(BundleError, match=r"another vocabulary \(target\)") as caught:
        Shortlist.load(tmp_path / "file", others)
    assert caught.value.where == str(tmp_path / "file") and "interlinear shortlist" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("common", np.array([0, 1, 2, 3, 8], np.int32), "ids that its vocabularies do not have"),
        ("common", np.array([0, 1, 2, 4], np.int32), "ids that its vocabularies do not have"),  # no END
        ("source.words", np.array([-1, 5, 7], np.int32), "ids that its vocabularies do not have"),
        ("source.ends", np.array([0, 3, 1, 3, 3, 3, 3], np.int64), "ids that its vocabularies do not have"),
        ("source.ends", np.array([0, 3], np.int64), "ids that its vocabularies do not have"),
        ("source.ends", None, "lacks the array 'source.ends'"),
        ("format", None, "has format 99"),
        ("description", None, "is no shortlist"),
        ("all", None, "cannot be read"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, content: np.ndarray | None, says: str) -> None:
    shortlist, path = made(2, 0, [(4, 4), (4, 7), (5, 5)], []), tmp_path / "file"
    shortlist.save(path)
    arrays = {key: value for key, value in load_file(path).items() if key != name}
    arrays |= {} if content is None else {name: content}
    description = {"format": 99 if name == "format" else 1, "tokenizers": shortlist.tokenizers}
    save_file(arrays, path, {"shortlist": "{}" if name == "description" else json.dumps(description)})
    if name == "all":
        path.write_bytes(b"nonsense")
    with pytest.raises(BundleError, match=says) as caught:
        Shortlist.load(path, tokenizers())
    assert caught.value.where == str(path) and "\n" not in str(caught.value)


def test_coverage_by_hand() -> None:
    shortlist = made(1, 0, [(4, 4), (5, 5)], [])
    found = coverage(shortlist, [({"source": [4]}, [4, 4, 5]), ({"source": [5]}, [5]), ({"source": [5]}, [])])
    assert found == Coverage(sentences=3, candidates=15, tokens=4, covered=3)
    assert found.share == 0.75 and found.candidates_each == 5
    assert coverage(shortlist, []).share == 1


def test_word_links_are_links_between_all_their_tokens() -> None:
    """Two words of two pieces each, of which the second stays whole on the other side."""
    config = TextConfig(units="bpe", vocabulary=300)
    tokenizer = Tokenizer.train(["ab cd"] * 3, config)
    source, target = (
        to_text_with_words(tokenizer, text, tokenizer.encode(text), True) for text in ("ab xy", "xy cd ab")
    )
    pieces = {word: tokenizer.encode(word).ids for word in ("ab", "xy", "cd")}
    assert len(pieces["ab"]) == 1 < len(pieces["xy"])
    found = list(zip(*(tokens.tolist() for tokens in word_links(source, target, [(0, 2), (1, 0)])), strict=True))
    expected = [(s, t) for word in ("ab", "xy") for s in pieces[word] for t in pieces[word]]
    assert sorted(found) == sorted(expected)


def test_attention_links_every_target_word_to_the_largest_weight() -> None:
    both = tokenizers()

    def text(field: str, line: str):
        return to_text_with_words(both[field], line, both[field].encode(line), True)

    pairs = [
        ({"source": text("source", "ein Hund")}, text("target", "a dog the")),
        ({"source": text("source", "Paris")}, text("target", "Paris")),
        ({}, text("target", "a")),
    ]
    weights_BLT = torch.zeros(3, 4, 3)
    weights_BLT[0, 0], weights_BLT[0, 1] = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.1, 0.3, 0.6])
    weights_BLT[1, 0] = torch.tensor([0.6, 0.4, 0.0])
    weights = AttentionWeights({("source", "attention"): weights_BLT[:, None]})

    def found(by: str) -> list[tuple[str, list[int], list[int]]]:
        links = attention_links(pairs, weights, READINGS[by])
        return [(name, source.tolist(), target.tolist()) for name, (source, target) in links]

    # "a" to "ein", "dog" to "Hund", though most of its weight is the end symbol's; "the" has no weight.
    assert found("attention") == [("source", [4, 5], [4, 5]), ("source", [6], [6])]
    # By the next step "a" has the weights of the step of "dog"; the others have none.
    assert found("next") == [("source", [5], [4]), ("source", [], [])]
    assert found("uam") == found("attention"), "a source without this kind is read by its attention"


def test_lists_are_read_by_token() -> None:
    lists = WordLists.join([np.array([3, 1]), np.array([], np.int32), np.array([2])])
    assert [lists.of(token).tolist() for token in range(3)] == [[3, 1], [], [2]]
