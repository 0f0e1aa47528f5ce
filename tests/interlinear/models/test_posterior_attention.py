"""Posterior attention is Bayes' rule over the position that a step attends to, for every system."""

from dataclasses import replace

import torch

from interlinear.batch import Batch, collate
from interlinear.models import posterior_attention
from interlinear.models.attention_reading import POSTERIOR, READINGS
from interlinear.models.ensemble import Ensemble
from interlinear.models.memory import Memory
from interlinear.models.model import Model
from interlinear.models.state import WRITTEN
from interlinear.text import BEGIN, END
from tests.interlinear.systems import ALL, every_system, model_of

SOURCES, TARGETS = [[5, 6, 7, 8], [4, 6]], [[6, 8], [7, 5, 4]]


def posterior(model: Model | Ensemble, batch: Batch) -> torch.Tensor:
    assert batch.target_BL is not None
    weights = model.forced_attention(model.encode(batch), batch.target_BL[:, None], READINGS["posterior"])
    return weights.weights["source", POSTERIOR][:, 0]


def only(memory: Memory, position: int) -> Memory:
    """The memory with every source position but one masked."""
    views = {}
    for name, view in memory.views.items():
        padding_BT = torch.ones_like(view.padding_BT)
        padding_BT[:, position] = False
        views[name] = replace(view, padding_BT=padding_BT)
    return replace(memory, views=views)


@every_system
def test_it_is_bayes_rule_over_the_attended_position(system: str):
    """P(j | y_l) = a_lj P(y_l | j) / sum_k a_lk P(y_l | k) (Shankar and Sarawagi 2019), step by step."""
    model = model_of(system)
    source, target = SOURCES[0], [*TARGETS[0], END]
    found_LT = posterior(model, collate({"source": [source]}, [TARGETS[0]]))[0]
    memory = model.encode(collate({"source": [source]}))
    state, before = model.start(memory).resize(memory.positions | {WRITTEN: len(target)}), BEGIN
    for step, word in enumerate(target):
        token_11 = torch.tensor([[before]])
        likelihoods = []
        for j in range(len(source) + 1):
            _, readout, hard = model.step(only(memory, j), state, token_11)
            assert hard.weights["source", "attention"][0, 0].tolist() == [float(j == i) for i in range(len(source) + 1)]
            likelihoods.append(model.log_probabilities(readout)[0, 0, word].exp())
        state, _, soft = model.step(memory, state, token_11)
        joint_T = soft.weights["source", "attention"][0, 0] * torch.stack(likelihoods)
        torch.testing.assert_close(found_LT[step], joint_T / joint_T.sum(), rtol=0, atol=1e-9)
        before = word


@every_system
def test_a_batch_has_the_posteriors_of_its_sentences(system: str):
    model = model_of(system)
    together = posterior(model, collate({"source": SOURCES}, TARGETS, multiple=4))
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone = posterior(model, collate({"source": [source]}, [target]))[0]
        torch.testing.assert_close(together[row, : len(target) + 1, : len(source) + 1], alone, rtol=0, atol=1e-9)
        assert (together[row, :, len(source) + 1 :] == 0).all()


def test_positions_may_be_computed_in_parts(monkeypatch):
    model, batch = model_of(ALL[0]), collate({"source": SOURCES}, TARGETS)
    whole = posterior(model, batch)
    monkeypatch.setattr(posterior_attention, "MAX_PROBABILITIES", 1)  # one position at a time
    torch.testing.assert_close(posterior(model, batch), whole, rtol=0, atol=1e-9)


def test_that_of_an_ensemble_is_the_mean_of_its_members():
    members = [model_of(system) for system in ALL[:2]]
    batch = collate({"source": SOURCES}, TARGETS)
    mean = torch.stack([posterior(member, batch) for member in members]).mean(0)
    torch.testing.assert_close(posterior(Ensemble(members), batch), mean, rtol=0, atol=1e-9)
