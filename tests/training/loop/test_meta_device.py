"""What minimum risk training computes, on torch's meta device, which has shapes and no values (other updates:
test_pretended_gpu.py).

It raises where a GPU would wait for the host to read a value, where the shape of a result depends on values, and where
an operation has inputs on two devices.
"""

from typing import Literal

import pytest
import torch

from interlinear.minimum_risk.minimum_risk import RiskOptions, expected_risk, pack_candidates, sample_step
from interlinear.text import BEGIN
from tests.interlinear.recipes import TARGETS, each_recipe, small

META = torch.device("meta")


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
        state = model.start(memory).repeat(3)
        token_BK = torch.full((batch.rows, 3), BEGIN, device=META)
        live_BK = torch.ones_like(token_BK, dtype=torch.bool)
        rows_N, last_B = torch.arange(5, device=META), torch.zeros(batch.rows, dtype=torch.bool, device=META)
        for _ in range(2):
            state, token_BK, live_BK = sample_step(model, memory, state, token_BK, live_BK, rows_N, last_B)
    assert token_BK.device == live_BK.device == META
