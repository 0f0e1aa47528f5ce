"""The compiled step: the results of the step as it is, for every recipe, and no compilation after the warm-up."""

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
import torch

from benchmarks.gpu.search import recomputed
from interlinear.batch import Batch, CandidateInput, Mapped, SourceInput, collate
from interlinear.config import RecurrentConfig, TextVocabulary
from interlinear.errors import UsageError
from interlinear.models.ensemble import Ensemble
from interlinear.models.layers import int8, packed
from interlinear.models.layers.int8 import quantise
from interlinear.models.layers.packed import pack
from interlinear.models.model import Model, build
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import SearchOptions, SearchRequest, SearchResult, SlotTable
from interlinear.search.captured import CapturedStep, fast_step
from interlinear.search.compiled import CompiledStep, compiling, resolve_compile
from interlinear.search.step import SearchStep, search_step
from tests.interlinear.recipes import RECIPES, each_recipe, small
from tests.interlinear.systems import model_of
from tests.parameters import slow_but

Value = TypeVar("Value", bound=Mapped)

# A text and gates, a text and an image; the other recipes are slow tests.
STEPS = ("contextual_gates", "multimodal_flat")
CAPTURE = "eager"  # the whole step is captured as for a compiler, and its operators run as they are


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Other tests' compilations do not count, and stances end."""
    torch.compiler.set_stance("default")
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch.compiler.set_stance("default")
    torch._dynamo.reset()


def run(
    model: EncoderDecoder, batches: list[Batch], step: SearchStep, min_length: int = 0, with_attention: bool = True
) -> dict[object, SearchResult]:
    """Searches sentences of which each batch enters a step later than the one before."""
    table, results = SlotTable(model, 3, search_step=step), {}
    options = SearchOptions(beam=3, n_best=2, min_length=min_length, max_length=7)
    number = 0
    waiting = list(batches)
    while waiting or table.active:
        if waiting:
            batch = waiting.pop(0)
            requests = [SearchRequest(number + row, options, 7, with_attention) for row in range(batch.rows)]
            table.admit(batch, requests)
            number += batch.rows
        table.step()
        results |= {result.key: result for result in table.pop_finished()}
    return results


def assert_same(found: dict[object, SearchResult], expected: dict[object, SearchResult], tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for key, result in expected.items():
        for one, other in zip(found[key].hypotheses, result.hypotheses, strict=True):
            assert one.ids == other.ids
            assert one.score == pytest.approx(other.score, abs=tolerance)
        weights, expected_weights = found[key].attention_weights, result.attention_weights
        assert weights is not None and expected_weights is not None
        for kind, value in expected_weights.weights.items():
            torch.testing.assert_close(weights.weights[kind], value, atol=tolerance, rtol=tolerance)


def sources_of(batch: Batch) -> Batch:
    """The batch without its targets."""
    sources: dict[str, SourceInput] = batch.sources
    return Batch(sources)


@pytest.mark.parametrize("precision", slow_but(["int8"], ["fp32", "int8"]))
def test_a_search_among_candidates_is_captured_whole(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "MIN_FEATURES", 1)
    model, batch = small("rnnsearch")
    model.eval()
    if precision == "int8":
        quantise(model)
    words = torch.tensor([[0, 1, 2, 3, 5, 7], [0, 1, 2, 3, 6, 0]])
    limited = replace(sources_of(batch), candidates=CandidateInput(words, torch.tensor([6, 5])))
    found, expected = (run(model, [limited], step, min_length=7) for step in (CompiledStep(CAPTURE), search_step))
    assert_same(found, expected, 1e-5)
    assert all(set(found[row].hypotheses[0].ids) <= {1, *words[row].tolist()[4:]} for row in range(2))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@each_recipe([recipe for recipe in RECIPES if "/" not in recipe], quick=STEPS)
def test_every_recipe_is_captured_whole(recipe: str) -> None:
    """No value is read on the host, and nothing is left to the interpreter."""
    model, batch = small(recipe)
    batches = [sources_of(batch)]
    # All outputs have the same length: the number of sentences does not change, and there is one compilation.
    found, expected = (run(model.eval(), batches, step, min_length=7) for step in (CompiledStep(CAPTURE), search_step))
    assert_same(found, expected, 1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def sentences(*lengths: int) -> Batch:
    torch.manual_seed(sum(lengths))
    return collate({"source": [torch.randint(4, 9, (length,)).tolist() for length in lengths]})


def larger_model(int8: bool) -> Model:
    """A model whose layers are large enough for int8."""
    words = TextVocabulary(vocabulary=40)
    torch.manual_seed(3)
    model = build(RecurrentConfig(embedding=32, hidden=32, sources={"source": words}, target=words)).eval()
    if int8:
        quantise(model)
    return model


@pytest.mark.parametrize("kind", slow_but(["int8"], ["model", "ensemble", "int8", "packed"]))
def test_nothing_is_compiled_after_one_and_two_sentences(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of sentences, their lengths, and when they enter."""
    model: EncoderDecoder = larger_model(int8=kind == "int8")
    if kind == "packed":
        monkeypatch.setattr(packed, "MIN_WEIGHTS", 1)
        assert isinstance(model, Model)
        pack(model)
    if kind == "ensemble":
        model = Ensemble([model_of("rnnsearch"), model_of("rnnsearch")])
    step = CompiledStep(CAPTURE)
    with compiling():
        for warm_up in (sentences(1, 1), sentences(1)):
            run(model.eval(), [warm_up], step)
    torch.compiler.set_stance("fail_on_recompile")
    batches = [sentences(3, 9, 1, 70), sentences(30), sentences(4, 4, 4, 4, 4, 4, 4)]
    found = run(model, batches, step)
    assert_same(found, run(model, batches, search_step), 1e-5)
    run(model, batches, step, with_attention=False)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 3])
def test_nothing_is_compiled_while_a_step_is_captured(rows: int) -> None:
    """A CUDA graph does not survive it. One sentence is filled up to eight rows, which need a program of their own."""
    compiled_inside = []

    def count() -> int:
        return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])

    def capture(work: Callable[[], Value], device: torch.device, pool: object) -> tuple[Value, Callable[[], None]]:
        before = count()
        captured = recomputed(work, device, pool)
        compiled_inside.append(count() - before)
        return captured

    model, batch = larger_model(int8=False), sentences(*[5] * rows)
    step = CapturedStep(CompiledStep(CAPTURE), capture)
    assert_same(run(model, [batch], step, min_length=7), run(model, [batch], search_step, min_length=7), 1e-5)
    assert compiled_inside and not any(compiled_inside) and count() >= 1


def test_a_step_that_was_not_warmed_up_is_taken_as_it_is() -> None:
    """Its compilation would keep a request waiting."""
    model, step = model_of("rnnsearch").eval(), CompiledStep(CAPTURE)
    with compiling():
        run(model, [sentences(1)], step)
    counted = dict(torch._dynamo.utils.counters["stats"])
    assert_same(run(model, [sentences(5, 2)], step), run(model, [sentences(5, 2)], search_step), 1e-5)
    assert torch._dynamo.utils.counters["stats"] == counted


def test_a_compiler_that_fails_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def broken(graph: object, inputs: object) -> object:
        raise RuntimeError("cannot find Python.h")

    step = CompiledStep(broken)
    model = model_of("rnnsearch").eval()
    with caplog.at_level(logging.WARNING), compiling():
        found = run(model, [sentences(5, 2)], step)
    assert_same(found, run(model, [sentences(5, 2)], search_step), 0)
    (message,) = [record.getMessage() for record in caplog.records if record.name == "interlinear.search"]
    assert "cannot find Python.h" in message and "slower" in message


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not resolve_compile("off", "cpu") and not resolve_compile("auto", "cpu")
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UsageError, match=r"--compile on.*no C\+\+ compiler"):
        resolve_compile("on", "cpu")


def test_a_gpu_needs_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    assert resolve_compile("auto", "cuda:0")
    step = fast_step(torch.device("cuda:0"))
    assert isinstance(step, CapturedStep) and step.step is search_step  # only captured
    with pytest.raises(UsageError, match=r"--compile on.*no Triton"):
        resolve_compile("on", "cuda:0")


@pytest.mark.parametrize("named", [None, "no-such-compiler"])
def test_triton_needs_a_c_compiler(named: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It compiles its launcher when a program is first run, and finds the compiler by CC or PATH."""
    (tmp_path / "triton.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for program in ("clang", "own-compiler"):
        (tmp_path / program).touch(0o755)
    if named:
        monkeypatch.setenv("CC", named)
    else:
        assert resolve_compile("on", "cuda:0")
        (tmp_path / "clang").unlink()
    step = fast_step(torch.device("cuda:0"))
    assert isinstance(step, CapturedStep) and step.step is search_step  # only captured
    with pytest.raises(UsageError, match=r"--compile on.*no C compiler"):
        resolve_compile("on", "cuda:0")
    monkeypatch.setenv("CC", "own-compiler")
    assert resolve_compile("on", "cuda:0")


def test_a_process_that_has_not_imported_the_compiler_can_choose() -> None:
    script = "from interlinear.search.compiled import resolve_compile; resolve_compile('auto', 'cuda:0')"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_but(["fp32"], ["fp32", "int8"]))
def test_results_of_compiled_code(kind: str) -> None:
    """With the compiler itself. Fused sums are rounded otherwise, which may change the order of equal hypotheses."""
    if not resolve_compile("on", "cpu"):
        pytest.skip("there is no C++ compiler")
    model = larger_model(int8=kind == "int8")
    batches = [sentences(3, 9, 1), sentences(30), sentences(4, 4)]
    assert_same(run(model, batches, CompiledStep()), run(model, batches, search_step), 1e-4)
