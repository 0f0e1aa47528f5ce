"""Server-sent events: prefixes lead to the same final answer as without streaming, and end when the client
disconnects."""

import gc
import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from starlette.testclient import TestClient

from interlinear.bundle import load
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from interlinear.search import SearchOptions
from service.app import create_app
from service.auth.key_store import KeyStore
from tests.service.conftest import sent, sentences, until
from tests.service.engine.test_engine import MANY, value

EVENTS = {"Accept": "text/event-stream"}
ASK = {"source": "de", "target": "en"}
TEXT = "Ein Hund läuft im Park. Eine Katze schläft.\n\nIm Garten spielt ein Kind."


def read(stream: str) -> list[tuple[str, dict]]:
    """The events' names and data, without comments."""
    events = []
    for block in stream.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            events.append((lines["event"], json.loads(lines["data"])))
    return events


@pytest.mark.parametrize("q", ["Ein Hund läuft im Park.", TEXT, [TEXT, "", "Eine Frau sitzt."], f"{TEXT} \n"])
def test_prefixes_grow_into_the_plain_answer(client, q):
    request = ASK | {"q": q, "alternatives": 1, "explain": True}
    plain = client.post("/translate", json=request).json()
    answer = client.post("/translate", json=request, headers=EVENTS)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    *prefixes, (last, data) = read(answer.text)
    assert last == "answer"
    assert data == plain
    assert {name for name, _ in prefixes} == {"prefix"}
    texts = plain["translatedText"] if isinstance(q, list) else [plain["translatedText"]]
    for index, text in enumerate(texts):
        own = [prefix["text"] for _, prefix in prefixes if prefix["index"] == index]
        assert len(own) == len(set(own)), "nothing is said twice"
        for shorter, longer in itertools.pairwise([*own, text]):
            assert longer.startswith(shorter)
        assert bool(own) == bool(text)


@pytest.mark.parametrize(
    ("accept", "events"),
    [
        ("text/event-stream", True), ("application/json, Text/Event-Stream ; Q=0.1", True), ("*/*", False),
        ("text/event-stream;q=0", False), ("text/event-stream; q=0.000, */*", False), ("", False),
    ],
)  # fmt: skip
def test_events_are_for_clients_that_accept_them(client, accept, events):
    answer = client.post("/translate", json=ASK | {"q": "Ein Hund läuft im Park."}, headers={"Accept": accept})
    assert answer.headers["content-type"].startswith("text/event-stream") == events


def test_a_headline_is_streamed_too(client):
    request = {"text": "A dog is running in the park."}
    *prefixes, last = read(client.post("/summarize", json=request, headers=EVENTS).text)
    assert last == ("answer", client.post("/summarize", json=request).json())
    assert prefixes


def test_an_error_before_the_stream_is_a_plain_problem(client):
    for wrong in ({"q": "x", "model": "nobody"}, {"q": " "}, {"q": "x", "context": "y"}):
        answer = client.post("/translate", json=ASK | wrong, headers=EVENTS)
        assert answer.status_code == 400
        assert answer.headers["content-type"] == "application/problem+json"


def test_an_error_during_the_stream_is_an_event_with_the_problem(one_model):
    app = create_app(one_model.model_copy(update={"slots": 1, "heartbeat_seconds": 0.01}))
    with TestClient(app) as client:
        client.post("/translate", json=ASK | {"q": TEXT})  # lazy loading at first use then takes none of the time
        hurried = EVENTS | {"X-Request-Timeout": "0.4", "X-Request-ID": "mine"}
        answer = client.post("/translate", json=ASK | {"q": MANY}, headers=hurried)
        assert answer.status_code == 200
        name, problem = read(answer.text)[-1]
        assert (name, problem["status"], problem["request_id"]) == ("error", 504, "mine")

        (handle,) = app.state.service.engine.pool
        (scheduler, *_) = handle.worker.schedulers.values()
        until(lambda: not scheduler.busy)
        scheduler.main_batch.translator.table.model = None  # simulates a fault in the model
        ((name, problem),) = read(client.post("/translate", json=ASK | {"q": TEXT}, headers=EVENTS).text)
        assert (name, problem["status"]) == ("error", 500)
        assert "Hund" not in problem["detail"]


def test_a_failed_stream_is_not_counted_as_served(one_model, tmp_path):
    key = KeyStore(tmp_path / "keys.db").add("app", quota=1000)
    app = create_app(one_model.model_copy(update={"slots": 1, "keys": tmp_path / "keys.db"}))
    with TestClient(app) as client, ThreadPoolExecutor(1) as caller:
        asking = caller.submit(client.post, "/translate", json=ASK | {"q": MANY, "api_key": key}, headers=EVENTS)
        until(lambda: 'interlinear_waiting_texts{engine="cpu"} 0.0' not in client.get("/metrics").text)
        ring = app.state.service.auth.keys
        assert ring.left(ring.find(key)) == 1000 - len(MANY)
        app.state.service.engine.stop(0)
        assert asking.result().status_code == 200
        name, problem = read(asking.result().text)[-1]
        assert (name, problem["status"]) == ("error", 503)
        assert ring.left(ring.find(key)) == 1000


def test_keep_alive_comments_are_sent_while_idle(one_model, serving):
    with serving(one_model.model_copy(update={"slots": 1, "heartbeat_seconds": 0.001})) as address:
        answer = httpx.post(f"{address}/translate", json=ASK | {"q": MANY[:20]}, headers=EVENTS, timeout=30)
        assert ": alive" in answer.text
        assert read(answer.text)[-1][0] == "answer"


def test_a_client_that_disconnects_frees_the_slots_within_a_step(one_model, serving):
    with serving(one_model.model_copy(update={"slots": 1})) as address:
        with sent(address, ASK | {"q": MANY}, "Accept: text/event-stream") as caller:
            assert b"200 OK" in caller.recv(1000)
            until(lambda: value(address, "interlinear_searching_texts") > 0)
        until(lambda: value(address, "interlinear_waiting_texts") == value(address, "interlinear_searching_texts") == 0)
        assert value(address, "interlinear_texts_total") < 100


def test_every_client_that_disconnects_is_counted_and_cleaned_up(one_model, serving, caplog):
    with serving(one_model.model_copy(update={"slots": 1})) as address:
        for i in range(8):
            request = ASK | {"q": MANY[:60], "max_length": 20 + i}  # enough if none disconnects
            with sent(address, request, "Accept: text/event-stream") as caller:
                assert b"200 OK" in caller.recv(1000)
        until(lambda: value(address, "interlinear_waiting_texts") == value(address, "interlinear_searching_texts") == 0)
        until(lambda: value(address, 'interlinear_requests_total{method="POST",route="/translate",status="200"}') == 8)
        assert value(address, 'interlinear_rejected_total{reason="gone"}') == 8
    gc.collect()
    assert "never retrieved" not in caplog.text and "destroyed" not in caplog.text


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"beam": 4, "length_penalty": "none"}, {"shrinking": True}])
def test_prefixes_of_the_search_only_grow_and_begin_the_best_hypothesis(bundles, options):
    generation = SequenceGenerator(load(bundles.de_en), slots=8)
    texts = list(dict.fromkeys(german for german, _ in sentences()))[:8]
    requests = [Request({"source": text}, SearchOptions(**options)) for text in texts]
    generation.admit([(i, generation.encode(request)) for i, request in enumerate(requests)])
    seen: dict[object, list[list[int]]] = {i: [[]] for i in range(8)}
    while generation.active:
        for key, answer in generation.step():
            seen[key].append(answer.candidates[0].ids)
        for key, ids in generation.prefixes(range(8)).items():
            seen[key].append(ids)
    for history in seen.values():
        for shorter, longer in itertools.pairwise(history):
            assert longer[: len(shorter)] == shorter
    shown = [len(history[-2]) > 0 for history in seen.values()]
    assert any(shown), "no hypotheses of one sentence began alike"
    assert all(shown) or options.get("beam") != 1, "a single hypothesis is shown from its first word"
    assert generation.prefixes([0]) == {}
