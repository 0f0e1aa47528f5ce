"""Minimum risk training (Shen et al. 2016), equations 10-13, as loops over sentences, candidates and words."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from interlinear.batch import collate
from interlinear.minimum_risk.minimum_risk import Candidates, RiskOptions, expected_risk, generate_candidates
from interlinear.text import END
from tests.papers import test_interactive_attention, test_unsupervised_alignment, test_word_attention
from tests.papers.agreement import SOURCES, TARGETS, Transcription, close, small

SYSTEMS: dict[str, tuple[dict[str, Any], Transcription]] = {
    "rnnsearch": ({}, test_word_attention.transcription),
    "interactive_attention": (
        {**test_interactive_attention.STAR, "writing": "shared"},
        test_interactive_attention.transcription,
    ),
    "uam": (test_unsupervised_alignment.UAM, test_unsupervised_alignment.transcription),
}


def smoothed_bleu(y: list[int], reference: list[int]) -> float:
    """Lin and Och 2004: add-one smoothing for n-grams of order 2 and more."""
    product = 1.0
    for n in range(1, 5):
        ours = Counter(tuple(y[i : i + n]) for i in range(len(y) - n + 1))
        theirs = Counter(tuple(reference[i : i + n]) for i in range(len(reference) - n + 1))
        matches = sum(min(count, theirs[gram]) for gram, count in ours.items())
        grams = sum(ours.values())
        if n == 1:
            product *= matches / grams if grams else 0.0
        else:
            product *= (matches + 1) / (grams + 1)
    brevity = 1.0 if len(y) >= len(reference) else math.exp(1 - len(reference) / len(y)) if y else 0.0
    return brevity * product**0.25


def rouge_l(y: list[int], reference: list[int]) -> float:
    """Lin 2004: F1 of the longest common subsequence."""
    common = [[0] * (len(reference) + 1) for _ in range(len(y) + 1)]
    for i in range(len(y)):
        for j in range(len(reference)):
            same = y[i] == reference[j]
            common[i + 1][j + 1] = common[i][j] + 1 if same else max(common[i][j + 1], common[i + 1][j])
    longest = common[-1][-1]
    if not longest:
        return 0.0
    recall, precision = longest / len(reference), longest / len(y)
    return 2 * recall * precision / (recall + precision)


DELTA: dict[str, Callable[[list[int], list[int]], float]] = {
    "bleu": lambda y, reference: 1 - smoothed_bleu(y, reference),
    "rouge-l": lambda y, reference: 1 - rouge_l(y, reference),
}


def subsets(candidates: Candidates) -> list[list[list[int]]]:
    """S(x) of every sentence."""
    rows = zip(candidates.target_BKL.tolist(), candidates.chosen_BK.tolist(), strict=True)
    return [[y[: y.index(END)] for y, there in zip(*row, strict=True) if there] for row in rows]


def risk(
    w: dict[str, Tensor], config: Any, transcription: Transcription, S: list[list[list[int]]], alpha: float, metric: str
) -> tuple[Tensor, list[Tensor]]:
    """R~, equations (10) - (12), and its gradient by equation (13)."""
    objective: Any = 0.0
    slopes: Any = 0.0  # a sum with equation (13) for its gradient
    for x, y_s, S_x in zip(SOURCES, TARGETS, S, strict=True):
        log_P = []
        for y in S_x:
            says = transcription(w, config, [*x, END], [*y, END]).log_p
            log_P.append(sum(says[n, word] for n, word in enumerate([*y, END])))
        total = sum(torch.exp(alpha * log_P_y) for log_P_y in log_P)
        Q = [torch.exp(alpha * log_P_y) / total for log_P_y in log_P]  # (12)
        delta = [DELTA[metric](y, y_s) for y in S_x]
        expected = sum(Q_y * delta_y for Q_y, delta_y in zip(Q, delta, strict=True))
        objective = objective + expected  # (11)
        for log_P_y, Q_y, delta_y in zip(log_P, Q, delta, strict=True):  # (13); d P / P = d log P
            slopes = slopes + alpha * (Q_y * (delta_y - expected)).detach() * log_P_y
    parts = torch.autograd.grad(slopes, list(w.values()), allow_unused=True)
    return objective, [torch.zeros_like(v) if p is None else p for v, p in zip(w.values(), parts, strict=True)]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    "options",
    [{}, {"metric": "rouge-l", "alpha": 1.0, "reference": False}, {"metric": "bleu", "draw": "both", "alpha": 0.3}],
)
def test_the_risk_and_its_gradient_are_the_papers(system: str, options: dict[str, Any]) -> None:
    variant, transcription = SYSTEMS[system]
    model = small(**variant)
    asked = RiskOptions(**{"candidates": 4, "max_length": 5, **options})
    batch = collate({"source": SOURCES}, TARGETS)
    torch.manual_seed(1)
    candidates = generate_candidates(model, batch, asked)
    S = subsets(candidates)
    for S_x, reference in zip(S, TARGETS, strict=True):
        assert len({tuple(y) for y in S_x}) == len(S_x) > 1
        assert (reference in S_x) or not asked.reference

    w = dict(model.named_parameters())
    expected, gradient = risk(w, model.config, transcription, S, asked.alpha, asked.metric)
    loss = expected_risk(model, batch, candidates, asked)

    close(loss.objective, expected, "R~")
    ours = torch.autograd.grad(loss.objective, list(w.values()), allow_unused=True)
    for name, mine, paper in zip(w, ours, gradient, strict=True):
        close(torch.zeros_like(paper) if mine is None else mine, paper, f"gradient of {name}")
    assert max(float(part.norm()) for part in gradient) > 1e-4  # the compared gradients are not all zero
    nats = -sum(
        transcription(w, model.config, [*x, END], [*y, END]).log_p[n, word]
        for x, y in zip(SOURCES, TARGETS, strict=True)
        for n, word in enumerate([*y, END])
    )
    close(loss.nats, nats, "nats of the references")
