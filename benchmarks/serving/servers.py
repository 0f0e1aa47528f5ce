"""The compared servers of one bundle, each in its own process, and load generators for them.

`interlinear` is the service; `lock` and `collect` are those of handlers.py; `ray` is ray_handler.py; `mlflow` is
`mlflow models serve`. All are called over HTTP on loopback, give the same outputs, and have the same number of threads.
"""

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from benchmarks.reporting import ROOT, say
from interlinear.loadtest.load_generator import Load as OpenLoad
from interlinear.loadtest.load_generator import run_load
from interlinear.loadtest.load_report import RateResult, percentile, summarize_rate

START = 180.0  # seconds within which a server must be ready
END = 60.0
IN_FLIGHT = 500
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Contestant:
    """A server that is not started yet: its kind, the number of texts that it searches together, and its threads."""

    name: str
    kind: str
    model: str
    threads: int
    slots: int = 32
    wait_ms: float = 10.0  # waiting time for further texts, if batches are collected
    precision: str = "fp32"
    compiled: bool = False
    device: str = "cpu"  # `cpu,cpu`: two processes

    def command(self, port: int) -> list[str]:
        python = [sys.executable, "-m"]
        match self.kind:
            case "interlinear":
                return [*python, "interlinear", "serve", "--model", f"mt={self.model}", "--port", str(port)]
            case "mlflow":
                where = ["-m", self.model, "--env-manager", "local", "-h", "127.0.0.1", "-p", str(port)]
                return [*python, "mlflow", "models", "serve", *where]
            case "ray":
                module = ["benchmarks.serving.ray_handler"]
            case _:
                module = ["benchmarks.serving.handlers", "--how", self.kind]
        limits = ["--threads", str(self.threads), "--slots", str(self.slots), "--wait-ms", str(self.wait_ms)]
        return [*python, *module, "--model", self.model, "--port", str(port), *limits]

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "INTERLINEAR_SERVE_SLOTS": str(self.slots),
            "INTERLINEAR_SERVE_THREADS": str(self.threads),
            "INTERLINEAR_SERVE_PRECISION": self.precision,
            "INTERLINEAR_SERVE_COMPILE": "on" if self.compiled else "off",
            "INTERLINEAR_SERVE_DEVICE": self.device,
            "INTERLINEAR_SERVE_QUEUE_TEXTS": str(2 * IN_FLIGHT),  # overload shows as latency here, not as refusals
            "INTERLINEAR_SERVE_QUEUE_TOKENS": str(10**9),
            "OMP_NUM_THREADS": str(self.threads),
            "PYTHONPATH": str(ROOT),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",  # mlflow starts uvicorn by name
        }

    @property
    def ready(self) -> str:
        """A route that responds with 200 when the server is ready."""
        return {"interlinear": "/health/ready", "mlflow": "/ping"}.get(self.kind, "/ready")


@dataclass(frozen=True)
class Server:
    """A running server."""

    contestant: Contestant
    port: int
    start_seconds: float  # from its process's start until it was ready

    @property
    def path(self) -> str:
        return "/invocations" if self.contestant.kind == "mlflow" else "/translate"

    def body(self, text: str, languages: dict[str, str], explain: bool = False) -> bytes:
        if self.contestant.kind == "mlflow":
            return json.dumps({"dataframe_split": {"columns": ["source"], "data": [[text]]}}).encode()
        return json.dumps({"q": text} | languages | ({"explain": True} if explain else {})).encode()

    def text(self, content: bytes) -> str:
        """The output in a response."""
        answer = json.loads(content)
        return str(answer["predictions"][0] if self.contestant.kind == "mlflow" else answer["translatedText"])

    def get(self, path: str) -> str:
        """The response of a route."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", path)
        return connection.getresponse().read().decode()

    def positions(self) -> tuple[float, float]:
        """Source positions of all steps so far: those of texts, and all including padding."""
        if self.contestant.kind != "interlinear":
            read, room = json.loads(self.get("/positions"))
            return read, room
        pattern = r'interlinear_stepped_positions_total\{engine="cpu",kind="(\w+)",model="mt"\} (\S+)'
        found = {kind: float(value) for kind, value in re.findall(pattern, self.get("/metrics"))}
        return found["text"], found["text"] + found["padding"]

    def memory(self) -> float:
        """Memory of the service in bytes."""
        (resident,) = re.findall(r"interlinear_engine_resident_memory_bytes\{\S+ (\S+)", self.get("/metrics"))
        return float(resident)


@contextmanager
def started(contestant: Contestant) -> Iterator[Server]:
    """A server that is ready; all its processes are ended afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryFile("w+") as log:
        begun = time.perf_counter()
        child = subprocess.Popen(
            contestant.command(port),
            env=contestant.environment, stdout=log, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            while not answers(port, contestant.ready):
                if child.poll() is not None or time.perf_counter() - begun > START:
                    log.seek(0)
                    sys.exit(f"{contestant.name} did not become ready; it said:\n{log.read()[-3000:]}")
                time.sleep(0.02)
            yield Server(contestant, port, time.perf_counter() - begun)
        finally:
            end(child)


def end(child: "subprocess.Popen[str]") -> None:
    """End a process and its children."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, how)
            child.wait(END)
            return
        except ProcessLookupError:
            child.wait()
            return
        except subprocess.TimeoutExpired:
            continue


def answers(port: int, path: str) -> bool:
    """Whether a route responds with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@dataclass(frozen=True)
class Load:
    """Measurements of so many callers, each of which sends its next text after its response."""

    rate: float  # requests a second
    p50: float  # milliseconds
    p99: float


def load(server: Server, bodies: Sequence[bytes], callers: int, requests: int) -> Load:
    """Send so many requests from so many concurrent callers, over keep-alive connections."""
    waiting = list(islice(cycle(bodies), requests))
    latencies: list[float] = []
    lock, start = threading.Lock(), threading.Barrier(callers + 1)

    def call() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.connect()
        start.wait()
        while True:
            with lock:
                if not waiting:
                    return
                body = waiting.pop()
            latencies.append(ask(connection, server, body)[0])

    threads = [threading.Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    start.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    if len(latencies) < requests:
        sys.exit(f"{server.contestant.name}: a request failed: the figures would mean nothing")
    ranked = sorted(1000 * latency for latency in latencies)
    return Load(requests / seconds, percentile(ranked, 0.5), percentile(ranked, 0.99))


def ask(connection: http.client.HTTPConnection, server: Server, body: bytes) -> tuple[float, bytes]:
    """Seconds to a response, and the response."""
    sent = time.perf_counter()
    connection.request("POST", server.path, body, JSON)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{server.contestant.name} answered with {answer.status}: {content[:200]!r}")
    return time.perf_counter() - sent, content


def open_load(
    server: Server, bodies: Sequence[bytes], rate: float, seconds: float, limit_ms: float | None
) -> RateResult:
    """Requests as sent by `interlinear bench`, which do not wait for responses; the first tenth of the time is
    warm-up."""
    one = open_loop(server, bodies, rate, seconds / 10, seconds)
    return summarize_rate(one, asyncio.run(run_load(one, lambda *_: None)), limit_ms)


def open_loop(server: Server, bodies: Sequence[bytes], rate: float, warm_up: float, seconds: float) -> OpenLoad:
    """An open-loop load to be sent."""
    address = f"http://127.0.0.1:{server.port}{server.path}"
    return OpenLoad(address, bodies, JSON, "translatedText", rate, warm_up, seconds, IN_FLIGHT, seed=1)


def agree(servers: dict[str, list[str]]) -> None:
    """Print where contestants answered differently, as they would not have done the same work."""
    (first, wanted), *others = servers.items()
    for name, texts in others:
        if different := sum(one != other for one, other in zip(wanted, texts, strict=True)):
            say(f"{name} answered {different} of {len(texts)} texts otherwise than {first}")


def read_texts(path: Path) -> list[str]:
    """The lines of a file that are not blank."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def languages_of(bundle: Path) -> dict[str, str]:
    """The languages on a bundle's card."""
    card: dict[str, Any] = json.loads((bundle / "model.json").read_text(encoding="utf-8"))
    return {name: card["languages"][name] for name in ("source", "target")}
