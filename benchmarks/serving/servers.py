"""The compared servers of one bundle, each in its own process.

`interlinear` is the service; `collect` is handlers.py; `ray` is ray_handler.py; `mlflow` is `mlflow models serve`. All
are called over HTTP on loopback, give the same outputs, and have the same number of threads.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from benchmarks.reporting import ROOT, say
from benchmarks.runner import Options
from benchmarks.serving.load_generator import (
    IN_FLIGHT,
    LoadResult,
    Target,
    closed_loop,
    lateness,
    open_loop,
    summarize,
)

START = 180.0  # seconds within which a server must be ready
END = 60.0
JSON = {"Content-Type": "application/json"}


class ServingOptions(Options):
    """The options of a benchmark of servers."""

    def __init__(self, description: str | None, rounds: int = 3, slots: int = 32) -> None:
        super().__init__(description, rounds)
        self.add_argument("--model", type=Path, required=True, metavar="BUNDLE")
        self.add_argument("--texts", type=Path, required=True, metavar="FILE")
        self.add_argument("--threads", type=int, default=1, help="of a server's search")
        self.add_argument("--slots", type=int, default=slots, help="texts that are searched together")


@dataclass(frozen=True)
class ServerConfig:
    """A server that is not started yet: its kind, the number of texts that it searches together, and its threads.

    `settings`: further environment variables of the service, without their prefix.
    """

    kind: str
    model: str
    threads: int
    slots: int = 32
    wait_ms: float = 10.0  # waiting time for further texts, if batches are collected
    settings: Mapping[str, str] = field(default_factory=dict)

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
                module = ["benchmarks.serving.handlers"]
        limits = ["--threads", str(self.threads), "--slots", str(self.slots), "--wait-ms", str(self.wait_ms)]
        return [*python, *module, "--model", self.model, "--port", str(port), *limits]

    @property
    def environment(self) -> dict[str, str]:
        settings = {
            "SLOTS": str(self.slots),
            "THREADS": str(self.threads),
            "PRECISION": "fp32",
            "COMPILE": "off",
            "QUEUE_TEXTS": str(2 * IN_FLIGHT),  # overload shows as latency here, not as refusals
            "QUEUE_TOKENS": str(10**9),
        }
        return os.environ | {
            **{f"INTERLINEAR_SERVE_{name}": value for name, value in {**settings, **self.settings}.items()},
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

    config: ServerConfig
    port: int
    start_seconds: float  # from its process's start until it was ready

    @property
    def path(self) -> str:
        return "/invocations" if self.config.kind == "mlflow" else "/translate"

    def body(self, text: str, languages: Mapping[str, str], explain: bool = False) -> bytes:
        if self.config.kind == "mlflow":
            return json.dumps({"dataframe_split": {"columns": ["source"], "data": [[text]]}}).encode()
        return json.dumps({"q": text} | languages | ({"explain": True} if explain else {})).encode()

    def text(self, content: bytes) -> str:
        """The output in a response."""
        answer = json.loads(content)
        return str(answer["predictions"][0] if self.config.kind == "mlflow" else answer["translatedText"])

    def get(self, path: str) -> str:
        """The response of a route."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port)) as connection:
            connection.request("GET", path)
            return connection.getresponse().read().decode()

    def post(self, body: bytes, headers: Mapping[str, str] = JSON) -> tuple[int, bytes]:
        """Status and content of an answer."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)) as connection:
            connection.request("POST", self.path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read()

    def target(self, bodies: Sequence[bytes], headers: Mapping[str, str] = JSON) -> Target:
        return Target(f"http://127.0.0.1:{self.port}{self.path}", bodies, headers)

    def warm_up(self, bodies: Sequence[bytes]) -> None:
        """A few requests that are not measured, from as many callers as there are slots, and from one."""
        for callers in (self.config.slots, 1):
            closed_loop(self.target(bodies), callers, 2 * callers)

    def closed_load(self, bodies: Sequence[bytes], callers: int, requests: int) -> LoadResult:
        """So many requests from concurrent callers. Ends the benchmark if one failed: figures would mean nothing."""
        begun = time.perf_counter()
        records = closed_loop(self.target(bodies), callers, requests)
        result = summarize(records, time.perf_counter() - begun)
        if result.failed:
            sys.exit(f"{self.config.kind}: requests failed: {dict(result.failures)}")
        return result

    def open_load(
        self, bodies: Sequence[bytes], rate: float, seconds: float, limit_ms: float = float("inf")
    ) -> LoadResult:
        """Requests at random times, which do not wait for answers; a tenth of the time before it is warm-up."""
        records = open_loop(self.target(bodies), rate, seconds, warm_up=seconds / 10)
        if warning := lateness(records):
            say(warning)
        return summarize(records, seconds, limit_ms)

    def positions(self) -> tuple[float, float]:
        """Source positions of all steps so far: those of texts, and all including padding."""
        if self.config.kind != "interlinear":
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
def started(config: ServerConfig) -> Iterator[Server]:
    """A server that is ready; all its processes are ended afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryFile("w+") as log:
        begun = time.perf_counter()
        child = subprocess.Popen(
            config.command(port),
            env=config.environment, stdout=log, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            while not answers(port, config.ready):
                if child.poll() is not None or time.perf_counter() - begun > START:
                    log.seek(0)
                    sys.exit(f"{config.kind} did not become ready; it said:\n{log.read()[-3000:]}")
                time.sleep(0.02)
            yield Server(config, port, time.perf_counter() - begun)
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


def read_texts(path: Path, count: int | None = None) -> list[str]:
    """The lines of a file that are not blank; `count`: so many of them, from the beginning again if there are fewer."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return lines if count is None else list(islice(cycle(lines), count))


def languages_of(bundle: Path) -> dict[str, str]:
    """The languages on a bundle's card."""
    card: dict[str, Any] = json.loads((bundle / "model.json").read_text(encoding="utf-8"))
    return {name: card["languages"][name] for name in ("source", "target")}
