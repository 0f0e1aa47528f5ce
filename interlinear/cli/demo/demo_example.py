"""Chooses the sentence of the test set that `interlinear demo` displays."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

DATA = "demo"  # the data set of the demo


@dataclass(frozen=True)
class DemoSentence:
    """A sentence of the test set, its reference, and the gold alignment in Pharaoh format."""

    source: str
    reference: str
    alignment: str


def pick_example(rows: Iterable[DemoSentence], outputs: Iterable[str], most_words: int = 11) -> str:
    """The short source sentence to display. Candidates are the sentences whose output has the highest chrF (equal to
    the reference, if possible); among them, the one with the most crossing links."""
    from sacrebleu.metrics import CHRF

    chrf = CHRF()
    scored = [
        (chrf.sentence_score(output, [row.reference]).score, count_crossings(row.alignment), row.source)
        for row, output in zip(rows, outputs, strict=True)
        if len(row.source.split()) <= most_words
    ]
    return max(scored)[-1]


def read_test_set() -> Iterator[DemoSentence]:
    """The demo's test set."""
    from training.data.dataset import open_dataset, read_rows

    for row in read_rows(open_dataset(DATA), "test", ("source", "target", "alignment")):
        yield DemoSentence(*row.texts)


def count_crossings(pharaoh: str) -> int:
    """Number of pairs of links that cross."""
    links = [tuple(map(int, link.split("-"))) for link in pharaoh.split()]
    return sum((i - other_i) * (j - other_j) < 0 for (i, j), (other_i, other_j) in combinations(links, 2))
