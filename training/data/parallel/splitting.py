"""Random split of parallel text into train, dev and test, so that no text of dev and test is in train.

dev and test are drawn from the pairs with two unique sides; near-duplicates of dev and test are left out of train.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from interlinear.errors import DataError, UsageError
from training.data.parallel.inputs import ParallelText
from training.data.parallel.near_duplicates import NearDuplicateIndex, normalized_words
from training.data.parallel.pair_file import Pair

T = TypeVar("T")

SPLITS = ("train", "dev", "test")
# Limit in lines of a split whose size is a fraction: more lines hardly make scores more certain, and slow each epoch.
MAX_FRACTION_LINES = 2000


class Track(Protocol):
    """Yields the items, and may show progress meanwhile: a label, and the number of items where it is known."""

    def __call__(self, items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]: ...


@dataclass(frozen=True)
class SplitSize:
    """The size of a split: a number of lines, or a fraction of all lines, limited to MAX_FRACTION_LINES lines."""

    lines: int | None = None
    fraction: float = 0.0

    @classmethod
    def parse(cls, option: str, text: str) -> "SplitSize":
        """Parse `500` or `5%`. Raises UsageError."""
        number = text.removesuffix("%")
        try:
            size = cls(fraction=float(number) / 100) if text.endswith("%") else cls(lines=int(number))
        except ValueError:
            size = cls(lines=-1)
        if (size.lines or 0) < 0 or not 0 <= size.fraction < 1:
            raise UsageError(f"{option} {text}", "is neither a number of lines nor a share", "write 1000, or 5%")
        return size

    def line_count(self, rows: int) -> int:
        """The number of lines of a split of `rows` lines; at least 1 if the size is a fraction above 0."""
        if self.lines is not None:
            return self.lines
        return min(MAX_FRACTION_LINES, max(1, round(self.fraction * rows))) if self.fraction else 0


@dataclass(frozen=True)
class SplitOptions:
    """The sizes of dev and test, and the seed of the draw."""

    dev: SplitSize = SplitSize(fraction=0.05)
    test: SplitSize = SplitSize(fraction=0.05)
    seed: int = 1


@dataclass(frozen=True)
class SplitCounts:
    """The pairs of each split, and the pairs in none: with an empty side, or near-duplicates of dev or test."""

    splits: Mapping[str, int]
    empty: int
    near_duplicates: int

    def describe(self, text: str) -> str:
        """A sentence about the pairs of each split of a text, and the pairs in none."""
        splits = ", ".join(f"{split} {number:,}" for split, number in self.splits.items())
        left_out = [f"{self.empty:,} with an empty side"] if self.empty else []
        if self.near_duplicates:
            left_out.append(f"{self.near_duplicates:,} because dev or test have nearly the same")
        return f"pairs of {text}: {splits}" + (f"; left out: {', '.join(left_out)}" if left_out else "")


class PairSpool:
    """The pairs that have text on both sides, in a temporary file, with hashes to detect repetitions.

    Memory: 16 bytes a pair, and 40 more while repetitions are counted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self.empty = 0
        self._hashes = bytearray(), bytearray()

    def write(self, pairs: Iterable[Pair]) -> None:
        """Store the pairs in order, and count the pairs with an empty side."""
        with self.path.open("w", encoding="utf-8", newline="\n") as file:
            for pair in pairs:
                if not all(pair):
                    self.empty += 1
                    continue
                file.write(f"{pair[0]}\n{pair[1]}\n")
                for hashes, text in zip(self._hashes, pair, strict=True):
                    hashes += text_hash(text)
                self.rows += 1

    def read(self) -> Iterator[Pair]:
        """The stored pairs."""
        with self.path.open(encoding="utf-8", newline="\n") as file:
            for source, target in zip(file, file, strict=True):
                yield source[:-1], target[:-1]

    def candidates(self) -> np.ndarray:
        """The rows whose source and target both occur only once, after normalization."""
        once = np.ones(self.rows, np.bool_)
        for hashes in self._hashes:
            values = np.frombuffer(hashes, np.uint64)
            _, first, counts = np.unique(values, return_index=True, return_counts=True)
            occurs_once = np.zeros(self.rows, np.bool_)
            occurs_once[first[counts == 1]] = True
            once &= occurs_once & (values != 0)
        return np.flatnonzero(once)


def text_hash(text: str) -> bytes:
    """A hash of 64 bits of the normalized text; zeros for a text without words."""
    words = normalized_words(text)
    return blake2b(" ".join(words).encode(), digest_size=8).digest() if words else bytes(8)


def write_splits(
    text: ParallelText, files: Mapping[str, tuple[Path, Path]], spool: Path, options: SplitOptions, track: Track
) -> SplitCounts:
    """Write the splits of parallel text to `files`, the source and target of each split; train is in the order of the
    text. `spool`: a temporary file to be. Raises DataError for too little text."""
    stored = PairSpool(spool)
    stored.write(track(text.pairs(), f"reading {text}"))
    split_of = draw_rows(stored, options, str(text))
    index = index_held_out(stored, split_of)
    counts, near_duplicates = dict.fromkeys(SPLITS, 0), 0
    with ExitStack() as stack:
        outputs = {
            split: [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths]
            for split, paths in files.items()
        }
        numbered_pairs = zip(split_of.tobytes(), stored.read(), strict=True)
        rows = track(numbered_pairs, "separating train from dev and test", stored.rows)
        for number, pair in rows:
            split = SPLITS[number]
            if split == "train" and is_near_duplicate(pair, index):
                near_duplicates += 1
                continue
            counts[split] += 1
            for output, line in zip(outputs[split], pair, strict=True):
                output.write(f"{line}\n")
    spool.unlink()
    if not counts["train"]:
        raise DataError(
            str(text),
            "no pair is left for training: all are near-duplicates of those of dev and test",
            "ask for fewer with --dev and --test, or bring more text",
        )
    return SplitCounts(counts, stored.empty, near_duplicates)


def draw_rows(stored: PairSpool, options: SplitOptions, where: str) -> np.ndarray:
    """The split of each row (rows, uint8) as an index of SPLITS. Raises DataError, about `where`, for too few pairs."""
    if not stored.rows:
        raise DataError(where, "has no pair with text on both sides", "check the files and their languages")
    candidates = stored.candidates()
    dev, test = (size.line_count(stored.rows) for size in (options.dev, options.test))
    if dev + test > len(candidates) or dev + test >= stored.rows:
        raise DataError(
            where,
            f"{dev:,} lines of dev and {test:,} of test are asked for, and of its {stored.rows:,} pairs "
            f"{len(candidates):,} have a source and a target that do not occur again",
            "ask for fewer with --dev and --test, or bring more text",
        )
    drawn = np.random.default_rng(options.seed).choice(candidates, dev + test, replace=False)
    split_of = np.zeros(stored.rows, np.uint8)
    split_of[drawn[:dev]] = SPLITS.index("dev")
    split_of[drawn[dev:]] = SPLITS.index("test")
    return split_of


def index_held_out(stored: PairSpool, split_of: np.ndarray) -> tuple[NearDuplicateIndex, NearDuplicateIndex]:
    """The sources and the targets of dev and test, to be searched."""
    held_out = [
        [normalized_words(text) for text in pair]
        for number, pair in zip(split_of.tobytes(), stored.read(), strict=True)
        if number
    ]
    return NearDuplicateIndex(pair[0] for pair in held_out), NearDuplicateIndex(pair[1] for pair in held_out)


def is_near_duplicate(pair: Pair, index: tuple[NearDuplicateIndex, NearDuplicateIndex]) -> bool:
    """Whether the source or the target is a near-duplicate of one in the index."""
    return any(side.matches(normalized_words(text)) for side, text in zip(index, pair, strict=True))
