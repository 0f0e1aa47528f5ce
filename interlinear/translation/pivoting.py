"""Translation through a pivot language: the n best outputs of one model are translated by a second one, and the best
pair is chosen. This module plans the searches and merges their answers; the caller searches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic

from interlinear.generation.composition import compose_explanations
from interlinear.generation.request import Candidate, GenerationResult, Request
from interlinear.generation.terms import Term
from interlinear.translation.merging import joined_candidate
from interlinear.translation.splitting import M, Search, SplitOptions, SplitText

PIVOT_OUTPUTS = 3  # outputs of the first model that the second one translates
MOST_SENTENCES = 100  # sentences of a request; with more, only their best outputs are translated further


@dataclass(frozen=True)
class PivotText(Generic[M]):
    """An output of the first model, as a text for the second: the sentence's index, the output, its split text."""

    sentence: int
    candidate: Candidate
    text: SplitText[M]


def outputs_translated(sentences: int) -> int:
    """The number of outputs of each sentence that are translated further, by the number of sentences of a request."""
    return PIVOT_OUTPUTS if sentences <= MOST_SENTENCES else 1


def translated_further(
    searches: Sequence[Search[M]], answers: Sequence[GenerationResult]
) -> list[tuple[int, Search[M], Candidate]]:
    """The outputs of first searches that are translated by a second model: the index of the sentence, its search, and
    the output."""
    outputs = outputs_translated(sum(search.pivot is not None for search in searches))
    return [
        (i, search, candidate)
        for i, (search, answer) in enumerate(zip(searches, answers, strict=True))
        if search.pivot
        for candidate in answer.candidates[: outputs if search.request.target_prefix is None else 1]
    ]


def pivot_text(index: int, search: Search[M], candidate: Candidate, fits: Callable[[M, Request], bool]) -> PivotText[M]:
    """The output of a first search as the text of the second. It contains its terms already, and they stay
    unchanged."""
    assert search.pivot
    model, options = search.pivot.model, search.pivot.options
    terms = tuple(Term(start, end, term.target) for term, (start, end) in candidate.terms)
    request = Request(
        {model.source: candidate.text},
        options,
        search.request.explain,
        terms=terms,
        target_prefix=search.request.target_prefix,
        min_alternative_probability=search.request.min_alternative_probability,
    )
    return PivotText(index, candidate, SplitText.of(model, request, SplitOptions(fits, "0")))


@dataclass
class SecondSearches(Generic[M]):
    """The second searches of sentences that are translated through a pivot language, and their answers so far.

    places: for each search the index of its pivot text, and of its part in that.
    """

    searches: Sequence[Search[M]]
    pivot_texts: Sequence[PivotText[M]]
    answers: dict[tuple[int, int], GenerationResult] = field(default_factory=dict)

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        return [(k, j) for k, each in enumerate(self.pivot_texts) for j in range(len(each.text.sentences))]

    @property
    def requests(self) -> list[tuple[M, Request]]:
        """The searches, in the order of `places`."""
        return [(self.pivot_texts[k].text.model, self.pivot_texts[k].text.sentences[j]) for k, j in self.places]

    @cached_property
    def competing(self) -> Mapping[int, Sequence[int]]:
        """The indices of the pivot texts of each sentence, by the sentence's index."""
        competing: dict[int, list[int]] = {}
        for k, each in enumerate(self.pivot_texts):
            competing.setdefault(each.sentence, []).append(k)
        return competing

    def result(self, sentence: int, explain: bool = True) -> GenerationResult:
        """The result of a sentence from the answers to its pivot texts: the best outputs of both searches, by the mean
        of their scores, each text once. The best has the explanation that is composed of both, unless `explain` is
        False."""
        search = self.searches[sentence]
        assert search.pivot
        pairs = [
            (joined_candidate(output.text, [first, output]), output, first, merged.explanation)
            for first, merged in map(self._merged, self.competing[sentence])
            for output in merged.candidates
        ]
        pairs.sort(key=lambda pair: (not pair[0].text.strip(), -pair[0].score))
        unique: dict[str, Candidate] = {}
        for joined, output, *_ in pairs:
            unique.setdefault(joined.text, replace(joined, ids=output.ids, terms=output.terms))
        _, _, first, explained = pairs[0]
        explanation = None
        if explain and search.request.explain and first.explanation and explained:
            explanation = compose_explanations(first.explanation, explained)
        return GenerationResult(list(unique.values())[: search.pivot.options.n_best], explanation)

    def _merged(self, k: int) -> tuple[Candidate, GenerationResult]:
        """An output of a first search, and its translation."""
        text = self.pivot_texts[k].text
        answers = [self.answers[k, j] for j in range(len(text.sentences))]
        return self.pivot_texts[k].candidate, text.merge_answers(answers)
