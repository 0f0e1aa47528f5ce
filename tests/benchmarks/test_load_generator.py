"""The load generator of the serving benchmarks: arrivals, latencies, and results for fast and slow services."""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.serving.load_generator import (
    RequestRecord,
    Target,
    closed_loop,
    in_flight,
    lateness,
    open_loop,
    percentile,
    poisson_arrivals,
    summarize,
)

pytestmark = pytest.mark.slow


@contextmanager
def service(answering: Callable[[int, dict], int], stall: tuple[float, float] = (0, 0)) -> Iterator[str]:
    """An HTTP server; `answering` gets the number of the POST and its body, and returns the status. After the first
    POST it stalls between the two times of `stall`, in seconds."""
    count, lock, first = iter(range(10**9)), threading.Lock(), []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                number = next(count)
                first.append(time.monotonic())
            at = time.monotonic() - first[0]
            if stall[0] <= at < stall[1]:
                time.sleep(stall[1] - at)
            self.send_response(answering(number, body | {"caller": self.headers["X-Forwarded-For"]}))
            self.send_header("Content-Length", "0")
            self.end_headers()

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


@given(st.floats(1, 200), st.integers(0, 10**6))
def test_arrivals_are_a_poisson_process(rate, seed):
    at = list(poisson_arrivals(rate, 2000 / rate, random.Random(seed)))
    assert at == sorted(at) and all(0 < moment < 2000 / rate for moment in at)
    assert abs(len(at) - 2000) < 6 * 2000**0.5  # for a Poisson distribution the variance equals the mean
    gaps = [after - before for before, after in pairwise(at)]
    long = sum(gap > 1 / rate for gap in gaps) / len(gaps)
    assert abs(long - 0.3679) < 0.07  # a share of e^-1 of exponential gaps is longer than the mean


def test_a_run_worked_by_hand():
    records = [
        RequestRecord(-0.5, 0.0, 0.9),  # of the warm-up: its response arrives in the measured time
        *[RequestRecord(float(i), 0.001, 0.1 * (i + 1)) for i in range(8)],
        RequestRecord(8.0, 0.02, 0.2, "429 Too Many Requests"),
        RequestRecord(9.5, 0.002, 0.6),
    ]
    found = summarize(records, 10.0, limit_ms=500.0)
    assert (found.requests, found.failed, dict(found.failures)) == (10, 1, {"429 Too Many Requests": 1})
    assert (found.rate, found.goodput) == (0.9, 0.5)  # within the limit: 100, ..., 500 ms
    assert (found.p50, found.p99, found.longest) == (500.0, 800.0, 800.0)
    assert [percentile([1.0, 2.0, 3.0, 4.0], share) for share in (0.01, 0.25, 0.26, 0.99)] == [1.0, 1.0, 2.0, 4.0]
    assert found.keeps_up and not found.holds(1000.0), "one failed"
    assert summarize(records[1:9], 10.0).holds(800.0) and not summarize(records[1:9], 10.0).holds(799.0)
    assert (in_flight(records, 0.0), in_flight(records, 1.05), in_flight(records, 9.9)) == (2, 1, 1)
    assert "p99 20 ms" in lateness(records) and not lateness(records[:9])


def test_a_growing_backlog_is_not_keeping_up():
    records = [RequestRecord(0.1 * i, 0.0, 0.05 * i) for i in range(100)]  # half as fast as they arrive
    found = summarize(records, 10.0)
    assert not found.keeps_up and not found.failed and not found.holds(1e9)


def test_latency_counts_from_the_scheduled_time():
    """A service that stalls for 0.4 s delays all requests due meanwhile; a closed-loop client would see one late
    response."""
    with service(lambda *_: 200, stall=(0.3, 0.7)) as address:
        found = summarize(open_loop(Target(address, [b"{}"]), rate=100, seconds=1.5), 1.5)
    assert not found.failed and found.requests > 100
    assert found.longest > 300 and found.p99 > 200 and found.rate > 60


def test_a_refusal_and_a_broken_connection_are_failures_and_bodies_and_headers_are_sent():
    sent = []

    def answering(number: int, body: dict) -> int:
        sent.append(body)
        if number % 5 == 3:
            raise ConnectionAbortedError  # the handler ends, and its connection with it
        return 429 if number % 5 == 4 else 200

    bodies = [b'{"q": "Ein Hund"}', b'{"q": "Eine Katze"}']
    with service(answering) as address:
        target = Target(address, bodies, {"X-Forwarded-For": "192.0.2.1"})
        found = summarize(open_loop(target, rate=60, seconds=1, warm_up=0.2), 1)
    assert found.failures["429 Too Many Requests"] > 0 and found.rate > 0
    assert any("the connection broke" in problem for problem in found.failures)
    assert {body["q"] for body in sent} == {"Ein Hund", "Eine Katze"}
    assert {body["caller"] for body in sent} == {"192.0.2.1"} and len(sent) >= found.requests


def test_callers_in_a_closed_loop_wait_for_their_answers():
    asking, most, lock = 0, 0, threading.Lock()

    def answering(number: int, body: dict) -> int:
        nonlocal asking, most
        with lock:
            asking += 1
            most = max(most, asking)
        time.sleep(0.01)
        with lock:
            asking -= 1
        return 200

    with service(answering) as address:
        records = closed_loop(Target(address, [b"{}"]), callers=3, requests=30)
    assert len(records) == 30 and most <= 3
    assert not any(record.problem for record in records) and min(record.latency for record in records) >= 0.01
