"""Trivial baselines on a dev set: copied sources, and the most frequent output of the training data."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from interlinear.text import Tokenizer
from training.data.prepare.prepared import TARGET, PreparedSplit

MOST_ROWS = 100_000  # training rows that are counted, evenly spaced


@dataclass(frozen=True)
class Baseline:
    """The best trivial baseline on a dev set by a metric, and the model's score by the same metric."""

    name: str
    metric: str
    score: float
    model_score: float

    @property
    def is_better(self) -> bool:
        """Whether the baseline scores above the model."""
        return self.score > self.model_score

    def __str__(self) -> str:
        return (
            f"on the dev set the model has {self.metric} {self.model_score:.2f}, and {self.name} has {self.score:.2f}"
        )


def most_frequent_output(train: PreparedSplit, tokenizer: Tokenizer) -> str:
    """The most frequent target text among the training pairs; in a tie, the first one."""
    rows = np.linspace(0, train.rows - 1, min(train.rows, MOST_ROWS)).astype(int).tolist()
    counts = Counter(tuple(train.ids(TARGET, row).tolist()) for row in rows)
    (ids, _), *_ = counts.most_common(1)
    return tokenizer.decode(ids)
