"""Sentence segmentation: inputs are split, searched sentence by sentence, and joined with their original separators."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from interlinear.errors import RequestError
from interlinear.generation.request import GenerationResult
from interlinear.text.sentences import fewest_of
from interlinear.translation.split_input import SplitInput
from service.engine.admission import Reservation
from service.engine.engine import Engine, InvalidTextError
from service.engine.preparation import run_inline_or_in_thread
from service.engine.queued import OutputListener
from service.inference import searching
from service.models import ServedModel
from service.problems import Problem

Item = TypeVar("Item")

INLINE_CHARACTERS = 2000  # characters split in less time than it takes to wake a thread
INLINE_SENTENCES = 10  # sentences whose results are merged in less time than that
INLINE_TAGS = 20  # tags that are placed in the results of INLINE_SENTENCES sentences in about the same time


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
    split: Callable[[Item], SplitInput[ServedModel]],
    characters: Callable[[Item], int],
    shared: int,
) -> list[SplitInput[ServedModel]]:
    """Split every item into sentences; `characters` gives an item's length, and `shared` the length of text that is
    processed once for all items. Raises Problem if the request has more sentences than allowed, or more to explain;
    splitting stops when the limit is exceeded."""
    sentences, explained = engine.settings.sentences, engine.settings.explained
    count = 0

    def segment_one(item: Item) -> SplitInput[ServedModel]:
        nonlocal count
        if count > sentences:
            raise too_many_sentences(sentences)
        try:
            split_input = split(item)
        except RequestError as error:
            raise Problem.in_field(error.where, f"{error.problem}: {error.remedy}") from None
        count += len(split_input.places)
        return split_input

    inputs = await engine.preparation.map(reservation.caller, segment_one, items, characters, INLINE_CHARACTERS, shared)
    if count > sentences:
        raise too_many_sentences(sentences)
    # An explanation has a weight for every pair of words, so its size grows with the square of the text.
    if sum(len(each.places) ** 2 for each in inputs if each.request.explain) > explained**2:
        raise Problem.in_field(
            "explain",
            f"is for texts of up to {explained} sentences, or for more texts of fewer: explain a part at a time",
        )
    return inputs


async def search(
    engine: Engine,
    reservation: Reservation,
    inputs: Sequence[SplitInput[ServedModel]],
    listener: OutputListener | None = None,
) -> list[GenerationResult]:
    """Search every sentence, through a pivot language where its input has one, and merge the results by input. Raises
    InvalidTextError with an input's index, and the errors of `Engine.search`."""
    input_indices = [i for i, each in enumerate(inputs) for _ in each.places]
    searches = [search for each in inputs for search in each.searches]
    if not searches:
        return []
    try:
        results = iter(await searching.search(engine, reservation, searches, listener))
    except InvalidTextError as error:
        raise InvalidTextError(input_indices[error.index], error.error) from None
    by_input = [[next(results) for _ in each.places] for each in inputs]

    def merge_all() -> list[GenerationResult]:
        return [each.merge_answers(answers) for each, answers in zip(inputs, by_input, strict=True)]

    explained = any(each.request.explain for each in searches)
    few_tags = sum(each.tags * each.last.options.n_best for each in inputs) <= INLINE_TAGS
    inline = not explained and few_tags and len(searches) <= INLINE_SENTENCES
    return await run_inline_or_in_thread(inline, merge_all)
