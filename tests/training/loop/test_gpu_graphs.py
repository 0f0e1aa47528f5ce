"""CUDA graphs of updates on a GPU: they compute what the operations compute one by one. `pytest -m gpu`.

Needs neither Ray nor MLflow.
"""

import gc
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from interlinear.losses.training_loss import training_loss
from tests.interlinear.recipes import RECIPES, small
from tests.training.loop.updates import SHAPES, batches_of, step_of, updates, weights_of
from training.loop.training_step import ResultCopy, TrainingStep

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that torch can use"),
]

GPU = torch.device("cuda:0")


def assert_recorded(step: TrainingStep) -> None:
    """Every shape has a graph, and nothing has fallen back."""
    assert step.captured and len(step.captured.buckets) == len(SHAPES)
    assert all(isinstance(bucket.graph, torch.cuda.CUDAGraph) for bucket in step.captured.buckets.values())


@pytest.mark.parametrize("recipe", RECIPES)
def test_updates_by_graphs_equal_those_without(recipe: str) -> None:
    """In float64, with the recipe's dropout, whose numbers are the same; each graph is replayed for several batches."""
    batches = [batch.pin_memory() for batch in batches_of(small(recipe)[0], 10)]
    plain, graphs = step_of(recipe, False, GPU), step_of(recipe, True, GPU)
    torch.testing.assert_close(updates(graphs, batches), updates(plain, batches), rtol=1e-6, atol=0)
    torch.testing.assert_close(weights_of(graphs), weights_of(plain), rtol=0, atol=1e-7)
    assert_recorded(graphs)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_losses_by_graphs_in_the_precisions_of_recipes(recipe: str, precision: str) -> None:
    """And the gradients' norms, at weights that do not change."""
    batches = batches_of(small(recipe)[0], 6)
    plain, graphs = (step_of(recipe, on, GPU, torch.float32, precision) for on in (False, True))
    tolerance = 1e-3 if precision == "fp32" else 0.05
    torch.testing.assert_close(updates(graphs, batches, 0.0), updates(plain, batches, 0.0), rtol=tolerance, atol=0)
    assert_recorded(graphs)


@pytest.mark.parametrize("recipe", ["rnnsearch", "paper/rnnsearch_2", "paper/uam", "multimodal_hierarchical"])
def test_a_replay_draws_the_numbers_of_its_update(recipe: str) -> None:
    """The dropout of an update follows from its number, also between the layers of an encoder."""
    step = step_of(recipe, True, GPU)
    for module in step.model.modules():
        if isinstance(module, nn.RNNBase) and module.num_layers > 1:
            module.dropout = 0.3
    batch = batches_of(step.model, 1)[0]
    losses = [
        ResultCopy(step.run([batch], batch.rows, rate=0.0, updates_done=update)).read().objective
        for update in (0, 1, 2, 3, 2, 3)  # the first warms up
    ]
    assert losses[2:4] == losses[4:6] and len(set(losses[:4])) == 4
    assert step.captured and all(bucket.graph for bucket in step.captured.buckets.values())


@pytest.mark.parametrize("kind", ["a host read", "out of memory"])
def test_updates_go_on_where_they_cannot_be_recorded(kind: str) -> None:
    """Also the dropout of later updates, whose generator took part in a recording that failed."""
    batches = batches_of(small("rnnsearch")[0])
    warnings: list[str] = []
    plain, graphs = step_of("rnnsearch", False, GPU), step_of("rnnsearch", True, GPU, warn=warnings.append)

    def forward(_module: Any, inputs: tuple[Tensor, ...]) -> None:
        if torch.cuda.is_current_stream_capturing():
            if kind == "out of memory":
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
            inputs[0].sum().item()

    graphs.model.encoders["source"].words.register_forward_pre_hook(forward)
    torch.testing.assert_close(updates(graphs, batches), updates(plain, batches), rtol=1e-6, atol=0)
    torch.testing.assert_close(weights_of(graphs), weights_of(plain), rtol=0, atol=1e-7)
    assert graphs.captured and len(graphs.captured.given_up) == len(SHAPES) and not graphs.captured.buckets
    (warning,) = warnings
    assert warning.startswith("batches of some shapes are computed without CUDA graphs, and more slowly (")
    # The allocator knows that no recording goes on: it frees what it has cached.
    reserved = torch.cuda.memory_reserved(GPU)
    torch.empty(1 << 28, dtype=torch.uint8, device=GPU)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved(GPU) <= reserved


def test_a_graph_that_becomes_garbage_does_not_disturb_a_recording() -> None:
    """Within it, in a reference cycle, while garbage is collected as often as possible."""
    batches, step, threshold = batches_of(small("rnnsearch")[0]), step_of("rnnsearch", True, GPU), gc.get_threshold()
    unneeded = [torch.cuda.CUDAGraph()]
    with torch.cuda.graph(unneeded[0]):
        torch.ones(1, device=GPU).add_(1)

    def forward(_module: Any, _inputs: tuple[Tensor, ...]) -> None:
        if unneeded and torch.cuda.is_current_stream_capturing():
            cycle: list[Any] = [unneeded.pop()]
            cycle.append(cycle)
            del cycle
            assert len([[] for _ in range(100)]) == 100  # collects garbage, unless that is paused

    step.model.encoders["source"].words.register_forward_pre_hook(forward)
    gc.set_threshold(1, 1, 1)
    try:
        updates(step, batches)
    finally:
        gc.set_threshold(*threshold)
    assert not unneeded
    assert_recorded(step)


def test_graphs_do_not_disturb_a_search_between_updates() -> None:
    """The weights of a dev evaluation are those of the newest update, and its memory is its own."""
    model, _ = small("rnnsearch")
    batches = batches_of(model, 6)
    step, plain = step_of("rnnsearch", True, GPU), step_of("rnnsearch", False, GPU)
    for number in range(0, len(batches), 2):
        losses = []
        for one in (step, plain):
            updates(one, batches[number : number + 2])
            one.model.eval()
            with torch.no_grad():
                losses.append(training_loss(one.model, batches[0].to(GPU)).nats)
            one.model.train()
        torch.testing.assert_close(*losses, rtol=1e-6, atol=0)
    assert_recorded(step)
