"""Sentence segmentation: texts are split, searched sentence by sentence, and joined with their original separators."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from seq2seq.generation_request import GenerationResult, Request
from seq2seq.text.sentences import fewest_of
from service.engine.admission import Reservation
from service.engine.engine import Engine, InvalidTextError
from service.engine.preparation import run_inline_or_in_thread
from service.engine.queued import OutputListener
from service.inference import pivoting
from service.inference.segmented_text import PivotStep
from service.models import ServedModel
from service.problems import Problem

Item = TypeVar("Item")

INLINE_CHARACTERS = 2000  # characters split in less time than it takes to wake a thread
INLINE_SENTENCES = 10  # sentences whose results are merged in less time than that
INLINE_TAGS = 20  # tags that are placed in the results of so many sentences in about the same time


class Segmented(Protocol):
    """A request for one text, as requests for its sentences."""

    @property
    def model(self) -> ServedModel: ...

    @property
    def request(self) -> Request: ...

    @property
    def sentences(self) -> Sequence[Request]: ...

    @property
    def pivot(self) -> PivotStep | None:
        """The second search of every sentence."""

    @property
    def last(self) -> PivotStep:
        """The search that writes the output."""

    @property
    def divided(self) -> int:
        """Number of sentences that were longer than the model reads, and are searched in parts."""

    @property
    def tags(self) -> int:
        """Number of tags that are placed among the words of the result."""

    def join(self, parts: Sequence[str]) -> str:
        """The beginning of the result, from the results of the first sentences."""

    def format_prefix(self, index: int, text: str) -> str:
        """The begin of a sentence's output as it will be in the result."""

    def format_answer(self, index: int, answer: GenerationResult) -> GenerationResult:
        """A sentence's result, with the edges of its outputs as they are to be."""

    def merge_answers(self, answers: Sequence[GenerationResult]) -> GenerationResult:
        """The result of the whole text from those of its sentences, formatted."""


def too_many_sentences(sentences: int) -> Problem:
    """The error for a request with too many sentences."""
    return Problem(
        400, f"the request has more than {sentences} sentences, the most that are taken: ask for fewer at a time"
    )


def check_lines(texts: Sequence[str], sentences: int) -> None:
    """Raises Problem if the texts have more lines than a request may have sentences, before any further work."""
    if fewest_of(texts, sentences) > sentences:
        raise too_many_sentences(sentences)


async def segment(
    engine: Engine,
    reservation: Reservation,
    items: Sequence[Item],
    split: Callable[[Item], Segmented],
    characters: Callable[[Item], int],
    shared: int,
) -> list[Segmented]:
    """Split every item into sentences; `characters` gives its length, and `shared` that of what is read once for all of
    them. Raises Problem if the request has more sentences than allowed, or more to explain; splitting stops when the
    limit is exceeded."""
    sentences, explained = engine.settings.sentences, engine.settings.explained
    count = 0

    def segment_one(item: Item) -> Segmented:
        nonlocal count
        if count > sentences:
            raise too_many_sentences(sentences)
        segmented_text = split(item)
        count += len(segmented_text.sentences)
        return segmented_text

    segmented_texts = await engine.preparation.map(
        reservation.caller, segment_one, items, characters, INLINE_CHARACTERS, shared
    )
    if count > sentences:
        raise too_many_sentences(sentences)
    # An explanation has a weight for every pair of words, so its size grows with the square of the text.
    if sum(len(segmented.sentences) ** 2 for segmented in segmented_texts if segmented.request.explain) > explained**2:
        raise Problem.in_field(
            "explain",
            f"is for texts of up to {explained} sentences, or for more texts of fewer: explain a part at a time",
        )
    return segmented_texts


async def search(
    engine: Engine,
    reservation: Reservation,
    segmented_texts: Sequence[Segmented],
    listener: OutputListener | None = None,
) -> list[GenerationResult]:
    """Search every sentence, through a pivot language where its text has one, and merge the results by text. Raises
    InvalidTextError with a text's index, and the errors of `Engine.search`."""
    text_indices = [i for i, segmented in enumerate(segmented_texts) for _ in segmented.sentences]
    sentences = [
        pivoting.Sentence(segmented.model, sentence, segmented.pivot)
        for segmented in segmented_texts
        for sentence in segmented.sentences
    ]
    if not sentences:
        return []
    try:
        results = iter(await pivoting.search(engine, reservation, sentences, listener))
    except InvalidTextError as error:
        raise InvalidTextError(text_indices[error.index], error.error) from None
    by_text = [[next(results) for _ in segmented.sentences] for segmented in segmented_texts]

    def merge(segmented: Segmented, answers: Sequence[GenerationResult]) -> GenerationResult:
        return segmented.merge_answers([segmented.format_answer(j, answer) for j, answer in enumerate(answers)])

    def merge_all() -> list[GenerationResult]:
        return [merge(segmented, answers) for segmented, answers in zip(segmented_texts, by_text, strict=True)]

    explained = any(sentence.request.explain for sentence in sentences)
    few_tags = sum(segmented.tags * segmented.last.options.n_best for segmented in segmented_texts) <= INLINE_TAGS
    inline = not explained and few_tags and len(sentences) <= INLINE_SENTENCES
    return await run_inline_or_in_thread(inline, merge_all)
