"""A document's texts as sentences to translate, equal ones once, and the texts' translations, joined from them."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from interlinear.documents.document import Segment
from interlinear.documents.inline import AlignedText, join_aligned
from interlinear.errors import DataError
from interlinear.generation.terms import Term, join_divided, terms_within
from interlinear.text.long_sentences import divide
from interlinear.text.sentences import SplitMode, sentence_separators, split_text

LONGEST = 5000  # characters of a sentence; a longer one is divided, so that work on a sentence is short


class Sentence(NamedTuple):
    """A sentence of a document, which may contain it in several places.

    terms: of its text. explain: whether a tag opens or closes between its words, so that they must be aligned.
    completes: the number of the document's texts that are complete once this and all earlier sentences are translated.
    """

    text: str
    terms: tuple[Term, ...] = ()
    explain: bool = False
    completes: int = 0


class DocumentSentences:
    """The sentences of a document's segments: `sentences` has the different ones in the order of the document."""

    def __init__(
        self,
        segments: Sequence[Segment],
        source: str | None,
        target: str | None,
        find_terms: Callable[[str], Sequence[Term]] = lambda text: (),
        mode: SplitMode = "1",
        most: int | None = None,
    ) -> None:
        """`source`, `target`: language codes. `most`: maximum number of sentences, equal ones included. Raises
        DataError."""
        self._parts: list[tuple[list[int], list[str], list[int]]] = []  # sentences, separators, offsets of each segment
        numbers: dict[tuple[str, tuple[Term, ...]], int] = {}
        explained: set[int] = set()
        completed: Counter[int] = Counter()
        count = 0
        for segment in segments:
            terms = find_terms(segment.text)
            spans = split(segment.text, source, terms, mode)
            count += len(spans)
            if most is not None and count > most:
                raise DataError("", f"has more than {most:,} sentences, the most that are translated", "divide it")
            own = []
            for start, end in spans:
                key = segment.text[start:end], terms_within(terms, start, end)
                own.append(numbers.setdefault(key, len(numbers)))
                if segment.has_edge_inside(start, end):
                    explained.add(own[-1])
            completed[max(own, default=0)] += 1
            separators = sentence_separators(segment.text, spans, target)
            self._parts.append((own, separators, [start for start, _ in spans]))
        self.sentences = [Sentence(*key, n in explained, completed[n]) for key, n in numbers.items()]

    def join(self, translations: Sequence[AlignedText]) -> list[AlignedText]:
        """The translations of the segments, from the translations of `sentences`."""
        return [
            join_aligned([translations[n] for n in numbers], separators, offsets)
            for numbers, separators, offsets in self._parts
        ]


def split(text: str, language: str | None, terms: Sequence[Term], mode: SplitMode) -> list[tuple[int, int]]:
    """The spans of the sentences of a text. Each term lies within one sentence."""
    kept = [(term.start, term.end) for term in terms]
    return [
        part
        for span in join_divided(split_text(text, language, mode), terms)
        for part in divide(text, span, lambda each: each[1] - each[0] <= LONGEST, kept)
    ]
