"""The load generator: arrivals, latencies, and reports for fast and slow services."""

import base64
import json
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlinear.cli import run as interlinear
from interlinear.loadtest.load_generator import Load, RequestRecord, poisson_arrivals
from interlinear.loadtest.load_report import (
    Failure,
    Latencies,
    LoadReport,
    ModelVersionCount,
    RateResult,
    in_flight,
    percentile,
    summarize_rate,
)
from interlinear.loadtest.sample_texts import TEXTS_BY_LANGUAGE
from seq2seq.figures.latencies import LatencySeries, latency_chart

MODEL = {"name": "mt", "version": "3", "aliases": ["champion"], "task": "translation",
         "languages": {"source": "de", "target": "en"}}  # fmt: skip
Answering = Callable[[int, dict], tuple[int, dict]]


@contextmanager
def service(answering: Answering, models: object = (MODEL,), stall: tuple[float, float] = (0, 0)) -> Iterator[str]:
    """An HTTP server; `answering` receives the number of the POST and its body. After the first POST it stalls between
    the two times of `stall`, in seconds."""
    count, lock, first = iter(range(10**9)), threading.Lock(), []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, status: int, body: object) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self.answer(200 if self.path == "/models" else 404, models)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body |= {"path": self.path, "authorization": self.headers["Authorization"]}
            with lock:
                number = next(count)
                first.append(time.monotonic())
            at = time.monotonic() - first[0]
            if stall[0] <= at < stall[1]:
                time.sleep(stall[1] - at)
            self.answer(*answering(number, body))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a failing handler is one of the test cases
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def right(_number: int, _body: dict) -> tuple[int, dict]:
    return 200, {"translatedText": "A dog.", "model": {"name": "mt", "version": "3"}}


def report(folder) -> LoadReport:
    return LoadReport.model_validate_json((folder / "r.json").read_text())


@pytest.fixture
def texts(tmp_path):
    """Two texts, so that no request is sent before the run."""
    (tmp_path / "texts").write_text("Ein Hund läuft.\n\nEine Katze schläft.\n", encoding="utf-8")
    return str(tmp_path / "texts")


QUICK = ["--duration", "0.5", "--warm-up", "0.1"]


@given(st.floats(1, 200), st.integers(0, 10**6))
def test_arrivals_are_a_poisson_process(rate, seed):
    at = list(poisson_arrivals(rate, 2000 / rate, random.Random(seed)))
    assert at == sorted(at) and all(0 < moment < 2000 / rate for moment in at)
    assert abs(len(at) - 2000) < 6 * 2000**0.5  # for a Poisson distribution the variance equals the mean
    gaps = [after - before for before, after in pairwise(at)]
    long = sum(gap > 1 / rate for gap in gaps) / len(gaps)
    assert abs(long - 0.3679) < 0.07  # a share of e^-1 of exponential gaps is longer than the mean


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.001, 1))
def test_a_percentile_is_an_observed_value_and_at_least_its_share_is_no_larger(values, share):
    ranked = sorted(values)
    found = percentile(ranked, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)
    assert sum(value < found for value in values) < share * len(values)


def load(rate: float = 2.0, seconds: float = 10.0) -> Load:
    return Load("http://x", [b"{}"], {}, "translatedText", rate, 1.0, seconds, 500, 1)


def test_a_run_worked_by_hand():
    records = [
        RequestRecord(-0.5, 0.0, 0.9, model="mt@2"),  # of the warm-up: its response arrives in the measured time
        *[RequestRecord(float(i), 0.001, 0.1 * (i + 1), model="mt@2" if i < 3 else "mt@3") for i in range(8)],
        RequestRecord(8.0, 0.004, 0.2, problem="429 Too Many Requests", detail="come again"),
        RequestRecord(9.5, 0.002, 0.6, model="mt@3"),  # arrives after the measured time
    ]
    found = summarize_rate(load(), records, 500.0)
    assert (found.requests, found.answered, found.failed) == (10, 9, 1)
    assert found.answers_per_second == 0.9  # the eight and that of the warm-up
    assert found.goodput == 0.5  # 100, ..., 500 ms
    assert found.latency_ms.model_dump() == {"p50": 500.0, "p90": 800.0, "p99": 800.0, "max": 800.0}
    assert [(one.problem, one.requests, one.example) for one in found.failures] == [
        ("429 Too Many Requests", 1, "come again")
    ]
    assert [(one.model, one.answers, one.first, one.last) for one in found.versions] == [
        ("mt@2", 3, 0.0, 2.0), ("mt@3", 6, 3.0, 9.5)
    ]  # fmt: skip
    assert found.late_ms_p99 == 4.0
    assert found.kept_up and not found.held
    assert (in_flight(records, 0.0), in_flight(records, 1.05), in_flight(records, 9.9)) == (2, 1, 1)


def test_a_growing_backlog_is_reported_as_not_keeping_up():
    records = [RequestRecord(0.1 * i, 0.0, 0.05 * i, model="mt@3") for i in range(100)]  # half as fast as they arrive
    found = summarize_rate(load(10.0), records, None)
    assert not found.kept_up and not found.held and not found.failed


def test_latency_counts_from_the_scheduled_time(tmp_path, texts):
    """A service that stalls for 0.4 s delays all requests due meanwhile; a closed-loop client would see one late
    response."""
    with service(right, stall=(0.3, 0.7)) as address:
        arguments = ["--rate", "100", "--duration", "1.5", "--warm-up", "0", "--texts", texts]
        assert (
            interlinear(["bench", address, *arguments, "--concurrency-limit", "1", "--json", f"{tmp_path}/r.json"]) == 0
        )
    (found,) = report(tmp_path).rates
    assert found.held_back > 20
    assert found.latency_ms.max > 300 and found.latency_ms.p90 > 150
    assert not found.failed


def test_the_configured_requests_are_sent(texts, tmp_path):
    asked = []

    def answering(number: int, body: dict) -> tuple[int, dict]:
        asked.append(body)
        return 200, {"summaries": "x", "model": {"name": "head", "version": "1"}}

    head = MODEL | {"name": "head", "version": "1", "task": "summarization"}
    with service(answering, [MODEL, head]) as address:
        assert interlinear(["bench", address, "--route", "summarize", "--model", "head@1", "--rate", "40",
                            "--texts", texts, "--api-key", "secret", *QUICK]) == 0  # fmt: skip
    assert {body["text"] for body in asked} == {"Ein Hund läuft.", "Eine Katze schläft."}
    assert {(body["path"], body["model"], body["authorization"]) for body in asked} == {
        ("/summarize", "head@1", "Bearer secret")
    }


def test_images_are_paired_with_texts_in_turn_and_translations_by_line(texts, tmp_path):
    asked = []

    def answering(number: int, body: dict) -> tuple[int, dict]:
        asked.append(body)
        return 200, {"translatedText": "x", "editedText": "x", "model": {"name": "mt", "version": "3"}}

    others = [MODEL | {"task": "multimodal"}, MODEL | {"task": "post-edit"}]
    (tmp_path / "mt").write_text("A dog run.\nA cat sleep.\n")
    (tmp_path / "pictures").mkdir()
    for name in ("a.png", "b.JPG", "c.webp", "notes.txt"):
        (tmp_path / "pictures" / name).write_bytes(name.encode())
    with service(answering, [MODEL, *others]) as address:
        common = ["--rate", "60", "--texts", texts, *QUICK]
        assert interlinear(["bench", address, "--image-dir", str(tmp_path / "pictures"), *common]) == 0
        assert {body["path"] for body in asked} == {"/translate/multimodal"}
        sent = {(body["q"], base64.b64decode(body["image"]).decode()) for body in asked}
        assert sent == {("Ein Hund läuft.", "a.png"), ("Eine Katze schläft.", "b.JPG"), ("Ein Hund läuft.", "c.webp")}
        asked.clear()
        assert interlinear(["bench", address, "--mt", str(tmp_path / "mt"), *common]) == 0
        assert {(body["path"], body["source_text"], body["translation"]) for body in asked} == {
            ("/post-edit", "Ein Hund läuft.", "A dog run."),
            ("/post-edit", "Eine Katze schläft.", "A cat sleep."),
        }
        asked.clear()
        assert interlinear(["bench", address, "--mt", str(tmp_path / "mt"), "--rate", "60", *QUICK]) == 0
        assert {body.get("source_text") for body in asked} == {None}


def test_built_in_sentences_are_in_the_models_language_and_unreadable_ones_are_left_out(capsys):
    asked = []

    def answering(number: int, body: dict) -> tuple[int, dict]:
        asked.append(body["q"])
        return right(number, body) if len(body["q"]) < 100 else (400, {"error": "too long"})

    with service(answering) as address:
        assert interlinear(["bench", address, "--rate", "60", *QUICK]) == 0
    tried, sent = asked[:10], asked[10:]
    assert tuple(tried) == TEXTS_BY_LANGUAGE["de"]
    assert set(sent) <= set(tried) and max(map(len, sent)) < 100
    assert all(max(len(text.split()) for text in texts) > 40 for texts in TEXTS_BY_LANGUAGE.values())


@pytest.mark.parametrize("languages", [{}, {"source": "de"}, {"target": "en"}])
def test_a_model_for_headlines_may_have_no_languages(capsys, languages):
    asked = []

    def answering(_number: int, body: dict) -> tuple[int, dict]:
        asked.append(body)
        return 200, {"summaries": "A dog.", "model": {"name": "head", "version": "1"}}

    head = {"name": "head", "version": "1", "aliases": [], "task": "summarization", "languages": languages}
    with service(answering, [head]) as address:
        assert interlinear(["bench", address, "--rate", "60", *QUICK]) == 0, capsys.readouterr().err
    assert {body["text"] for body in asked[:10]} == set(TEXTS_BY_LANGUAGE[languages.get("source", "en")])
    assert not any({"source", "target"} & body.keys() for body in asked)


def test_a_failure_and_a_missed_p99_are_exit_code_1_and_a_message(texts, tmp_path, capsys):
    def answering(number: int, body: dict) -> tuple[int, dict]:
        return (429, {"error": "7 texts wait already"}) if number % 5 == 4 else right(number, body)

    with service(answering) as address:
        arguments = ["bench", address, "--rate", "60", "--texts", texts, *QUICK, "--json", f"{tmp_path}/r.json"]
        assert interlinear(arguments) == 1
        out, said = capsys.readouterr()
        assert "failed: 429 Too Many Requests (7 texts wait already)" in out
        assert re.search(r"requests failed \(429 Too Many Requests\)\.\n$", said)
        (found,) = report(tmp_path).rates
        assert found.failed == found.failures[0].requests > 0 and found.answered > 0
    with service(right) as address:
        arguments[1] = address
        assert interlinear([*arguments, "--slo-p99-ms", "0.01"]) == 1
        assert re.search(r"p99 is \d+ ms, over 0.01 ms\.\n$", capsys.readouterr().err)
        assert report(tmp_path).rates[0].goodput == 0
        assert interlinear([*arguments, "--slo-p99-ms", "30000"]) == 0


def test_a_response_of_another_shape_is_a_failure(texts, capsys):
    with service(lambda *_: (200, {"text": "A dog."})) as address:
        assert interlinear(["bench", address, "--rate", "40", "--texts", texts, *QUICK]) == 1
    assert "an answer without translatedText or model" in capsys.readouterr().err


def test_a_connection_that_breaks_is_a_failure(texts, capsys):
    def answering(number: int, body: dict) -> tuple[int, dict]:
        raise ConnectionAbortedError  # the handler ends, and its connection with it

    with service(answering) as address:
        assert interlinear(["bench", address, "--rate", "40", "--texts", texts, *QUICK]) == 1
    assert "the connection was closed without an answer" in capsys.readouterr().err


def test_a_sweep_finds_the_saturation_point(texts, tmp_path, capsys):
    """A service with at most 40 responses a second."""
    turn = threading.Lock()

    def answering(number: int, body: dict) -> tuple[int, dict]:
        with turn:
            time.sleep(0.025)
        return right(number, body)

    with service(answering) as address:
        arguments = ["--rate", "10,90", "--duration", "1", "--warm-up", "0.2", "--texts", texts]
        files = ["--json", f"{tmp_path}/r.json", "--figure", f"{tmp_path}/r.svg"]
        assert interlinear(["bench", address, *arguments, *files]) == 0
    found = report(tmp_path)
    assert [one.held for one in found.rates] == [True, False]
    assert found.knee == 10
    assert found.rates[1].answers_per_second < 45
    out = capsys.readouterr().out
    assert "knee: held up to 10 requests/s" in out and "90/s: it did not keep up" in out
    assert {"10 requests/s", "90 requests/s", "requests/s"} <= set(
        re.findall(">([^<>]+)</", (tmp_path / "r.svg").read_text())
    )


def test_the_figure_shows_failures_and_the_limit(tmp_path):
    answers = tuple((0.1 * i, 10.0 + i % 17) for i in range(200))
    plain = latency_chart([LatencySeries("a", answers)], None, tmp_path / "a.svg").read_text()
    marked = latency_chart([LatencySeries("a", answers, (1.0, 2.0))], 20.0, tmp_path / "b.svg").read_text()
    for words in ("× failed", "p99 limit, 20 ms"):
        assert words in marked and words not in plain
    assert "99 %" in plain and "99.9 %" not in plain, "of 200 answers none is one in a thousand"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--rate", "-3"], 2, "'-3' is not a number of requests a second"),
        (["--rate", "0"], 2, "'0' is not a number"),
        (["--rate", "ten"], 2, "'ten' is not a number"),
        (["--rate", "nan"], 2, "'nan' is not a number"),
        (["--rate", "1e9"], 2, "at most 5000"),
        (["--rate", "10,10"], 2, "a rate is there twice"),
        (["--duration", "0"], 2, "nothing can be measured"),
        (["--duration", "inf"], 2, "nothing can be measured"),
        (["--warm-up", "-1"], 2, "is not a time"),
        (["--slo-p99-ms", "0"], 2, "is not a limit"),
        (["--route", "/models"], 2, "is not a route that takes load"),
        (["--image-dir", "."], 1, "there is no picture in it"),
        (["--mt", "ONE", "--route", "translate"], 2, "/translate takes no translations"),
        (["--route", "post-edit"], 2, "/post-edit needs translations"),
        (["--mt", "ONE", "--texts", "TWO"], 2, "no model that is served fits. It serves mt@3"),
        (["--figure", "x.bmp"], 2, "a picture is a .png"),
        (["--concurrency-limit", "10000000"], 2, "ulimit -n"),
        (["--texts", "EMPTY"], 1, "there is no text in it"),
        (["--texts", "BYTES"], 1, "is not valid UTF-8"),
        (["--texts", "nowhere"], 2, "does not exist"),
        (["--model", "other"], 2, "no model that is served fits. It serves mt@3 (translation, de to en)"),
        (["--target", "fr"], 2, "no model that is served fits"),
        (["--rate", "0.001", "--duration", "0.1", "--warm-up", "0"], 2, "no request was due"),
    ],
)
def test_a_usage_error_is_a_message(tmp_path, monkeypatch, capsys, arguments, code, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "EMPTY").write_text("\n \n")
    (tmp_path / "ONE").write_text("One.\n")
    (tmp_path / "TWO").write_text("One.\nTwo.\n")
    (tmp_path / "BYTES").write_bytes(b"\xff\n")
    with service(right) as address:
        assert interlinear(["bench", address, *arguments]) == code
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1, said


def test_an_address_without_a_service_is_reported(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    with service(right, models={"not": "models"}) as other:
        for url, code, sentence in (
            ("127.0.0.1:8000", 2, "is not the address of a service"),
            ("http://", 2, "is not the address of a service"),
            ("http://x:99999", 2, "is not the address of a service"),
            (f"http://127.0.0.1:{free}", 1, "cannot be reached (cannot connect: Connection refused)"),
            ("http://no.such.host.invalid", 1, "cannot be reached"),
            (other, 1, "what answers there is not an Interlinear service"),
            (f"{other}/nothing", 1, "what answers there is not an Interlinear service"),
        ):
            assert interlinear(["bench", url]) == code, url
            said = capsys.readouterr().err
            assert sentence in said and said.count("\n") == 1, said


def test_load_on_a_real_service(toy, tmp_path, monkeypatch):
    """The toy reads 12 words and treats unknown ones as such; its weights are random, so only the transport is
    tested."""
    uvicorn = pytest.importorskip("uvicorn")
    from service.app import create_app
    from service.settings import ServedModelConfig, Settings

    settings = Settings(models=(ServedModelConfig(name="mt", uri=str(toy)),), threads=1)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(settings), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        arguments = ["--rate", "10", "--duration", "2", "--warm-up", "0.5", "--json", f"{tmp_path}/r.json"]
        assert interlinear(["bench", address, *arguments]) == 0
    finally:
        server.should_exit = True
        thread.join(20)
    found = report(tmp_path)
    (seen,) = found.rates[0].versions
    assert seen.model.startswith("mt@sha-") and seen.answers == found.rates[0].answered > 5
    assert found.rates[0].latency_ms.p50 > 0


def test_the_page_describes_every_field_of_the_json():
    page = (Path(__file__).parents[3] / "docs" / "serving.md").read_text(encoding="utf-8")
    for record in (LoadReport, RateResult, Latencies, Failure, ModelVersionCount):
        for field in record.model_fields:
            assert f"`{field}`" in page, field
