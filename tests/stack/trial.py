"""An end-to-end test of the running stack: submit trainings, promote, translate by HTTP, query Prometheus."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from seq2seq.errors import ServiceError
from tests.stack import running
from tests.stack.sandbox import ROOT

_MODEL = "de-en"  # the default of INTERLINEAR_MODEL in docker-compose.yml
_FOLDER = "/srv/interlinear"  # where jobs run on the cluster: its volume `work`
_STORAGE = f"{_FOLDER}/storage"
_RECIPE = """
about: small enough to be trained in a minute
extends: rnnsearch_small
model: {hidden: 32}
training: {epochs: 1, epoch_updates: 40, dev_sentences: 20}
"""
_SENTENCE = "Der Hund sieht den alten Mann."
_PATIENCE = 180.0  # seconds until the service has followed an alias, and Prometheus has scraped it


def run() -> None:
    """Raises ServiceError at the first step that fails."""
    _refused_without_secrets()
    first, second = _train(1), _train(2)
    _interlinear("promote", _MODEL, first)
    key = _output(running.beside("service", ("interlinear", "keys", "add", f"stack-test-{time.time_ns()}")))
    running.up("serve")
    _until(f"version {first} answers", lambda: _translate(key) == first)
    _interlinear("promote", _MODEL, second)
    _until(f"version {second} answers, which was promoted meanwhile", lambda: _translate(key) == second)
    _expect(
        _status(_address("service", 8000) + "/translate", b"{}") == 401, "the service refuses whom it does not know"
    )
    _until("Prometheus sees the service", lambda: _watched("up{job='interlinear'}") == 1)
    _until("Prometheus sees Ray", lambda: _watched("up{job='ray-head'}") == 1)
    _where_things_are(second)
    _say("trained, registered, promoted, served, swapped, watched")


def _refused_without_secrets() -> None:
    search = _address("mlflow", 5000) + "/api/2.0/mlflow/experiments/search"
    _expect(_status(search, b'{"max_results": 1}') == 401, "MLflow asks for a password")
    stranger = _from_here("jobs", "list", RAY_AUTH_TOKEN="0" * 64)
    _expect(stranger.returncode == 1 and "does not take this token" in stranger.stderr, "Ray asks for its token")


def _train(seed: int) -> str:
    """Submit a recipe file from this machine, and wait for it; returns the registered version."""
    run, workers = f"stack-{seed}", running.stack().services["ray-worker"].deploy.replicas
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder, "mine.yaml")
        recipe.write_text(_RECIPE, encoding="utf-8")
        words = ["--run", run, "--set", f"training.seed={seed}", "--workers", str(workers), "--register", _MODEL]
        words += ["--folder", _FOLDER, "--storage", _STORAGE, "--wait"]
        token = str(running.PLACES.secrets / "ray_token")
        done = _from_here("submit", str(recipe), "--data", "demo", *words, RAY_AUTH_TOKEN_PATH=token)
    said = done.stderr
    found = re.search(rf"registered as models:/{_MODEL}/(\d+)", said)
    if done.returncode or not found:
        raise ServiceError("stack-test", f"the training ended with {done.returncode}", said[-1500:])
    recorded = f"interlinear: {run} is recorded at http://mlflow:5000/#/experiments/"
    _expect(said.startswith(recorded), "the first line is where MLflow has the run")
    _expect(bool(re.fullmatch("[0-9a-f]{64}\n", done.stdout)), "the weights' fingerprint comes back")
    stored = ("find", f"{_STORAGE}/runs/{run}/bundle", "-name", "model.safetensors")
    _expect(bool(_output(running.inside("ray-worker", stored))), "its bundle is on the storage")
    _say(f"trained {found[0].removeprefix('registered as ')}")
    return found[1]


def _from_here(*words: str, **secrets: str) -> subprocess.CompletedProcess[str]:
    """Run our command on this machine, for the cluster at its published port, with only these of its secrets."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "MLFLOW_"))}
    environment |= {"RAY_API_SERVER_ADDRESS": _address("ray-head", 8265), "PYTHONPATH": str(ROOT), **secrets}
    command = [sys.executable, "-m", "interlinear", *words]
    return subprocess.run(command, env=environment, check=False, capture_output=True, text=True)


def _where_things_are(version: str) -> None:
    """Check that the registry is in PostgreSQL and the bundle behind MLflow's server, not in a worker's files."""
    query = f"SELECT source FROM model_versions WHERE name = '{_MODEL}' AND version = {version}"
    words = ("psql", "--host=/var/run/postgresql", "--username=mlflow", "--tuples-only", "--command", query, "mlflow")
    _expect("models:/" in _output(running.inside("postgres", words)), "the version is in PostgreSQL")
    found = _output(running.inside("mlflow", ("find", "/var/lib/mlflow/artifacts", "-name", "*.safetensors")))
    _expect(bool(found), "the weights are among MLflow's artifacts")


def _interlinear(*words: str) -> str:
    """Run our command on the head, where MLflow's address and password are set; returns its output."""
    return _output(running.inside("ray-head", ("interlinear", *words)), with_errors=True)


def _output(words: list[str], with_errors: bool = False) -> str:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ServiceError("stack-test", f"a command ended with {done.returncode}", (done.stdout + done.stderr)[-1500:])
    return (done.stdout + (done.stderr if with_errors else "")).strip()


def _translate(key: str) -> str | None:
    """The version that answers now; None while the service does not answer."""
    body = json.dumps({"q": _SENTENCE, "source": "de", "target": "en"}).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(_address("service", 8000) + "/translate", body, headers), timeout=30
        ) as answer:
            return str(json.load(answer)["model"]["version"])
    except (urllib.error.URLError, OSError):
        return None


def _watched(query: str) -> float | None:
    """The result of a Prometheus query."""
    address = _address("prometheus", 9090) + "/api/v1/query?query=" + quote(query)
    with urllib.request.urlopen(address, timeout=10) as answer:
        found = json.load(answer)["data"]["result"]
    return float(found[0]["value"][1]) if found else None


def _status(address: str, body: bytes | None = None) -> int:
    headers = {"Content-Type": "application/json"} if body else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _address(service: str, inside: int) -> str:
    """The address at which a service's port is published on this machine."""
    port = next(port for port in running.stack().services[service].ports if port.inside == inside)
    return f"http://{port.host}:{port.published}"


def _until(what: str, true: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not true():
        if time.monotonic() > end:
            raise ServiceError("stack-test", f"not within {_PATIENCE:.0f} s: {what}", "see .stack/logs")
        time.sleep(1)
    _say(what)


def _expect(true: bool, what: str) -> None:
    if not true:
        raise ServiceError("stack-test", f"it is not so: {what}", "see .stack/logs")
    _say(what)


def _say(line: str) -> None:
    print(f"stack-test: {line}", file=sys.stderr, flush=True)
