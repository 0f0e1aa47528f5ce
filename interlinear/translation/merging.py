"""The outputs of a text, and its explanation, merged from its sentences' outputs and explanations."""

import heapq
from collections.abc import Sequence
from typing import Any

from interlinear.explanation import Doubt, Explanation, Span, TermLocation, WeightedLink
from interlinear.generation.request import Candidate, GenerationResult


def combined_candidates(answers: Sequence[GenerationResult], count: int) -> list[list[Candidate]]:
    """The best combinations of one output of each answer, best first."""
    scores = [[candidate.score for candidate in answer.candidates] for answer in answers]
    return [
        [answer.candidates[choice.get(i, 0)] for i, answer in enumerate(answers)]
        for choice in best_combinations(scores, count)
    ]


def joined_candidate(text: str, parts: Sequence[Candidate]) -> Candidate:
    """The output of a text from one output of each sentence; its score is the mean of their scores."""
    return Candidate(
        text,
        sum(part.score for part in parts) / len(parts),
        sum(part.log_probability for part in parts),
        [word for part in parts for word in part.ids],
    )


def best_combinations(scores: Sequence[Sequence[float]], count: int) -> list[dict[int, int]]:
    """The best choices of one item from each list, best first by the sums of scores; each list is sorted best first.
    A choice maps a list's index to the index of the chosen item, if that is not 0."""
    # The best n choices differ only in the n lists with the smallest loss of score to their second item.
    losses = sorted(
        (list_scores[0] - list_scores[1], i) for i, list_scores in enumerate(scores) if len(list_scores) > 1
    )
    indices = [i for _, i in losses[:count]]
    first = (0,) * len(indices)
    best: list[dict[int, int]] = []
    queue, visited = [(0.0, first)], {first}
    while queue and len(best) < count:
        loss, choice = heapq.heappop(queue)
        best.append({i: k for i, k in zip(indices, choice, strict=True) if k})
        for position, (i, k) in enumerate(zip(indices, choice, strict=True)):
            other = (*choice[:position], k + 1, *choice[position + 1 :])
            if k + 1 < len(scores[i]) and other not in visited:
                visited.add(other)
                heapq.heappush(queue, (loss + scores[i][k] - scores[i][k + 1], other))
    return best


def merge_explanations(
    parts: Sequence[Explanation], source_offsets: Sequence[int], target_offsets: Sequence[int]
) -> Explanation:
    """One explanation from the explanations of sentences, which start at these offsets; attention across sentences is
    0.

    `symmetrized` only if all of them are: otherwise without `links`. `sources`, whose words are of one sentence, are
    left out.
    """
    symmetrized = None if parts[0].symmetrized is None else all(part.symmetrized for part in parts)
    if len(parts) == 1 and source_offsets[0] == target_offsets[0] == 0:
        return parts[0]
    columns = sum(len(part.source) for part in parts)
    matrices: dict[str, list[list[float]]] = {name: [] for part in parts for name in part.matrices}
    terms: list[TermLocation] = []
    alignment: list[tuple[int, int]] = []
    links: list[WeightedLink] = []
    doubts: list[Doubt] = []
    left = above = 0
    for part, *offsets in zip(parts, source_offsets, target_offsets, strict=True):
        right = columns - left - len(part.source)
        for name, rows in matrices.items():
            own = part.matrices.get(name) or [[0.0] * len(part.source)] * len(part.target)
            rows.extend([0.0] * left + row + [0.0] * right for row in own)
        terms.extend(shift_term(term, *offsets) for term in part.terms or [])
        alignment.extend((i + left, j + above) for i, j in part.alignment)
        links.extend(
            link.model_copy(update={"source": link.source + left, "target": link.target + above})
            for link in part.links or []
        )
        doubts.extend(shift_doubt(doubt, left, above) for doubt in part.doubts or [])
        left, above = left + len(part.source), above + len(part.target)
    return Explanation(
        source=[
            shift_span(span, offset) for part, offset in zip(parts, source_offsets, strict=True) for span in part.source
        ],
        target=[
            shift_span(span, offset) for part, offset in zip(parts, target_offsets, strict=True) for span in part.target
        ],
        matrices=matrices,
        gate=concatenate([part.gate for part in parts], [len(part.target) for part in parts]),
        fertility=concatenate([part.fertility for part in parts], [len(part.source) for part in parts]),
        alignment=alignment,
        aligned_by=next((part.aligned_by for part in parts if part.aligned_by), None),
        confidence=concatenate([part.confidence for part in parts], [len(part.target) for part in parts]),
        doubts=None if all(part.doubts is None for part in parts) else doubts,
        symmetrized=symmetrized,
        links=links if symmetrized else None,
        sentences=[(len(part.source), len(part.target)) for part in parts],
        between=concatenate_by_name([part.between for part in parts], [len(part.target) for part in parts]),
        terms=terms or None,
    )


def shift_span(span: Span, by: int) -> Span:
    return Span(text=span.text, start=span.start + by, end=span.end + by)


def shift_doubt(doubt: Doubt, sources: int, targets: int) -> Doubt:
    """The doubt in a text that has this many words before the doubt's sentence."""
    earlier = None if doubt.earlier is None else doubt.earlier + targets
    return doubt.model_copy(
        update={"word": doubt.word + (sources if doubt.side == "source" else targets), "earlier": earlier}
    )


def shift_term(term: TermLocation, source: int, target: int) -> TermLocation:
    """The term in a text whose sentence starts at these offsets."""
    (a, b), (c, d) = term.source, term.target
    return TermLocation(source=(a + source, b + source), target=(c + target, d + target))


def concatenate_by_name(
    parts: Sequence[dict[str, list[float]] | None], words: Sequence[int]
) -> dict[str, list[float]] | None:
    """By name, the values for the words of all sentences."""
    names = {name for part in parts for name in part or {}}
    return {name: concatenate([(part or {}).get(name) for part in parts], words) or [] for name in names} or None


def concatenate(parts: Sequence[Sequence[float | None] | None], words: Sequence[int]) -> list[Any] | None:
    """Values per word of all sentences, 0 in sentences without them; None if no sentence has them. `words`: of each
    sentence."""
    if all(part is None for part in parts):
        return None
    return [number for part, count in zip(parts, words, strict=True) for number in (part or [0.0] * count)]
