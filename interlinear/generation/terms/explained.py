"""Terms in explanations: their positions, and the alignment of their words."""

from collections.abc import Collection, Sequence

from interlinear.explanation import Explanation, TermLocation, WeightedLink, to_spans
from interlinear.generation.terms.term import Term
from interlinear.text.words import Span


def explain_terms(explanation: Explanation, terms: Sequence[Term], spans: Sequence[Span]) -> Explanation:
    """The explanation of an output in which `terms` have the spans `spans`.

    The words of a term are only linked to the source words that it stands for: a word without such a link is linked to
    the one of these source words with the most weight. The model did not choose these words, so they have no
    confidence, and neither they nor the term's source words are doubtful.
    """
    alignment, links, confidence = explanation.alignment, explanation.links, explanation.confidence
    doubts = explanation.doubts
    for term, span in zip(terms, spans, strict=True):
        source = overlapping([(word.start, word.end) for word in explanation.source], (term.start, term.end))
        target = overlapping([(word.start, word.end) for word in explanation.target], span)
        kept = [(i, j) for i, j in alignment if j not in target or i in source]
        linked = {j for _, j in kept}
        added = [(heaviest(explanation, source, j), j) for j in target if j not in linked] if source else []
        alignment = sorted(kept + added)
        if links is not None:
            links = [link for link in links if (link.source, link.target) in set(kept)]
            links += [WeightedLink(source=i, target=j, weight=weight_of(explanation, i, j)) for i, j in added]
        if confidence is not None:
            confidence = [None if j in target else value for j, value in enumerate(confidence)]
        if doubts is not None:
            doubts = [doubt for doubt in doubts if doubt.word not in (source if doubt.side == "source" else target)]
    locations = [
        TermLocation(source=(term.start, term.end), target=span) for term, span in zip(terms, spans, strict=True)
    ]
    update = {
        "alignment": alignment,
        "links": links,
        "confidence": confidence,
        "doubts": doubts,
        "terms": locations,
    }
    return explanation.model_copy(update=update)


def overlapping(words: Sequence[Span], span: Span) -> list[int]:
    """The indices of the words that overlap a span."""
    return [i for i, (start, end) in enumerate(words) if start < span[1] and span[0] < end]


def weight_of(explanation: Explanation, source: int, target: int) -> float:
    """The alignment weight of two words."""
    rows = explanation.matrices.get(explanation.aligned_by or "")
    return rows[target][source] if rows else 0.0


def heaviest(explanation: Explanation, source: Sequence[int], target: int) -> int:
    """The source word with the most weight for a target word, the first of equal ones."""
    return max(source, key=lambda i: weight_of(explanation, i, target))


def explain_copy(
    text: str,
    words: Sequence[Span],
    terms: Sequence[Term],
    kinds: Collection[str],
    aligned_by: str,
    symmetrized: bool | None = None,
) -> Explanation:
    """The explanation of a text that is its own translation, with these kinds of matrices: every word is linked to
    itself, with the weight 1."""
    spans, count = to_spans(text, words), len(words)
    identity = [[float(i == j) for i in range(count)] for j in range(count)]
    links = [
        WeightedLink(source=i, target=i, weight=1.0, reverse_weight=1.0, symmetrized_weight=1.0) for i in range(count)
    ]
    copied = Explanation(
        source=spans,
        target=spans,
        matrices=dict.fromkeys(kinds, identity),
        alignment=[(i, i) for i in range(count)],
        aligned_by=aligned_by,
        confidence=[None] * count,
        doubts=[],
        symmetrized=symmetrized,
        links=links if symmetrized else None,
    )
    return explain_terms(copied, terms, [(term.start, term.end) for term in terms])
