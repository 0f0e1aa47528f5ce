"""The translation of a text, joined from its sentences' translations, with the alignment of the words of both."""

from collections.abc import Sequence
from difflib import SequenceMatcher

from interlinear.documents import AlignedText
from interlinear.documents.inline import CharacterSpan, join_aligned
from interlinear.generation.request import GenerationResult
from interlinear.text import word_spans
from interlinear.translation.splitting import M, SplitText

Link = tuple[int, int]


def align_answers(
    text: SplitText[M], answers: Sequence[GenerationResult | None], chosen: Sequence[str] | None = None
) -> AlignedText:
    """The translation of a text from the formatted answers to its sentences; a sentence without an answer stays
    untranslated.

    A sentence without explanation is linked to its translation as a whole. `chosen`: the output of each sentence, by
    default the best; another output has the links of the best (`carried_links`).
    """
    sources = [sentence.texts[text.model.source] for sentence in text.sentences]
    outputs = chosen or [
        answer.candidates[0].text if answer else source for source, answer in zip(sources, answers, strict=True)
    ]
    parts = [
        AlignedText(output, *linked_words(source, answer, output))
        for source, answer, output in zip(sources, answers, outputs, strict=True)
    ]
    return join_aligned(parts, text.separators, text.offsets)


def linked_words(
    source: str, answer: GenerationResult | None, output: str
) -> tuple[list[CharacterSpan], list[CharacterSpan], list[Link]]:
    """The words of a sentence and of one of its outputs, and their links. Without an answer each word is linked to
    itself, so that tags stay where they are."""
    if answer is None and output == source and (words := word_spans(source)):
        return words, words, [(i, i) for i in range(len(words))]
    explanation = answer.explanation if answer else None
    if answer is None or explanation is None or not explanation.source or not explanation.target:
        whole_target = [(0, len(output))] if output else []
        return [(0, len(source))], whole_target, [(0, 0)] if whole_target else []
    best = answer.candidates[0].text
    source_words = [(span.start, span.end) for span in explanation.source]
    best_words = [(span.start, span.end) for span in explanation.target]
    if output == best:
        return source_words, best_words, list(explanation.alignment)
    words = word_spans(output)
    links = carried_links(
        explanation.alignment,
        [best[start:end] for start, end in best_words],
        [output[start:end] for start, end in words],
    )
    return source_words, words, links


def carried_links(links: Sequence[Link], best: Sequence[str], other: Sequence[str]) -> list[Link]:
    """The links of the best translation for another one of the same search, which mostly has the same words.

    A word stands for the same source words where both translations have it: in the same order (difflib), else wherever
    it stands. A run of other words that replaces a run of equal length corresponds word by word.
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
