"""MLflow's own server as a process that tests start and stop, and a PostgreSQL server with a system user of its own."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def listening(
    command: list[str], folder: Path, url: str, environment: Mapping[str, str] | None = None
) -> Iterator[psutil.Process]:
    """A server process, ready when it responds; it and all its children are ended afterwards."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # MLflow starts uvicorn by name
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=folder, env=os.environ | {"PATH": path} | dict(environment or {}), **quiet)
    try:
        for _ in range(240):
            try:
                httpx.get(url, timeout=2)
                break
            except httpx.TransportError:
                assert process.poll() is None, "it ended"
                time.sleep(0.5)
        yield psutil.Process(process.pid)
    finally:
        kill(psutil.Process(process.pid))
        process.wait(30)


def kill(process: psutil.Process) -> None:
    """Kill the process and its children at once, as a power failure would."""
    family = [*process.children(recursive=True), process]
    for each in family:
        each.kill()
    psutil.wait_procs(family, timeout=30)


class MlflowServer:
    """An MLflow server that also serves artifacts, and can be stopped and restarted."""

    def __init__(self, folder: Path, *options: str, backend: str | None = None, **environment: str) -> None:
        self.folder, self.port, self.environment = folder, free_port(), environment
        self.uri = f"http://127.0.0.1:{self.port}"
        store = ["--backend-store-uri", backend or f"sqlite:///{folder}/mlflow.db"]
        place = ["--artifacts-destination", str(folder / "kept"), "--serve-artifacts"]
        server = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", str(self.port)]
        self.command = [*server, *store, *place, *options]
        self.running = None

    def start(self) -> None:
        self.context = listening(self.command, self.folder, f"{self.uri}/health", self.environment)
        self.running = self.context.__enter__()

    def stop(self) -> None:
        if self.running:
            self.running = None
            self.context.__exit__(None, None, None)

    def __enter__(self) -> "MlflowServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def postgres_binary(name: str) -> str:
    """The path of one of PostgreSQL's programs; the test is skipped if it is not installed."""
    found = shutil.which(name) or next(map(str, sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))), None)
    if found is None:
        pytest.skip(f"PostgreSQL's {name} is not installed")
    return found


@contextmanager
def postgres(user: str, password: str) -> Iterator[str]:
    """A PostgreSQL server on loopback; yields its address for SQLAlchemy."""
    pytest.importorskip("psycopg")
    initdb, server = postgres_binary("initdb"), postgres_binary("postgres")
    owner: Sequence[str] = []
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        owner = [entry.pw_name for entry in pwd.getpwall() if entry.pw_name == "postgres"]
        if not owner:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    with tempfile.TemporaryDirectory(prefix="postgres-", dir="/tmp", ignore_cleanup_errors=True) as place:
        folder, secret = Path(place), Path(place, "password")
        secret.write_text(password)
        for path in (folder, secret):
            shutil.chown(path, *owner) if owner else None
        run_as = {"user": owner[0]} if owner else {}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": place, **run_as}
        port = free_port()
        data = str(folder / "data")
        words = [initdb, "-D", data, "-U", user, "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync"]
        subprocess.run(words, check=True, **quiet)
        settings = ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        words = [server, "-D", data, "-p", str(port), "-k", place, *settings]
        process = subprocess.Popen(words, **quiet)
        try:
            for _ in range(120):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.5)
            yield f"postgresql+psycopg://{user}:{password}@127.0.0.1:{port}/postgres"
        finally:
            process.terminate()  # a fast shutdown would be SIGINT; no client is connected any more
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.send_signal(3)
                process.wait(20)
