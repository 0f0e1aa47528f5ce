"""Sentence segmentation: texts are split, searched sentence by sentence, and joined with their original separators."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from seq2seq.explain import Doubt, Explanation, Span, TermLocation, WeightedLink
from seq2seq.generate import Candidate, GenerationResult, Request
from seq2seq.target_prefix import TARGET_PREFIX
from seq2seq.text.sentences import fewest_of, sentence_separators, split_sentences_by_line
from service.engine.admission import Reservation
from service.engine.engine import Engine, InvalidTextError
from service.engine.preparation import run_inline_or_in_thread
from service.engine.queued import OutputListener
from service.inference.terms import join_divided, terms_within
from service.models import ServedModel
from service.problems import Problem

Item = TypeVar("Item")

INLINE_CHARACTERS = 2000  # characters split in less time than it takes to wake a thread


class Segmented(Protocol):
    """A request for one text, as requests for its sentences."""

    @property
    def model(self) -> ServedModel: ...

    @property
    def request(self) -> Request: ...

    @property
    def sentences(self) -> Sequence[Request]: ...

    def join(self, parts: Sequence[str]) -> str:
        """The beginning of the result, from the results of the first sentences."""

    def merge_answers(self, answers: Sequence[GenerationResult]) -> GenerationResult:
        """The result of the whole text from those of its sentences."""


@dataclass(frozen=True)
class SegmentedText:
    """A request for one text, as requests for its sentences."""

    model: ServedModel
    request: Request
    sentences: tuple[Request, ...]
    separators: tuple[str, ...]  # text before the first sentence, between sentences, and after the last
    offsets: tuple[int, ...]  # offsets of the sentences in the text

    @staticmethod
    def of(model: ServedModel, request: Request) -> "SegmentedText":
        """Split a text to translate into sentences.

        Other texts are not split: a headline summarizes a whole text, and an edit or an image belongs to a whole
        text. Raises Problem for a target prefix with several sentences: it does not say which of them it has.
        """
        text = request.texts.get(model.source)
        if model.task != "translation" or len(request.texts) > 1 or request.images or text is None:
            return SegmentedText(model, request, (request,), ("", ""), (0,))
        return SegmentedText.at(model, request, split_sentences_by_line(text, model.language_pair[0]))

    @staticmethod
    def at(model: ServedModel, request: Request, spans: Sequence[tuple[int, int]]) -> "SegmentedText":
        """Split a text at these spans, of which those that a term reaches over become one."""
        text, (_, target) = request.texts[model.source], model.language_pair
        spans = join_divided(spans, request.terms)
        separators = tuple(sentence_separators(text, spans, target))
        sentences = tuple(
            replace(request, texts={model.source: text[start:end]}, terms=terms_within(request.terms, start, end))
            for start, end in spans
        )
        if request.target_prefix is not None:
            if len(sentences) > 1:
                raise Problem.in_field(
                    TARGET_PREFIX,
                    f"is for one sentence, and this text has {len(sentences)}: send the one that is to be changed "
                    "alone (`explanations` with `explain` say where the sentences of a translation are)",
                )
            separators = ("", *separators[1:])  # the prefix says how the output begins
        return SegmentedText(model, request, sentences, separators, tuple(start for start, _ in spans))

    def join(self, parts: Sequence[str]) -> str:
        """The results of the first sentences, or of all, joined with the separators."""
        if not parts:
            return ""
        text = "".join(separator + part for separator, part in zip(self.separators, parts, strict=False))
        return text + self.separators[-1] if len(parts) == len(self.sentences) else text

    def merge_answers(self, answers: Sequence[GenerationResult]) -> GenerationResult:
        """The result of the whole text from those of its sentences.

        Its candidates are the best combinations of the sentences' candidates, ranked by the mean of the sentences'
        scores.
        """
        if self.separators == ("", "") and self.offsets == (0,):
            return answers[0]
        candidates = [
            joined_candidate(self.join([part.text for part in parts]), parts)
            for parts in combined_candidates(answers, self.request.options.n_best)
        ]
        if not self.request.explain:
            return GenerationResult(candidates)
        explanations = [answer.explanation for answer in answers if answer.explanation is not None]
        texts = [answer.candidates[0].text for answer in answers]
        before = [len(self.join(texts[:i])) + len(self.separators[i]) for i in range(len(texts))]
        return GenerationResult(candidates, merge_explanations(explanations, self.offsets, before))


def combined_candidates(answers: Sequence[GenerationResult], count: int) -> list[list[Candidate]]:
    """The best combinations of one candidate of each answer, best first."""
    scores = [[candidate.score for candidate in answer.candidates] for answer in answers]
    return [
        [answer.candidates[choice.get(i, 0)] for i, answer in enumerate(answers)]
        for choice in best_combinations(scores, count)
    ]


def joined_candidate(text: str, parts: Sequence[Candidate]) -> Candidate:
    """The candidate of a text from those of its sentences; its score is the mean of theirs."""
    return Candidate(
        text,
        sum(part.score for part in parts) / len(parts),
        sum(part.log_probability for part in parts),
        [word for part in parts for word in part.ids],
    )


def best_combinations(scores: Sequence[Sequence[float]], count: int) -> list[dict[int, int]]:
    """The best choices of one item from each list, best first by the sums of scores; each list is sorted best first.
    A choice maps a list's index to the index of the chosen item, where that is not 0."""
    # The best n choices differ only in the n lists whose second item loses least.
    losses = sorted(
        (list_scores[0] - list_scores[1], i) for i, list_scores in enumerate(scores) if len(list_scores) > 1
    )
    indices = [i for _, i in losses[:count]]
    first = (0,) * len(indices)
    best: list[dict[int, int]] = []
    queue, visited = [(0.0, first)], {first}
    while queue and len(best) < count:
        loss, choice = heapq.heappop(queue)
        best.append({i: k for i, k in zip(indices, choice, strict=True) if k})
        for position, (i, k) in enumerate(zip(indices, choice, strict=True)):
            other = (*choice[:position], k + 1, *choice[position + 1 :])
            if k + 1 < len(scores[i]) and other not in visited:
                visited.add(other)
                heapq.heappush(queue, (loss + scores[i][k] - scores[i][k + 1], other))
    return best


def merge_explanations(
    parts: Sequence[Explanation], source_offsets: Sequence[int], target_offsets: Sequence[int]
) -> Explanation:
    """One explanation from those of sentences, which start at these offsets; attention across sentences is 0.

    `symmetrized` only if all of them are: otherwise without `links`.
    """
    symmetrized = None if parts[0].symmetrized is None else all(part.symmetrized for part in parts)
    if len(parts) == 1 and source_offsets[0] == target_offsets[0] == 0:
        return parts[0]
    columns = sum(len(part.source) for part in parts)
    matrices: dict[str, list[list[float]]] = {name: [] for part in parts for name in part.matrices}
    terms: list[TermLocation] = []
    alignment: list[tuple[int, int]] = []
    links: list[WeightedLink] = []
    doubts: list[Doubt] = []
    left = above = 0
    for part, *offsets in zip(parts, source_offsets, target_offsets, strict=True):
        right = columns - left - len(part.source)
        for name, rows in matrices.items():
            own = part.matrices.get(name) or [[0.0] * len(part.source)] * len(part.target)
            rows.extend([0.0] * left + row + [0.0] * right for row in own)
        terms.extend(shift_term(term, *offsets) for term in part.terms or [])
        alignment.extend((i + left, j + above) for i, j in part.alignment)
        links.extend(
            link.model_copy(update={"source": link.source + left, "target": link.target + above})
            for link in part.links or []
        )
        doubts.extend(shift_doubt(doubt, left, above) for doubt in part.doubts or [])
        left, above = left + len(part.source), above + len(part.target)
    return Explanation(
        source=[
            shift_span(span, offset) for part, offset in zip(parts, source_offsets, strict=True) for span in part.source
        ],
        target=[
            shift_span(span, offset) for part, offset in zip(parts, target_offsets, strict=True) for span in part.target
        ],
        matrices=matrices,
        gate=concatenate([part.gate for part in parts], [len(part.target) for part in parts]),
        fertility=concatenate([part.fertility for part in parts], [len(part.source) for part in parts]),
        alignment=alignment,
        aligned_by=next((part.aligned_by for part in parts if part.aligned_by), None),
        confidence=concatenate([part.confidence for part in parts], [len(part.target) for part in parts]),
        doubts=None if all(part.doubts is None for part in parts) else doubts,
        symmetrized=symmetrized,
        links=links if symmetrized else None,
        sentences=[(len(part.source), len(part.target)) for part in parts],
        sources=parts[0].sources,
        between=parts[0].between,
        terms=terms or None,
    )


def shift_span(span: Span, by: int) -> Span:
    return Span(text=span.text, start=span.start + by, end=span.end + by)


def shift_doubt(doubt: Doubt, sources: int, targets: int) -> Doubt:
    """The doubt in a text that has this many words before the doubt's sentence."""
    earlier = None if doubt.earlier is None else doubt.earlier + targets
    return doubt.model_copy(
        update={"word": doubt.word + (sources if doubt.side == "source" else targets), "earlier": earlier}
    )


def shift_term(term: TermLocation, source: int, target: int) -> TermLocation:
    """The term in a text whose sentence starts at these offsets."""
    (a, b), (c, d) = term.source, term.target
    return TermLocation(source=(a + source, b + source), target=(c + target, d + target))


def concatenate(parts: Sequence[Sequence[float | None] | None], words: Sequence[int]) -> list[Any] | None:
    """Per-word numbers of all sentences, 0 in those without; None if the model has none. `words`: of each sentence."""
    if all(part is None for part in parts):
        return None
    return [number for part, count in zip(parts, words, strict=True) for number in (part or [0.0] * count)]


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
) -> list[Segmented]:
    """Split every item into sentences; `characters` gives its length. Raises Problem if the request has more sentences
    than allowed, or more to explain; splitting stops when the limit is exceeded."""
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
        reservation.caller, segment_one, items, characters, INLINE_CHARACTERS
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
    """Search every sentence and merge the results by text. Raises InvalidTextError with a text's index, and the
    errors of `Engine.search`."""
    text_indices = [i for i, segmented in enumerate(segmented_texts) for _ in segmented.sentences]
    requests = [(segmented.model, sentence) for segmented in segmented_texts for sentence in segmented.sentences]
    if not requests:
        return []
    try:
        results = iter(await engine.search(requests, listener, reservation))
    except InvalidTextError as error:
        raise InvalidTextError(text_indices[error.index], error.error) from None
    by_text = [[next(results) for _ in segmented.sentences] for segmented in segmented_texts]

    def merge_all() -> list[GenerationResult]:
        return [segmented.merge_answers(answers) for segmented, answers in zip(segmented_texts, by_text, strict=True)]

    explained = any(request.explain for _, request in requests)
    return await run_inline_or_in_thread(not explained and len(requests) <= 10, merge_all)
