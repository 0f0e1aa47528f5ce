"""Edit scripts between two texts: keep, delete and insert operations that a model generates, and readable diffs."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from interlinear.text.config import DELETE, KEEP, UNKNOWN
from interlinear.text.detokenizer import Decoded
from interlinear.text.tokenizer import Encoded, Tokenizer
from interlinear.text.words import word_spans

Word = TypeVar("Word", bound=Hashable)


class Edit(Enum):
    """Operation on the next word of a machine translation. An insertion is represented by the inserted word."""

    KEEP = "keep"
    DELETE = "delete"


def edit_script(mt: Sequence[Word], target: Sequence[Word]) -> list[Edit | Word]:
    """The shortest script that turns the machine translation into the target (Libovicky et al. 2016).

    Among several shortest scripts it keeps as early as possible and deletes before it inserts. The number of keeps and
    deletes is the number of words in `mt`; the number of keeps and insertions is the number of words in `target`.
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
    """Lengths of the longest common subsequences of mt[i:] and target[j:], (len(mt) + 1, len(target) + 1)."""
    numbers: dict[Word, int] = {}
    mt_numbers, target_numbers = (
        np.fromiter((numbers.setdefault(word, len(numbers)) for word in text), np.int64, len(text))
        for text in (mt, target)
    )
    common = np.zeros((len(mt) + 1, len(target) + 1), np.int32)
    for i in range(len(mt) - 1, -1, -1):
        best = np.maximum(common[i + 1, :-1], common[i + 1, 1:] + (target_numbers == mt_numbers[i]))
        common[i, :-1] = np.maximum.accumulate(best[::-1])[::-1]
    return common


@dataclass(frozen=True)
class Origin:
    """Origin of a word of an edited text.

    step: index of the operation in the script; None for a word beyond the end of the script, which is kept.
    position: index of the word in the machine translation; None for an insertion.
    """

    step: int | None
    position: int | None


def origins(script: Iterable[Edit | Word], length: int) -> list[Origin]:
    """The origin of every word of the edited text; accepts any script.

    A generated script may have fewer or more keeps and deletes than the `length` words of the machine translation. As
    in Neural Monkey, the remaining words are kept, and operations beyond the last word are ignored.
    """
    result: list[Origin] = []
    position = 0
    for step, operation in enumerate(script):
        if not isinstance(operation, Edit):
            result.append(Origin(step, None))
            continue
        if operation is Edit.KEEP and position < length:
            result.append(Origin(step, position))
        position += 1
    return [*result, *(Origin(None, rest) for rest in range(position, length))]


# Scripts as ids: the target's vocabulary has one id for keeping a piece and one for deleting it.

EDIT_TOKENS: dict[int, Edit] = {KEEP: Edit.KEEP, DELETE: Edit.DELETE}


def encode_script(tokenizer: Tokenizer, mt: str, target: str, raw: bool = False) -> Encoded:
    """The operations that turn the machine translation into the target, with each one's span in the target.

    Both texts are segmented with the target's tokenizer. Unknown words are compared by their text, not by their id. An
    empty target gives an empty script.
    """
    (script,) = encode_scripts(tokenizer, [mt], [target], raw)
    return script


def encode_scripts(
    tokenizer: Tokenizer, mts: Sequence[str], targets: Sequence[str], raw: bool = False
) -> list[Encoded]:
    """`encode_script` for a batch of texts."""
    scripts = []
    encoded_pairs = zip(
        mts, targets, tokenizer.encode_batch(mts, raw), tokenizer.encode_batch(targets, raw), strict=True
    )
    for mt, target, mt_encoded, target_encoded in encoded_pairs:
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        position = end = 0
        for operation in (
            edit_script(comparable_pieces(mt_encoded, mt), comparable_pieces(target_encoded, target))
            if target_encoded.ids
            else ()
        ):
            if operation is Edit.DELETE:
                ids.append(DELETE)
                offsets.append((end, end))
                continue
            ids.append(KEEP if operation is Edit.KEEP else target_encoded.ids[position])
            offsets.append(target_encoded.offsets[position])
            end, position = offsets[-1][1], position + 1
        scripts.append(Encoded(ids, offsets))
    return scripts


def comparable_pieces(encoded: Encoded, text: str) -> list[tuple[int, str]]:
    """The pieces of a text; an unknown piece is paired with its text, so that different unknown words differ."""
    return [
        (piece, text[slice(*span)] if piece == UNKNOWN else "")
        for piece, span in zip(encoded.ids, encoded.offsets, strict=True)
    ]


def decode_script(
    tokenizer: Tokenizer, script: Sequence[int], mt: str, unknown_words: Mapping[int, str], raw: bool = False
) -> Decoded:
    """Apply a script of ids to the machine translation; returns the text with the span of each step.

    Kept pieces keep their text, including unknown words. `unknown_words` (by position in the script) and `raw`: see
    `Tokenizer.decode`. Scripts of another length: see `origins`.
    """
    mt_encoded = tokenizer.encode(mt, raw)
    ids: list[int] = []
    replacements: dict[int, str] = {}
    steps: list[int | None] = []
    for origin in origins([EDIT_TOKENS.get(piece, piece) for piece in script], len(mt_encoded.ids)):
        if origin.position is not None:
            piece = mt_encoded.ids[origin.position]
            if piece == UNKNOWN:
                replacements[len(ids)] = mt[slice(*mt_encoded.offsets[origin.position])]
        else:
            assert origin.step is not None
            piece = script[origin.step]
            if origin.step in unknown_words:
                replacements[len(ids)] = unknown_words[origin.step]
        ids.append(piece)
        steps.append(origin.step)
    decoded = tokenizer.decode_with_offsets(ids, replacements, raw)
    span_of_step = {step: span for step, span in zip(steps, decoded.offsets, strict=True) if step is not None}
    offsets, end = [], 0
    for step in range(len(script)):
        offsets.append(span_of_step.get(step, (end, end)))
        end = offsets[-1][1]
    return Decoded(decoded.text, offsets)


# Readable diffs.


@dataclass(frozen=True)
class Change:
    """A part of a text and its replacement: equal for `keep`; `after` is empty for `delete`, `before` for `insert`."""

    op: Literal["keep", "delete", "insert", "replace"]
    before: str
    after: str


def diff(before: str, after: str) -> list[Change]:
    """The changes from one text to another by words (`word_spans`), in order; adjacent changes of one kind are merged.

    The concatenated `before`s equal the first text and the `after`s the second, including white space. White space that
    both texts have beside a change is kept.
    """
    before_spans, after_spans = word_spans(before), word_spans(after)
    script = edit_script([before[slice(*span)] for span in before_spans], [after[slice(*span)] for span in after_spans])
    kept_spans = [
        (before_spans[origin.position], after_spans[number])
        for number, origin in enumerate(origins(script, len(before_spans)))
        if origin.position is not None
    ]
    ends = ((len(before),) * 2, (len(after),) * 2)
    changes: list[Change] = []
    for (before_span, after_span), (next_before, next_after) in pairwise([((0, 0), (0, 0)), *kept_spans, ends]):
        changes += diff_between_kept(before[before_span[1] : next_before[0]], after[after_span[1] : next_after[0]])
        changes += diff_between_kept(before[slice(*next_before)], after[slice(*next_after)])
    merged: list[Change] = []
    for change in changes:
        if merged and merged[-1].op == change.op:
            merged[-1] = Change(change.op, merged[-1].before + change.before, merged[-1].after + change.after)
        else:
            merged.append(change)
    return merged


def diff_between_kept(before: str, after: str) -> list[Change]:
    """The changes between two kept words. White space at the beginning or end of both texts is kept."""
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
    removed, inserted = before[start : len(before) - end], after[start : len(after) - end]
    op: Literal["delete", "insert", "replace"] = (
        "replace" if removed and inserted else "delete" if removed else "insert"
    )
    common_spaces = before[:start], before[len(before) - end :]
    keep_before, keep_after = ([Change("keep", space, space)] if space else [] for space in common_spaces)
    return [*keep_before, Change(op, removed, inserted), *keep_after]
