"""Fields that an answer has beside its text: each is computed from every sentence and its result."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from interlinear.components import ANSWER_FIELDS
from interlinear.errors import UsageError
from interlinear.explanation import EMPTY_EXPLANATION
from interlinear.generation.request import GenerationResult


class AnswerField(ABC):
    """A field of an answer, which is asked for by its name; `ANSWER_FIELDS` has the subclasses.

    json_type: the type of its value, as pydantic reads it, for OpenAPI; the first line of the docstring describes it.
    needs_explanation: every sentence is explained, which takes one more decoding; the explanation of one without words
    is empty.
    """

    json_type: ClassVar[Any]
    needs_explanation: ClassVar[bool] = False

    @abstractmethod
    def of_sentence(self, source: str, answer: GenerationResult) -> Any:
        """The value of a sentence, from its text and its result, whose first output is its translation."""

    def merge(self, values: Sequence[Any]) -> Any:
        """The value of a text from its sentences' values, of which a blank text has none."""
        return list(values)


def check_fields(names: Sequence[str], where: str) -> None:
    """Raises UsageError for a name that no field has."""
    try:
        for name in names:
            ANSWER_FIELDS.check(name)
    except ValueError as error:
        raise UsageError(where, str(error), "see docs/extend.md") from None


def needs_explanation(names: Sequence[str]) -> bool:
    """Whether one of the fields needs the explanation of each sentence."""
    return any(ANSWER_FIELDS[name].needs_explanation for name in names)


def answer_fields(
    names: Sequence[str], sources: Sequence[str] = (), answers: Sequence[GenerationResult] = ()
) -> dict[str, Any]:
    """The fields of a text, by name, from its sentences and their results."""
    if needs_explanation(names):
        answers = [replace(answer, explanation=answer.explanation or EMPTY_EXPLANATION) for answer in answers]
    values: dict[str, Any] = {}
    for name in names:
        field: AnswerField = ANSWER_FIELDS[name]()
        values[name] = field.merge(
            [field.of_sentence(source, answer) for source, answer in zip(sources, answers, strict=True)]
        )
    return values
