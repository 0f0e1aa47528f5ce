"""The services of docker-compose.yml as processes: start, train, promote, translate, stop.

They run in the stack that `make stack-up` has started, or else in one of their own.
"""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from interlinear.errors import ServiceError
from tests.stack import network
from tests.stack.sandbox import FOLDER, ROOT, SECRETS
from tests.stack.stack import Stack, missing_packages

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MODEL = "de-en"  # the default of INTERLINEAR_MODEL in docker-compose.yml
WORK = "/srv/interlinear"  # where jobs run on the cluster: its volume `work`
STORAGE = f"{WORK}/storage"
RECIPE = """
about: small enough to be trained in a minute
extends: rnnsearch_small
model: {hidden: 32}
training: {epoch_updates: 40, dev_sentences: 20}
"""
SENTENCE = "Der Hund sieht den alten Mann."
PATIENCE = 180.0  # seconds until the service has followed an alias, and Prometheus has scraped it


def remains() -> list[str]:
    """The processes and namespaces of a stack."""
    found = [path.name for path in Path("/run/netns").glob("interlinear-*")]
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if any(mark in words for mark in ("interlinear-postgres-1", "/run/secrets/", "ray-head:6379")):
            found.append(words[:200])
    return found


@pytest.fixture
def stack() -> Iterator[Stack]:
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    if missing := missing_packages():
        pytest.skip(f"the stack's programs are not here: apt-get install {' '.join(missing)}")
    if network.BRIDGE_FOLDER.exists():
        yield Stack()
        return
    own, before = Stack(RAY_WORKERS="1"), remains()
    try:
        started = own.up()
        assert started == [name for name in own.file.in_order() if name not in ("service", "proxy", "grafana")]
        assert own.up() == [], "nothing is started twice"
        yield own
    finally:
        own.down()
    assert remains() == before
    assert not FOLDER.exists() and not network.BRIDGE_FOLDER.exists()


def train(stack: Stack, seed: int) -> str:
    """Submit a recipe file from this machine, and wait for it; returns the registered version."""
    run, workers = f"stack-{seed}-{time.time_ns()}", stack.services["ray-worker"].deploy.replicas
    recipe = FOLDER / "mine.yaml"
    recipe.write_text(RECIPE, encoding="utf-8")
    words = ["--run", run, "--set", f"training.seed={seed}", "--set", "training.epochs=1", "--workers", str(workers)]
    words += ["--register", MODEL, "--folder", WORK, "--storage", STORAGE, "--wait"]
    done = from_here(stack, "submit", str(recipe), "--data", "demo", *words, RAY_AUTH_TOKEN_PATH=f"{SECRETS}/ray_token")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"interlinear: {run} is recorded at http://mlflow:5000/#/experiments/")
    assert re.fullmatch("[0-9a-f]{64}\n", done.stdout), "the weights' fingerprint comes back"
    stored = ("find", f"{STORAGE}/runs/{run}/bundle", "-name", "model.safetensors")
    assert output(stack.inside("ray-worker", *stored)), "its bundle is on the storage"
    found = re.search(rf"registered as models:/{MODEL}/(\d+)", done.stderr)
    assert found, done.stderr
    return found[1]


def from_here(stack: Stack, *words: str, **secrets: str) -> subprocess.CompletedProcess[str]:
    """Run our command on this machine, for the cluster, with only these of its secrets."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "MLFLOW_"))}
    environment |= {"RAY_API_SERVER_ADDRESS": f"http://{stack.address('ray-head')}:8265", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "interlinear", *words]
    return subprocess.run(command, env=environment | secrets, check=False, capture_output=True, text=True)


def output(words: list[str]) -> str:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def status(address: str, body: bytes | None = None, host: str | None = None) -> int:
    headers = {"Content-Type": "application/json", **({"Host": host} if host else {})}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def translate(stack: Stack, key: str) -> str | None:
    """The version that answers now; None while the service does not answer."""
    body = json.dumps({"q": SENTENCE, "source": "de", "target": "en"}).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    address = f"http://{stack.address('service')}:8000/translate"
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=30) as answer:
            return str(json.load(answer)["model"]["version"])
    except OSError:
        return None


def watched(stack: Stack, query: str) -> float | None:
    """The result of a Prometheus query."""
    address = f"http://{stack.address('prometheus')}:9090/api/v1/query?query={quote(query)}"
    with urllib.request.urlopen(address, timeout=10) as answer:
        found = json.load(answer)["data"]["result"]
    return float(found[0]["value"][1]) if found else None


def becomes(true: Callable[[], bool]) -> bool:
    """Whether it is true within PATIENCE."""
    end = time.monotonic() + PATIENCE
    while not (found := true()) and time.monotonic() < end:
        time.sleep(1)
    return found


def test_a_model_is_trained_promoted_and_served(stack: Stack) -> None:
    """One test: a machine has one stack, and the next step takes what the last one made."""
    check_secrets(stack)
    check_sandbox(stack)
    first, second = train(stack, 1), train(stack, 2)
    key = output(stack.beside("service", "interlinear", "keys", "add", f"test-{time.time_ns()}"))
    output(stack.inside("ray-head", "interlinear", "promote", MODEL, first))
    stack.up("serve")
    assert becomes(lambda: translate(stack, key) == first)
    output(stack.inside("ray-head", "interlinear", "promote", MODEL, second))
    assert becomes(lambda: translate(stack, key) == second), "the service follows the alias"
    assert status(f"http://{stack.address('service')}:8000/translate", b"{}") == 401, "without a key"
    assert becomes(lambda: watched(stack, "up{job='interlinear'}") == 1)
    assert becomes(lambda: watched(stack, "up{job='ray-head'}") == 1)
    check_stores(stack, second)


def check_secrets(stack: Stack) -> None:
    """Nothing is told without a secret."""
    search = f"http://{stack.address('mlflow')}:5000/api/2.0/mlflow/experiments/search"
    for host in ("mlflow:5000", "127.0.0.1:5000", "localhost:5000"):  # on the network, and at a published port
        assert status(search, b'{"max_results": 1}', host) == 401, "MLflow asks for a password"
    assert status(search, b'{"max_results": 1}', "example.org") == 403, "MLflow answers to its own names only"
    stranger = from_here(stack, "jobs", "list", RAY_AUTH_TOKEN="0" * 64)
    assert stranger.returncode == 1 and "does not take this token" in stranger.stderr


def check_sandbox(stack: Stack) -> None:
    """A service has its user, and cannot write its root; one that is not up cannot be entered."""
    assert output(stack.inside("mlflow", "id", "--user")) == "10001"
    written = subprocess.run(stack.inside("mlflow", "touch", "/opt/here"), capture_output=True, text=True, check=False)
    assert written.returncode != 0 and "Read-only file system" in written.stderr
    with pytest.raises(ServiceError, match="grafana: no such service is up"):
        stack.inside("grafana", "true")


def check_stores(stack: Stack, version: str) -> None:
    """A version is in PostgreSQL, and its weights behind MLflow's server."""
    query = f"SELECT source FROM model_versions WHERE name = '{MODEL}' AND version = {version}"
    words = ("psql", "--host=/var/run/postgresql", "--username=mlflow", "--tuples-only", "--command", query, "mlflow")
    assert "models:/" in output(stack.inside("postgres", *words))
    assert output(stack.inside("mlflow", "find", "/var/lib/mlflow/artifacts", "-name", "*.safetensors"))
