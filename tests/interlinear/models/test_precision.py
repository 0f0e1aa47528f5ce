"""Half precision: every system trains under autocast, and searches with weights of half the size."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from interlinear.batch import collate
from interlinear.losses.training_loss import training_loss
from interlinear.models.layers.step_linear import StepInputs, UnrolledInputs
from interlinear.models.recurrent.cells import Cell
from interlinear.models.state import WRITTEN
from interlinear.text import BEGIN
from tests.interlinear.recipes import RECIPES, SOURCES, TARGETS, each_recipe, small
from tests.interlinear.search.slot_table import search
from tests.interlinear.systems import every_system, model_of
from training.recipe import load_recipe

# The precision of each tensor of a decoder's state, by the first part of its name. Tensors that steps add to are in
# fp32; luong's mixture, and a Transformer's keys and values, only enter matrix products.
STATES = {
    "hidden": torch.float32, "memory": torch.float32, "written": torch.float32, "coverage": torch.float32,
    "mixture": torch.bfloat16, "state_mask": torch.float32, "cell": torch.float32, "cache": torch.bfloat16,
    "position": torch.int64,
}  # fmt: skip
VIEW = ("keys_BTA", "values_BTD", "covered_BTC")


class Products(TorchDispatchMode):
    """Records the dtype of every matrix product, and the memory addresses of tensors that are cast."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()
        self.cast: list[int] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name in ("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "convolution"):
            self.dtypes |= {tensor.dtype for tensor in (*args, result) if isinstance(tensor, torch.Tensor)}
        elif name == "_to_copy" and args[0].is_floating_point() and args[0].numel():
            self.cast.append(args[0].data_ptr())
        return result


@each_recipe([recipe for recipe in RECIPES if load_recipe(recipe).model.kind == "recurrent"])
def test_products_are_in_bf16_and_states_in_fp32(recipe: str) -> None:
    """Under autocast, for every order of a decoder step: training's loop and backward pass, search, and encoder cells
    that are stepped in Python."""
    model, batch = small(recipe)
    decoder, found = model.decoder, []
    for name, cell in model.named_modules():
        if isinstance(cell, Cell):
            cell.register_forward_hook(
                lambda _, inputs, state, name=name: found.append((name, [leaf.dtype for leaf in state]))
            )
    assert batch.target_BL is not None
    target_BKL = batch.target_BL[:, None]

    def run(searching: bool) -> torch.Tensor:
        memory = model.encode(batch)
        words_LBKE = model.embed(target_BKL).movedim(2, 0)
        unrolled = UnrolledInputs(decoder.at_every_step(decoder.precompute(words_LBKE), words_LBKE.shape[:-1]))
        views = {f"{view.source}'s {part}": getattr(view, part) for view in memory.views.values() for part in VIEW}
        kept = {name: tensor for name, tensor in (*model.named_parameters(), *views.items()) if tensor.dim() > 1}
        state = model.start(memory)
        for t in range(target_BKL.shape[-1]):
            named = {name: STATES[name.split(".")[0]] for name in state.leaves}
            assert {name: leaf.dtype for name, leaf in state.leaves.items()} == named
            with Products() as products:
                step = StepInputs(decoder.precompute(words_LBKE[t])) if searching else unrolled[t]
                state, _ = decoder.advance(memory, state, step)
            assert products.dtypes == {torch.bfloat16}
            if t:  # by now autocast caches its casts of the weights
                cast = {name for name, tensor in kept.items() if tensor.numel() and tensor.data_ptr() in products.cast}
                # A search on a CPU computes energies in fp32, where tanh takes a third of the time.
                assert not {name for name in cast if not (searching and name.endswith(" keys_BTA"))}
        return sum((leaf.float().square().sum() for leaf in state.leaves.values()), torch.zeros(()))

    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        run(searching=True)
    with torch.autocast("cpu", torch.bfloat16):
        loss = run(searching=False)
    with Products() as products:
        loss.backward()
    assert products.dtypes == {torch.bfloat16}
    assert found and all(dtype == torch.float32 for _, dtypes in found for dtype in dtypes), found


UPDATE = """
import torch
from interlinear.batch import collate
from interlinear.config import RecurrentConfig, TextVocabulary
from interlinear.losses.training_loss import training_loss
from interlinear.models.model import build

words = TextVocabulary(vocabulary=9)
model = build(RecurrentConfig(layers=2, embedding=4, hidden=4, sources={"source": words}, target=words))
with torch.autocast("cpu", torch.bfloat16):
    loss = training_loss(model, collate({"source": [[5, 6], [7]]}, [[6], [5]]))
loss.objective.backward()
assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
assert torch.backends.mkldnn.enabled == torch.backends.mkldnn.is_available()
"""


def test_training_under_autocast_on_a_processor_without_avx_512() -> None:
    """oneDNN has no bf16 LSTM there."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "PYTHONPATH": str(Path.cwd())}
    subprocess.run([sys.executable, "-c", UPDATE], env=environment, check=True, timeout=120)


@every_system
def test_training_under_autocast(system: str) -> None:
    model = copy.deepcopy(model_of(system)).float().train()
    batch = collate({"source": SOURCES}, TARGETS)
    with torch.autocast("cpu", torch.bfloat16):
        loss = training_loss(model, batch)
    loss.objective.backward()
    whole = training_loss(model, batch).objective
    assert loss.objective.item() == pytest.approx(whole.item(), rel=0.05)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name


@every_system
def test_a_dev_set_is_scored_without_copying_the_weights_for_every_word(system: str) -> None:
    """For words that are not contiguous, torch computes one product for every word, each with a copy of the weights."""
    model = copy.deepcopy(model_of(system)).float().eval()
    batch = collate({"source": [[5, 6, 7]] * 5}, [[6, 7, 5, 4, 6, 7]] * 5)
    with (
        torch.inference_mode(),
        torch.autocast("cpu", torch.bfloat16),
        profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler,
    ):
        training_loss(model, batch)
    products = [event.input_shapes for event in profiler.events() if event.name == "aten::bmm"]
    assert all(shapes[0][0] != 5 * 7 for shapes in products), products


@every_system
def test_search_with_half_precision_weights(system: str) -> None:
    model = copy.deepcopy(model_of(system)).to(torch.bfloat16)
    batch = collate({"source": SOURCES})
    memory = model.encode(batch)
    state, token = model.start(memory).resize(memory.positions | {WRITTEN: 2}), torch.full((len(SOURCES), 1), BEGIN)
    for _ in range(2):
        for name, leaf in state.leaves.items():
            assert leaf.dtype == STATES[name.split(".")[0]], name
        state, _, _ = model.step(memory, state, token)
    done = search(model, batch)
    assert all(one.hypotheses for one in done) and len(done) == len(SOURCES)
    for one in done:
        matrices = one.attention_weights.matrices("source")
        assert ("gated" in matrices) == (one.attention_weights.gate is not None)
        for kind, weights in matrices.items():
            most = weights.sum(-1)
            assert ((most >= 0) & (most < 1.02)).all(), kind
