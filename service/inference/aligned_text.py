"""The translation of a text from those of its sentences, with the words of both that belong together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from documents import AlignedText
from documents.inline import join_aligned
from seq2seq.explain import Explanation
from service.inference.segmented_text import SegmentedText

CharacterSpan = tuple[int, int]
Link = tuple[int, int]


@dataclass(frozen=True)
class SentenceTranslation:
    """The chosen translation of a sentence, the best one, and its explanation if it has one."""

    text: str
    best: str
    explanation: Explanation | None = None


def align_sentences(
    text: SegmentedText,
    translations: Sequence[SentenceTranslation],
    word_spans: Callable[[str], list[CharacterSpan]],
) -> AlignedText:
    """The translation of a text. A sentence without explanation is linked to its translation as a whole; one that is
    not the best has the links of the best (`carried_links`). `word_spans` finds the words of a translation."""
    sources = [sentence.texts[text.model.source] for sentence in text.sentences]
    parts = [
        AlignedText(translation.text, *sentence_words(source, translation, word_spans))
        for source, translation in zip(sources, translations, strict=True)
    ]
    return join_aligned(parts, text.separators, text.offsets)


def sentence_words(
    source: str, translation: SentenceTranslation, word_spans: Callable[[str], list[CharacterSpan]]
) -> tuple[list[CharacterSpan], list[CharacterSpan], list[Link]]:
    """The words of a sentence and of its translation, and their links."""
    explanation = translation.explanation
    if explanation is None or not explanation.source or not explanation.target:
        whole_target = [(0, len(translation.text))] if translation.text else []
        return [(0, len(source))], whole_target, [(0, 0)] if whole_target else []
    source_words = [(span.start, span.end) for span in explanation.source]
    best_words = [(span.start, span.end) for span in explanation.target]
    if translation.text == translation.best:
        return source_words, best_words, list(explanation.alignment)
    words = word_spans(translation.text)
    links = carried_links(
        explanation.alignment,
        [translation.best[start:end] for start, end in best_words],
        [translation.text[start:end] for start, end in words],
    )
    return source_words, words, links


def carried_links(links: Sequence[Link], best: Sequence[str], other: Sequence[str]) -> list[Link]:
    """The links of the best translation for another one of the same search, which mostly has the same words.

    A word stands for the same source words where both translations have it: in the same order (difflib), else wherever
    it stands. As many other words in a row that stand for as many others are taken to correspond in order.
    """
    place: dict[int, int] = {}
    for kind, start, end, other_start, other_end in SequenceMatcher(None, best, other, autojunk=False).get_opcodes():
        if kind == "equal" or (kind == "replace" and end - start == other_end - other_start):
            place.update(zip(range(start, end), range(other_start, other_end), strict=True))
    free: dict[str, list[int]] = {}
    for j in sorted(set(range(len(other))) - set(place.values()), reverse=True):
        free.setdefault(other[j].casefold(), []).append(j)
    for j, word in enumerate(best):
        if j not in place and (positions := free.get(word.casefold())):
            place[j] = positions.pop()
    return [(i, place[j]) for i, j in links if j in place]
