"""Searches on a pretended CUDA device: the host waits for it to see what has finished, and for the results."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from interlinear.batch import Batch, CandidateInput
from interlinear.models.ensemble import Ensemble
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import Constraint, SearchOptions, SearchRequest, SlotTable, TargetPrefix
from interlinear.search.captured import CapturedStep
from interlinear.search.processors.processor import JOINED, WORD
from interlinear.search.step import SearchStep, search_step
from tests.interlinear.recipes import EACH_ORDER, each_recipe, small
from tests.pretended_gpu.device import PretendedGpu, pretended_gpu
from tests.pretended_gpu.process import on_a_pretended_gpu

pytestmark = pytest.mark.timeout(600)  # the first test imports torch and the project in another process

READ = "interlinear/devices.py to_host.<locals>.copy"
KINDS: dict[str, dict[str, object]] = {
    "plain": {},
    "coverage": {"coverage_penalty": 0.3},
    "penalty": {"post_editing_penalty": 0.5},
    "repetition": {"no_repeat_ngram_size": 2, "repetition_penalty": 1.2},
    "constrained": {},
    "prefix": {"n_best": 2},
    "candidates": {},
}
CANDIDATES = [0, 1, 2, 3, 5], [0, 1, 2, 3, 4, 5, 6, 7, 8]  # the second part's are more than those that are there


def requests_of(kind: str, part: int, rows: int) -> list[SearchRequest]:
    """Requests with attention weights, whose first has a constraint or a prefix."""
    options = SearchOptions(beam=3, max_length=6, **KINDS[kind])  # type: ignore[arg-type]
    constraints = (Constraint((5, 6), (0, 1)),) if kind == "constrained" else ()
    prefix = TargetPrefix((5, 6), alternatives=True) if kind == "prefix" else None
    first = SearchRequest((part, 0), options, 6, True, constraints, prefix)
    rest = [SearchRequest((part, row), options, 6, True) for row in range(1, rows)]
    return [replace(one, source_words=(0, 1)) if kind == "repetition" else one for one in (first, *rest)]


def search(
    gpu: PretendedGpu, model: EncoderDecoder, batch: Batch, kind: str, step: SearchStep
) -> dict[str, Counter[str]]:
    """By what is done, how often each function waits. Sentences enter in two parts; one is cancelled, others end."""
    kind_V = torch.full((model.target_vocabulary,), WORD, dtype=torch.int8)
    kind_V[5] = JOINED
    table = SlotTable(model, 3, 1, step, kind_V if kind == "constrained" else None)
    waits: dict[str, Counter[str]] = {}

    def note(what: str) -> None:
        waits[what] = waits.get(what, Counter()) + gpu.waits
        gpu.waits.clear()

    gpu.waits.clear()
    for part in range(2):
        inputs = Batch(batch.sources)
        if kind == "candidates":
            words = torch.tensor([CANDIDATES[part]] * batch.rows)
            lengths = torch.tensor([words.shape[1], words.shape[1] - 1])
            inputs = replace(inputs, candidates=CandidateInput(words, lengths))
        table.admit(inputs, requests_of(kind, part, batch.rows))
        note("admission")
        for _ in range(2):
            table.step()
        note("steps")
    assert table.pop_finished() == []
    note("look")
    table.prefixes({(0, 0), (1, 1)})
    note("prefixes")
    table.cancel({(0, 1)})
    note("cancel")
    gpu.reads = [1]  # all have finished, with outputs without words
    assert len(table.pop_finished()) == 3
    note("finish")
    return waits


def waits(recipe: str, kinds: Sequence[str], captured: bool = False, members: int = 1) -> list[dict[str, object]]:
    """The waits of searches that share a model and a step."""
    found: list[dict[str, object]] = []
    with pretended_gpu() as gpu:
        models, batches = zip(*(small(recipe) for _ in range(members)), strict=True)
        members_on_gpu = [model.to("cuda").eval() for model in models]
        model: EncoderDecoder = members_on_gpu[0] if members == 1 else Ensemble(members_on_gpu).eval()
        step = CapturedStep() if captured else search_step
        for kind in kinds:
            found.append({what: dict(own) for what, own in search(gpu, model, batches[0], kind, step).items() if own})
        assert gpu.streams == int(captured) and (gpu.graphs > 0) == captured
    return found


def expected(kinds: Sequence[str]) -> list[dict[str, dict[str, int]]]:
    """One wait for a look, and three where something has ended: the look, the hypotheses, and their probabilities."""
    return [{"look": {READ: 1}, "prefixes": {READ: 1}, "finish": {READ: 3}} for _ in kinds]


@each_recipe(quick=EACH_ORDER)
def test_the_host_does_not_wait_in_a_search(recipe: str) -> None:
    kinds = ["plain", "constrained"]
    assert on_a_pretended_gpu(waits, recipe, kinds) == expected(kinds)


@each_recipe(quick=("contextual_gates",))
def test_the_host_does_not_wait_in_a_captured_search(recipe: str) -> None:
    """Nor is there a second stream of captures."""
    kinds = ["plain", "prefix"]
    assert on_a_pretended_gpu(waits, recipe, kinds, captured=True) == expected(kinds)


@pytest.mark.parametrize("members", [1, pytest.param(2, marks=pytest.mark.slow)])
@each_recipe(quick=("uam",))
def test_the_host_does_not_wait_for_penalties_prefixes_and_candidates(recipe: str, members: int) -> None:
    kinds = ["coverage", "penalty", "repetition", "prefix", "candidates"]
    assert on_a_pretended_gpu(waits, recipe, kinds, members=members) == expected(kinds)
