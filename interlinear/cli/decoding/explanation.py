"""The attention weights of one output of a model, for `figure attention` and `figure gate`."""

from dataclasses import dataclass

from interlinear.bundle import ModelCard
from interlinear.cli.decoding.alignment import check_reading
from interlinear.cli.decoding.model_loading import load_generation
from interlinear.cli.options import AlignmentKind
from interlinear.errors import RequestError
from interlinear.explanation import Explanation
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from interlinear.models.attention_reading import READINGS

WITH_MATRIX = {name: reading for name, reading in READINGS.items() if not reading.vocabulary}


@dataclass(frozen=True)
class ExplainedOutput:
    """An output with its attention weights.

    matrix: the name of the requested weights in the explanation. predictions: with `<null>` continuations, the source
    words that the alignment module predicts; otherwise empty.
    """

    card: ModelCard
    explanation: Explanation
    matrix: str
    predictions: list[str]

    @property
    def confidences(self) -> list[str]:
        """The probability of each target word, in percent; `–` for a word that no token wrote."""
        return ["–" if one is None else f"{one:.0%}" for one in self.explanation.confidence or ()]


def explain_output(
    model: str,
    source: str,
    target: str | None,
    by: AlignmentKind | None,
    device: str,
    tracking: str | None,
    nulls: bool = False,
) -> ExplainedOutput:
    """Load a model and explain its output for a text, or the given output. by: None selects the model's best reading.
    nulls: continue with `<null>` after the end.

    Raises UsageError if the model does not have that kind of attention, RequestError for an unreadable text, and the
    errors of `load_generation`.
    """
    generation = load_generation(model, tracking, device)
    kinds = generation.attention_kinds
    reading = check_reading(model, by, kinds, WITH_MATRIX) if by else generation.best_reading
    output, explanation = explain(generation, source, target)
    if reading.matrix not in explanation.matrices:
        (explanation,) = generation.align(
            [({generation.bundle.card.model.first_text: source}, output)], reading=reading, confidence=True
        )
    predictions: list[str] = []
    if nulls:
        name = generation.bundle.card.model.first_text
        extended = generation.explain_with_nulls({name: source}, output)
        explanation, predictions = extended.explanation, extended.source_predictions
    return ExplainedOutput(generation.bundle.card, explanation, reading.matrix, predictions)


def explain(generation: SequenceGenerator, source: str, target: str | None) -> tuple[str, Explanation]:
    """An output, given or the model's own, and its explanation. Raises RequestError for an unreadable text."""
    name = generation.bundle.card.model.first_text
    request = Request({name: source}, generation.bundle.card.search, explain=True)
    generation.encode(request)  # raises RequestError for a text that cannot be read
    if target is None:
        (answer,) = generation.generate([request])
        assert not isinstance(answer, RequestError) and answer.explanation is not None
        return answer.candidates[0].text, answer.explanation
    if not target.strip():
        raise RequestError("target", "the text is empty")
    (explanation,) = generation.align([(request.texts, target)], confidence=True)
    return target, explanation
