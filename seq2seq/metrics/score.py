"""A score and how it was reckoned."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from seq2seq.errors import DataError


class Score(BaseModel):
    """A metric's value in its usual unit (BLEU: 0 to 100), and the signature that says how to get it again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    score: float
    signature: str


def check_parallel(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Raise DataError unless there is something to score and every reference has a line for every hypothesis."""
    if not hypotheses:
        raise DataError("hypotheses", "there are no lines to score")
    if not references:
        raise DataError("references", "there is no reference to score against")
    for number, reference in enumerate(references, start=1):
        if len(reference) != len(hypotheses):
            raise DataError(
                f"reference {number}",
                f"it has {len(reference)} lines, but there are {len(hypotheses)} hypotheses",
                "give references that have one line for every hypothesis",
            )
