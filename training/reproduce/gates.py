"""Stored analyses of contextual gates."""

from pydantic import BaseModel, ConfigDict, Field


class ClassGate(BaseModel):
    """The words of a class and their mean gate, the share of the annotations; 1 - mean is that of the word context."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    words: int
    mean: float


class GateAnalysis(BaseModel):
    """What the contextual gates of a run do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by_class: dict[str, ClassGate] = Field(description="over the references of the first test set, by word class")
    fixed: dict[float, float] = Field(description="dev BLEU by the value at which all gates are fixed")
    learned: float = Field(description="dev BLEU of the gates as they were learned")
