"""The road through a stack that is up: train on its Ray cluster, register, promote, translate over HTTP, be watched."""

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from urllib.parse import quote

from deploy.local import running
from seq2seq.errors import ServiceError

_MODEL = "de-en"  # what docker-compose.yml serves unless INTERLINEAR_MODEL says otherwise
_SMALL = ("training.epochs=1", "training.epoch_updates=40", "training.dev_sentences=20", "model.hidden=32")
_SENTENCE = "Der Hund sieht den alten Mann."
_PATIENCE = 180.0  # seconds until the service has followed an alias, and Prometheus has looked


def run() -> None:
    """Raises ServiceError at the first step that does not do what it should."""
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
    _expect(_status(_address("ray-head", 8265) + "/api/jobs/") == 401, "Ray asks for its token")


def _train(seed: int) -> str:
    """Train on the cluster's workers from its head; the version that was registered."""
    settings = [word for setting in (*_SMALL, f"training.seed={seed}") for word in ("--set", setting)]
    words = ("--data", "demo", "--address", "auto", "--register", _MODEL, "--run", f"stack-{seed}", *settings)
    said = _interlinear("train", "rnnsearch_small", *words)
    found = re.search(rf"registered as models:/{_MODEL}/(\d+)", said)
    if not found:
        raise ServiceError("stack-test", "the training registered nothing", said[-500:])
    _say(f"trained {found[0].removeprefix('registered as ')}")
    return found[1]


def _where_things_are(version: str) -> None:
    """The registry is in PostgreSQL and the bundle behind MLflow's server, not in files that a worker left."""
    query = f"SELECT source FROM model_versions WHERE name = '{_MODEL}' AND version = {version}"
    words = ("psql", "--host=/var/run/postgresql", "--username=mlflow", "--tuples-only", "--command", query, "mlflow")
    _expect("models:/" in _output(running.inside("postgres", words)), "the version is in PostgreSQL")
    found = _output(running.inside("mlflow", ("find", "/var/lib/mlflow/artifacts", "-name", "*.safetensors")))
    _expect(bool(found), "the weights are among MLflow's artifacts")


def _interlinear(*words: str) -> str:
    """A command of ours on the head, where MLflow's address and password are known; what it said."""
    return _output(running.inside("ray-head", ("interlinear", *words)), with_errors=True)


def _output(words: list[str], with_errors: bool = False) -> str:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ServiceError("stack-test", f"a command ended with {done.returncode}", (done.stdout + done.stderr)[-1500:])
    return (done.stdout + (done.stderr if with_errors else "")).strip()


def _translate(key: str) -> str | None:
    """The version that answers now; nothing while the service does not answer."""
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
    """What Prometheus says to a query."""
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
    """Where a service's port is published on this machine."""
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
