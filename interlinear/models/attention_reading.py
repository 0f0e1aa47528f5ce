"""Readings of attention weights as word alignments: which weights link the words, and which of them are a model's
best."""

from collections.abc import Sequence
from dataclasses import dataclass

POSTERIOR = "posterior"  # the name of posterior attention among weights
NEXT = "next_"  # prefix of the name of weights from the next step


@dataclass(frozen=True)
class AttentionReading:
    """Weights that words are aligned by.

    kind: one of a model's `attention_kinds`.
    next_step: take the weights of the step that has the word as its input, instead of the step that outputs it
        (Shift-Att, Chen et al. 2020, section 3).
    vocabulary: with the kind `uam`, the best token of the whole source vocabulary; see `Model.forced_attention`.
    posterior: the weights after the word is known; see `posterior_attention.py`. They need another pass.
    """

    kind: str
    next_step: bool = False
    vocabulary: bool = False
    posterior: bool = False

    @property
    def matrix(self) -> str:
        """The name of these weights in an explanation."""
        if self.posterior:
            return POSTERIOR
        return NEXT + self.kind if self.next_step else self.kind

    @property
    def name(self) -> str:
        """Its name as a value of `interlinear align --by`."""
        return next(name for name, reading in READINGS.items() if reading == self)


# By the names that `interlinear align --by` has for them.
READINGS = {
    "attention": AttentionReading("attention"),
    "words": AttentionReading("word_attention"),
    "gated": AttentionReading("gated"),
    "next": AttentionReading("attention", next_step=True),
    "next-words": AttentionReading("word_attention", next_step=True),
    "next-gated": AttentionReading("gated", next_step=True),
    "posterior": AttentionReading("attention", posterior=True),
    "uam": AttentionReading("uam"),
    "uam-vocabulary": AttentionReading("uam", vocabulary=True),
}


def quick_reading(readings: Sequence[AttentionReading]) -> AttentionReading:
    """The best reading that needs no other pass, for large numbers of sentences."""
    return next(reading for reading in readings if not reading.posterior)
