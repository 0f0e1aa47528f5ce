"""What turns one text into another: as a model writes it (keep, delete, insert), and as people read it."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from seq2seq.text.tokenizer import DELETE, KEEP, UNKNOWN, Decoded, Encoded, Tokenizer, word_spans

Word = TypeVar("Word", bound=Hashable)


class Edit(Enum):
    """What is done with the next word of a machine translation; an insertion is the word itself."""

    KEEP = "keep"
    DELETE = "delete"


def edit_script(mt: Sequence[Word], target: Sequence[Word]) -> list[Edit | Word]:
    """The shortest script that makes the target of the machine translation (Libovicky et al. 2016).

    Of several it is the one that keeps as early as it can, and deletes before it inserts. It keeps and deletes as often
    as `mt` has words, and keeps and inserts as often as the target has.
    """
    common = suffix_lcs_lengths(mt, target)
    script: list[Edit | Word] = []
    i = j = 0
    while i < len(mt) or j < len(target):
        if i < len(mt) and j < len(target) and mt[i] == target[j]:
            script.append(Edit.KEEP)
            i, j = i + 1, j + 1
        elif i < len(mt) and common[i + 1, j] == common[i, j]:
            script.append(Edit.DELETE)
            i += 1
        else:
            script.append(target[j])
            j += 1
    return script


def suffix_lcs_lengths(mt: Sequence[Word], target: Sequence[Word]) -> NDArray[np.int32]:
    """How many words, in their order, mt[i:] and target[j:] have in common, for all i and j, ends included."""
    numbers: dict[Word, int] = {}
    ours, theirs = (
        np.fromiter((numbers.setdefault(word, len(numbers)) for word in text), np.int64, len(text))
        for text in (mt, target)
    )
    common = np.zeros((len(mt) + 1, len(target) + 1), np.int32)
    for i in range(len(mt) - 1, -1, -1):
        best = np.maximum(common[i + 1, :-1], common[i + 1, 1:] + (theirs == ours[i]))
        common[i, :-1] = np.maximum.accumulate(best[::-1])[::-1]
    return common


@dataclass(frozen=True)
class Origin:
    """Where a word of an edited text comes from: the step of the script, and its place in the machine translation.

    step: None for what was kept without being said. place: None for an insertion.
    """

    step: int | None
    position: int | None


def origins(script: Iterable[Edit | Word], length: int) -> list[Origin]:
    """For every word of the edited text, where it comes from, whatever the script says.

    A model may write a script of another length than the `length` words ask for. As Neural Monkey has it, words that it
    says nothing of are kept, and what it says of words that are not there is ignored.
    """
    found: list[Origin] = []
    position = 0
    for step, operation in enumerate(script):
        if not isinstance(operation, Edit):
            found.append(Origin(step, None))
            continue
        if operation is Edit.KEEP and position < length:
            found.append(Origin(step, position))
        position += 1
    return [*found, *(Origin(None, rest) for rest in range(position, length))]


def apply_script(script: Sequence[Edit | Word], mt: Sequence[Word]) -> list[Word]:
    """The edited text; of a script of another length as `origins` has it. apply(operations(a, b), a) is b."""
    result: list[Word] = []
    for origin in origins(script, len(mt)):
        if origin.position is not None:
            result.append(mt[origin.position])
        elif origin.step is not None:
            word = script[origin.step]
            assert not isinstance(word, Edit)
            result.append(word)
    return result


# Scripts as a model writes them: ids of the target's vocabulary, two of which say to keep and to delete a piece.

EDIT_TOKENS: dict[int, Edit] = {KEEP: Edit.KEEP, DELETE: Edit.DELETE}


def encode_script(tokenizer: Tokenizer, mt: str, target: str, raw: bool = False) -> Encoded:
    """The operations that make the target of the machine translation, and the part of the target that each becomes.

    Both texts are cut into the target's pieces. An unknown word is kept where it is the same, not where both are
    unknown. Nothing is made of an empty target.
    """
    (script,) = encode_scripts(tokenizer, [mt], [target], raw)
    return script


def encode_scripts(
    tokenizer: Tokenizer, mts: Sequence[str], targets: Sequence[str], raw: bool = False
) -> list[Encoded]:
    """As `encode_script`, for many texts at once."""
    found = []
    read = zip(mts, targets, tokenizer.encode_batch(mts, raw), tokenizer.encode_batch(targets, raw), strict=True)
    for mt, target, ours, theirs in read:
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        position = end = 0
        for operation in (
            edit_script(comparable_pieces(ours, mt), comparable_pieces(theirs, target)) if theirs.ids else ()
        ):
            if operation is Edit.DELETE:
                ids.append(DELETE)
                offsets.append((end, end))
                continue
            ids.append(KEEP if operation is Edit.KEEP else theirs.ids[position])
            offsets.append(theirs.offsets[position])
            end, position = offsets[-1][1], position + 1
        found.append(Encoded(ids, offsets))
    return found


def comparable_pieces(encoded: Encoded, text: str) -> list[tuple[int, str]]:
    """The pieces of a text, unknown ones told apart by how they are written."""
    return [
        (piece, text[slice(*span)] if piece == UNKNOWN else "")
        for piece, span in zip(encoded.ids, encoded.offsets, strict=True)
    ]


def decode_script(
    tokenizer: Tokenizer, script: Sequence[int], mt: str, unknown_words: Mapping[int, str], raw: bool = False
) -> Decoded:
    """The text that a script of ids makes of the machine translation, and the part of it that each step became.

    What is kept is written as it was, unknown words too. `unknown_words`, `raw`: as `Tokenizer.decode` has them, by
    position in the script. A script of another length is read as `origins` has it.
    """
    given = tokenizer.encode(mt, raw)
    ids: list[int] = []
    stand_ins: dict[int, str] = {}
    steps: list[int | None] = []
    for origin in origins([EDIT_TOKENS.get(piece, piece) for piece in script], len(given.ids)):
        if origin.position is not None:
            piece = given.ids[origin.position]
            if piece == UNKNOWN:
                stand_ins[len(ids)] = mt[slice(*given.offsets[origin.position])]
        else:
            assert origin.step is not None
            piece = script[origin.step]
            if origin.step in unknown_words:
                stand_ins[len(ids)] = unknown_words[origin.step]
        ids.append(piece)
        steps.append(origin.step)
    written = tokenizer.decode_with_offsets(ids, stand_ins, raw)
    became = {step: span for step, span in zip(steps, written.offsets, strict=True) if step is not None}
    offsets, end = [], 0
    for step in range(len(script)):
        offsets.append(became.get(step, (end, end)))
        end = offsets[-1][1]
    return Decoded(written.text, offsets)


# Changes as people read them.


@dataclass(frozen=True)
class Change:
    """A part of a text and what stands in its place: equal where it is kept, one of them empty for `delete` and
    `insert`."""

    op: Literal["keep", "delete", "insert", "replace"]
    before: str
    after: str


def diff(before: str, after: str) -> list[Change]:
    """The changes from one text to another, word by word (`text.word_spans`), in order, no two of a kind side by side.

    Their `before`s joined are the one text, their `after`s the other, to the last space. White space is kept where both
    texts have it beside a change.
    """
    ours, theirs = word_spans(before), word_spans(after)
    script = edit_script([before[slice(*span)] for span in ours], [after[slice(*span)] for span in theirs])
    kept = [
        (ours[origin.position], theirs[number])
        for number, origin in enumerate(origins(script, len(ours)))
        if origin.position is not None
    ]
    ends = ((len(before),) * 2, (len(after),) * 2)
    changes: list[Change] = []
    for (own, other), (next_own, next_other) in pairwise([((0, 0), (0, 0)), *kept, ends]):
        changes += diff_between_kept(before[own[1] : next_own[0]], after[other[1] : next_other[0]])
        changes += diff_between_kept(before[slice(*next_own)], after[slice(*next_other)])
    merged: list[Change] = []
    for change in changes:
        if merged and merged[-1].op == change.op:
            merged[-1] = Change(change.op, merged[-1].before + change.before, merged[-1].after + change.after)
        else:
            merged.append(change)
    return merged


def diff_between_kept(before: str, after: str) -> list[Change]:
    """The changes between two texts that lie between words kept: white space that both begin or end with is kept."""
    if before == after:
        return [Change("keep", before, after)] if before else []
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start] and before[start].isspace():
        start += 1
    end = 0
    while (
        end < min(len(before), len(after)) - start
        and before[-end - 1] == after[-end - 1]
        and before[-end - 1].isspace()
    ):
        end += 1
    gone, come = before[start : len(before) - end], after[start : len(after) - end]
    op: Literal["delete", "insert", "replace"] = "replace" if gone and come else "delete" if gone else "insert"
    around = before[:start], before[len(before) - end :]
    keep_before, keep_after = ([Change("keep", space, space)] if space else [] for space in around)
    return [*keep_before, Change(op, gone, come), *keep_after]
