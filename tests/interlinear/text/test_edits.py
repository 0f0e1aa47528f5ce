"""Edit scripts transform one text into the other, are as short as possible, and are defined for any sequence of
symbols."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlinear.text.edits import Change, Edit, Origin, diff, edit_script, origins

KEEP, DELETE = Edit.KEEP, Edit.DELETE
WORDS = st.lists(st.sampled_from("abcd"), max_size=12)
TEXTS = st.text(st.sampled_from("ab ,.é\n"), max_size=25)


def apply_script(script, mt):
    """The edited text: apply_script(edit_script(a, b), a) == b. Scripts of another length: see `origins`."""
    result = []
    for origin in origins(script, len(mt)):
        if origin.position is not None:
            result.append(mt[origin.position])
        elif origin.step is not None:
            result.append(script[origin.step])
    return result


def common(a, b):
    """The length of the longest common subsequence, by recursion over prefixes."""
    lengths = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, word in enumerate(a):
        for j, other in enumerate(b):
            lengths[i + 1][j + 1] = lengths[i][j] + 1 if word == other else max(lengths[i][j + 1], lengths[i + 1][j])
    return lengths[-1][-1]


@pytest.mark.parametrize(
    ("mt", "target", "script"),
    [
        ("a b c", "a b c", [KEEP, KEEP, KEEP]),
        ("a b c", "a x c", [KEEP, DELETE, "x", KEEP]),
        ("a b", "b a", [DELETE, KEEP, "a"]),
        ("a a", "a", [KEEP, DELETE]),
        ("", "a b", ["a", "b"]),
        ("a b", "", [DELETE, DELETE]),
        ("click the file on", "click on the file", [KEEP, "on", KEEP, KEEP, DELETE]),
    ],
)
def test_scripts_by_hand(mt, target, script):
    assert edit_script(mt.split(), target.split()) == script


@given(WORDS, WORDS)
def test_a_script_produces_the_target_and_is_the_shortest(mt, target):
    script = edit_script(mt, target)
    assert apply_script(script, mt) == target
    kept, deleted = script.count(KEEP), script.count(DELETE)
    assert kept == common(mt, target)
    assert kept + deleted == len(mt) and len(script) - deleted == len(target)


def test_a_word_spelled_like_a_symbol_stays_a_word():
    assert edit_script(["keep"], ["delete"]) == [DELETE, "delete"]


def test_missing_operations_keep_words_and_surplus_operations_are_ignored():
    assert apply_script([DELETE, "x"], ["a", "b", "c"]) == ["x", "b", "c"]
    assert apply_script([KEEP, KEEP, KEEP, "x", DELETE], ["a"]) == ["a", "x"]
    assert apply_script([], ["a"]) == ["a"]
    assert apply_script([KEEP, DELETE], []) == []
    assert origins([DELETE, "x", KEEP], 3) == [Origin(1, None), Origin(2, 1), Origin(None, 2)]


@given(st.lists(st.sampled_from([KEEP, DELETE, "x"]), max_size=10), WORDS)
def test_any_script_can_be_applied(script, mt):
    edited = apply_script(script, mt)
    assert edited.count("x") == script.count("x")
    assert len(edited) <= len(mt) + script.count("x")
    assert [word for word in edited if word != "x"] == [
        mt[origin.position] for origin in origins(script, len(mt)) if origin.position is not None
    ]


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ("A dog ran.", "A dog ran.", [Change("keep", "A dog ran.", "A dog ran.")]),
        (
            "a big dog",
            "a dog",
            [Change("keep", "a ", "a "), Change("delete", "big ", ""), Change("keep", "dog", "dog")],
        ),
        ("a dog", "a dog ran", [Change("keep", "a dog", "a dog"), Change("insert", "", " ran")]),
        (
            "the black cat sat.",
            "the white dog sat!",
            [
                Change("keep", "the ", "the "),
                Change("replace", "black cat", "white dog"),
                Change("keep", " sat", " sat"),
                Change("replace", ".", "!"),
            ],
        ),
        ("a  b", "a b", [Change("keep", "a ", "a "), Change("delete", " ", ""), Change("keep", "b", "b")]),
        ("", "", []),
        ("", " x", [Change("insert", "", " x")]),
    ],
)
def test_changes_by_hand(before, after, changes):
    assert diff(before, after) == changes


@given(TEXTS, TEXTS)
def test_changes_join_to_both_texts(before, after):
    changes = diff(before, after)
    assert "".join(change.before for change in changes) == before
    assert "".join(change.after for change in changes) == after
    for change in changes:
        assert {
            "keep": change.before == change.after != "",
            "delete": change.before and not change.after,
            "insert": change.after and not change.before,
            "replace": change.before and change.after and change.before != change.after,
        }[change.op]
    assert all(one.op != other.op for one, other in pairwise(changes))
