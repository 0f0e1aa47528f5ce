"""Every recipe's whole update on torch's meta device, which has shapes and no values.

It raises where a GPU would wait for the host to read a value, where the shape of a result depends on values, and where
an operation has inputs on two devices.
"""

from dataclasses import replace
from typing import Literal

import pytest
import torch

from seq2seq.batch import Batch
from seq2seq.minimum_risk.minimum_risk import RiskOptions, expected_risk, pack_candidates, sample_step
from seq2seq.model.decoder import repeat
from seq2seq.model.model import Model
from seq2seq.text import BEGIN
from tests.seq2seq.model.test_precision import EACH_ORDER, RECIPES, TARGETS, each_recipe, small
from tests.training.loop.updates import with_guide
from training.loop.process_group import SingleProcess
from training.loop.training_step import Objective, TrainingStep
from training.recipe import GuideSettings, TrainingSettings, load_recipe

META = torch.device("meta")


class OneOfTwo(SingleProcess):
    """A rank whose sums nobody else adds to: the gradients go through the buffer of several workers."""

    world_size = 2


def step_on_meta(settings: TrainingSettings, model: Model, workers: SingleProcess) -> TrainingStep:
    return TrainingStep(settings, Objective(settings), model, workers, META)


def settings_of(recipe: str) -> TrainingSettings:
    """In fp32: there is no autocast on the meta device."""
    return load_recipe(recipe).training.model_copy(update={"precision": "fp32"})


@each_recipe(quick=EACH_ORDER)
def test_an_update_reads_nothing_from_the_device(recipe: str) -> None:
    """The step that the training loop takes: two parts, loss, backward, sum over workers, clipping and optimizer."""
    model, batch = small(recipe)
    model = model.to(META)
    step = step_on_meta(settings_of(recipe), model, OneOfTwo())
    for update in range(2):  # the optimizer makes its state in the first
        result = step.run([batch, batch], normalizer=5, rate=0.1, updates_done=update)
        assert result.sums_6.device == result.norm.device == META
    assert all(parameter.grad is not None and parameter.grad.device == META for parameter in step.parameters)
    moments = [tensor for state in step.optimizer.state.values() for name, tensor in state.items() if name != "step"]
    assert len(moments) == 2 * len(step.parameters) and all(tensor.device == META for tensor in moments)


@each_recipe([recipe for recipe in RECIPES if not load_recipe(recipe).images], quick=EACH_ORDER)
def test_a_guided_update_reads_nothing_from_the_device(recipe: str) -> None:
    """Also as it is for a CUDA graph, with lengths on the device alone."""
    model, batch = small(recipe)
    model = model.to(META)
    settings = settings_of(recipe).model_copy(update={"guide": GuideSettings.model_validate({"from": "hmm"})})
    step = step_on_meta(settings, model, OneOfTwo())
    guided = with_guide(batch)
    for each in (guided, guided.to(META).without_host_lengths()):
        result = step.run([each], normalizer=5, rate=0.1, updates_done=0)
        assert result.sums_6.device == result.norm.device == META


def test_what_would_stop_a_gpu_raises_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host read, a boolean index, and a tensor that was left on the CPU."""
    model, batch = small("rnnsearch")
    step = step_on_meta(settings_of("rnnsearch"), model.to(META), SingleProcess())
    whole = model.loss

    def reading(change):  # type: ignore[no-untyped-def]
        def loss(batch: Batch, *weights: float):  # type: ignore[no-untyped-def]
            loss = whole(batch, *weights)
            return replace(loss, objective=change(loss.objective))

        return loss

    for change in (
        lambda objective: objective / float(objective.detach()),
        lambda objective: objective[objective > 0].sum(),
        lambda objective: objective + torch.ones(1),
    ):
        monkeypatch.setattr(model, "loss", reading(change))
        with pytest.raises((RuntimeError, NotImplementedError)):
            step.run([batch], normalizer=5, rate=0.1, updates_done=0)


@pytest.mark.parametrize("metric", ["bleu", "rouge-l"])
@each_recipe(quick=("paper/contextual_gates_2", "multimodal_flat", "postedit_hierarchical", "uam"))
def test_the_expected_risk_reads_nothing_from_the_device(recipe: str, metric: Literal["bleu", "rouge-l"]) -> None:
    """Minimum risk training's loss over given candidates; they are made and compared on the host."""
    model, batch = small(recipe)
    model = model.to(META)
    options = RiskOptions(metric=metric, likelihood=0.5)
    found = [[TARGETS[0], [5], [6, 7, 8]], [TARGETS[1], [7]]]
    loss = expected_risk(model, batch.to(META), pack_candidates(found, reference=True).to(META), options)
    loss.objective.backward()  # type: ignore[no-untyped-call]
    assert loss.objective.device == loss.nats.device == META


@each_recipe()
def test_a_step_of_sampling_reads_nothing_from_the_device(recipe: str) -> None:
    model, batch = small(recipe)
    model = model.to(META).eval()
    with torch.no_grad():
        memory = model.encode(batch.to(META))
        state = repeat(model.start(memory), 3)
        token_BK = torch.full((batch.rows, 3), BEGIN, device=META)
        live_BK = torch.ones_like(token_BK, dtype=torch.bool)
        rows_N, last_B = torch.arange(5, device=META), torch.zeros(batch.rows, dtype=torch.bool, device=META)
        for _ in range(2):
            state, token_BK, live_BK = sample_step(model, memory, state, token_BK, live_BK, rows_N, last_B)
    assert token_BK.device == live_BK.device == META
