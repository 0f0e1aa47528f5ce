"""Half precision: every system learns under autocast, and searches with half-sized weights."""

import copy

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from seq2seq.batch import collate
from seq2seq.search import SearchOptions, SlotTable, Waiting
from seq2seq.text import BEGIN
from tests.seq2seq.systems import ALL, model_of

SOURCES, TARGETS = [[5, 6, 7], [8]], [[6, 7], [5]]
SUMMED = ("memory", "written", "coverage")  # leaves that every step adds to


@pytest.mark.parametrize("system", ALL)
def test_an_update_under_autocast(system: str) -> None:
    model = copy.deepcopy(model_of(system)).float().train()
    batch = collate({"source": SOURCES}, TARGETS)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model.loss(batch)
    loss.objective.backward()
    whole = model.loss(batch).objective
    assert loss.objective.item() == pytest.approx(whole.item(), rel=0.05)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("system", ALL)
def test_a_dev_set_is_judged_without_a_copy_of_the_weights_for_every_word(system: str) -> None:
    """torch makes a product for every word, each with weights of its own, of words that do not lie side by side."""
    model = copy.deepcopy(model_of(system)).float().eval()
    batch = collate({"source": [[5, 6, 7]] * 5}, [[6, 7, 5, 4, 6, 7]] * 5)
    with (
        torch.inference_mode(),
        torch.autocast("cpu", torch.bfloat16),
        profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler,
    ):
        model.loss(batch)
    products = [event.input_shapes for event in profiler.events() if event.name == "aten::bmm"]
    assert all(shapes[0][0] != 5 * 7 for shapes in products), products


@pytest.mark.parametrize("system", ALL)
def test_search_with_half_the_bytes(system: str) -> None:
    model = copy.deepcopy(model_of(system)).to(torch.bfloat16)
    batch = collate({"source": SOURCES})
    memory = model.encode(batch)
    state, token = model.start(memory), torch.full((len(SOURCES), 1), BEGIN)
    for _ in range(2):
        for name, leaf in state.leaves.items():
            assert leaf.dtype == torch.float32 or not name.startswith(SUMMED), name
        state, _, _ = model.step(memory, state, token)
    table = SlotTable(model, 3)
    table.admit(batch, [Waiting(key, SearchOptions(beam=3), 6, looks=True) for key in range(len(SOURCES))])
    done = []
    while table.live:
        table.step()
        done += table.retire()
    assert all(one.hypotheses for one in done) and len(done) == len(SOURCES)
    for one in done:
        matrices = one.looks.matrices("source")
        assert ("gated" in matrices) == (one.looks.gate is not None)
        for kind, weights in matrices.items():
            most = weights.sum(-1)
            assert ((most >= 0) & (most < 1.02)).all(), kind
