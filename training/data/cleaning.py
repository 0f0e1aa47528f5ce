"""Cleaning of the training data: exclusion of pairs by length, length ratio, invalid characters, and duplication.

It is off unless a data set's description enables it. Excluded pairs are counted by reason.
"""

import re
from collections.abc import Sequence
from enum import IntEnum
from hashlib import blake2b
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

HASHES_PER_PASS = 1 << 21  # hashes that are compared at a time, about 70 MB
CHUNK = 1 << 20

SURROGATE = re.compile("[\ud800-\udfff]")  # a byte that was not UTF-8, or half of a surrogate pair in JSON
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")  # all but the tab

Encoding = Literal["fail", "drop"]  # how bytes that are not UTF-8 are handled


class Reason(IntEnum):
    """Why a pair is excluded: the first reason in this order that applies."""

    NONE = 0
    NOT_UTF8 = 1
    REPLACEMENT_CHARACTER = 2
    CONTROL_CHARACTER = 3
    SHORT = 4
    LONG = 5
    RATIO = 6
    DUPLICATE = 7


class RowChecks(NamedTuple):
    """The reason of each row, uint8, and a hash of its texts, uint64."""

    reasons: np.ndarray
    hashes: np.ndarray


class Cleaning(BaseModel):
    """Which pairs of the train split are excluded. Lengths are in characters, without surrounding white space."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_characters: int | None = Field(None, ge=1, description="of every non-empty text")
    max_characters: int | None = Field(None, ge=1, description="of every text")
    max_ratio: float | None = Field(None, ge=1, description="of the first source and the target, longer by shorter")
    duplicates: Literal["keep", "drop"] = Field("keep", description="pairs that are equal to an earlier pair")
    encoding: Encoding = Field(
        "fail", description="drop: lines that are not UTF-8, or contain U+FFFD or control characters"
    )

    @model_validator(mode="after")
    def check_bounds(self) -> Self:
        if (self.min_characters or 0) > (self.max_characters or self.min_characters or 0):
            raise ValueError("min_characters is more than max_characters")
        return self

    @property
    def enabled(self) -> bool:
        """Whether any check is enabled."""
        return self != Cleaning()

    def check_rows(self, rows: Sequence[Sequence[str]]) -> RowChecks:
        """Check rows of texts, with the first source first and the target last. Duplicates are marked later.

        The hashes are empty unless duplicates are dropped. The length checks skip a row whose first source or target is
        empty, because such rows are counted separately.
        """
        reasons = np.fromiter(map(self._reason, rows), np.uint8, len(rows))
        hashes = np.fromiter(map(_hash, rows), np.uint64, len(rows)) if self.duplicates == "drop" else np.empty(0)
        return RowChecks(reasons, hashes)

    def _reason(self, texts: Sequence[str]) -> Reason:
        if self.encoding == "drop":
            if any(map(SURROGATE.search, texts)):
                return Reason.NOT_UTF8
            if any("\ufffd" in text for text in texts):
                return Reason.REPLACEMENT_CHARACTER
            if any(map(_CONTROL.search, texts)):
                return Reason.CONTROL_CHARACTER
        lengths = [len(text.strip()) for text in texts]
        first, last = lengths[0], lengths[-1]
        if not first or not last:
            return Reason.NONE
        nonempty = [length for length in lengths if length]
        if self.min_characters is not None and min(nonempty) < self.min_characters:
            return Reason.SHORT
        if self.max_characters is not None and max(nonempty) > self.max_characters:
            return Reason.LONG
        if self.max_ratio is not None and max(first, last) > self.max_ratio * min(first, last):
            return Reason.RATIO
        return Reason.NONE

    def describe(self, reason: Reason) -> str:
        """A reason as the end of a sentence about pairs."""
        return {
            Reason.NONE: "",
            Reason.NOT_UTF8: "with bytes that are not UTF-8",
            Reason.REPLACEMENT_CHARACTER: "with a replacement character (U+FFFD)",
            Reason.CONTROL_CHARACTER: "with a control character",
            Reason.SHORT: f"with a text under {self.min_characters} characters",
            Reason.LONG: f"with a text over {self.max_characters} characters",
            Reason.RATIO: f"with one side over {self.max_ratio:g} times as long as the other" if self.max_ratio else "",
            Reason.DUPLICATE: "that were there before",
        }[reason]


def _hash(texts: Sequence[str]) -> int:
    """A hash of 64 bits. Among 100 million different pairs, the chance of a collision is 3 in 10,000."""
    content = "\n".join(texts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def mark_duplicates(hashes: np.ndarray, reasons: np.ndarray) -> None:
    """Set the reason DUPLICATE for each row without a reason whose hash an earlier such row has.

    Both arrays may be memory-mapped: each pass sorts only a part of the hashes, chosen by their values.
    """
    passes = np.uint64(-(-len(hashes) // HASHES_PER_PASS))
    for share in range(int(passes)):
        chunks: list[np.ndarray] = []
        for start in range(0, len(hashes), CHUNK):
            selected = (hashes[start : start + CHUNK] % passes == share) & (
                reasons[start : start + CHUNK] == Reason.NONE
            )
            chunks.append(start + np.flatnonzero(selected))
        rows = np.concatenate(chunks)
        rows = rows[np.argsort(hashes[rows], kind="stable")]  # equal hashes stay in row order
        sorted_hashes = hashes[rows]
        reasons[rows[1:][sorted_hashes[1:] == sorted_hashes[:-1]]] = Reason.DUPLICATE
