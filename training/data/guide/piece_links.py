"""Word links as links between pieces, and arrays of the links of many rows.

Axes: B rows of a batch, L target pieces, T source pieces, I source words, J target words, N links of several rows,
P pieces of a text, W its words, R all rows.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interlinear.alignment.links import Link
from training.data.arrays import GrowingArray, memory_map, span_indexes

INDEX = np.uint16  # of a word or piece in its sentence


def word_ranges(pieces: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> np.ndarray:
    """The words that each piece shares a character with, first and after the last, (pieces, 2).

    Both are given by their spans of characters, words in order. A piece of Chinese may cover several words.
    """
    pieces_2, words_2 = np.array(pieces, np.int64).reshape(-1, 2), np.array(words, np.int64).reshape(-1, 2)
    first = np.searchsorted(words_2[:, 1], pieces_2[:, 0], "right")
    last = np.searchsorted(words_2[:, 0], pieces_2[:, 1], "left")
    return np.stack([first, np.maximum(first, last)], -1).astype(INDEX)


def membership(ranges_P2: np.ndarray, words: int) -> np.ndarray:
    """Whether each piece touches each word, bool (pieces, words)."""
    word_W = np.arange(words)
    return (ranges_P2[:, :1] <= word_W) & (word_W < ranges_P2[:, 1:])


def piece_links(source_T2: np.ndarray, target_L2: np.ndarray, links: Collection[Link]) -> np.ndarray:
    """The links (target piece, source piece) between all pieces of linked words, sorted, each once, (N, 2).

    `source_T2` and `target_L2`: the words that each piece touches; `links`: (source word, target word).
    """
    if not links:
        return np.zeros((0, 2), INDEX)
    source_I, target_J = np.array(list(links), np.int64).T
    linked_IJ = np.zeros((source_I.max() + 1, target_J.max() + 1), np.float32)
    linked_IJ[source_I, target_J] = 1
    of_source_TI, of_target_LJ = (
        membership(ranges, words).astype(np.float32)
        for ranges, words in zip((source_T2, target_L2), linked_IJ.shape, strict=True)
    )
    return np.argwhere(of_target_LJ @ linked_IJ.T @ of_source_TI.T > 0).astype(INDEX)


@dataclass(frozen=True)
class RowArrays:
    """Pairs of indexes of many rows: all rows' pairs, concatenated, (N, 2), and the end of each row."""

    values_N2: np.ndarray
    ends_R: np.ndarray

    @classmethod
    def of(cls, rows: Iterable[np.ndarray]) -> "RowArrays":
        """From the pairs of each row."""
        listed = list(rows)
        ends_R = np.cumsum([len(row) for row in listed], dtype=np.int64)
        return cls(np.concatenate([np.zeros((0, 2), INDEX), *listed]), ends_R)

    @classmethod
    def load(cls, folder: Path, name: str) -> "RowArrays":
        """Map the files that RowArraysWriter has written into memory."""
        return cls(*(memory_map(folder / file) for file in array_files(name)))

    def row(self, row: int) -> np.ndarray:
        """The pairs of one row."""
        return self.values_N2[self.ends_R[row - 1] if row else 0 : self.ends_R[row]]

    def spans(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The starts of rows in the values, and their numbers of pairs."""
        starts = np.where(rows > 0, self.ends_R[rows - 1], 0).astype(np.int64)
        return starts, self.ends_R[rows].astype(np.int64) - starts


def guide_matrix(links: RowArrays, rows: np.ndarray, target_width: int, source_width: int) -> np.ndarray:
    """The guide of some rows, float32 (B, L, T): uniform over the source pieces that a target piece is linked with, and
    0 for a target piece without links."""
    starts_B, counts_B = links.spans(rows)
    row_N = np.repeat(np.arange(len(rows)), counts_B)
    target_N, source_N = links.values_N2[span_indexes(starts_B, counts_B)].T
    guide_BLT = np.zeros((len(rows), target_width, source_width), np.float32)
    guide_BLT[row_N, target_N, source_N] = 1
    guide_BLT /= np.maximum(guide_BLT.sum(-1, keepdims=True), 1)
    return guide_BLT


class RowArraysWriter:
    """Writes RowArrays to files, row by row."""

    def __init__(self, folder: Path, name: str) -> None:
        values, ends = array_files(name)
        self.values, self.ends = GrowingArray(folder / values, INDEX, (2,)), GrowingArray(folder / ends, np.int64)

    def append(self, pairs_N2: np.ndarray) -> None:
        self.values.append(pairs_N2)
        self.ends.append(np.array([self.values.size]))

    def close(self) -> None:
        self.values.close()
        self.ends.close()


def array_files(name: str) -> tuple[str, str]:
    """The names of the files with the values, and with the rows' ends."""
    return f"{name}.npy", f"{name}.ends.npy"
