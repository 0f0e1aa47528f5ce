"""Guided attention: its loss by an independent computation, and where its gradient goes, for every system."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from interlinear.batch import Batch, collate
from interlinear.config import RecurrentConfig, TextVocabulary
from interlinear.losses.guided_attention import guided_attention_loss
from interlinear.losses.training_loss import training_loss
from interlinear.minimum_risk.minimum_risk import RiskOptions, minimum_risk_loss
from interlinear.models.model import Model, build
from tests.interlinear.systems import every_system, model_of
from training.recipe import load_recipe

SOURCES, TARGETS = [[4, 5, 6, 7], [8, 4]], [[5, 6, 7], [8, 5, 4, 6]]
LINKS = [{0: [1], 1: [0, 3]}, {0: [0, 1], 3: [1]}]  # of each sentence, by target piece: the source pieces


def guide_of(batch: Batch, links: list[dict[int, list[int]]] = LINKS) -> torch.Tensor:
    """The guide of a batch, (B, L, T): each target piece's distribution over source pieces."""
    assert batch.target_BL is not None
    guide_BLT = torch.zeros(*batch.target_BL.shape, batch.text("source").ids_BT.shape[1])
    for row, of_row in enumerate(links):
        for piece, linked in of_row.items():
            guide_BLT[row, piece, linked] = 1 / len(linked)
    return guide_BLT


def batch_of(extra: dict[str, list[list[int]]] | None = None) -> Batch:
    return collate({"source": SOURCES, **(extra or {})}, TARGETS)


def by_hand(matrices: list[np.ndarray], links: list[dict[int, list[int]]] = LINKS) -> float:
    """- sum_j g_lj log a_lj over all linked target pieces (Liu et al. 2016), the mean over kinds of attention."""
    total = 0.0
    for weights in matrices:
        for row, of_row in enumerate(links):
            for piece, linked in of_row.items():
                total -= sum(np.log(weights[row, piece, j]) / len(linked) for j in linked)
    return total / len(matrices)


def read_kinds(model: Model, batch: Batch, source: str = "source") -> list[np.ndarray]:
    """What is guided: the attention over annotations, and with contextual gates what `align --by gated` reads."""
    assert batch.target_BL is not None
    with torch.no_grad():
        found = model.forced_attention(model.encode(batch), batch.target_BL[:, None]).matrices(source)
    return [found[kind][:, 0].numpy() for kind in ("attention", "gated") if kind in found]


@every_system
def test_the_loss_is_the_papers(system: str) -> None:
    """For every order of a step, with coverage, memory update, gates and UAM; it is added to the loss by its weight."""
    model, batch = model_of(system), batch_of()
    expected = by_hand(read_kinds(model, batch))
    plain, guided = (
        training_loss(model, batch),
        training_loss(model, replace(batch, guide_BLT=guide_of(batch)), guide_weight=0.3),
    )
    assert plain.guide is None and guided.guide is not None
    assert guided.guide.nats.item() == pytest.approx(expected, rel=1e-9)
    assert int(guided.guide.words) == 4
    assert (guided.objective - plain.objective).item() == pytest.approx(0.3 * expected, rel=1e-9)
    assert float(guided.nats) == float(plain.nats)


@pytest.mark.parametrize("combination", ["concat", "flat", "hierarchical"])
def test_the_first_of_several_texts_is_guided(combination: str) -> None:
    """With a flat combination, whose softmax covers all sources, how the text's own share is divided among its words:
    how much of the attention the text has in all is not the guide's affair. A sentence whose first text was dropped has
    no loss."""
    words = TextVocabulary(vocabulary=9)
    architecture = load_recipe(f"postedit_{combination}").model.model_dump(exclude={"dropout"})
    architecture |= {"embedding": 6, "hidden": 5, "initialization": "uniform", "initialization_scale": 1.2}
    torch.manual_seed(5)
    model = build(RecurrentConfig(**architecture, sources={"source": words, "mt": words}, target=words)).double().eval()
    batch = batch_of({"mt": [[4, 4, 5], [6]]})
    matrices = [weights / weights.sum(-1, keepdims=True) for weights in read_kinds(model, batch)]
    loss = training_loss(model, replace(batch, guide_BLT=guide_of(batch)))
    assert loss.guide and loss.guide.nats.item() == pytest.approx(by_hand(matrices), rel=1e-9)

    absent = replace(batch.text("source"), lengths_B=torch.tensor([0, 3]), lengths=(0, 3))
    dropped = replace(batch, sources=batch.sources | {"source": absent}, guide_BLT=guide_of(batch))
    loss = training_loss(model, dropped)
    only_second: list[dict[int, list[int]]] = [{}, LINKS[1]]
    assert loss.guide and loss.guide.nats.item() == pytest.approx(by_hand(matrices, only_second), rel=1e-9)
    assert int(loss.guide.words) == 2


def test_only_linked_words_have_a_gradient() -> None:
    """And through a linked word's softmax the gradient with respect to its energies is a - g."""
    energy_BLT = torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True)
    guide_BLT = torch.zeros(2, 4, 5)
    guide_BLT[0, 1, 2], guide_BLT[1, 3, :2] = 1, 0.5
    weights_BLT = torch.softmax(energy_BLT, -1)
    loss = guided_attention_loss(weights_BLT, guide_BLT)
    loss.nats.backward()  # type: ignore[no-untyped-call]
    linked_BL1 = guide_BLT.sum(-1, keepdim=True)
    expected = (weights_BLT.detach() - guide_BLT) * linked_BL1
    torch.testing.assert_close(energy_BLT.grad, expected, rtol=0, atol=1e-12)
    assert int(loss.words) == 2


def test_a_weight_of_zero_is_no_infinite_loss() -> None:
    """An energy so low that its weight underflows costs the most that single precision can say, and padding nothing."""
    energy_BLT = torch.tensor([[[0.0, -200.0, -torch.inf]]], requires_grad=True)
    loss = guided_attention_loss(torch.softmax(energy_BLT, -1), torch.tensor([[[0.0, 1.0, 0.0]]]))
    loss.nats.backward()  # type: ignore[no-untyped-call]
    assert 80 < loss.nats.item() < 100 and energy_BLT.grad is not None and torch.isfinite(energy_BLT.grad).all()


@pytest.mark.parametrize("system", ["rnnsearch", "contextual_gates"])
def test_the_gradient_is_the_derivative(system: str) -> None:
    """Of the loss with respect to a few weights of encoder, attention and gates, by differences."""
    model, batch = model_of(system), batch_of()
    guided = replace(batch, guide_BLT=guide_of(batch))

    def loss() -> torch.Tensor:
        found = training_loss(model, guided).guide
        assert found
        return found.nats

    parameters = {name: p for name, p in model.named_parameters() if "attention" in name or "gates" in name}
    gradients = torch.autograd.grad(loss(), list(parameters.values()), allow_unused=True)
    checked = 0
    with torch.no_grad():
        for parameter, gradient in zip(parameters.values(), gradients, strict=True):
            if gradient is None:
                continue
            flat, place = parameter.view(-1), int(gradient.abs().argmax())
            before = float(flat[place])
            flat[place] = before + 1e-6
            above = float(loss())
            flat[place] = before - 1e-6
            below = float(loss())
            flat[place] = before
            assert float(gradient.view(-1)[place]) == pytest.approx((above - below) / 2e-6, rel=1e-4, abs=1e-7)
            checked += 1
    assert checked >= 3


def test_minimum_risk_guides_the_references_likelihood() -> None:
    """Expected risk has no attention of its own to guide; the likelihood that it may add has."""
    model, batch = model_of("rnnsearch"), batch_of()
    guided = replace(batch, guide_BLT=guide_of(batch))
    settings: dict[str, Any] = {"candidates": 2, "draw": "beam"}
    assert minimum_risk_loss(model, guided, RiskOptions(**settings), guide_weight=2.0).guide is None
    options = RiskOptions(**settings, likelihood=0.5)
    plain, with_guide = (minimum_risk_loss(model, each, options, guide_weight=2.0) for each in (batch, guided))
    expected = by_hand(read_kinds(model, batch))
    assert with_guide.guide and with_guide.guide.nats.item() == pytest.approx(expected, rel=1e-9)
    assert (with_guide.objective - plain.objective).item() == pytest.approx(0.5 * 2.0 * expected, rel=1e-9)
