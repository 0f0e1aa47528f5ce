"""Recording of trainings by a real MLflow server: with outages, and with PostgreSQL and passwords."""

import threading
from pathlib import Path

import mlflow
import pytest
from mlflow.entities import LoggedModelStatus
from mlflow.server import get_app_client

import interlinear
from interlinear import cli
from interlinear.errors import RegistryError
from interlinear.registry.resolve import fetch_bundle
from interlinear.registry.store import MlflowStore
from tests.interlinear.registry.servers import MlflowServer, postgres
from tests.s3 import CREDENTIALS, s3_server
from tests.training.toy import toy_job
from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob
from training.loop.trainer import train
from training.tracking.run import Tracker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class ServerOutages:
    """An observer that stops the server during training, and again before the final logging."""

    def __init__(self, server: MlflowServer) -> None:
        self.server = server
        self.reported: dict[str, list[int]] = {"train/loss": [], "dev/bleu": []}
        self.away = 0  # steps reported while the server was stopped

    def started(self, job: TrainingJob, start: StartReport) -> None: ...

    def step(self, report: StepReport) -> None:
        self.reported["train/loss"].append(report.update)
        if len(self.reported["train/loss"]) == 5:
            self.server.stop()
        self.away += self.server.running is None

    def epoch(self, report: EpochReport) -> None:
        self.reported["dev/bleu"].append(report.update)
        if report.epoch == 3:
            self.server.start()

    def warned(self, message: str) -> None: ...

    def finished(self, outcome: Outcome) -> None:
        self.server.stop()
        threading.Timer(3, self.server.start).start()


def test_server_outages_during_and_after_training_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("training.tracking.metric_queue.SEND_SECONDS", 0.2)
    monkeypatch.setattr("training.tracking.metric_queue.RETRY_SECONDS", 0.5)
    monkeypatch.setattr("training.loop.trainer.REPORT_SECONDS", 0.0)  # every update
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    said: list[str] = []
    job = toy_job(tmp_path, settings=["training.epochs=4"])
    with MlflowServer(tmp_path) as server:
        outages = ServerOutages(server)
        with Tracker(server.uri, register="toy", say=said.append) as tracker:
            outcome = train(job, None, [outages, tracker])
        client = mlflow.MlflowClient(server.uri)
        run = client.get_run(tracker.run_id)
        assert run.info.status == "FINISHED" and outages.away > 20
        for name, steps in outages.reported.items():
            assert [point.step for point in client.get_metric_history(tracker.run_id, name)] == steps, name
        assert run.data.tags["weights_sha256"] == outcome.weights_sha256
        assert {file.path for file in client.list_artifacts(tracker.run_id)} == {"recipe.yaml", "figures"}
        assert [line.split(";")[0] for line in said[1:]] == ["MLflow does not answer", "MLflow does not answer"]

        # One model, one version: an upload interrupted by the outage is not duplicated or incomplete.
        models = client.search_logged_models([run.info.experiment_id])
        assert [(model.name, model.status) for model in models] == [("toy", LoggedModelStatus.READY)]
        assert [record.version for record in MlflowStore(server.uri).list_models()] == ["1"]
        assert (
            interlinear.load(fetch_bundle("models:/toy@champion", server.uri).folder).card.weights_sha256
            == outcome.weights_sha256
        )


def test_a_server_with_artifacts_in_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Only the server has the bucket's credentials: clients register and download models through the server."""
    pytest.importorskip("boto3")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    bundle = train(toy_job(tmp_path, settings=["training.epochs=1"])).bundle
    assert bundle is not None
    with s3_server() as bucket, monkeypatch.context() as without:
        for name in CREDENTIALS:
            without.delenv(name)
        place = {"MLFLOW_S3_ENDPOINT_URL": f"http://{bucket.address}:{bucket.port}", **CREDENTIALS}
        with MlflowServer(tmp_path, "--artifacts-destination", "s3://bucket/mlflow", **place) as server:
            store = MlflowStore(server.uri)
            run = store.client.create_run(store.experiment("toy")).info.run_id
            store.register(store.log_model(bundle, run), "toy")
            assert interlinear.load(fetch_bundle("models:/toy/1", server.uri).folder)
    assert not (tmp_path / "kept").exists(), "nothing lies on the server's disk"


AUTH = """[mlflow]
default_permission = READ
database_uri = sqlite:///{folder}/users.db
admin_username = admin
admin_password = {password}
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
"""


def test_a_server_with_postgresql_and_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("flask_wtf")
    password = "a long enough password"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "auth.ini").write_text(AUTH.format(folder=tmp_path, password=password))
    secrets = {"MLFLOW_AUTH_CONFIG_PATH": str(tmp_path / "auth.ini"), "MLFLOW_FLASK_SERVER_SECRET_KEY": "a test's"}

    def as_user(name: str, its_password: str) -> None:
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", name)
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", its_password)

    job = toy_job(tmp_path, settings=["training.epochs=2"])
    with (
        postgres("interlinear", "secret") as database,
        MlflowServer(tmp_path, "--app-name", "basic-auth", backend=database, **secrets) as server,
    ):
        remedy = "Give MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, of one who may do this."
        for name, given in ((None, ""), ("admin", "wrong"), ("nobody", password)):
            if name:
                as_user(name, given)
            with pytest.raises(RegistryError, match="it does not let us in") as refused:
                MlflowStore(server.uri).list_models()
            assert str(refused.value).endswith(remedy)
        as_user("admin", password)
        with Tracker(server.uri, register="toy", say=lambda _: None) as tracker:
            outcome = train(job, None, [tracker])
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
        assert cli.run(["promote", "toy", "1", "--alias", "served", "--why", "the first"]) == 0
        version = MlflowStore().client.get_model_version("toy", "1")
        assert version.tags["served.by"] == "admin" and version.tags["served.why"] == "the first"

        located = fetch_bundle("models:/toy@served", None)
        assert located.folder.is_relative_to(tmp_path / "cache")  # downloaded through the server, not from its folder
        assert interlinear.load(located.folder).card.weights_sha256 == outcome.weights_sha256
        capsys.readouterr()
        (tmp_path / "line").write_text("kaba lido\n")
        assert cli.run(["translate", "models:/toy@served", str(tmp_path / "line")]) == 0
        assert capsys.readouterr().out.count("\n") == 1

        # A read-only user is refused before anything is trained.
        get_app_client("basic-auth", server.uri).create_user("reader", password)
        as_user("reader", password)
        assert [record.name for record in MlflowStore().list_models()] == ["toy"]
        with pytest.raises(RegistryError, match="it does not let us in"), Tracker(server.uri) as second:
            train(toy_job(tmp_path, "second"), None, [second])
        assert not (tmp_path / "runs/second/checkpoints").exists()

        # The same store without the server.
        assert [record.aliases for record in MlflowStore(database).list_models()] == [("champion", "served")]


def test_a_refused_database_login_fails_at_once_with_a_message():
    with postgres("interlinear", "secret") as database:
        assert MlflowStore(database, create=True).list_models() == []
        for wrong, sentence in (
            (database.replace("secret", "wrong-one"), "password authentication failed for user"),
            (database.replace("/postgres", "/nowhere"), 'database "nowhere" does not exist'),
            (
                database.replace("+psycopg", "+pg8000"),
                "the Python package pg8000, which the connection needs, is not installed",
            ),
        ):
            with pytest.raises(RegistryError, match=sentence) as refused:
                MlflowStore(wrong)
            assert "wrong-one" not in str(refused.value) and "secret" not in str(refused.value)
