"""Leaving out what would teach a model nothing good: pairs too short or too long, of unlike lengths, broken, or there
before. Off unless a data set's description asks for it; every pair that is left out is counted by its reason."""

import re
from collections.abc import Sequence
from enum import IntEnum
from hashlib import blake2b
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

HASHES_PER_PASS = 1 << 21  # hashes that are compared at a time, some 70 MB
CHUNK = 1 << 20

_SURROGATE = re.compile("[\ud800-\udfff]")  # a byte that was not UTF-8, or half of a character in JSON
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")  # all but the tab

Encoding = Literal["fail", "drop"]  # what is done with bytes that are not UTF-8


class Reason(IntEnum):
    """Why a pair is left out; the first that holds, in this order."""

    NONE = 0
    NOT_UTF8 = 1
    REPLACEMENT_CHARACTER = 2
    CONTROL_CHARACTER = 3
    SHORT = 4
    LONG = 5
    RATIO = 6
    DUPLICATE = 7


class RowChecks(NamedTuple):
    """A reason for each of some rows, uint8, and a hash of its texts, uint64."""

    reasons: np.ndarray
    hashes: np.ndarray


class Cleaning(BaseModel):
    """Which pairs of the train split are left out. Lengths are in characters, without white space around a text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_characters: int | None = Field(None, ge=1, description="of every text that is there")
    max_characters: int | None = Field(None, ge=1, description="of every text")
    max_ratio: float | None = Field(None, ge=1, description="of the first source and the target, longer by shorter")
    duplicates: Literal["keep", "drop"] = Field("keep", description="pairs all of whose texts were there before")
    encoding: Encoding = Field(
        "fail", description="drop: not UTF-8, a replacement character (U+FFFD), control characters"
    )

    @model_validator(mode="after")
    def check_bounds(self) -> Self:
        if (self.min_characters or 0) > (self.max_characters or self.min_characters or 0):
            raise ValueError("min_characters is more than max_characters")
        return self

    @property
    def enabled(self) -> bool:
        """Whether there is anything to do."""
        return self != Cleaning()

    def check_rows(self, rows: Sequence[Sequence[str]]) -> RowChecks:
        """Rows of texts, the first source in front and the target last; duplicates are not known yet.

        A row whose first source or target is empty is not judged by its lengths: that is counted for itself.
        """
        reasons = np.fromiter(map(self._reason, rows), np.uint8, len(rows))
        hashes = np.fromiter(map(_hash, rows), np.uint64, len(rows)) if self.duplicates == "drop" else np.empty(0)
        return RowChecks(reasons, hashes)

    def _reason(self, texts: Sequence[str]) -> Reason:
        if self.encoding == "drop":
            if any(map(_SURROGATE.search, texts)):
                return Reason.NOT_UTF8
            if any("\ufffd" in text for text in texts):
                return Reason.REPLACEMENT_CHARACTER
            if any(map(_CONTROL.search, texts)):
                return Reason.CONTROL_CHARACTER
        lengths = [len(text.strip()) for text in texts]
        first, last = lengths[0], lengths[-1]
        if not first or not last:
            return Reason.NONE
        there = [length for length in lengths if length]
        if self.min_characters is not None and min(there) < self.min_characters:
            return Reason.SHORT
        if self.max_characters is not None and max(there) > self.max_characters:
            return Reason.LONG
        if self.max_ratio is not None and max(first, last) > self.max_ratio * min(first, last):
            return Reason.RATIO
        return Reason.NONE

    def describe(self, reason: Reason) -> str:
        """What is wrong with a pair, as the end of a sentence about pairs."""
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
    """64 bits: among 100 million different pairs two are taken for one with a chance of 3 in 10,000."""
    content = "\n".join(texts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def mark_duplicates(hashes: np.ndarray, reasons: np.ndarray) -> None:
    """Give the reason DUPLICATE to every row that has none and the hash of such a row before it.

    Both may lie in files: a share of all hashes, by their value, is in memory at a time.
    """
    passes = np.uint64(-(-len(hashes) // HASHES_PER_PASS))
    for share in range(int(passes)):
        found: list[np.ndarray] = []
        for start in range(0, len(hashes), CHUNK):
            mine = (hashes[start : start + CHUNK] % passes == share) & (reasons[start : start + CHUNK] == Reason.NONE)
            found.append(start + np.flatnonzero(mine))
        rows = np.concatenate(found)
        rows = rows[np.argsort(hashes[rows], kind="stable")]  # equal ones in their order
        sorted_ = hashes[rows]
        reasons[rows[1:][sorted_[1:] == sorted_[:-1]]] = Reason.DUPLICATE
