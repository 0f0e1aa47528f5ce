"""`interlinear serve --ray`: replicas of the service behind Ray Serve's proxy. Starting Ray takes half a minute."""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import psutil
import pytest

from interlinear.cli import run as interlinear
from interlinear.cli.serving.serve_ray import absolute_paths
from interlinear.errors import RegistryError
from service.settings import ServedModelConfig, Settings
from tests.service.conftest import sentences
from tests.service.test_serve import address, process

TEXTS = [german for german, _ in sentences()[:20]]
DE_EN = {"source": "de", "target": "en"}


def replicas(child: subprocess.Popen[str]) -> int:
    """The number of replicas on the cluster of this process."""
    names = []
    for other in psutil.Process(child.pid).children(recursive=True):
        try:
            names.append(" ".join(other.cmdline()))
        except psutil.Error:
            continue
    return sum(name.startswith("ray::ServeReplica:interlinear") for name in names)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.timeout(600)
def test_replicas_answer_scale_follow_the_alias_and_shut_down(registered, tmp_path):
    options = ["--ray", "--replicas", "1:2", "--model", "de-en=models:/mt@champion", "--set", "poll_seconds=0.5"]
    environment = {"INTERLINEAR_SERVE_SLOTS": "2", "INTERLINEAR_SERVE_CACHE": str(tmp_path / "cache")}
    with process(*options, folder=tmp_path, MLFLOW_TRACKING_URI=registered.tracking, **environment) as child:
        url, over = address(child), threading.Event()
        counted: Counter[int] = Counter()
        versions: set[str] = set()

        def load() -> None:
            with httpx.Client(base_url=url, timeout=60) as client:
                while not over.is_set():
                    answer = client.post("/translate", json={"q": TEXTS, **DE_EN})
                    counted[answer.status_code] += 1
                    versions.add(answer.json()["model"]["version"])

        with httpx.Client(base_url=url, timeout=60) as client:
            answer = client.post("/translate", json={"q": "Ein Hund läuft.", **DE_EN}).json()
            assert answer["translatedText"] == "A dog is running." and answer["model"]["version"] == "1"
            events = {"Accept": "text/event-stream"}
            with client.stream("POST", "/translate", json={"q": "Ein Hund läuft.", **DE_EN}, headers=events) as stream:
                kinds = [line.removeprefix("event: ") for line in stream.iter_lines() if line.startswith("event: ")]
            assert kinds[-1] == "answer" and "prefix" in kinds
            assert client.get("/health/ready").status_code == 200
            assert client.post("/translate", json={"q": "a", **DE_EN, "beam_size": 0}).status_code == 400
            callers = [threading.Thread(target=load) for _ in range(8)]
            for caller in callers:
                caller.start()
            until = time.monotonic() + 90
            while replicas(child) < 2 and time.monotonic() < until:
                time.sleep(0.5)
            assert replicas(child) == 2
            registered.promote(2)
            while "2" not in versions and time.monotonic() < until + 60:
                time.sleep(0.2)
            time.sleep(3)
            over.set()
            for caller in callers:
                caller.join(60)
            assert set(counted) == {200} and versions == {"1", "2"}
            assert (
                not client.post("/translate", json={"q": "Ein Hund läuft.", **DE_EN})
                .json()["translatedText"]
                .endswith(".")
            )
        os.kill(child.pid, signal.SIGTERM)
        assert child.wait(60) == 0


def test_a_replica_waits_for_a_registry_that_starts_late(registered, tmp_path, caplog):
    on_ray = pytest.importorskip("service.ray_serve")
    store = shutil.copy(registered.folder / "mlflow.db", tmp_path / "away.db")
    models = (ServedModelConfig(name="de-en", uri="models:/mt@champion"),)
    settings = Settings(models=models, tracking=f"sqlite:///{tmp_path}/mlflow.db", cache=tmp_path / "cache")
    with pytest.raises(RegistryError):
        on_ray.create_app_with_retries(settings, 0)
    late = threading.Timer(0.5, lambda: store.rename(tmp_path / "mlflow.db"))
    late.start()
    made = on_ray.create_app_with_retries(settings, 300)
    late.join()
    assert made.state.service.models.all_languages() == {"de", "en"}
    assert "Trying again in 1 s." in caplog.messages[0]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_model_that_cannot_be_loaded_is_reported(tmp_path):
    (tmp_path / "empty").mkdir()
    with process("--ray", "--model", "mt=empty", folder=tmp_path) as child:
        said = child.stderr.read()
        assert child.wait(120) == 1
    assert "empty" in said and "Traceback" not in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--replicas", "2"], "is for a service on Ray"),
        (["--address", "auto"], "is for a service on Ray"),
        (["--ray", "--replicas", "3:1"], "is neither a number"),
        (["--ray", "--replicas", "many"], "is neither a number"),
        (["--ray", "--set", "suggestions=true"], "needs a store that all replicas share"),
        (["--ray", "--address", "nowhere"], "is not a Ray cluster's address"),
    ],
)
def test_invalid_options_are_refused_at_once(bundles, options, said, capsys):
    assert interlinear(["serve", "--model", str(bundles.de_en), "--port", "0", *options]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("most", "files"), [(1, True), (2, False)])
def test_documents_are_translated_where_there_is_one_replica_at_most(most, files):
    from service.ray_serve import ServeDeployment  # imports Ray

    assert ServeDeployment(most=most).replica_settings.files is files


def test_replicas_share_the_store_of_suggestions():
    from service.ray_serve import ServeDeployment  # imports Ray

    with pytest.raises(ValueError, match=r"settings\.suggestions needs a store that all replicas share"):
        ServeDeployment(settings=Settings(suggestions=True, require_key=True))
    shared = Settings(suggestions=True, keys="postgresql://keys")
    assert ServeDeployment(settings=shared).replica_settings.suggestion_store == "postgresql://keys"


def test_settings_do_not_depend_on_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    models = (
        ServedModelConfig(name="a", uri="runs/a/bundle", reverse="back"),
        ServedModelConfig(uri="models:/b@champion", reverse="models:/c/1"),
    )
    settings = absolute_paths(
        Settings(models=models, require_key=True, cache=Path("cache"), files_folder=Path("documents"))
    )
    assert [model.uri for model in settings.models] == [f"{tmp_path}/runs/a/bundle", "models:/b@champion"]
    assert [model.reverse for model in settings.models] == [f"{tmp_path}/back", "models:/c/1"]
    assert settings.tracking == f"sqlite:///{tmp_path}/mlflow.db"
    assert (settings.keys, settings.cache) == (str(tmp_path / "keys.db"), tmp_path / "cache")
    assert settings.files_folder == tmp_path / "documents"
    remote = Settings(models=models, tracking="http://tracking:5000")
    assert absolute_paths(remote).tracking == "http://tracking:5000"
