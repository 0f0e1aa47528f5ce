"""A document's texts as sentences to search, equal ones once, and its translation from their answers."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from documents import AlignedText
from seq2seq.generation_request import GenerationResult, Request
from seq2seq.search import SearchOptions
from service.files.document_processes import FileSegment
from service.inference.aligned_text import SentenceTranslation, align_sentences
from service.inference.pivoting import Sentence
from service.inference.segmented_text import SegmentationOptions, SegmentedText
from service.inference.terms import RequestTerms
from service.models import ServedModel


@dataclass(frozen=True)
class SplitSegment:
    """A segment and its sentences. One that is longer than the model reads is divided.

    keys: of each sentence what an equal one has too. tokens: of each sentence, with the symbol at its end.
    characters: the length of its text.
    """

    text: SegmentedText
    requests: Sequence[Request]
    keys: Sequence[Hashable]
    tokens: Sequence[int]
    characters: int


def split_segment(
    model: ServedModel, options: SearchOptions, terms: RequestTerms, how: SegmentationOptions, segment: FileSegment
) -> SplitSegment:
    """Split a segment into sentences, with their terms. Those are explained among whose words a tag has an edge.
    Raises Problem for contradictory terms."""
    text = SegmentedText.of(model, terms.add_to(model, Request({model.source: segment.text}, options)), how)
    sentences = [sentence.texts[model.source] for sentence in text.sentences]
    requests = [
        replace(request, explain=segment.has_edge_inside(offset, offset + len(sentence)))
        for request, sentence, offset in zip(text.sentences, sentences, text.offsets, strict=True)
    ]
    encode = model.bundle.tokenizers[model.source].encode
    tokens = [len(encode(sentence).ids) + 1 for sentence in sentences]
    keys = [(sentence, request.terms) for sentence, request in zip(sentences, requests, strict=True)]
    return SplitSegment(text, requests, keys, tokens, len(segment.text))


class DocumentSentences:
    """The different sentences of a document, in their order, and which segments are complete."""

    def __init__(self, segments: Sequence[SplitSegment]) -> None:
        self.segments = segments
        self.sentences: dict[Hashable, Sentence] = {}
        self._answers: dict[Hashable, GenerationResult | None] = {}
        self._segments_of: dict[Hashable, list[int]] = {}
        self._open = [len(set(segment.keys)) for segment in segments]  # sentences without an answer, by segment
        for i, segment in enumerate(segments):
            for key, request in zip(segment.keys, segment.requests, strict=True):
                known = self.sentences.get(key)
                if known is None or (request.explain and not known.request.explain):
                    self.sentences[key] = Sentence(segment.text.model, request, segment.text.pivot)
            for key in dict.fromkeys(segment.keys):
                self._segments_of.setdefault(key, []).append(i)

    @property
    def tokens(self) -> int:
        """The tokens of all different sentences."""
        return sum({k: n for part in self.segments for k, n in zip(part.keys, part.tokens, strict=True)}.values())

    @property
    def without_sentences(self) -> int:
        """The number of segments that have nothing to search."""
        return sum(not segment.keys for segment in self.segments)

    def add(self, key: Hashable, answer: GenerationResult | None) -> int:
        """Add the answer to a sentence; None: it stays as it is. Returns how many segments it completes."""
        self._answers[key] = answer
        for i in self._segments_of[key]:
            self._open[i] -= 1
        return sum(not self._open[i] for i in self._segments_of[key])

    def translation(self, segment: SplitSegment) -> AlignedText:
        """The translation of a segment, all of whose sentences have answers."""
        text, source = segment.text, segment.text.model.source
        tokenizer = text.last.model.bundle.tokenizers["target"]
        find_words: Callable[[str], Any] = partial(tokenizer.word_spans, raw=True)
        answers = []
        for j, (key, request) in enumerate(zip(segment.keys, segment.requests, strict=True)):
            answer = self._answers[key]
            answers.append(sentence_translation(request.texts[source], answer and text.format_answer(j, answer)))
        return align_sentences(segment.text, answers, find_words)


def sentence_translation(sentence: str, answer: GenerationResult | None) -> SentenceTranslation:
    """The best translation of a sentence; the sentence itself without an answer."""
    if answer is None:
        return SentenceTranslation(sentence, sentence)
    best = answer.candidates[0].text
    return SentenceTranslation(best, best, answer.explanation)
