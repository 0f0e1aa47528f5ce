"""Search and engine on a GPU: outputs equal those on the CPU. `pytest -m gpu`."""

from dataclasses import replace

import httpx
import pytest
import torch

from interlinear.bundle import load
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.search import SearchOptions
from tests.service.engine.test_engine import DOG, MANY, until
from tests.service.engine.test_processes import REQUESTS, SECONDS, processes, response_values

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that torch can use"),
]

GPU = "cuda:0"
OPTIONS = [
    SearchOptions(),
    SearchOptions(beam=1),
    SearchOptions(beam=3, n_best=3, length_penalty=0.6),
    SearchOptions(beam=4, shrinking=True, coverage_penalty=0.2),
]


@pytest.mark.parametrize("name", ["de-en", "headlines", "edits"])
def test_search_results_equal_those_on_the_cpu(bundles, name):
    """Float64, for exact comparison; texts of mixed lengths and options enter and leave a few slots."""
    found = []
    for device in ("cpu", GPU):
        bundle = load(bundles.folders[name])
        bundle = replace(bundle, model=bundle.model.double().to(device))
        source = next(iter(bundle.card.model.texts))
        texts = [text[: 9 + 3 * (i % 7)] for i, text in enumerate(MANY[:40])]
        requests = [
            Request({source: text}, OPTIONS[i % len(OPTIONS)], explain=i % 3 == 0) for i, text in enumerate(texts)
        ]
        found.append(list(SequenceGenerator(bundle, slots=7, width=5).generate(requests)))
    for on_cpu, on_gpu in zip(*found, strict=True):
        assert isinstance(on_cpu, GenerationResult) and isinstance(on_gpu, GenerationResult)
        assert [c.ids for c in on_gpu.candidates] == [c.ids for c in on_cpu.candidates]
        assert [c.score for c in on_gpu.candidates] == pytest.approx([c.score for c in on_cpu.candidates], abs=1e-9)
        assert (on_gpu.explanation is None) == (on_cpu.explanation is None)


@pytest.fixture(scope="module")
def on_gpu(settings, serving):
    """A service with an engine process on the GPU."""
    with serving(settings.model_copy(update={"device": GPU})) as address:
        yield address


@pytest.mark.parametrize(("route", "request_"), REQUESTS)
def test_the_services_answers_equal_those_on_the_cpu(on_gpu, client, route, request_):
    answer = httpx.post(f"{on_gpu}{route}", json=request_, timeout=60)
    assert answer.status_code == 200
    found, expected = (list(response_values(one.json())) for one in (answer, client.post(route, json=request_)))
    for one, other in zip(found, expected, strict=True):
        assert one == (pytest.approx(other, abs=2e-3) if isinstance(other, float) else other)
    assert {tuple(model["engines"]) for model in httpx.get(f"{on_gpu}/models").json()} == {(GPU,)}


def test_the_engine_process_is_restarted(on_gpu):
    (process,) = processes(GPU)
    process.kill()
    until(lambda: httpx.get(f"{on_gpu}/health/ready").status_code == 503, SECONDS)
    until(lambda: httpx.get(f"{on_gpu}/health/ready").status_code == 200, SECONDS)
    assert httpx.post(f"{on_gpu}/translate", json=DOG).json()["translatedText"] == "A dog is running in the park."
