"""The explanation of a translation through a pivot language, composed of the explanations of its two steps.

Axes: L target words, P words of the pivot text as the second step tokenizes them, Q as the first has written them, S
source words.
"""

import torch
from torch import Tensor

from interlinear.alignment.doubts import with_doubts
from interlinear.explanation import Explanation, Span, TermLocation, largest_weights, membership_matrix, round_matrices
from interlinear.generation.terms.explained import explain_terms
from interlinear.generation.terms.term import Term


def compose_explanations(first: Explanation, second: Explanation) -> Explanation:
    """The explanation of the second step's output for the first step's source. The target of the first and the source
    of the second are words of one text.

    Matrices that both steps have are multiplied: the weight of target word l for source word s is

        w_ls = sum over p, q of second_lp share_pq first_qs,    w_ls / sum over s of w_ls

    where share_pq is the share of word p's characters that lie in word q, as tokenizers may divide words differently.
    A target word is aligned to the source word with its largest weight in the product of the matrices that align both
    steps, and a word of a term to the term in the source. Its confidence is the target word's probability times the
    confidence of the pivot word with its largest weight. Gates, fertilities and links of both directions, which
    describe one model, are left out.
    """
    share_PQ = pivot_shares(first, second)
    matrices = {
        name: compose(weights(second, name), share_PQ, weights(first, name))
        for name in second.matrices
        if name in first.matrices
    }
    aligned_by = second.aligned_by if first.aligned_by else None
    alignment: list[tuple[int, int]] = []
    if first.aligned_by and second.aligned_by:
        product_LS = compose(weights(second, second.aligned_by), share_PQ, weights(first, first.aligned_by))
        matrices[second.aligned_by] = product_LS
        alignment = sorted(largest_weights(product_LS))
    composed = Explanation(
        source=first.source,
        target=second.target,
        matrices=round_matrices(matrices),
        alignment=alignment,
        aligned_by=aligned_by,
        confidence=compose_confidence(first, second, share_PQ),
    )
    located = compose_terms(first, second)
    terms = [Term(*term.source, target="") for term in located]
    unseen = [doubt.word for doubt in first.doubts or () if doubt.reason == "unseen"]
    doubted = with_doubts(composed, complete=True, unseen=unseen)
    explained = explain_terms(doubted, terms, [term.target for term in located])
    return explained if terms else explained.model_copy(update={"terms": None})


def pivot_shares(first: Explanation, second: Explanation) -> Tensor:
    """(P, Q): the share of the characters of each pivot word of the second step that lie in each word of the first."""

    def spans(words: list[Span]) -> list[tuple[int, int]]:
        return [(word.start, word.end) for word in words]

    return membership_matrix(spans(second.source), spans(first.target), torch.empty(0, dtype=torch.float64))


def weights(explanation: Explanation, name: str) -> Tensor:
    """A matrix of an explanation (target words, source words)."""
    rows = torch.tensor(explanation.matrices[name], dtype=torch.float64)
    return rows.view(len(explanation.target), len(explanation.source))


def compose(second_LP: Tensor, share_PQ: Tensor, first_QS: Tensor) -> Tensor:
    """The product (L, S), whose rows sum to 1, or to 0 where no weight is left."""
    product_LS = second_LP @ share_PQ @ first_QS
    return product_LS / product_LS.sum(1, keepdim=True).clamp(min=torch.finfo(product_LS.dtype).tiny)


def compose_confidence(first: Explanation, second: Explanation, share_PQ: Tensor) -> list[float | None] | None:
    """For each target word its probability, times the probability of the pivot word that it is aligned to, if there is
    one."""
    if first.confidence is None or second.confidence is None:
        return None
    heaviest: dict[int, int] = {}
    if second.aligned_by:
        heaviest = {j: q for q, j in largest_weights(weights(second, second.aligned_by) @ share_PQ)}
    composed: list[float | None] = []
    for j, own in enumerate(second.confidence):
        pivot = first.confidence[heaviest[j]] if j in heaviest else None
        composed.append(own if own is None or pivot is None else round(own * pivot, 4))
    return composed


def compose_terms(first: Explanation, second: Explanation) -> list[TermLocation]:
    """The terms of the source in the output: pairs of a first and a second step's term at the same place of the pivot
    text."""
    sources = {term.target: term.source for term in first.terms or []}
    return [
        TermLocation(source=sources[term.source], target=term.target)
        for term in second.terms or []
        if term.source in sources
    ]
