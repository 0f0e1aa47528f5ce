"""The captured step: the results of the step as it is, for every recipe, whatever enters and leaves the table.

What a CUDA graph does is done here by calling the function again, into the tensors of its first result.
"""

import gc
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import torch

from benchmarks.gpu.search import recomputed
from interlinear.batch import CandidateInput, Mapped, tensors_of
from interlinear.bundle import ModelCard, load, write_bundle
from interlinear.config import RecurrentConfig, TextVocabulary
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.models.ensemble import Ensemble
from interlinear.models.memory import Memory
from interlinear.models.model import build
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import SearchOptions, SearchRequest, SearchResult, SlotTable
from interlinear.search.captured import CapturedStep, round_up_rows
from interlinear.search.state import SlotState
from interlinear.search.step import SearchStep, StepResult, search_step
from interlinear.text import END, TextConfig, Tokenizer
from tests.interlinear.recipes import each_recipe, small
from tests.interlinear.search.test_compiled import assert_same, run, sentences, sources_of
from tests.interlinear.systems import model_of
from training.data.dataset import open_dataset, read_lines
from training.data.prepare.prepared import PreparedData
from training.runs.job import create_job

Value = TypeVar("Value", bound=Mapped)


class Recomputed:
    """Counts captures, and how often they are repeated."""

    def __init__(self) -> None:
        self.captures = self.replays = 0

    def __call__(
        self, work: Callable[[], Value], device: torch.device, pool: object
    ) -> tuple[Value, Callable[[], None]]:
        self.captures += 1
        result, repeat = recomputed(work, device, pool)
        assert all(tensor.device == device for tensor in tensors_of(result))

        def replay() -> None:
            self.replays += 1
            repeat()

        return result, replay


@each_recipe()
def test_every_recipe(recipe: str) -> None:
    model, batch = small(recipe)
    batches = [sources_of(batch)] * 4
    capture = Recomputed()
    found, expected = (run(model.eval(), batches, step) for step in (CapturedStep(capture=capture), search_step))
    assert capture.replays > 3
    assert_same(found, expected, 1e-6)


@pytest.mark.parametrize("kind", ["model", "ensemble", "candidates"])
def test_tables_share_a_step(kind: str) -> None:
    """Two tables, which sentences of many lengths enter and leave, take steps in turns: neither changes the other's."""
    model: EncoderDecoder = model_of("contextual_gates").eval()
    if kind == "ensemble":
        model = Ensemble([model_of("rnnsearch"), model_of("contextual_gates")]).eval()
    batches = [
        [sentences(3, 9, 1), sentences(30), sentences(4, 4)],
        [sentences(2, 5), sentences(7), sentences(8, 3, 3)],
    ]
    if kind == "candidates":
        words = torch.tensor([[0, 1, 2, 3, 5, 7, 8]])
        batches = [
            [replace(b, candidates=CandidateInput(words.expand(b.rows, -1), torch.full((b.rows,), 7))) for b in each]
            for each in batches
        ]
    expected = [run(model, each, search_step) for each in batches]
    capture = Recomputed()
    step = CapturedStep(capture=capture)
    options = SearchOptions(beam=3, n_best=2, max_length=7)
    tables = [SlotTable(model, 3, search_step=step) for _ in batches]
    found: list[dict[object, SearchResult]] = [{} for _ in batches]
    numbers = [0, 0]
    while any(batches) or any(table.active for table in tables):
        for i, table in enumerate(tables):
            if batches[i]:
                batch = batches[i].pop(0)
                requests = [SearchRequest(numbers[i] + row, options, 7, True) for row in range(batch.rows)]
                table.admit(batch, requests)
                numbers[i] += batch.rows
            table.step()
            found[i] |= {result.key: result for result in table.pop_finished()}
    assert capture.captures > 1 and capture.replays > 5
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other, 1e-6)


def test_a_coverage_penalty_is_another_graph() -> None:
    model = model_of("rnnsearch").eval()
    step = CapturedStep(capture=Recomputed())

    def scores(penalty: float, step: SearchStep) -> list[float]:
        table = SlotTable(model, 3, search_step=step)
        options = SearchOptions(beam=3, coverage_penalty=penalty, max_length=7)
        table.admit(sentences(5), [SearchRequest(0, options, 7)])
        while table.active:
            table.step()
            for result in table.pop_finished():
                found = [hypothesis.score for hypothesis in result.hypotheses]
        return found

    for _ in range(3):
        assert scores(0.0, step) == pytest.approx(scores(0.0, search_step))
        assert scores(0.4, step) == pytest.approx(scores(0.4, search_step))


def test_no_garbage_is_collected_while_a_step_is_captured() -> None:
    """A CUDA graph in a reference cycle would be destroyed, which a capture does not survive."""
    enabled = []

    def capture(work: Callable[[], Value], device: torch.device, pool: object) -> tuple[Value, Callable[[], None]]:
        enabled.append(gc.isenabled())
        return recomputed(work, device, pool)

    run(model_of("rnnsearch").eval(), [sentences(3, 9, 1)] * 3, CapturedStep(capture=capture))
    assert enabled and not any(enabled) and gc.isenabled()


@pytest.mark.parametrize("error", [RuntimeError, torch.OutOfMemoryError])
def test_only_a_size_that_cannot_be_captured_has_no_graph(
    error: type[RuntimeError], caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once; the search goes on, and other sizes are captured."""

    class FailingTwice(Recomputed):
        def __call__(
            self, work: Callable[[], Value], device: torch.device, pool: object
        ) -> tuple[Value, Callable[[], None]]:
            if self.captures < 2:
                self.captures += 1
                raise error("CUDA error: operation not permitted when stream is capturing")
            return super().__call__(work, device, pool)

    model, capture = model_of("rnnsearch").eval(), FailingTwice()
    batches = [sentences(3, 9, 1), sentences(30), sentences(4, 4)] * 3
    with caplog.at_level(logging.WARNING):
        found = run(model, batches, CapturedStep(capture=capture))
    assert_same(found, run(model, batches, search_step), 1e-6)
    (message,) = [record.getMessage() for record in caplog.records if record.name == "interlinear.search"]
    assert "not permitted" in message and "slower" in message
    assert capture.captures > 2 and capture.replays > 3


def test_numbers_of_rows() -> None:
    assert [round_up_rows(n) for n in (1, 8, 9, 16, 17, 32, 33, 64, 65)] == [8, 8, 16, 16, 32, 32, 64, 64, 128]


MOST_SIZES = 20  # of tables in a search for Multi30k's test set


class Sizes:
    """Takes steps as they are, and notes the sizes that graphs would be captured for."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, ...]] = set()

    def __call__(self, model: EncoderDecoder, memory: Memory, rows: SlotState) -> StepResult:
        self.seen.add((round_up_rows(memory.rows), *rows.written_NKL.shape[1:], *memory.capacity.values()))
        return search_step(model, memory, rows)


def search_sizes(folder: Path, lengths: Sequence[tuple[int, int]]) -> set[tuple[int, ...]]:
    """Sizes of the tables in an offline search, for sentences of so many source and output words."""
    tokenizer = Tokenizer.train(["a b c"], TextConfig(units="words", vocabulary=20))
    words = TextVocabulary(vocabulary=tokenizer.size)
    model = build(RecurrentConfig(embedding=4, hidden=4, sources={"source": words}, target=words))
    with torch.no_grad():
        model.output.bias[END] = 100.0  # an output ends where its minimum length allows it
    write_bundle(folder, model, {"source": tokenizer, "target": tokenizer}, ModelCard(model=model.config))
    sizes = Sizes()
    bundle = replace(load(folder), search_step=sizes)
    requests = [
        Request({"source": " ".join(["a"] * source)}, SearchOptions(min_length=min(target, 2 * source + 10)))
        for source, target in lengths
    ]
    for (_, target), result in zip(lengths, SequenceGenerator(bundle).generate(requests), strict=True):
        assert isinstance(result, GenerationResult) and len(result.candidates[0].ids) <= target
    return sizes.seen


def test_a_search_has_few_sizes(tmp_path: Path) -> None:
    """Lengths are distributed as in Multi30k: gamma, with that corpus's mean and deviation."""
    random = np.random.default_rng(7)
    target = np.clip(random.gamma(9, 1.5, 1000), 3, 44).astype(int)
    source = np.clip(target + random.normal(0, 3, len(target)), 2, 54).astype(int)
    assert len(search_sizes(tmp_path, list(zip(source.tolist(), target.tolist(), strict=True)))) <= MOST_SIZES


@pytest.mark.slow
def test_a_search_for_multi30k_has_few_sizes(tmp_path: Path, corpora: Path) -> None:
    job = create_job(
        "rnnsearch", "multi30k-de-en", data_root=corpora, prepared=tmp_path / "prepared", runs=tmp_path / "runs"
    )
    tokenizers = PreparedData.load(job.prepared).tokenizers
    dataset = open_dataset("multi30k-de-en", corpora)
    source, target = (
        [len(tokenizers[name].encode(line).ids) for line in read_lines(dataset.field("test", name))]
        for name in ("source", "target")
    )
    sizes = search_sizes(tmp_path / "bundle", list(zip(source, target, strict=True)))
    print(len(sizes), "sizes:", sorted(sizes))
    assert len(sizes) <= MOST_SIZES
