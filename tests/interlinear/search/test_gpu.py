"""Search and explanations on a GPU: every recipe's equal those on the CPU, compiled and captured ones too.
`pytest -m gpu`."""

import copy
from collections.abc import Iterator

import pytest
import torch

from benchmarks.gpu.cases import warnings_raised
from benchmarks.gpu.search import MODES
from interlinear.batch import Batch
from interlinear.minimum_risk.minimum_risk import target_log_likelihoods
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.ensemble import Ensemble
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import SearchOptions, SearchRequest, SearchResult, SlotTable
from interlinear.search.captured import CapturedStep
from interlinear.search.step import SearchStep, search_step
from tests.gpu import on_devices, sample, sample_batch, waits_raised

OPTIONS = (
    SearchOptions(max_length=12),
    SearchOptions(beam=1, max_length=9),
    SearchOptions(beam=3, n_best=3, length_penalty=0.6, min_length=4, max_length=12),
    SearchOptions(beam=4, shrinking=True, max_length=12),
)
BEAM = 5
FP32, BF16 = 1e-3, 1e-2


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Other tests' compilations do not count, nor what they have set for the whole process."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.compiler.set_stance("default")
    yield
    torch._dynamo.reset()


def search(
    model: EncoderDecoder, batches: list[Batch], device: str, step: SearchStep = search_step
) -> dict[object, SearchResult]:
    """Sentences with different options; each batch enters a few steps after the one before. With attention."""
    table = SlotTable(model.to(device).eval(), BEAM, search_step=step)
    waiting, found, number = list(batches), {}, 0
    while waiting or table.active:
        if waiting and (table.step_count % 3 == 0 or not table.active):
            batch = waiting.pop(0)
            options = [OPTIONS[(number + row) % len(OPTIONS)] for row in range(batch.rows)]
            table.admit(
                batch,
                [SearchRequest(number + row, each, each.max_length or 0, True) for row, each in enumerate(options)],
            )
            number += batch.rows
        table.step()
        found |= {result.key: result for result in table.pop_finished()}
    return found


def assert_same(found: dict[object, SearchResult], expected: dict[object, SearchResult]) -> None:
    """The same outputs; scores and attention weights up to rounding in fp32."""
    assert found.keys() == expected.keys()
    for key, result in expected.items():
        assert [one.ids for one in found[key].hypotheses] == [one.ids for one in result.hypotheses], key
        scores = [one.score for one in result.hypotheses]
        assert [one.score for one in found[key].hypotheses] == pytest.approx(scores, rel=FP32)
        weights, expected_weights = found[key].attention_weights, result.attention_weights
        assert weights is not None and expected_weights is not None
        assert_same_weights(weights, expected_weights)


def assert_same_weights(found: AttentionWeights, expected: AttentionWeights) -> None:
    assert found.weights.keys() == expected.weights.keys()
    for kind, weights in expected.weights.items():
        torch.testing.assert_close(found.weights[kind].cpu(), weights, rtol=FP32, atol=FP32)


@on_devices()
def test_a_search_equals_that_on_the_cpu(device: str, recipe: str) -> None:
    model = sample(recipe)
    batches = [Batch(sample_batch(model).sources)] * 2
    expected = search(copy.deepcopy(model), batches, "cpu")
    assert_same(search(copy.deepcopy(model), batches, device), expected)


@on_devices(on_cpu=None)
def test_the_host_does_not_wait_in_a_search(device: str, recipe: str) -> None:
    """While sentences enter and take steps, torch raises where it would."""
    model = sample(recipe)
    table, batch = SlotTable(model.to(device).eval(), BEAM), Batch(sample_batch(model).sources)
    requests = [SearchRequest(row, OPTIONS[0], 12) for row in range(2 * batch.rows)]
    for part in range(2):
        with waits_raised():
            table.admit(batch, requests[part * batch.rows :][: batch.rows])
            table.step()


@on_devices()
def test_an_explanation_of_a_given_output_equals_that_on_the_cpu(device: str, recipe: str) -> None:
    model = sample(recipe).eval()
    batch = sample_batch(model)
    assert batch.target_BL is not None

    def explained(device: str) -> AttentionWeights:
        on_device, own = batch.to(device), copy.deepcopy(model).to(device)
        assert on_device.target_BL is not None
        with torch.inference_mode():
            return own.forced_attention(own.encode(on_device), on_device.target_BL[:, None])

    assert_same_weights(explained(device), explained("cpu"))


@on_devices()
def test_log_likelihoods_in_bf16_are_near_those_in_fp32(device: str, recipe: str) -> None:
    """With weights in bf16, as `--precision bf16` has them."""
    model = sample(recipe).eval()
    batch = sample_batch(model)
    assert batch.target_BL is not None

    def likelihoods(device: str, dtype: torch.dtype) -> torch.Tensor:
        on_device, own = batch.to(device), copy.deepcopy(model).to(device, dtype)
        assert on_device.target_BL is not None
        with torch.inference_mode():
            memory = own.encode(on_device)
            return target_log_likelihoods(own, memory, on_device.target_BL[:, None], batch.target_lengths).float().cpu()

    expected = likelihoods("cpu", torch.float32)
    torch.testing.assert_close(likelihoods(device, torch.bfloat16), expected, rtol=BF16, atol=0)


@on_devices(["rnnsearch"], on_cpu="rnnsearch")
def test_an_ensemble_equals_that_on_the_cpu(device: str, recipe: str) -> None:
    members = [sample(name) for name in (recipe, "contextual_gates", "uam", "interactive_attention")]
    batches = [Batch(sample_batch(members[0]).sources)] * 2
    expected = search(Ensemble(copy.deepcopy(members)), batches, "cpu")
    assert_same(search(Ensemble(copy.deepcopy(members)), batches, device), expected)


@on_devices(["rnnsearch"], on_cpu=None)
def test_a_compiled_search_equals_that_on_the_cpu(device: str, recipe: str) -> None:
    assert_step_equals(device, recipe, MODES["compiled"](torch.device(device)))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"]


@on_devices()
def test_a_captured_search_equals_that_on_the_cpu(device: str, recipe: str) -> None:
    step = MODES["captured"](torch.device(device))
    assert_step_equals(device, recipe, step)
    assert isinstance(step, CapturedStep) and step._graphs


@on_devices(["contextual_gates", "multimodal_hierarchical"])
def test_a_search_compiled_and_captured_equals_that_on_the_cpu(device: str, recipe: str) -> None:
    """What a service on a GPU runs by default. On the CPU without the compiler itself, which takes half a minute."""
    step = MODES["compiled and captured"](torch.device(device))
    assert_step_equals(device, recipe, step)
    assert isinstance(step, CapturedStep) and step._graphs and torch._dynamo.utils.counters["stats"]["unique_graphs"]


def assert_step_equals(device: str, recipe: str, step: SearchStep) -> None:
    """Twice, as a size of table is captured when it occurs for the second time. A step that cannot be compiled or
    captured warns, and is taken as it is."""
    model = sample(recipe)
    batches = [Batch(sample_batch(model).sources)] * 2
    on_device = copy.deepcopy(model).to(device)
    with warnings_raised():
        expected = search(model, batches, "cpu")
        for _ in range(2):
            assert_same(search(on_device, batches, device, step), expected)
