"""Stored analyses of contextual gates."""

from collections.abc import Sequence
from statistics import mean

from pydantic import Field

from training.reproduce.strict_model import StrictModel


class ClassGate(StrictModel):
    """The words of a class and their mean gate, the share of the annotations; 1 - mean is that of the word context."""

    words: int
    mean: float


class GateAnalysis(StrictModel):
    """What the contextual gates of a run do."""

    by_class: dict[str, ClassGate] = Field(description="over the references of the first test set, by word class")
    fixed: dict[float, float] = Field(description="dev BLEU by the value at which all gates are fixed")
    learned: float = Field(description="dev BLEU of the gates as they were learned")


def mean_analysis(analyses: Sequence[GateAnalysis]) -> GateAnalysis:
    """The mean of several seeds' analyses, for the classes and values that all of them have."""
    first, *others = analyses
    classes = [name for name in first.by_class if all(name in other.by_class for other in others)]
    values = [value for value in first.fixed if all(value in other.fixed for other in others)]
    return GateAnalysis(
        by_class={
            name: ClassGate(words=first.by_class[name].words, mean=mean(one.by_class[name].mean for one in analyses))
            for name in classes
        },
        fixed={value: mean(one.fixed[value] for one in analyses) for value in values},
        learned=mean(one.learned for one in analyses),
    )
