"""Engines in processes of their own: the same answers as the thread; if one ends or hangs, every request still ends."""

import multiprocessing
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from interlinear.bundle import load
from interlinear.bundle.precision import resolve_precision
from interlinear.errors import BundleError, InterlinearError
from interlinear.generation.bundle_translator import BundleTranslator
from interlinear.generation.translator import META, TranslatorReference, open_translator
from service.app import create_app
from service.engine.pool import STABLE_SECONDS, WorkerHandle
from service.engine.process import SearchProcess, load_model
from service.engine.protocol import (
    Event,
    LoadModel,
    Timeouts,
    WorkerConfig,
    WorkerLost,
    WorkerLostError,
)
from service.engine.search_thread import SearchThread
from service.settings import Settings
from tests.service.conftest import sent
from tests.service.conftest import until as soon
from tests.service.engine.test_engine import DOG, LONG, MANY, quiet, value
from tests.service.http.routes.test_multimodal import RED, in_json
from tests.service.http.test_streaming import EVENTS, read

pytestmark = pytest.mark.timeout(300)

SECONDS = 200  # a process takes some seconds to start, on a busy machine many
HANG = 5  # seconds of silence after which a process counts as hanging
ENGINE = 'rejected_total{reason="engine"}'
BOTH = ["cpu.1", "cpu.2"]
CONFIG = WorkerConfig("cpu", "fp32", 1, 2)
REQUESTS = [
    ("/translate", LONG | {"explain": True, "alternatives": 2}),
    ("/summarize", {"text": ["A dog is running in the park.", "A cat is sleeping by the river."], "explain": True}),
    (
        "/translate/multimodal",
        {"q": "The ball.", "source": "en", "target": "de", "image": in_json(RED), "explain": True},
    ),
    ("/post-edit", {"translation": "Ein Hund laufen im Park.", "source": "en", "target": "de", "explain": True}),
]


def until(true: Callable[[], bool]) -> None:
    soon(true, SECONDS)


def processes(device: str = "cpu") -> list[multiprocessing.Process]:
    return [child for child in multiprocessing.active_children() if child.name == f"engine {device}"]


def loading(folder: Path) -> LoadModel:
    """The command to load a bundle."""
    return LoadModel(0, TranslatorReference(folder, 2, 5))


def engines_up(address: str) -> list[str]:
    answer = httpx.get(f"{address}/health/ready")
    return [engine["name"] for engine in answer.json().get("engines", []) if engine["up"]]


def response_values(answer: Any) -> Iterator[Any]:
    """The values of a response, in order. Numbers may differ in the last digits, depending on the batch."""
    match answer:
        case dict():
            for name, value in answer.items():
                yield name
                yield from response_values(value)
        case list():
            for value in answer:
                yield from response_values(value)
        case _:
            yield answer


@pytest.fixture(scope="module")
def process_service(settings, serving) -> Iterator[str]:
    """A service with two engine processes on the CPU, with few slots."""
    models = tuple(model for model in settings.models if model.name != "en-de")
    changes = {"models": models, "device": "cpu,cpu", "slots": 8, "hang_seconds": HANG}
    with serving(settings.model_copy(update=changes)) as address:
        yield address
    assert not processes(), "they end with the service"


@pytest.mark.parametrize(("route", "request_"), REQUESTS)
def test_answers_equal_those_of_the_thread(process_service, client, route, request_):
    answer = httpx.post(f"{process_service}{route}", json=request_, timeout=60)
    assert answer.status_code == 200
    found, expected = (list(response_values(one.json())) for one in (answer, client.post(route, json=request_)))
    for one, other in zip(found, expected, strict=True):
        assert one == (pytest.approx(other, abs=2e-4) if isinstance(other, float) else other)


def test_a_list_is_searched_by_both_and_duplicates_once(process_service):
    steps = [value(process_service, f'interlinear_steps_total{{engine="{name}",model="de-en"}}') for name in BOTH]
    with ThreadPoolExecutor(2) as callers:
        asked = [callers.submit(httpx.post, f"{process_service}/translate", json=LONG, timeout=60) for _ in range(2)]
    first, second = (one.result().json() for one in asked)
    assert first == second
    assert value(process_service, "interlinear_shared_texts_total") > 0
    for name, before in zip(BOTH, steps, strict=True):
        assert value(process_service, f'interlinear_steps_total{{engine="{name}",model="de-en"}}') > before
        assert value(process_service, f'interlinear_engine_resident_memory_bytes{{engine="{name}"}}') > 10**8
    for model in httpx.get(f"{process_service}/models").json():
        assert model["engines"] == BOTH


def test_prefixes_are_streamed_and_a_failing_text_is_named(process_service):
    *prefixes, (last, data) = read(httpx.post(f"{process_service}/translate", json=DOG, headers=EVENTS).text)
    assert last == "answer" and prefixes
    assert all(data["translatedText"].startswith(prefix["text"]) for _, prefix in prefixes)
    too_long = {"glossary": [{"source": "Hund", "target": "µ" * 200}]}
    refused = httpx.post(f"{process_service}/translate", json=DOG | {"q": ["Ein Kind.", "Ein Hund."]} | too_long)
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["field"] == "glossary"


def test_cancellation_and_timeouts_free_the_slots(process_service):
    before = value(process_service, "interlinear_texts_total")
    late = httpx.post(
        f"{process_service}/translate", json=LONG | {"max_length": 40}, headers={"X-Request-Timeout": "0.02"}
    )
    assert late.status_code == 504
    with sent(process_service, LONG | {"max_length": 41}):
        until(lambda: value(process_service, "interlinear_waiting_texts") > 0)
    until(lambda: quiet(process_service))
    assert value(process_service, "interlinear_texts_total") < before + 200


@pytest.mark.parametrize(
    ("how", "seconds", "said"),
    [
        pytest.param(signal.SIGKILL, 0, "exit code -9", id="killed"),
        pytest.param(signal.SIGSTOP, HANG, f"silent for {HANG} s, and killed", id="hung", marks=pytest.mark.slow),
    ],
)
def test_a_process_that_ends_or_hangs_loses_only_its_texts_and_is_restarted(
    process_service, caplog, how, seconds, said
):
    expected = httpx.post(f"{process_service}/translate", json=LONG, timeout=60).json()["translatedText"]
    until(lambda: engines_up(process_service) == BOTH)
    refused, restarts = (value(process_service, f"interlinear_{name}") for name in (ENGINE, "engine_restarts_total"))
    ends: list[tuple[int, float]] = []

    def ask(caller: int) -> None:
        with httpx.Client(base_url=process_service, timeout=120) as client:
            for i in range(20):
                own = (7 * caller + i) % 90
                asked = time.monotonic()
                answer = client.post("/translate", json=LONG | {"q": MANY[own : own + 10]})
                ends.append((answer.status_code, time.monotonic() - asked))
                if answer.status_code == 200:
                    assert answer.json()["translatedText"] == expected[own : own + 10]
                else:
                    assert int(answer.headers["retry-after"]) > 0
                    assert "is started again" in answer.json()["detail"]

    with ThreadPoolExecutor(6) as callers:
        asking = [callers.submit(ask, caller) for caller in range(6)]
        until(lambda: len(ends) > 12)
        until(lambda: value(process_service, "interlinear_searching_texts") > 8)
        os.kill(processes()[0].pid, how)
    for one in asking:
        one.result()
    assert len(ends) == 6 * 20
    assert {status for status, _ in ends} <= {200, 503}
    assert max(took for _, took in ends) < 30 + seconds, "nobody is left hanging"
    assert value(process_service, f"interlinear_{ENGINE}") - refused == sum(status == 503 for status, _ in ends)
    until(lambda: engines_up(process_service) == BOTH)
    assert value(process_service, "interlinear_engine_restarts_total") == restarts + 1
    assert said in caplog.text
    assert httpx.post(f"{process_service}/translate", json=LONG, timeout=60).json()["translatedText"] == expected
    until(lambda: quiet(process_service))


@pytest.mark.slow
def test_an_idle_process_that_hangs_is_replaced(process_service):
    until(lambda: engines_up(process_service) == BOTH)
    first = processes()[0]
    os.kill(first.pid, signal.SIGSTOP)
    until(lambda: not first.is_alive())
    until(lambda: engines_up(process_service) == BOTH)
    assert httpx.post(f"{process_service}/translate", json=LONG, timeout=60).status_code == 200


def test_the_service_is_not_ready_while_all_processes_are_down(process_service, caplog):
    """They lack file descriptors for a start, and are started once there are some."""
    until(lambda: engines_up(process_service) == BOTH)
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with httpx.Client(base_url=process_service) as client:
        client.get("/health/ready")  # over a keep-alive connection: a new one needs another descriptor
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))
        try:
            for process in processes():
                process.kill()
            for name in BOTH:  # the connection is used all the time, as the service closes idle ones
                said = f"{name} cannot be started again: OSError at "
                until(lambda said=said: client.get("/health/live").status_code == 200 and said in caplog.text)
            assert client.get("/health/ready").status_code == 503
            assert client.get("/health/live").status_code == 200, "it is tried again"
            refused = client.post("/translate", json=DOG)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert 'interlinear_engine_up{engine="cpu.1"} 0.0' in client.get("/metrics").text
            assert {tuple(model["engines"]) for model in client.get("/models").json()} == {()}
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))
        until(lambda: engines_up(process_service) == BOTH)
        assert client.post("/translate", json=DOG).json()["translatedText"] == "A dog is running in the park."
    assert len(processes()) == 2


@pytest.mark.slow
def test_a_start_may_take_longer_than_a_step(bundles):
    events: list[Event] = []
    process = SearchProcess(CONFIG, "text", Timeouts(searching=0.3, loading=SECONDS), events.append)
    began = time.monotonic()
    assert process.load(0, open_translator(TranslatorReference(bundles.de_en, 2, 5), META)).matrices
    assert time.monotonic() - began > 0.3
    assert process.alive
    process.stop(SECONDS)
    assert not events


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong", [{"keys": "absent.db"}, {"files_folder": Path("/proc/self")}], ids=["before the engine", "after it"]
)
def test_a_service_that_cannot_be_made_leaves_no_process(one_model, wrong):
    """Ray Serve's replicas make it again until it can be made."""
    before = set(processes())
    with pytest.raises(InterlinearError):
        create_app(one_model.model_copy(update={"device": "cpu,cpu", **wrong}))
    assert set(processes()) == before


def test_a_process_that_reads_other_weights_than_the_service_refuses_them(bundles):
    """The folder has another model meanwhile, whose answers would have the name of the first one's version."""
    served = load(bundles.de_en, "meta")
    other = replace(served, folder=bundles.en_de)
    process = SearchProcess(CONFIG, "text", Timeouts(searching=SECONDS, loading=SECONDS), [].append)
    try:
        with pytest.raises(BundleError, match="other weights than the service has read"):
            process.load(0, BundleTranslator(other, 2, 5))
        with pytest.raises(BundleError, match="other weights than the service has read"):
            process.load(1, BundleTranslator(served, 2, 5, BundleTranslator(other, 1, 5)))
        assert process.load(2, BundleTranslator(served, 2, 5)).matrices
    finally:
        process.stop(SECONDS)


def test_the_configured_precision_is_used(bundles, caplog):
    search = SearchThread([].append, 1, 2)
    with caplog.at_level("INFO"):
        said = [
            load_model(loading(bundles.de_en), WorkerConfig("cpu", precision, 1, 2), search)
            for precision in ("fp32", "bf16", "int8", "auto")
        ]
    full, half, quantised, chosen = (np.array(one.outcome.matrices["attention"]) for one in said)
    assert (full != half).any() and (full != quantised).any()
    np.testing.assert_allclose(full, half, atol=0.1)
    np.testing.assert_allclose(full, quantised, atol=0.1)
    resolved = resolve_precision("auto", "cpu")
    np.testing.assert_array_equal(chosen, {"fp32": full, "bf16": half, "int8": quantised}[resolved])
    assert f"is computed in {resolved} on cpu" in caplog.text


def test_int8_on_a_gpu_is_refused(bundles, monkeypatch):
    monkeypatch.setattr("service.engine.process.check_device", lambda device: None)  # as if one were there
    config = WorkerConfig("cuda:0", "int8", 1, 2)
    refused = load_model(loading(bundles.de_en), config, SearchThread([].append, 1, 2))
    assert "int8: it is for CPUs" in str(refused.outcome)


def test_a_process_that_hangs_at_its_start_is_replaced(bundles):
    events: list[Event] = []
    process = SearchProcess(CONFIG, "text", Timeouts(searching=0.5, loading=1), events.append)
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(WorkerLostError, match="its process has ended"):
        process.load(0, open_translator(TranslatorReference(bundles.de_en, 2, 5), META))
    until(lambda: bool(events))
    assert events == [WorkerLost("it was silent for 1 s, and killed")]
    process.stop(SECONDS)


def test_the_reason_of_a_loss_does_not_depend_on_which_thread_sees_the_end_first(monkeypatch):
    events: list[Event] = []
    process = SearchProcess(CONFIG, "text", Timeouts(searching=0.2, loading=0.4), events.append)
    kill = process._process.kill

    def kill_and_wait_for_the_reader() -> None:
        kill()
        if threading.current_thread().name.startswith("watches"):
            until(lambda: not process.alive)

    monkeypatch.setattr(process._process, "kill", kill_and_wait_for_the_reader)
    os.kill(process.pid, signal.SIGSTOP)
    until(lambda: bool(events))
    assert events == [WorkerLost("it was silent for 0.4 s, and killed")]
    process.stop(SECONDS)


def test_devices_are_given_one_by_one_or_by_number():
    def devices(text: str) -> tuple[str, ...]:
        return Settings(device=text).devices

    assert devices("cuda:0,1, 3") == ("cuda:0", "cuda:1", "cuda:3")
    assert devices("cuda:0,cpu") == ("cuda:0", "cpu")
    assert not Settings(device="cpu").uses_processes
    assert Settings(device="cpu,cpu").uses_processes and Settings(device="cuda").uses_processes


def test_restart_delays_grow_until_a_process_lasted():
    handle = WorkerHandle("cpu", lambda tell: None, lambda handle, event: None)
    assert [handle.restart_delay() for _ in range(9)] == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    handle._started_at -= STABLE_SECONDS + 1
    assert handle.restart_delay() == 0
    handle.start_worker()
    assert handle.restart_delay() == 1
