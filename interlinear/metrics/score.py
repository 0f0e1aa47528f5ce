"""Score models: a metric's value with the signature of its computation."""

from pydantic import BaseModel, ConfigDict


class Score(BaseModel):
    """A metric's value in its usual unit (BLEU: 0 to 100), and the signature that is needed to reproduce it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    score: float
    signature: str


class IntervalScore(Score):
    """A score with its 95 % interval (`low` to `high`) and its `mean` over resampled test sets."""

    low: float
    high: float
    mean: float
