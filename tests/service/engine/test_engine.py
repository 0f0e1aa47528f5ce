"""The engine with deadlines, cancelled requests, full queues, shutdown, and faults of the search."""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from starlette.testclient import TestClient

from interlinear.bundle import load
from interlinear.generation.bundle_translator import BundleTranslator
from interlinear.generation.request import Request
from interlinear.models.model import Model
from interlinear.search import SearchOptions
from service.app import create_app
from service.engine.admission import QueueLoad
from service.engine.protocol import Add, EngineRequest
from service.engine.search_thread import HEARTBEAT_SECONDS
from service.models import ServedModel
from service.problems import Problem
from service.settings import ServedModelConfig
from tests.service.conftest import sent, sentences, until

DOG = {"q": "Ein Hund läuft im Park.", "source": "de", "target": "en"}
MANY = list(dict.fromkeys(german for german, _ in sentences()))[:100]
LONG = DOG | {"q": MANY, "beam_size": 5}


def value(address: str, name: str) -> float:
    lines = httpx.get(f"{address}/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name) and "_created" not in line)


@contextmanager
def before_its_layers(model: Model, do: Callable[[], object]) -> Iterator[None]:
    """Run a function in the search thread before each of a model's layers."""
    hooks = [layer.register_forward_pre_hook(lambda *_: do() and None) for layer in model.modules()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@pytest.fixture(scope="module")
def narrow(one_model, serving) -> Iterator[str]:
    """A service that searches one text at a time."""
    with serving(one_model.model_copy(update={"slots": 1, "queue_texts": 150})) as address:
        yield address


def quiet(address: str) -> bool:
    return value(address, "interlinear_waiting_texts") == value(address, "interlinear_searching_texts") == 0


def test_a_deadline_ends_in_504_and_frees_the_slots(narrow):
    before = value(narrow, "interlinear_texts_total")
    late = httpx.post(f"{narrow}/translate", json=LONG, headers={"X-Request-Timeout": "0.05"})
    assert late.status_code == 504
    assert "0.05 s" in late.json()["detail"]
    until(lambda: quiet(narrow))
    assert value(narrow, "interlinear_texts_total") < before + 100, "nobody waits for the rest, so it is not searched"
    assert httpx.post(f"{narrow}/translate", json=DOG).status_code == 200


def test_a_cancelled_request_frees_the_slots(narrow):
    before = value(narrow, "interlinear_texts_total")
    with sent(narrow, LONG):
        until(lambda: value(narrow, "interlinear_waiting_texts") > 0)
    until(lambda: quiet(narrow))
    assert value(narrow, "interlinear_texts_total") < before + 100


def test_a_full_queue_is_429_with_retry_after(narrow):
    expected = httpx.post(f"{narrow}/translate", json=LONG, timeout=60).json()["translatedText"]
    with ThreadPoolExecutor(6) as callers:
        # The texts differ, because identical ones are searched once and queued once.
        asked = [LONG | {"max_length": 50 + i} for i in range(6)]
        crowd = [callers.submit(httpx.post, f"{narrow}/translate", json=one, timeout=60) for one in asked]
        answers = [caller.result() for caller in crowd]
    assert {answer.status_code for answer in answers} == {200, 429}
    for answer in answers:
        if answer.status_code == 429:
            assert 1 <= int(answer.headers["retry-after"]) <= 60
            assert "come again" in answer.json()["error"]
        else:
            assert answer.json()["translatedText"] == expected
    assert value(narrow, 'interlinear_rejected_total{reason="queue_texts"}') > 0
    assert httpx.post(f"{narrow}/translate", json=DOG).status_code == 200


def test_identical_texts_in_flight_are_searched_once(narrow):
    before, shared = value(narrow, "interlinear_texts_total"), value(narrow, "interlinear_shared_texts_total")
    with ThreadPoolExecutor(4) as callers:
        crowd = [callers.submit(httpx.post, f"{narrow}/translate", json=LONG, timeout=60) for _ in range(4)]
        answers = [caller.result().json() for caller in crowd]
    assert answers == [answers[0]] * 4
    searched = value(narrow, "interlinear_texts_total") - before
    assert searched + value(narrow, "interlinear_shared_texts_total") - shared == 400
    assert 100 <= searched < 250
    once = httpx.post(f"{narrow}/translate", json=DOG | {"q": [DOG["q"]] * 50, "explain": True}).json()
    assert once["translatedText"] == [once["translatedText"][0]] * 50
    assert once["explanations"] == [once["explanations"][0]] * 50


def test_a_text_in_flight_is_accepted_again_though_the_queue_is_full(one_model):
    app = create_app(one_model.model_copy(update={"slots": 1, "queue_texts": 1}))
    engine, (model, *_) = app.state.service.engine, app.state.service.models.served

    async def ask() -> None:
        def wanted(*texts: str) -> list[tuple[ServedModel, Request]]:
            return [(model, Request({"source": text}, SearchOptions())) for text in texts]

        first = asyncio.create_task(engine.search(wanted(*MANY)))
        while not any(handle.sequences for handle in engine.pool):
            await asyncio.sleep(0)
        again = asyncio.create_task(engine.search(wanted(*MANY[-3:])))
        with pytest.raises(Problem, match="come again"):
            await engine.search(wanted(*MANY[-3:], "Ein Kind."))
        assert await again == (await first)[-3:]

    engine.start()
    asyncio.run(ask())
    engine.stop(10)


def test_of_identical_requests_another_than_the_first_may_be_encoded_first(one_model):
    """Only the first has reserved a place in the queue for the texts; the other takes it over."""
    app = create_app(one_model.model_copy(update={"slots": 1, "queue_texts": 150}))
    engine, (model, *_) = app.state.service.engine, app.state.service.models.served
    wanted = [(model, Request({"source": text}, SearchOptions(beam=1))) for text in MANY]

    async def ask() -> None:
        with engine.admit("", [*MANY, "Ein Kind."]) as first, engine.admit("", MANY) as second:
            assert engine.admission.waiting.texts == 101 and second.waiting_load == QueueLoad()
            searched_second = asyncio.create_task(engine.search(wanted, reservation=second))
            while not any(handle.sequences for handle in engine.pool) and not searched_second.done():
                await asyncio.sleep(0)
            assert engine.admission.waiting.texts <= 101, "the hundred texts count once"
            assert await engine.search(wanted, reservation=first) == await searched_second
        with engine.admit("", MANY) as again:  # nothing stays reserved
            assert again.waiting_load.texts == 100
        assert engine.admission.waiting == QueueLoad() and not engine._reserved

    engine.start()
    asyncio.run(ask())
    engine.stop(10)


def test_a_full_garbage_collection_passes_over_what_was_there_at_the_start(one_model):
    """It would stop the search for 0.2 s, whenever a large request causes it."""
    with TestClient(create_app(one_model)):
        assert len(gc.get_objects()) < 0.2 * gc.get_freeze_count()
    assert gc.get_freeze_count() == 0


def test_one_of_two_identical_requests_may_be_cancelled(narrow):
    with ThreadPoolExecutor(1) as other:
        staying = other.submit(httpx.post, f"{narrow}/translate", json=LONG, timeout=60)
        until(lambda: value(narrow, "interlinear_waiting_texts") > 50)
        late = httpx.post(f"{narrow}/translate", json=LONG, headers={"X-Request-Timeout": "0.05"})
        assert late.status_code == 504
        assert len(staying.result().json()["translatedText"]) == 100


def test_the_services_own_timeout_is_504(one_model):
    with TestClient(create_app(one_model.model_copy(update={"seconds": 0.01}))) as client:
        assert client.post("/translate", json=LONG, headers={"X-Request-Timeout": "60"}).status_code == 504


def test_a_failed_search_is_one_500_without_the_text_in_the_log(one_model, caplog):
    app = create_app(one_model)
    with TestClient(app) as client:
        (handle,) = app.state.service.engine.pool
        (scheduler, *_) = handle.worker.schedulers.values()
        scheduler.main_batch.translator.table.model = None  # simulates a fault in the model
        with caplog.at_level(logging.INFO):
            answer = client.post("/translate", json=DOG)
        assert answer.status_code == 500
        assert answer.json()["request_id"] in caplog.text
        assert "Hund" not in caplog.text + answer.text
        assert "Error at " in caplog.text
        assert client.post("/translate", json=DOG).json()["translatedText"] == "A dog is running in the park."


def test_a_crashed_search_fails_running_texts_and_continues_with_queued_ones(one_model, caplog):
    app = create_app(one_model.model_copy(update={"slots": 1}))
    answers, waiting = [], []
    with TestClient(app) as client:
        engine = app.state.service.engine
        (handle,) = engine.pool
        goes_on = threading.Event()
        with before_its_layers(app.state.service.models.served[0].translator.bundle.model, goes_on.wait):
            asking = threading.Thread(
                target=lambda: answers.append(client.post("/translate", json=DOG | {"q": MANY[9]}))
            )
            asking.start()
            until(lambda: any(sequence.scheduled_at for sequence in handle.sequences.values()))
            after = threading.Thread(target=lambda: waiting.append(client.post("/translate", json=DOG)))
            after.start()
            until(lambda: len(handle.sequences) == 2)
            handle.worker.schedulers.clear()  # simulates a fault in the handling of commands
            handle.send(Add((EngineRequest(10**9, 10**9, None, False),)))
            goes_on.set()
        asking.join(30)
        assert answers[0].status_code == 503
        assert "is started again" in answers[0].json()["detail"]
        after.join(30)
        assert waiting[0].json()["translatedText"] == "A dog is running in the park."
        until(lambda: client.get("/health/ready").status_code == 200)
        assert client.get("/health/ready").json()["engines"] == [{"name": "cpu", "up": True, "restarts": 1}]
        assert engine.admission.waiting == QueueLoad() and not handle.outstanding_cost
    assert "engine cpu has ended (KeyError at " in caplog.text


def test_a_crashed_worker_restarts_though_its_models_cannot_be_warmed_up_at_once(one_model, caplog):
    app = create_app(one_model)
    with TestClient(app) as client:
        (handle,) = app.state.service.engine.pool
        ready = []

        def fault() -> None:
            if not ready:
                ready.append(client.get("/health/ready").status_code)
                raise RuntimeError("of a device, and gone the next time")

        with before_its_layers(app.state.service.models.served[0].translator.bundle.model, fault):
            handle.send(
                Add((EngineRequest(10**9, 10**9, None, False),))
            )  # simulates a fault in the handling of commands
            until(lambda: handle.restarts == 1)
        assert ready == [503]
        assert "engine cpu cannot be started again: RuntimeError at " in caplog.text
        assert client.get("/health/ready").json()["engines"] == [{"name": "cpu", "up": True, "restarts": 1}]
        assert client.post("/translate", json=DOG).json()["translatedText"] == "A dog is running in the park."
        assert client.get("/health/live").status_code == 200


def test_a_worker_that_ends_silently_is_restarted(one_model):
    app = create_app(one_model.model_copy(update={"hang_seconds": 1}))
    with TestClient(app) as client:
        (handle,) = app.state.service.engine.pool
        handle.worker.stop(10)
        until(lambda: handle.restarts == 1)
        assert client.get("/health/ready").status_code == 200
        assert client.post("/translate", json=DOG).json()["translatedText"] == "A dog is running in the park."


def test_if_no_worker_can_be_restarted_for_long_the_service_is_not_alive(one_model):
    app = create_app(one_model.model_copy(update={"load_seconds": 1}))
    with TestClient(app) as client:
        (handle,) = app.state.service.engine.pool

        def fault() -> None:
            raise RuntimeError("of a device, until it is mended")

        with before_its_layers(app.state.service.models.served[0].translator.bundle.model, fault):
            handle.send(Add((EngineRequest(10**9, 10**9, None, False),)))
            until(lambda: client.get("/health/live").status_code == 503)
            assert "no engine could be started again within 1 s" in client.get("/health/live").json()["detail"]
        until(lambda: client.get("/health/live").status_code == 200)
        assert client.post("/translate", json=DOG).status_code == 200


def test_a_hanging_search_is_not_alive_until_it_continues(one_model, caplog):
    app = create_app(one_model.model_copy(update={"hang_seconds": 1}))
    goes_on = threading.Event()
    with TestClient(app) as client, ThreadPoolExecutor(1) as caller:
        (handle,) = app.state.service.engine.pool
        idle = handle.worker.heartbeats
        until(
            lambda: handle.worker.heartbeats > idle + 2 / HEARTBEAT_SECONDS
        )  # twice the time after which a hang is detected
        assert client.get("/health/live").status_code == 200, "to have nothing to do is not to hang"
        with before_its_layers(app.state.service.models.served[0].translator.bundle.model, goes_on.wait):
            try:
                asking = caller.submit(client.post, "/translate", json=DOG)
                until(lambda: client.get("/health/live").status_code == 503)
                assert "engine cpu has been silent for 1 s" in client.get("/health/live").json()["detail"]
                assert client.get("/health/ready").status_code == 503
                refused = client.post("/translate", json=DOG | {"q": "Ein Kind."})
                assert refused.status_code == 503 and int(refused.headers["retry-after"]) > 0
                assert 'interlinear_engine_up{engine="cpu"} 0.0' in client.get("/metrics").text
                assert "engine cpu hangs, silent for 1 s, at /" in caplog.text
            finally:
                goes_on.set()
        assert asking.result().json()["translatedText"] == "A dog is running in the park."
        until(lambda: client.get("/health/live").status_code == 200)
        assert client.get("/health/ready").json()["engines"] == [{"name": "cpu", "up": True, "restarts": 0}]
        assert 'interlinear_engine_up{engine="cpu"} 1.0' in client.get("/metrics").text


def test_a_search_may_fail_for_a_model_that_was_unloaded(one_model, bundles, caplog):
    app = create_app(one_model)
    with TestClient(app) as client:
        engine = app.state.service.engine
        (handle,) = engine.pool
        model = ServedModel("gone", "1", (), BundleTranslator(load(bundles.de_en), 2, 5))
        engine.add(model)
        number = engine._models[model].number
        row = model.translator.encode(Request({"source": DOG["q"]}, SearchOptions()))
        until(lambda: number in handle.worker.schedulers)
        scheduler = handle.worker.schedulers[number]
        scheduler.main_batch.translator.table.model = None
        with engine._lock:  # events are delivered after the model is gone
            handle.send(Add((EngineRequest(10**9, number, row, False),)))
            until(lambda: scheduler.searching)
            del model
            gc.collect()
        until(lambda: "a search with an unloaded model failed" in caplog.text)
        assert client.post("/translate", json=DOG).status_code == 200
        assert client.get("/health/ready").json()["engines"][0]["restarts"] == 0


def test_accepted_requests_are_finished_at_shutdown(one_model):
    app = create_app(one_model.model_copy(update={"slots": 2}))
    answers = []
    with TestClient(app) as client:
        asking = threading.Thread(target=lambda: answers.append(client.post("/translate", json=LONG)))
        asking.start()
        until(lambda: app.state.service.engine.admission.waiting.texts > 0)
        app.state.service.engine.stop(30)
        asking.join(30)
        assert answers[0].status_code == 200
        assert len(answers[0].json()["translatedText"]) == 100
        late = client.post("/translate", json=DOG)
        assert late.status_code == 503
        assert late.headers["retry-after"]
        assert client.get("/health/ready").status_code == 503
        assert client.get("/health/live").status_code == 200


def test_requests_not_finished_within_the_grace_period_are_503(one_model):
    app = create_app(one_model.model_copy(update={"slots": 1}))
    answers = []
    with TestClient(app) as client:
        asking = threading.Thread(target=lambda: answers.append(client.post("/translate", json=LONG)))
        asking.start()
        until(lambda: app.state.service.engine.admission.waiting.texts > 0)
        app.state.service.engine.stop(0)
        asking.join(30)
    assert answers[0].status_code == 503


def test_the_event_loop_responds_during_a_search(address):
    with ThreadPoolExecutor(4) as callers, httpx.Client() as client:
        crowd = [callers.submit(httpx.post, f"{address}/translate", json=LONG, timeout=60) for _ in range(4)]
        waits = []
        while not all(caller.done() for caller in crowd):
            started = time.perf_counter()
            assert client.get(f"{address}/health/live").status_code == 200
            waits.append(time.perf_counter() - started)
        assert all(caller.result().status_code == 200 for caller in crowd)
    assert sorted(waits)[len(waits) // 2] < 0.2


@pytest.mark.parametrize("limit", ["queue_texts", "queue_tokens"])
def test_a_large_request_is_accepted_when_the_queue_is_empty(one_model, limit):
    with TestClient(create_app(one_model.model_copy(update={limit: 1}))) as client:
        assert len(client.post("/translate", json=LONG).json()["translatedText"]) == 100


def test_two_versions_of_a_name_can_be_requested(one_model, bundles):
    models = (
        ServedModelConfig(name="mt", uri=str(bundles.de_en)),
        ServedModelConfig(name="mt", uri=str(bundles.en_de)),
    )
    with TestClient(create_app(one_model.model_copy(update={"models": models}))) as client:
        first, second = (model["version"] for model in client.get("/models").json())
        assert first != second
        assert client.post("/translate", json=DOG | {"model": f"mt@{first}"}).status_code == 200
        assert client.post("/translate", json=DOG | {"model": f"mt@{second}"}).status_code == 400
        back = client.post("/translate", json={"q": "A dog.", "source": "en", "target": "de"})
        assert back.json()["model"] == {"name": "mt", "version": second}
