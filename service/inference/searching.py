"""Searches in the engine, also through a pivot language, and the partial outputs that streams receive of them."""

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile

from interlinear.generation.request import GenerationResult
from interlinear.translation.pivoting import SecondSearches, pivot_text, translated_further
from interlinear.translation.splitting import Search
from service.engine.admission import Reservation
from service.engine.engine import INLINE_CHARACTERS, Engine, InvalidTextError
from service.engine.queued import OutputListener
from service.models import ServedModel


async def search(
    engine: Engine,
    reservation: Reservation,
    searches: Sequence[Search[ServedModel]],
    listener: OutputListener | None = None,
) -> list[GenerationResult]:
    """Search all sentences, then the outputs of sentences with a pivot a second time. Raises InvalidTextError with a
    sentence's index, and the errors of `Engine.search`."""
    direct = {i for i, each in enumerate(searches) if each.pivot is None}
    first = DirectListener(listener, direct) if listener and len(direct) < len(searches) else listener
    answers = await engine.search([each.first for each in searches], first, reservation)
    further = translated_further(searches, answers)
    if not further:
        return answers
    pivot_texts = await engine.preparation.map(
        reservation.caller,
        lambda one: pivot_text(*one, ServedModel.fits),
        further,
        lambda one: len(one[2].text),
        INLINE_CHARACTERS,
    )
    reservation.next_stage()
    second = SecondSearches(searches, pivot_texts)
    results = await search_again(engine, reservation, second, listener)
    return [results.get(i, answer) for i, answer in enumerate(answers)]


async def search_again(
    engine: Engine,
    reservation: Reservation,
    second: SecondSearches[ServedModel],
    listener: OutputListener | None,
) -> dict[int, GenerationResult]:
    """The results of sentences with a pivot, by index."""
    following = PivotListener(listener, second) if listener else None
    try:
        found = await engine.search(second.requests, following, reservation) if second.places else []
    except InvalidTextError as error:
        raise InvalidTextError(second.pivot_texts[second.places[error.index][0]].sentence, error.error) from None
    second.answers.update(zip(second.places, found, strict=True))
    results = await engine.preparation.map(
        reservation.caller,
        second.result,
        list(second.competing),
        lambda i: sum(len(second.pivot_texts[k].candidate.text) for k in second.competing[i]),
        0 if any(each.request.explain for each in second.searches) else INLINE_CHARACTERS,
    )
    return dict(zip(second.competing, results, strict=True))


class DirectListener:
    """Passes on the outputs of sentences that have no second search."""

    def __init__(self, listener: OutputListener, direct: set[int]) -> None:
        self._listener, self._direct = listener, direct

    def on_accepted(self) -> None:
        self._listener.on_accepted()

    def on_prefix(self, index: int, ids: list[int]) -> None:
        if index in self._direct:
            self._listener.on_prefix(index, ids)

    def on_answer(self, index: int, answer: GenerationResult) -> None:
        if index in self._direct:
            self._listener.on_answer(index, answer)


class PivotListener:
    """Passes on the outputs of second searches as outputs of their sentences: the common beginning of all competing
    outputs, and the best output once all are complete."""

    def __init__(self, listener: OutputListener, second: SecondSearches[ServedModel]) -> None:
        self._listener, self._second = listener, second
        self._missing = Counter(second.pivot_texts[k].sentence for k, _ in second.places)  # searches without an answer
        self._prefixes: list[list[int]] = [[] for _ in second.pivot_texts]
        self._shown: dict[int, int] = {}  # ids of each sentence that are passed on

    def on_accepted(self) -> None:
        """The request was accepted with its first searches."""

    def on_prefix(self, index: int, ids: list[int]) -> None:
        k, j = self._second.places[index]
        if j == 0 and len(ids) > len(self._prefixes[k]):
            self._prefixes[k] = ids
            self._show(self._second.pivot_texts[k].sentence)

    def on_answer(self, index: int, answer: GenerationResult) -> None:
        k, j = self._second.places[index]
        self._second.answers[k, j] = answer
        i = self._second.pivot_texts[k].sentence
        self._missing[i] -= 1
        if not self._missing[i]:
            self._listener.on_answer(i, self._second.result(i, explain=False))  # its explanation is not streamed
        elif not self._second.pivot_texts[k].candidate.terms:  # with terms, ids are not the text
            self.on_prefix(index, answer.candidates[0].ids)

    def _show(self, sentence: int) -> None:
        """Pass on the common beginning of all competing outputs of a sentence."""
        prefixes = [self._prefixes[k] for k in self._second.competing[sentence]]
        common = [same[0] for same in takewhile(lambda ids: len(set(ids)) == 1, zip(*prefixes, strict=False))]
        if len(common) > self._shown.get(sentence, 0):
            self._shown[sentence] = len(common)
            self._listener.on_prefix(sentence, common)
