"""Translation through a pivot language: the n best outputs of one model are translated by a second one, and the best
pair is chosen."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from seq2seq.alignment.composition import compose_explanations
from seq2seq.generation_request import Candidate, GenerationResult, Request
from seq2seq.terms import Term
from service.engine.admission import Reservation
from service.engine.engine import INLINE_CHARACTERS, Engine, InvalidTextError
from service.engine.queued import OutputListener
from service.inference.merging import joined_candidate
from service.inference.segmented_text import PivotStep, SegmentationOptions, SegmentedText
from service.models import ServedModel

PIVOT_OUTPUTS = 3  # outputs of the first model that the second one translates
MOST_SENTENCES = 100  # of a request; of more, it translates the best output only


@dataclass(frozen=True)
class Sentence:
    """A sentence to search: the model that reads it, the request, and the second search if there is one."""

    model: ServedModel
    request: Request
    pivot: PivotStep | None = None


@dataclass(frozen=True)
class PivotText:
    """An output of the first model, as a text for the second: the sentence's index, the output, its split text."""

    sentence: int
    candidate: Candidate
    text: SegmentedText


async def search(
    engine: Engine,
    reservation: Reservation,
    sentences: Sequence[Sentence],
    listener: OutputListener | None = None,
) -> list[GenerationResult]:
    """Search all sentences, then the outputs of those with a pivot once more. Raises InvalidTextError with a sentence's
    index, and the errors of `Engine.search`."""
    direct = [i for i, sentence in enumerate(sentences) if sentence.pivot is None]
    first = DirectListener(listener, set(direct)) if listener and len(direct) < len(sentences) else listener
    requests = [(sentence.model, first_request(sentence)) for sentence in sentences]
    answers = await engine.search(requests, first, reservation)
    outputs = outputs_translated(len(sentences) - len(direct))
    translated_further = [
        (i, sentence, candidate)
        for i, sentence in enumerate(sentences)
        if sentence.pivot
        for candidate in answers[i].candidates[: outputs if sentence.request.target_prefix is None else 1]
    ]
    if not translated_further:
        return answers
    pivot_texts = await engine.preparation.map(
        reservation.caller,
        lambda one: pivot_text(engine, *one),
        translated_further,
        lambda one: len(one[2].text),
        INLINE_CHARACTERS,
    )
    reservation.next_stage()
    through_pivot = await search_pivot_texts(engine, reservation, sentences, pivot_texts, listener)
    return [through_pivot.get(i, answer) for i, answer in enumerate(answers)]


def outputs_translated(sentences: int) -> int:
    """How many outputs of each sentence are translated further, for so many sentences of a request."""
    return PIVOT_OUTPUTS if sentences <= MOST_SENTENCES else 1


def first_request(sentence: Sentence) -> Request:
    """The request for the first search; every output that is translated further is explained if the best is. A target
    prefix is for the second."""
    if sentence.pivot is None:
        return sentence.request
    return replace(sentence.request, explain_all=sentence.request.explain, target_prefix=None)


def pivot_text(engine: Engine, index: int, sentence: Sentence, candidate: Candidate) -> PivotText:
    """The output of a first search as the text of the second. Its terms stand in it already, and stay as they are."""
    assert sentence.pivot
    model, options = sentence.pivot.model, sentence.pivot.options
    terms = tuple(Term(start, end, term.target) for term, (start, end) in candidate.terms)
    request = Request(
        {model.source: candidate.text},
        options,
        sentence.request.explain,
        terms=terms,
        target_prefix=sentence.request.target_prefix,
        min_alternative_probability=sentence.request.min_alternative_probability,
    )
    return PivotText(index, candidate, SegmentedText.of(model, request, SegmentationOptions("0", fits=engine.fits)))


async def search_pivot_texts(
    engine: Engine,
    reservation: Reservation,
    sentences: Sequence[Sentence],
    pivot_texts: Sequence[PivotText],
    listener: OutputListener | None,
) -> dict[int, GenerationResult]:
    """The results of sentences with a pivot, by index, from the outputs of their first searches."""
    places = [(k, j) for k, each in enumerate(pivot_texts) for j in range(len(each.text.sentences))]
    requests = [(pivot_texts[k].text.model, pivot_texts[k].text.sentences[j]) for k, j in places]
    second = PivotListener(listener, sentences, pivot_texts, places) if listener else None
    try:
        found = await engine.search(requests, second, reservation) if requests else []
    except InvalidTextError as error:
        raise InvalidTextError(pivot_texts[places[error.index][0]].sentence, error.error) from None
    answers = dict(zip(places, found, strict=True))
    competing = competing_texts(pivot_texts)
    results = await engine.preparation.map(
        reservation.caller,
        lambda i: result_of(
            sentences[i], [(pivot_texts[k], answers_of(k, pivot_texts[k], answers)) for k in competing[i]]
        ),
        list(competing),
        lambda i: sum(len(pivot_texts[k].candidate.text) for k in competing[i]),
        0 if any(sentence.request.explain for sentence in sentences) else INLINE_CHARACTERS,
    )
    return dict(zip(competing, results, strict=True))


def competing_texts(pivot_texts: Sequence[PivotText]) -> dict[int, list[int]]:
    """The indices of the pivot texts of each sentence, by the sentence's index."""
    competing: dict[int, list[int]] = {}
    for k, each in enumerate(pivot_texts):
        competing.setdefault(each.sentence, []).append(k)
    return competing


def answers_of(
    k: int, pivot_text: PivotText, answers: Mapping[tuple[int, int], GenerationResult]
) -> list[GenerationResult]:
    """The answers to the parts of the k-th pivot text."""
    return [answers[k, j] for j in range(len(pivot_text.text.sentences))]


def result_of(sentence: Sentence, answered: Sequence[tuple[PivotText, Sequence[GenerationResult]]]) -> GenerationResult:
    """The result of a sentence from the answers to its pivot texts."""
    return chosen(sentence, [(each.candidate, merged(each.text, answers)) for each, answers in answered])


def merged(text: SegmentedText, answers: Sequence[GenerationResult]) -> GenerationResult:
    """The translation of an output of a first search; that of a blank one is blank."""
    if not answers:
        return GenerationResult([Candidate(text.request.texts[text.model.source], 0.0, 0.0, [])])
    return text.merge_answers([text.format_answer(j, answer) for j, answer in enumerate(answers)])


def chosen(sentence: Sentence, outputs: Sequence[tuple[Candidate, GenerationResult]]) -> GenerationResult:
    """The best outputs of both searches, by the mean of their scores, each text once. The best has the explanation
    that is composed of both."""
    assert sentence.pivot
    pairs = [
        (joined_candidate(output.text, [first, output]), output, first, result.explanation)
        for first, result in outputs
        for output in result.candidates
    ]
    pairs.sort(key=lambda pair: (not pair[0].text.strip(), -pair[0].score))
    unique: dict[str, Candidate] = {}
    for joined, output, *_ in pairs:
        unique.setdefault(joined.text, replace(joined, ids=output.ids, terms=output.terms))
    _, _, first, explained = pairs[0]
    explanation = None
    if sentence.request.explain and first.explanation and explained:
        explanation = compose_explanations(first.explanation, explained)
    return GenerationResult(list(unique.values())[: sentence.pivot.options.n_best], explanation)


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
    """Passes on the outputs of second searches as those of their sentences: what all that compete begin with, and the
    best of them once all are there."""

    def __init__(
        self,
        listener: OutputListener,
        sentences: Sequence[Sentence],
        pivot_texts: Sequence[PivotText],
        places: Sequence[tuple[int, int]],
    ) -> None:
        """`places`: for each search the index of its pivot text, and of its part in that."""
        self._listener, self._sentences = listener, sentences
        self._pivot_texts, self._places = pivot_texts, places
        self._competing = competing_texts(pivot_texts)
        self._missing = Counter(pivot_texts[k].sentence for k, _ in places)  # searches without an answer, by sentence
        self._prefixes: list[list[int]] = [[] for _ in pivot_texts]
        self._shown: dict[int, int] = {}  # ids of each sentence that are passed on
        self._answers: dict[tuple[int, int], GenerationResult] = {}

    def on_accepted(self) -> None:
        """The request was accepted with its first searches."""

    def on_prefix(self, index: int, ids: list[int]) -> None:
        k, j = self._places[index]
        if j == 0 and len(ids) > len(self._prefixes[k]):
            self._prefixes[k] = ids
            self._show(self._pivot_texts[k].sentence)

    def on_answer(self, index: int, answer: GenerationResult) -> None:
        k, j = self._places[index]
        self._answers[k, j] = answer
        i = self._pivot_texts[k].sentence
        self._missing[i] -= 1
        if not self._missing[i]:
            own = self._sentences[i]
            plain = replace(own, request=replace(own.request, explain=False))  # the explanation comes with the response
            texts = [(k, self._pivot_texts[k]) for k in self._competing[i]]
            self._listener.on_answer(
                i, result_of(plain, [(text, answers_of(k, text, self._answers)) for k, text in texts])
            )
        elif not self._pivot_texts[k].candidate.terms:  # with terms, ids are not the text
            self.on_prefix(index, answer.candidates[0].ids)

    def _show(self, sentence: int) -> None:
        """Pass on what the outputs of all that compete for a sentence begin with."""
        prefixes = [self._prefixes[k] for k in self._competing[sentence]]
        common = [same[0] for same in takewhile(lambda ids: len(set(ids)) == 1, zip(*prefixes, strict=False))]
        if len(common) > self._shown.get(sentence, 0):
            self._shown[sentence] = len(common)
            self._listener.on_prefix(sentence, common)
