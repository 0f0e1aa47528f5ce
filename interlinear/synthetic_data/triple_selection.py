"""Selection of artificial post-edits that are edited as much as real ones (Junczys-Dowmunt and Grundkiewicz 2016).

A machine translation by round trip is worse than what people edit, and a model that learns from it edits too much. So
the artificial triples are drawn such that the distribution of their HTER is that of the real ones.

Axes: N triples, B bins of HTER.
"""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from interlinear.console import progress
from seq2seq.metrics.metric import Preprocessing, ReferenceSet, SystemOutputs
from seq2seq.metrics.translation import HumanTer

BIN = 0.05  # width; a bin of its own has the unedited, and one those with more edits than words
BINS = round(1 / BIN) + 2
FILLED = 0.9  # share of the wanted triples that must be there, if their number is not given
CHUNK = 500  # lines scored at a time
SEED = 1

Edits = NDArray[np.float64]  # (N, 2): the edits of each machine translation and the words of its post-edit


def count_edits(mts: Sequence[str], post_edits: Sequence[str], tokenised: bool, label: str) -> Edits:
    """The edits of TER between machine translations and their post-edits, case-sensitive. `label`: of the progress."""
    metric = HumanTer("hter", Preprocessing("none" if tokenised else "13a", lowercase=False))
    counted = [
        metric.statistics(
            SystemOutputs.from_lines(mts[start : start + CHUNK]),
            ReferenceSet.from_lines([post_edits[start : start + CHUNK]], "post-edit"),
        )
        for start in progress(range(0, len(mts), CHUNK), label, total=-(-len(mts) // CHUNK))
    ]
    return np.concatenate(counted) if counted else np.empty((0, 2))


def hter(edits: Edits) -> float:
    """The HTER of all triples together, in percent."""
    return float(100 * edits[:, 0].sum() / max(edits[:, 1].sum(), 1))


def histogram_bin(edits: Edits) -> NDArray[np.int64]:
    """The bin of each triple's HTER: 0 if nothing is edited, the last beyond 100 %."""
    rate_N = edits[:, 0] / np.maximum(edits[:, 1], 1)
    return np.minimum(np.ceil(np.round(rate_N / BIN, 6)), BINS - 1).astype(np.int64)


def select_triples(artificial: Edits, real: Edits, wanted: int | None = None) -> NDArray[np.int64]:
    """The indices of the selected artificial triples, ascending; drawn at random within a bin, from a fixed seed.

    wanted: their number, of which bins without enough triples lack some. None: the largest number of which the share
    FILLED is there.
    """
    bin_N = histogram_bin(artificial)
    available_B = np.bincount(bin_N, minlength=BINS)
    share_B = np.bincount(histogram_bin(real), minlength=BINS) / max(len(real), 1)
    if wanted is None:
        wanted = largest_filled(available_B, share_B)
    drawn = np.random.default_rng(SEED)
    chosen = [
        drawn.permutation(np.flatnonzero(bin_N == number))[: round(wanted * share)]
        for number, share in enumerate(share_B)
    ]
    return np.sort(np.concatenate(chosen))


def largest_filled(available_B: NDArray[np.int64], share_B: NDArray[np.float64]) -> int:
    """The largest number of triples with these shares of which FILLED are available."""

    def missing(number: int) -> float:
        return 1 - float(np.minimum(available_B, number * share_B).sum()) / number

    return bisect_right(range(1, int(available_B.sum()) + 1), 1 - FILLED + 1e-9, key=missing)
