"""A text as its sentences: splitting, division of long ones, the edges of their outputs, and joining."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from interlinear.config import Task
from interlinear.errors import RequestError
from interlinear.generation.formatted_output import format_result
from interlinear.generation.request import Candidate, GenerationResult, Request
from interlinear.generation.target_prefix import TARGET_PREFIX
from interlinear.generation.terms import join_divided, terms_within
from interlinear.search import SearchOptions
from interlinear.source_names import CONTEXT
from interlinear.text.formatting import Edges, edges_of_parts
from interlinear.text.long_sentences import divide, grouped
from interlinear.text.sentences import SplitMode, sentence_separators, split_text
from interlinear.translation.answer_fields import answer_fields, needs_explanation
from interlinear.translation.merging import combined_candidates, joined_candidate, merge_explanations


class TranslationModel(Protocol):
    """The interface of splitting and joining to a model."""

    @property
    def task(self) -> Task: ...

    @property
    def source(self) -> str:
        """The name of the first text source."""

    @property
    def language_pair(self) -> tuple[str | None, str | None]:
        """Source and target language; None if its card does not name them."""

    def is_usually_small(self, word: str) -> bool:
        """Whether a word of the target language is written with a small letter inside a sentence."""


M = TypeVar("M", bound=TranslationModel)


@dataclass(frozen=True)
class Step(Generic[M]):
    """One search of a translation: the model, and its options."""

    model: M
    options: SearchOptions


@dataclass(frozen=True)
class Search(Generic[M]):
    """A sentence to search: the model that reads it, the request, and the second search if there is one."""

    model: M
    request: Request
    pivot: Step[M] | None = None

    @property
    def first(self) -> tuple[M, Request]:
        """The first search. If the best output is explained, so is every output that is translated further. A target
        prefix applies to the second search."""
        if self.pivot is None:
            return self.model, self.request
        return self.model, replace(self.request, explain_all=self.request.explain, target_prefix=None)


@dataclass(frozen=True)
class SplitOptions(Generic[M]):
    """Options of splitting: into sentences by the mode, and sentences into parts that a model can read (`fits`).

    preserve_formatting: outputs begin and end as their sentences do. pivot: the second search of every sentence.
    """

    fits: Callable[[M, Request], bool]
    split_sentences: SplitMode = "1"
    preserve_formatting: bool = False
    pivot: Step[M] | None = None


@dataclass(frozen=True)
class SplitText(Generic[M]):
    """A request for one text, as requests for its sentences."""

    model: M
    request: Request
    sentences: tuple[Request, ...]
    separators: tuple[str, ...]  # text before the first sentence, between sentences, and after the last
    offsets: tuple[int, ...]  # offsets of the sentences in the text
    edges: tuple[Edges, ...] = ()  # for each sentence, the edges of its output that are formatted like the sentence's
    pivot: Step[M] | None = None
    divided: int = 0  # number of sentences that were longer than the model reads

    @staticmethod
    def whole(model: M, request: Request, pivot: Step[M] | None = None) -> "SplitText[M]":
        """A text that is searched unsplit."""
        return SplitText(model, request, (for_fields(request),), ("", ""), (0,), pivot=pivot)

    @staticmethod
    def of(model: M, request: Request, how: SplitOptions[M]) -> "SplitText[M]":
        """Split a text to translate into sentences, and sentences that are too long into parts.

        Other texts are not split: a headline summarizes a whole text, an edit or an image belongs to a whole text, and
        tokenised texts are not split. Raises RequestError for a target prefix with several sentences: it does not say
        which sentences it covers.
        """
        text = request.texts.get(model.source)
        others = {name for name in request.texts if name not in (model.source, CONTEXT)}
        if model.task != "translation" or others or request.images or request.tokenised or text is None:
            return SplitText.whole(model, request, how.pivot)
        source, _ = model.language_pair
        _, target = (how.pivot.model if how.pivot else model).language_pair

        def part(span: tuple[int, int]) -> Request:
            start, end = span
            texts = {**request.texts, model.source: text[start:end]}
            return for_fields(replace(request, texts=texts, terms=terms_within(request.terms, start, end)))

        def fits(span: tuple[int, int]) -> bool:
            return how.fits(model, part(span))

        kept = [(term.start, term.end) for term in request.terms]
        whole = join_divided(split_text(text, source, how.split_sentences), request.terms)
        if how.split_sentences == "0" and not all(map(fits, whole)):
            whole = grouped(join_divided(split_text(text, source, "1"), request.terms), fits)
        divided = [divide(text, span, fits, kept) for span in whole]
        if request.target_prefix is not None:
            check_prefixed(len(whole), sum(map(len, divided)), str(model))
        spans = [span for parts in divided for span in parts]
        edges = [edges for parts in divided for edges in edges_of_parts(len(parts), how.preserve_formatting)]
        separators = sentence_separators(text, spans, target)
        if request.target_prefix is not None:  # it says how the output begins
            separators = ["", *separators[1:]]
            edges = [replace(each, begin=False) for each in edges]
        return SplitText(
            model,
            request,
            tuple(map(part, spans)),
            tuple(separators),
            tuple(start for start, _ in spans),
            tuple(edges) if any(each.begin or each.end for each in edges) else (),
            how.pivot,
            sum(len(parts) > 1 for parts in divided),
        )

    @property
    def searches(self) -> list[Search[M]]:
        """The searches of all sentences."""
        return [Search(self.model, sentence, self.pivot) for sentence in self.sentences]

    @property
    def last(self) -> Step[M]:
        """The search that writes the output: its model, and its options."""
        return self.pivot or Step(self.model, self.request.options)

    def join(self, parts: Sequence[str]) -> str:
        """The results of the first sentences, or of all, with the separators before them."""
        return "".join(separator + part for separator, part in zip(self.separators, parts, strict=False))

    def format_prefix(self, index: int, text: str) -> str:
        """The beginning of a sentence's output as in the result; empty while that is uncertain."""
        if not self.edges:
            return text
        model, edges = self.last.model, replace(self.edges[index], end=False)
        text = self.edges[index].certain(text)
        source = self.sentences[index].texts[self.model.source]
        return edges.apply(source, text, model.is_usually_small, model.language_pair[1]).text

    def format_answer(self, index: int, answer: GenerationResult) -> GenerationResult:
        """A sentence's result, with the edges of its outputs formatted."""
        if not self.edges:
            return answer
        model, source = self.last.model, self.sentences[index].texts[self.model.source]
        return format_result(answer, source, self.edges[index], model.is_usually_small, model.language_pair[1])

    def merge_answers(self, answers: Sequence[GenerationResult]) -> GenerationResult:
        """The result of the whole text from its sentences' results, which are formatted here; a blank text is its own
        translation."""
        formatted = [self.format_answer(j, answer) for j, answer in enumerate(answers)]
        merged = self._merged(formatted)
        if not self.request.fields:
            return merged
        sources = [sentence.texts.get(self.model.source, "") for sentence in self.sentences]
        fields = answer_fields(self.request.fields, sources, formatted)
        return replace(merged, explanation=merged.explanation if self.request.explain else None, fields=fields)

    def _merged(self, answers: Sequence[GenerationResult]) -> GenerationResult:
        """The result of the whole text from its sentences' formatted results.

        Its candidates are the best combinations of the sentences' candidates, ranked by the mean of the sentences'
        scores.
        """
        if not answers:
            return GenerationResult([Candidate(self.request.texts[self.model.source], 0.0, 0.0, [])])
        if self.separators == ("", "") and self.offsets == (0,):
            return answers[0]
        candidates = [
            joined_candidate(self.join([part.text for part in parts]) + self.separators[-1], parts)
            for parts in combined_candidates(answers, self.last.options.n_best)
        ]
        explanations = [answer.explanation for answer in answers if answer.explanation is not None]
        if not self.request.explain or not explanations:  # some translators give none
            return GenerationResult(candidates)
        texts = [answer.candidates[0].text for answer in answers]
        before = [len(self.join(texts[:i])) + len(self.separators[i]) for i in range(len(texts))]
        return GenerationResult(candidates, merge_explanations(explanations, self.offsets, before))


def for_fields(request: Request) -> Request:
    """The request of a sentence, which is explained if one of the answer's fields needs that."""
    return replace(request, explain=True) if needs_explanation(request.fields) else request


def check_prefixed(sentences: int, parts: int, model: str) -> None:
    """Raises RequestError if a text with a target prefix has several sentences, or one that is divided."""
    if sentences > 1:
        raise RequestError(
            TARGET_PREFIX,
            f"is for one sentence, and this text has {sentences}",
            "send the one that is to be changed alone (`explanations` with `explain` say where the sentences of a "
            "translation are)",
        )
    if parts > 1:
        raise RequestError(
            TARGET_PREFIX, f"is for a sentence that {model} reads whole, and this one is longer", "send a part of it"
        )
