"""Documents with markup: their texts are split into sentences, and the translations are put in their places."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice

from documents import Document
from seq2seq.generation_request import Candidate, GenerationResult, Request
from service.inference.aligned_text import SentenceTranslation, align_sentences
from service.inference.merging import combined_candidates, joined_candidate
from service.inference.segmented_text import BY_SENTENCES, PivotStep, SegmentationOptions, SegmentedText
from service.inference.terms import RequestTerms
from service.models import ServedModel


@dataclass(frozen=True)
class SegmentedDocument:
    """A request for one document, as requests for the sentences of its texts.

    Only those sentences are explained that have the edge of a tag between two of their words: an explanation takes one
    more decoding.
    """

    model: ServedModel
    request: Request
    document: Document
    texts: tuple[SegmentedText, ...]  # one for each segment of the document
    sentences: tuple[Request, ...]
    pivot: PivotStep | None = None

    @staticmethod
    def of(
        model: ServedModel,
        request: Request,
        document: Document,
        terms: RequestTerms,
        how: SegmentationOptions = BY_SENTENCES,
    ) -> "SegmentedDocument":
        """Split the texts of a document into sentences, with their terms. Raises Problem for contradictory terms."""

        def request_for(text: str) -> Request:
            return terms.add_to(model, replace(request, texts={**request.texts, model.source: text}))

        texts = tuple(SegmentedText.of(model, request_for(segment.text), how) for segment in document.segments)
        sentences = tuple(
            replace(sentence, explain=segment.has_edge_inside(offset, offset + len(sentence.texts[model.source])))
            for segment, text in zip(document.segments, texts, strict=True)
            for sentence, offset in zip(text.sentences, text.offsets, strict=True)
        )
        return SegmentedDocument(model, request, document, texts, sentences, how.pivot)

    @property
    def last(self) -> PivotStep:
        """The search that writes the output: its model, and its options."""
        return self.pivot or PivotStep(self.model, self.request.options)

    @property
    def divided(self) -> int:
        """Number of sentences that were longer than the model reads, and are searched in parts."""
        return sum(text.divided for text in self.texts)

    @property
    def tags(self) -> int:
        """Number of tags that are placed among the words of the result."""
        return sum(len(segment.tags) for segment in self.document.segments)

    @cached_property
    def _places(self) -> list[tuple[SegmentedText, int]]:
        """For each sentence its text, and its index in that."""
        return [(text, j) for text in self.texts for j in range(len(text.sentences))]

    def format_prefix(self, index: int, text: str) -> str:
        """The begin of a sentence's output as it will be in the result."""
        segment, j = self._places[index]
        return segment.format_prefix(j, text)

    def format_answer(self, index: int, answer: GenerationResult) -> GenerationResult:
        """A sentence's result, with the edges of its outputs as they are to be."""
        segment, j = self._places[index]
        return segment.format_answer(j, answer)

    def join(self, parts: Sequence[str]) -> str:
        """Nothing: a document is written once all of it is translated."""
        return ""

    def merge_answers(self, answers: Sequence[GenerationResult]) -> GenerationResult:
        """The whole document, with the best combinations of the sentences' candidates."""
        combined = combined_candidates(answers, self.last.options.n_best)
        return GenerationResult([joined_candidate(self._render(answers, parts), parts) for parts in combined])

    def _render(self, answers: Sequence[GenerationResult], chosen: Sequence[Candidate]) -> str:
        """The document with the chosen candidate of each sentence."""
        translations = iter(
            [
                SentenceTranslation(candidate.text, answer.candidates[0].text, answer.explanation)
                for answer, candidate in zip(answers, chosen, strict=True)
            ]
        )
        find_words = partial(self.last.model.bundle.tokenizers["target"].word_spans, raw=True)
        return self.document.render(
            [align_sentences(text, list(islice(translations, len(text.sentences))), find_words) for text in self.texts]
        )
