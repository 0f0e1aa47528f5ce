"""Faults of the environment, with a real `interlinear serve` under load: accepted requests are answered, and refusals
name a cause.

One service with two engine processes goes through all tests in this order; it ends with SIGTERM.
"""

import os
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import httpx
import pytest

from tests.service.conftest import ALIAS, Registered, sent, sentences
from tests.service.conftest import until as soon
from tests.service.engine.test_engine import LONG, quiet, value
from tests.service.engine.test_processes import BOTH, engines_up
from tests.service.test_serve import address, process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TEXTS = [german for german, _ in sentences()]
CALLERS = 4
HEADER_SECONDS = 5
SOAK_SECONDS = 180
WRONG = [
    {"q": "Hund", "source": "xx", "target": "en"},
    {"q": 50_000 * "a ", "source": "de", "target": "en"},
    {"q": "Hund", "source": "de", "target": "en", "beam_size": 10**6},
    {"q": "Hund", "source": "de", "target": "en", "model": "nobody"},
    {"q": None},
]
ROOM = "8m"  # size of the cache's file system


def until(true: Callable[[], bool]) -> None:
    soon(true, 120)


@dataclass
class Load:
    """Callers that send requests without pause, three texts at a time, and record the responses."""

    url: str
    answers: list[dict] = field(default_factory=list)  # those with status 200
    refused: list[httpx.Response] = field(default_factory=list)
    broken: list[httpx.HTTPError] = field(default_factory=list)  # without a response
    slowest: float = 0.0

    def ask(self, caller: int, ended: threading.Event) -> None:
        with httpx.Client(base_url=self.url, timeout=60) as client:
            for i in range(100 * caller, 10**9):
                if ended.is_set():
                    return
                texts = [TEXTS[(3 * i + k) % len(TEXTS)] for k in range(3)]
                asked = time.monotonic()
                try:
                    answer = client.post("/translate", json={"q": texts, "source": "de", "target": "en"})
                except httpx.HTTPError as error:
                    self.broken.append(error)
                    return
                self.slowest = max(self.slowest, time.monotonic() - asked)
                if answer.status_code == 200:
                    self.answers.append(answer.json())
                else:
                    self.refused.append(answer)
                    time.sleep(0.05)

    @property
    def versions(self) -> Counter[str]:
        """Responses by version; each is completely of the version that it names: version 2 writes two tokens at
        most."""
        for answer in self.answers:
            short = {len(text.split()) <= 2 for text in answer["translatedText"]}
            assert short == {answer["model"]["version"] == "2"}, answer
        return Counter(answer["model"]["version"] for answer in self.answers)

    def goes_on(self, answers: int = 20) -> None:
        """Wait for so many more responses."""
        seen = len(self.answers)
        until(lambda: len(self.answers) >= seen + answers)


@contextmanager
def loaded(url: str) -> Iterator[Load]:
    load, ended = Load(url), threading.Event()
    callers = [threading.Thread(target=load.ask, args=[i, ended]) for i in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        load.goes_on()
        yield load
    finally:
        ended.set()
        for caller in callers:
            caller.join(90)
    assert not any(caller.is_alive() for caller in callers), "somebody was left hanging"


@dataclass(frozen=True)
class Running:
    """The service, its registry, and its model cache."""

    child: subprocess.Popen[str]
    url: str
    registered: Registered
    cache: Path

    def model(self) -> dict:
        (described,) = httpx.get(f"{self.url}/models").json()
        return described

    def engines(self) -> list[int]:
        """The engine processes."""
        threads = Path(f"/proc/{self.child.pid}/task").glob("*/children")  # each process has those that it started
        children = [pid for file in threads for pid in file.read_text().split()]
        return [int(pid) for pid in children if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]

    def kill_engine(self) -> None:
        """Kill one of them, and wait until the service notices."""
        os.kill(self.engines()[0], signal.SIGKILL)
        until(lambda: engines_up(self.url) != BOTH)


@pytest.fixture(scope="module")
def running(made: Registered, tmp_path_factory) -> Iterator[Running]:
    """The cache is a small file system of its own, if one may be mounted."""
    folder = tmp_path_factory.mktemp("faults")
    cache = folder / "cache"
    cache.mkdir()
    mounted = not subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "none", cache], check=False).returncode
    made.promote(1)
    options = ["--model", f"mt={ALIAS}", "--tracking", made.tracking, "--set", f"cache={cache}", "--device", "cpu,cpu"]
    slow = {"POLL_SECONDS": "0.2", "HEADER_SECONDS": str(HEADER_SECONDS), "SLOTS": "8", "THREADS": "1"}
    environment = {f"INTERLINEAR_SERVE_{name}": setting for name, setting in slow.items()}
    try:
        with process(*options, folder=folder, **environment) as child:
            url = address(child)
            threading.Thread(target=child.stderr.read, daemon=True).start()  # otherwise the pipe would fill up
            yield Running(child, url, made, cache)
    finally:
        if mounted:
            subprocess.run(["umount", cache], check=True)


@pytest.mark.ci
def test_a_killed_engine_loses_only_its_running_texts(running):
    with loaded(running.url) as load:
        for _ in range(2):
            running.kill_engine()
            load.goes_on()
            until(lambda: engines_up(running.url) == BOTH)
    assert not load.broken
    assert {answer.status_code for answer in load.refused} <= {503}
    assert all(int(a.headers["retry-after"]) and "is started again" in a.json()["detail"] for a in load.refused)
    assert len(load.refused) <= 2 * CALLERS
    assert load.versions.keys() == {"1"}
    assert value(running.url, "interlinear_engine_restarts_total") == 2


@pytest.mark.ci
def test_a_full_disk_keeps_the_old_version(running):
    if not running.cache.is_mount():
        pytest.skip("a small file system for the cache can be mounted by root only")
    filler = running.cache / "filler"
    with loaded(running.url) as load:
        with pytest.raises(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(4096))
                file.flush()
        try:
            running.registered.promote(2)
            until(lambda: running.model()["status"] == "failed")
            assert running.model()["error"] == "Version 2 cannot be served. The service's log says why."
            load.goes_on()
            assert load.versions.keys() == {"1"}
        finally:
            filler.unlink()
        until(lambda: running.model()["version"] == "2")
        load.goes_on()
    assert not load.broken and not load.refused
    assert load.versions.keys() == {"1", "2"}


def test_a_registry_outage(running):
    database, away = running.registered.folder / "mlflow.db", running.registered.folder / "away.db"
    before = running.model()["version"]
    with loaded(running.url) as load:
        database.rename(away)
        try:
            until(lambda: running.model()["status"] == "unchecked")
            load.goes_on()
            running.kill_engine()  # a restart does not need the registry
            until(lambda: engines_up(running.url) == BOTH)
        finally:
            away.rename(database)
        until(lambda: running.model()["status"] == "current")
    assert not load.broken
    assert {answer.status_code for answer in load.refused} <= {503}
    assert load.versions.keys() == {before}


def test_an_alias_moved_fifty_times_in_a_minute(running):
    with loaded(running.url) as load:
        began = time.monotonic()
        for i in range(50):
            running.registered.promote(1 + i % 2)
            time.sleep(max(0.0, began + 60 * (i + 1) / 50 - time.monotonic()))
        until(lambda: running.model()["version"] == "2" and running.model()["status"] == "current")
    assert not load.broken and not load.refused
    assert load.versions.keys() == {"1", "2"}
    page = httpx.get(f"{running.url}/metrics").text
    assert page.count("interlinear_model{") == 1
    memory = value(running.url, "interlinear_engine_resident_memory_bytes")
    assert memory < 2 * 2**30, "what was replaced is let go"


def test_five_hundred_slow_connections_delay_nobody(running):
    host, port = running.url.removeprefix("http://").split(":")
    slow: list[socket.socket] = []
    try:
        with loaded(running.url) as load:
            for i in range(500):
                connection = socket.create_connection((host, int(port)), timeout=30)
                slow.append(connection)
                connection.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nX-Slow: " if i % 2 else b"PO")
            for _ in range(8):  # a byte now and then, until the service closes the connection
                for connection in slow:
                    with suppress(OSError):
                        connection.sendall(b"X")
                time.sleep(HEADER_SECONDS / 8)
            until(lambda: value(running.url, 'interlinear_rejected_total{reason="slow"}') == 500)
            load.goes_on()
    finally:
        for connection in slow:
            connection.close()
    assert not load.broken and not load.refused
    assert load.slowest < 30


def test_memory_does_not_grow(running):
    """`benchmarks.serving.soak` runs for ten minutes, and measures latency."""
    memory: list[float] = []
    with loaded(running.url) as load:
        for i in range(SOAK_SECONDS):
            with sent(running.url, LONG | {"max_length": 20 + i % 40}):  # and nobody waits for the answer
                time.sleep(0.05)
            wrong = httpx.post(f"{running.url}/translate", json=WRONG[i % len(WRONG)])
            assert 400 <= wrong.status_code < 500
            memory.append(value(running.url, "interlinear_engine_resident_memory_bytes"))
            time.sleep(0.8)
        load.goes_on()
    assert not load.broken and not load.refused
    until(lambda: quiet(running.url))
    assert value(running.url, 'interlinear_rejected_total{reason="gone"}') > 0
    half, quarter = SOAK_SECONDS // 2, SOAK_SECONDS // 4
    assert median(memory[-quarter:]) < 1.02 * median(memory[half : half + quarter])


@pytest.mark.ci
def test_sigterm_under_load_answers_accepted_requests(running):
    engines = running.engines()
    long = [LONG | {"max_length": 40 + i} for i in range(3)]
    with loaded(running.url) as load, ThreadPoolExecutor(len(long)) as callers:
        for pid in engines:  # so that all texts of the three requests wait at once, however fast the search is
            os.kill(pid, signal.SIGSTOP)
        try:
            asking = [callers.submit(httpx.post, f"{running.url}/translate", json=one, timeout=60) for one in long]
            until(lambda: value(running.url, "interlinear_waiting_texts") >= sum(len(one["q"]) for one in long))
            running.child.send_signal(signal.SIGTERM)
        finally:
            for pid in engines:
                os.kill(pid, signal.SIGCONT)
        assert running.child.wait(60) == 0
        for one in asking:
            assert one.result().status_code == 200
            assert len(one.result().json()["translatedText"]) == len(LONG["q"])
    assert {answer.status_code for answer in load.refused} <= {503}
    assert load.versions
    # Later requests find no server; a keep-alive connection may close as the next request is sent.
    assert len(load.broken) == CALLERS and not any(isinstance(e, httpx.TimeoutException) for e in load.broken)
    assert not any(Path(f"/proc/{pid}").exists() for pid in engines)
