"""An input of a model, a text or a document, as requests for its sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Generic, TypeVar

from interlinear.documents import AlignedText, Document, Segment
from interlinear.generation.request import GenerationResult, Request
from interlinear.generation.terms import Term
from interlinear.translation.alignment import align_answers
from interlinear.translation.merging import combined_candidates, joined_candidate
from interlinear.translation.sentences import DocumentSentences
from interlinear.translation.splitting import M, Search, SplitOptions, SplitText, Step

A = TypeVar("A", GenerationResult, GenerationResult | None)
FindTerms = Callable[[str], tuple[Term, ...]]  # in a text


def no_terms(text: str) -> tuple[Term, ...]:
    """A text without terms."""
    return ()


@dataclass(frozen=True)
class SplitInput(Generic[M]):
    """A text, or a document of which equal sentences are searched once. A sentence of a document is explained only if a
    tag opens or closes between two of its words: an explanation takes one more decoding.

    texts: the text, or the sentences of the document. pivot: the second search of every sentence.
    document: joins the translations of sentences. render: writes the document.
    tags: how many tags are placed among the words of the translation.
    """

    model: M
    request: Request
    texts: tuple[SplitText[M], ...]
    pivot: Step[M] | None = None
    document: DocumentSentences | None = None
    render: Callable[[Sequence[AlignedText]], str] | None = None
    tags: int = 0

    @staticmethod
    def of_text(model: M, request: Request, how: SplitOptions[M], find_terms: FindTerms = no_terms) -> "SplitInput[M]":
        """Split a text, with its terms. Raises RequestError (`SplitText.of`)."""
        terms = find_terms(request.texts.get(model.source, ""))
        return SplitInput(model, request, (SplitText.of(model, replace(request, terms=terms), how),), how.pivot)

    @staticmethod
    def of_segments(
        model: M,
        request: Request,
        segments: Sequence[Segment],
        how: SplitOptions[M],
        find_terms: FindTerms = no_terms,
    ) -> "SplitInput[M]":
        """Split the texts of a document, with their terms. `request`: all but the text of the sentences' requests."""
        source, _ = model.language_pair
        _, target = (how.pivot.model if how.pivot else model).language_pair
        document = DocumentSentences(segments, source, target, find_terms, how.split_sentences)
        within = replace(how, split_sentences="0")
        texts = tuple(
            SplitText.of(
                model,
                replace(
                    request,
                    texts={**request.texts, model.source: sentence.text},
                    terms=sentence.terms,
                    explain=sentence.explain,
                    fields=(),
                ),
                within,
            )
            for sentence in document.sentences
        )
        tags = sum(len(segment.tags) for segment in segments)
        return SplitInput(model, request, texts, how.pivot, document, tags=tags)

    @staticmethod
    def of_markup(
        model: M, request: Request, document: Document, how: SplitOptions[M], find_terms: FindTerms = no_terms
    ) -> "SplitInput[M]":
        """Split the texts of a document with markup, which is the output."""
        split = SplitInput.of_segments(model, request, document.segments, how, find_terms)
        return replace(split, render=document.render)

    @cached_property
    def places(self) -> list[tuple[SplitText[M], int]]:
        """For each sentence its text, and its index in that text."""
        return [(text, j) for text in self.texts for j in range(len(text.sentences))]

    @property
    def last(self) -> Step[M]:
        """The search that writes the output: its model, and its options."""
        return self.pivot or Step(self.model, self.request.options)

    @property
    def searches(self) -> list[Search[M]]:
        """The searches of every sentence, or of its parts if it is longer than the model reads."""
        return [search for text in self.texts for search in text.searches]

    @property
    def divided(self) -> int:
        """Number of sentences that were longer than the model reads, and are searched in parts."""
        return sum(text.divided for text in self.texts)

    def join(self, parts: Sequence[str]) -> str:
        """The beginning of a text's translation, from the outputs of its first sentences. A document is written once
        all of it is translated."""
        return "" if self.document else self.texts[0].join(parts)

    def merge_answers(self, answers: Sequence[GenerationResult]) -> GenerationResult:
        """The result of the input from its sentences' results: for a document the best combinations of their
        outputs."""
        if self.document is None:
            return self.texts[0].merge_answers(answers)
        assert self.render
        formatted = self.formatted(answers)
        candidates = []
        for parts in combined_candidates(formatted, self.last.options.n_best):
            aligned = self.align_segments(formatted, [part.text for part in parts])
            candidates.append(joined_candidate(self.render(aligned), parts))
        return GenerationResult(candidates)

    def formatted(self, answers: Sequence[A]) -> list[A]:
        """The answers to all sentences, with the edges of their outputs formatted; None stays."""
        return [
            text.format_answer(j, answer) if answer else answer
            for (text, j), answer in zip(self.places, answers, strict=True)
        ]

    def align_segments(
        self, formatted: Sequence[GenerationResult | None], chosen: Sequence[str] | None = None
    ) -> list[AlignedText]:
        """The translations of a document's segments from the formatted answers to its sentences, as in
        `align_answers`."""
        assert self.document
        remaining, outputs = iter(formatted), iter(chosen or ())
        return self.document.join(
            [
                align_answers(
                    text,
                    list(islice(remaining, len(text.sentences))),
                    list(islice(outputs, len(text.sentences))) if chosen else None,
                )
                for text in self.texts
            ]
        )
