"""Outputs whose edges have changed, and their explanations: words are kept, moved, replaced and added."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from interlinear.explanation import Doubt, Explanation, SourceExplanation, Span, TermLocation
from interlinear.generation.request import GenerationResult
from interlinear.text.formatting import Edges, FormattedText

T = TypeVar("T")
Rows = list[list[float]]


def format_result(
    result: GenerationResult, source: str, edges: Edges, is_small: Callable[[str], bool], language: str | None
) -> GenerationResult:
    """A sentence's result with these edges of its outputs as in its source; terms stay unchanged. `is_small`,
    `language`: of the outputs, as `Edges.apply` takes them."""
    formatted = [
        edges.apply(source, candidate.text, is_small, language, [span for _, span in candidate.terms])
        for candidate in result.candidates
    ]
    candidates = [replace(each, text=one.text) for each, one in zip(result.candidates, formatted, strict=True)]
    return GenerationResult(candidates, result.explanation and explain_formatted(result.explanation, formatted[0]))


def explain_formatted(explanation: Explanation, formatted: FormattedText) -> Explanation:
    """The explanation of an output with other edges. A new mark gets the weights of the mark that it replaces; without
    one it has no weights."""
    text, moved = formatted.text, formatted.offset - formatted.start
    behind = formatted.end + moved  # where the new end begins
    spans: list[tuple[int, int, int | None]] = []
    before = [j for j, word in enumerate(explanation.target) if word.end <= formatted.start]
    after = [j for j, word in enumerate(explanation.target) if word.start >= formatted.end]
    if prefix := text[: formatted.offset].rstrip():
        spans.append((0, len(prefix), before[0] if before else None))
    for j, word in enumerate(explanation.target):
        if word.end > formatted.start and word.start < formatted.end:
            spans.append((max(word.start, formatted.start) + moved, min(word.end, formatted.end) + moved, j))
    if text[behind:]:
        spans.append((behind, len(text), after[0] if after else None))
    words = [Span(text=text[start:end], start=start, end=end) for start, end, _ in spans]
    changed = with_target_words(explanation, words, [origin for *_, origin in spans])
    terms = [
        TermLocation(source=term.source, target=(term.target[0] + moved, term.target[1] + moved))
        for term in explanation.terms or []
    ]
    return changed.model_copy(update={"terms": terms or None})


def with_target_words(explanation: Explanation, words: Sequence[Span], origins: Sequence[int | None]) -> Explanation:
    """The explanation of an output with other words; `origins`: for each word its index in the former output, None for
    a new word, which has no weights. Terms stay unchanged."""
    place = {origin: j for j, origin in enumerate(origins) if origin is not None}

    def rows(matrix: Rows) -> Rows:
        empty = [0.0] * len(matrix[0]) if matrix else []
        return [empty if origin is None else matrix[origin] for origin in origins]

    def values(row: Sequence[T] | None, missing: T) -> list[T] | None:
        return None if row is None else [missing if origin is None else row[origin] for origin in origins]

    return explanation.model_copy(
        update={
            "target": list(words),
            "matrices": {name: rows(matrix) for name, matrix in explanation.matrices.items()},
            "gate": values(explanation.gate, 0.0),
            "alignment": [(i, place[j]) for i, j in explanation.alignment if j in place],
            "confidence": values(explanation.confidence, None),
            "doubts": moved_doubts(explanation.doubts, place),
            "links": explanation.links
            and [
                link.model_copy(update={"target": place[link.target]})
                for link in explanation.links
                if link.target in place
            ],
            "sources": explanation.sources
            and {
                name: SourceExplanation(
                    words=source.words,
                    grid=source.grid,
                    matrices={kind: rows(matrix) for kind, matrix in source.matrices.items()},
                )
                for name, source in explanation.sources.items()
            },
            "between": explanation.between and {name: values(row, 0.0) for name, row in explanation.between.items()},
        }
    )


def moved_doubts(doubts: Sequence[Doubt] | None, place: dict[int, int]) -> list[Doubt] | None:
    """The doubts about words that are still there, by their new indices."""
    if doubts is None:
        return None
    kept = [doubt for doubt in doubts if doubt.side == "source" or doubt.word in place]
    return [
        doubt
        if doubt.side == "source"
        else doubt.model_copy(update={"word": place[doubt.word], "earlier": place.get(doubt.earlier)})  # type: ignore[arg-type]
        for doubt in kept
        if doubt.earlier is None or doubt.earlier in place
    ]
