"""Recording of trainings in a real MLflow store, with outages."""

import json
import sqlite3
import time
from pathlib import Path

import mlflow
import pytest
from mlflow.entities import Run

import interlinear
from interlinear.errors import DataError, InterlinearError, RegistryError, TrainingError, UsageError
from interlinear.registry.resolve import fetch_bundle
from interlinear.registry.store import MlflowStore
from tests.training.loop.test_guided import guided_job
from tests.training.observers import RecordingObserver
from tests.training.toy import SETTINGS, toy_job, write_corpus
from training.events import EpochReport, StartReport, StepReport, TrainingJob, TrainingPlan
from training.loop.process_group import SingleProcess
from training.loop.trainer import train
from training.runs.job import create_job
from training.tracking.metric_queue import UNSENT_FILE
from training.tracking.run import Tracker

START = StartReport(parameters=1, pairs=1, updates_per_epoch=1, updates_done=0)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An empty store, created once because MLflow takes a second for it."""
    file = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowStore(f"sqlite:///{file}", create=True).list_models()
    return file.read_bytes()


@pytest.fixture
def uri(tmp_path: Path, empty_store: bytes) -> str:
    (tmp_path / "mlflow.db").write_bytes(empty_store)
    return f"sqlite:///{tmp_path}/mlflow.db"


def runs(uri: str) -> list[Run]:
    client = mlflow.MlflowClient(uri)
    return list(client.search_runs([experiment.experiment_id for experiment in client.search_experiments()]))


def a_step(update: int) -> StepReport:
    return StepReport(update, 100, 1, 2.0, 7.4, 0.001, 0.5, 1000.0, 10.0)


def test_a_complete_training_is_recorded(tmp_path: Path, uri: str):
    job = toy_job(tmp_path)
    with Tracker(uri, register="toy") as tracker:
        outcome = train(job, None, [tracker])
    (run,) = runs(uri)
    client = mlflow.MlflowClient(uri)
    assert (run.info.status, run.info.run_name) == ("FINISHED", "toy")
    assert client.get_experiment(run.info.experiment_id).name == "toy"
    assert run.data.params["model.hidden"] == "32" and run.data.params["training.optimizer"] == "adam"
    assert outcome.dev_bleu is not None
    for key, expected in {
        "task": "translation",
        "languages": "de-en",
        "recipe": "rnnsearch",
        "dataset": "toy",
        "dev_bleu": str(outcome.dev_bleu.score),
        "mlflow.note.content": "RNNsearch, bidirectional encoder",
        "dev_bleu_of": "40 sentences, beam 1",
        "weights_sha256": outcome.weights_sha256,
    }.items():
        assert run.data.tags[key].startswith(expected), key
    assert {split.tags[0].value for split in run.inputs.dataset_inputs} == {"train", "dev"}
    assert json.loads(run.inputs.dataset_inputs[0].dataset.profile)["rows"] > 0

    curve = client.get_metric_history(run.info.run_id, "dev/bleu")
    assert len(curve) == 3 and curve[-1].value == pytest.approx(run.data.metrics["best/dev_bleu"], abs=15)
    assert [point.step for point in curve] == sorted(point.step for point in curve)
    seconds = [point.value for point in client.get_metric_history(run.info.run_id, "epoch/seconds")]
    (*_, total) = client.get_metric_history(run.info.run_id, "epoch/training_seconds")
    assert len(seconds) == 3 and sum(seconds) == pytest.approx(total.value)
    for name in ("train/loss", "train/perplexity", "learning_rate", "tokens_per_second", "dev/perplexity"):
        assert client.get_metric_history(run.info.run_id, name), name

    paths = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert paths == {"recipe.yaml", "figures"}
    for name in ("attention", "learning_curve"):
        picture = Path(client.download_artifacts(run.info.run_id, f"figures/{name}.png", str(tmp_path)))
        assert picture.read_bytes().startswith(b"\x89PNG"), name

    located = fetch_bundle("models:/toy@champion", uri)
    assert located.version == tracker.version == "1"
    card = client.get_model_version("toy", "1").description
    assert f"interlinear serve --model toy=models:/toy/1 --tracking {uri}" in card and "FOLDER" not in card
    assert interlinear.load(located.folder).card.weights_sha256 == outcome.weights_sha256
    (record,) = MlflowStore(uri).list_models()
    assert (record.recipe, record.dataset, record.run_id) == ("rnnsearch", "toy", run.info.run_id)
    assert record.dev_bleu_of == "40 sentences, beam 1"


def test_the_guides_loss_is_recorded_beside_the_others(tmp_path: Path, uri: str):
    settings = ["training.epochs=1", "training.guide.weight=0.5"]
    with Tracker(uri) as tracker:
        train(guided_job(tmp_path, settings=settings), None, [tracker])
    (run,) = runs(uri)
    assert run.data.params["training.guide.weight"] == "0.5"
    assert 0 < run.data.metrics["epoch/train_guide"] < run.data.metrics["epoch/train_loss"]
    assert 0 < run.data.metrics["train/guide"] < 5


def test_data_run_and_version_reference_each_other(tmp_path: Path, uri: str):
    with Tracker(uri, register="toy") as tracker:
        train(toy_job(tmp_path, settings=["training.epochs=1"]), None, [tracker])
    client = mlflow.MlflowClient(uri)
    (run,) = runs(uri)
    inputs = {given.tags[0].value: given.dataset for given in run.inputs.dataset_inputs}
    (made,) = client.search_logged_models([run.info.experiment_id])
    version = client.get_model_version("toy", "1")
    for split, dataset in inputs.items():
        fingerprint = json.loads(dataset.profile)["sha256"]
        assert version.tags[f"{split}_sha256"] == made.tags[f"{split}_sha256"] == fingerprint
        assert fingerprint.startswith(dataset.digest)
    assert version.run_id == made.source_run_id == run.info.run_id
    assert [output.model_id for output in run.outputs.model_outputs] == [made.model_id]
    scored = {metric.key: (metric.dataset_name, metric.dataset_digest) for metric in made.metrics}
    assert scored["best/dev_bleu"] == scored["best/dev_perplexity"] == ("toy", inputs["dev"].digest)

    # A training that starts from a model is a child run of the run that trained the model, for every form of the
    # model's name.
    own = ["training.epochs=1", "training.learning_rate=0.001"]
    for number, name in enumerate(
        (f"runs:/{run.info.run_id}/model", "models:/toy/1", str(tmp_path / "runs/toy/bundle"))
    ):
        job = toy_job(tmp_path, f"second-{number}", settings=[*own, f"training.init_from={name}"], tracking=uri)
        with Tracker(uri) as tracker:
            tracker.started(job, START)
        assert client.get_run(tracker.run_id).data.tags["mlflow.parentRunId"] == run.info.run_id, name
    with Tracker(uri, parent="another") as tracker:
        tracker.started(job, START)
    assert client.get_run(tracker.run_id).data.tags["mlflow.parentRunId"] == "another"


def test_a_resumed_training_continues_its_run(tmp_path: Path, uri: str):
    worker = SingleProcess()

    class StopAfterAnEpoch(Tracker):
        def epoch(self, report: EpochReport) -> None:
            super().epoch(report)
            worker.signal = 15

    with StopAfterAnEpoch(uri) as tracker:
        assert train(toy_job(tmp_path), worker, [tracker]).signal == 15
    assert [run.info.status for run in runs(uri)] == ["KILLED"]
    with Tracker(uri) as tracker:
        train(toy_job(tmp_path, resume=True), None, [tracker])
    (run,) = runs(uri)
    assert run.info.status == "FINISHED"
    assert len(mlflow.MlflowClient(uri).get_metric_history(run.info.run_id, "dev/bleu")) == 3
    assert len(tracker.curves["dev/bleu"]) == 3  # the figure includes the epochs before the interruption

    with Tracker(uri) as tracker:
        tracker.started(toy_job(tmp_path), START)
    assert sorted(str(run.info.run_name) for run in runs(uri)) == ["toy", "toy-2"]


def test_metrics_that_a_killed_process_had_not_sent_are_sent_by_the_next_one(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("training.tracking.metric_queue.SEND_SECONDS", 3600.0)
    killed = Tracker(uri)  # never ended
    killed.started(toy_job(tmp_path), START)
    for update in (1, 2):
        killed.step(a_step(update))
    killed.metrics_queue.add(2, {"dev/bleu": 7.0})
    with (tmp_path / "runs/toy" / UNSENT_FILE).open("a") as file:
        file.write('\n{"key": "train/lo')  # the file that it was writing
    with Tracker(uri) as tracker:
        tracker.started(toy_job(tmp_path, resume=True), START)
        tracker.step(a_step(3))
        assert tracker.curves == {"dev/bleu": {2: 7.0}}  # the figure includes it too
    (run,) = runs(uri)
    history = mlflow.MlflowClient(uri).get_metric_history(run.info.run_id, "train/loss")
    assert sorted(point.step for point in history) == [1, 2, 3]
    assert not (tmp_path / "runs/toy" / UNSENT_FILE).exists()
    killed.system_metrics.finish()


@pytest.mark.parametrize("noted", [True, False])
def test_the_run_of_a_process_killed_while_creating_it_is_found(tmp_path: Path, uri: str, noted: bool):
    settings = ["training.epochs=1"]
    job = toy_job(tmp_path, settings=settings)
    run_id = Tracker(uri)._create_run(job).info.run_id
    if noted:
        (job.run / "mlflow.json").write_text(json.dumps({"tracking": uri, "run_id": run_id}))
    with Tracker(uri) as tracker:
        train(toy_job(tmp_path, resume=True, settings=settings), None, [tracker])
    (run,) = runs(uri)
    assert (run.info.run_id, run.info.status) == (run_id, "FINISHED")
    assert run.data.params["model.hidden"] == "32" and len(run.inputs.dataset_inputs) == 2


@pytest.mark.slow
def test_attention_figures_of_a_gated_model_show_its_gates(tmp_path: Path, uri: str):
    job = toy_job(tmp_path, recipe="contextual_gates", settings=["training.epochs=1"])
    with Tracker(uri) as tracker:
        train(job, None, [tracker])
    files = mlflow.MlflowClient(uri).list_artifacts(tracker.run_id, "figures")
    assert {Path(file.path).stem for file in files} == {
        "learning_curve", "attention", "word_attention", "gated", "posterior", "gate",
    }  # fmt: skip


def test_a_figure_that_cannot_be_drawn_is_skipped(tmp_path: Path, uri: str):
    write_corpus(tmp_path)
    sources = (tmp_path / "dev.source").read_text(encoding="utf-8").splitlines()
    (tmp_path / "dev.source").write_text("".join(f"\U00050000 {line}\n" for line in sources), encoding="utf-8")
    said: list[str] = []
    with Tracker(uri, say=said.append) as tracker:
        train(toy_job(tmp_path, settings=["training.epochs=1"]), None, [tracker])
    (run,) = runs(uri)
    assert run.info.status == "FINISHED"
    files = mlflow.MlflowClient(uri).list_artifacts(run.info.run_id, "figures")
    assert [file.path for file in files] == ["figures/learning_curve.png"]
    sentence = said[-1]
    assert len(said) == 2 and sentence.startswith("a picture is left out: ") and "U+50000" in sentence


def toy_planned(folder: Path, tracker: Tracker, resume: bool = False, settings: tuple[str, ...] = ()) -> TrainingJob:
    """The toy training as planned by the command `train`."""
    return create_job(
        "rnnsearch", str(folder / "toy.yaml"), [*SETTINGS, *settings], prepared=folder / "prepared",
        runs=folder / "runs", run="toy", resume=resume, on_planned=tracker.open_run,
    )  # fmt: skip


def test_a_run_exists_before_its_data_is_prepared(tmp_path: Path, uri: str):
    write_corpus(tmp_path)
    said: list[str] = []

    class Looking(Tracker):
        def open_run(self, plan: TrainingPlan) -> None:
            super().open_run(plan)
            assert not (tmp_path / "prepared").exists()
            (self.before,) = runs(uri)

    with Looking(uri, say=said.append) as tracker:
        job = toy_planned(tmp_path, tracker, settings=("training.epochs=1",))
        assert said == [f"toy is recorded at {uri}, run {tracker.run_id}"]
        train(job, None, [tracker])
    before, (after,) = tracker.before, runs(uri)
    assert (before.info.status, before.info.run_name, before.data.tags["recipe"]) == ("RUNNING", "toy", "rnnsearch")
    assert before.info.run_id == after.info.run_id == tracker.run_id and after.info.status == "FINISHED"
    assert after.data.params["pairs"] == "600" and len(after.inputs.dataset_inputs) == 2
    assert [line for line in said if "recorded" in line] == said[:1]


def test_failed_preparation_is_recorded_and_leaves_no_folder(tmp_path: Path, uri: str):
    write_corpus(tmp_path)
    (tmp_path / "dev.source").write_text("too few lines\n")
    with pytest.raises(DataError) as raised, Tracker(uri, say=lambda _: None) as tracker:
        toy_planned(tmp_path, tracker)
    (run,) = runs(uri)
    assert (run.info.status, run.data.tags["error"]) == ("FAILED", str(raised.value))
    assert [file.path for file in mlflow.MlflowClient(uri).list_artifacts(run.info.run_id)] == ["recipe.yaml"]
    assert not (tmp_path / "runs" / "toy").exists()


def test_invalid_arguments_create_no_run(tmp_path: Path, uri: str):
    write_corpus(tmp_path)
    lacking = tmp_path / "lacking.yaml"
    lacking.write_text((tmp_path / "toy.yaml").read_text().replace("  dev: {source: dev.source, target", "  dev: {aim"))
    for recipe, data, settings, resume in (
        ("nothing_of_the_kind", "toy.yaml", (), False),
        ("rnnsearch", "nowhere.yaml", (), False),
        ("rnnsearch", "lacking.yaml", (), False),
        ("multimodal_flat", "toy.yaml", (), False),
        ("rnnsearch", "toy.yaml", ("model.hidden=none",), False),
        ("rnnsearch", "toy.yaml", (), True),
    ):
        with pytest.raises(InterlinearError), Tracker(uri) as tracker:
            create_job(recipe, str(tmp_path / data), settings, runs=tmp_path / "runs", resume=resume,
                    prepared=tmp_path / "prepared", on_planned=tracker.open_run)  # fmt: skip
    assert runs(uri) == [] and not (tmp_path / "runs").exists()


def test_interrupted_preparation_continues_in_its_run(tmp_path: Path, uri: str):
    class Interrupted(Tracker):
        def open_run(self, plan: TrainingPlan) -> None:
            super().open_run(plan)
            raise KeyboardInterrupt

    write_corpus(tmp_path)
    with pytest.raises(KeyboardInterrupt), Interrupted(uri, say=lambda _: None) as tracker:
        toy_planned(tmp_path, tracker)
    (run,) = runs(uri)
    assert run.info.status == "KILLED" and run.data.params == {}

    # Other settings are allowed too: nothing has been trained with the earlier ones.
    wild = ("training.learning_rate=1e38", "training.clip=null")
    with pytest.raises(TrainingError, match="is not finite"), Tracker(uri, say=lambda _: None) as tracker:
        train(toy_planned(tmp_path, tracker, resume=True, settings=wild), None, [tracker])
    (run,) = runs(uri)
    assert (run.info.status, run.data.params["training.learning_rate"]) == ("FAILED", "1e+38")


def test_refused_resumption_does_not_change_the_run(tmp_path: Path, uri: str):
    write_corpus(tmp_path)
    with Tracker(uri, say=lambda _: None) as tracker:
        train(toy_planned(tmp_path, tracker, settings=("training.epochs=1",)), None, [tracker])
    with pytest.raises(TrainingError, match="another recipe"), Tracker(uri, say=lambda _: None) as tracker:
        train(toy_planned(tmp_path, tracker, resume=True, settings=("model.hidden=16",)), None, [tracker])
    (tmp_path / "dev.source").write_text("too few lines\n")
    with pytest.raises(DataError), Tracker(uri, say=lambda _: None) as tracker:
        toy_planned(tmp_path, tracker, resume=True)
    (run,) = runs(uri)
    assert run.info.status == "FINISHED" and "error" not in run.data.tags
    assert (tmp_path / "runs" / "toy" / "bundle").is_dir()


def test_failed_trainings_are_recorded_as_failed(tmp_path: Path, uri: str):
    wild = ["training.learning_rate=1e38", "training.clip=null"]
    with pytest.raises(TrainingError), Tracker(uri) as tracker:
        train(toy_job(tmp_path, settings=wild), None, [tracker])
    (run,) = runs(uri)
    assert run.info.status == "FAILED"
    assert "is not finite" in run.data.tags["error"]


def test_a_resumed_run_does_not_keep_the_failure_of_an_earlier_attempt(tmp_path: Path, uri: str):
    def error() -> str | None:
        (run,) = runs(uri)
        return run.data.tags.get("error")

    write_corpus(tmp_path)
    (tmp_path / "runs" / "toy").mkdir(parents=True)  # failed preparation would remove a new folder
    text = (tmp_path / "dev.source").read_text()
    (tmp_path / "dev.source").write_text("too few lines\n")
    settings = ("training.epochs=1",)
    with pytest.raises(DataError), Tracker(uri, say=lambda _: None) as tracker:
        toy_planned(tmp_path, tracker, resume=True, settings=settings)
    assert "dev.source has 1 line" in (error() or "")
    (tmp_path / "dev.source").write_text(text)
    with pytest.raises(RuntimeError), Tracker(uri, say=lambda _: None) as tracker:
        tracker.started(toy_planned(tmp_path, tracker, resume=True, settings=settings), START)
        assert error() is None
        raise RuntimeError("a bug")
    assert error() == "a bug"
    with Tracker(uri, say=lambda _: None) as tracker:
        train(toy_planned(tmp_path, tracker, resume=True, settings=settings), None, [tracker])
    (run,) = runs(uri)
    assert run.info.status == "FINISHED" and error() is None


def test_a_stopped_trial_that_goes_on_is_no_longer_marked_as_stopped(tmp_path: Path, uri: str):
    with Tracker(uri, say=lambda _: None) as tracker:
        tracker.started(toy_job(tmp_path), START)
        tracker.stopped("by ASHA")
    assert [run.data.tags.get("stopped") for run in runs(uri)] == ["by ASHA"]
    with Tracker(uri, say=lambda _: None) as tracker:
        tracker.started(toy_job(tmp_path, resume=True), START)
    assert [run.data.tags.get("stopped") for run in runs(uri)] == [None]


def test_ctrl_c_is_not_recorded_as_a_failure(tmp_path: Path, uri: str):
    with pytest.raises(KeyboardInterrupt), Tracker(uri) as tracker:
        tracker.started(toy_job(tmp_path), START)
        raise KeyboardInterrupt
    assert [run.info.status for run in runs(uri)] == ["KILLED"]


def test_a_store_outage_does_not_affect_training(tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("training.tracking.metric_queue.SEND_SECONDS", 0.05)
    monkeypatch.setattr("training.tracking.metric_queue.RETRY_SECONDS", 0.05)
    said: list[str] = []
    with Tracker(uri, say=said.append) as tracker:
        tracker.started(toy_job(tmp_path), START)
        with sqlite3.connect(tmp_path / "mlflow.db") as store:
            store.execute("alter table metrics rename to elsewhere")
        for update in range(1, 50):
            tracker.step(a_step(update))
        deadline = time.monotonic() + 20
        while len(said) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        with sqlite3.connect(tmp_path / "mlflow.db") as store:
            store.execute("alter table elsewhere rename to metrics")
        tracker.step(a_step(50))
    recorded, kept = said
    assert recorded.startswith("toy is recorded at sqlite:///") and "its curves are kept" in kept
    (run,) = runs(uri)
    history = mlflow.MlflowClient(uri).get_metric_history(run.info.run_id, "train/loss")
    assert sorted(point.step for point in history) == list(range(1, 51))


def test_a_permanent_store_outage_is_reported_at_the_end(tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("training.tracking.run.RETRY_SECONDS", 1.0)
    said: list[str] = []
    with Tracker(uri, register="toy", say=said.append) as tracker:
        outcome = train(job := toy_job(tmp_path, settings=["training.epochs=1"]), None, [RecordingObserver()])
        tracker.started(job, START)
        tracker.step(a_step(1))
        (tmp_path / "mlflow.db").write_bytes(b"gone")
        with pytest.raises(RegistryError, match=r"the training is done, its bundle is .* but MLflow did not take it"):
            tracker.finished(outcome)
    assert [said_now.split(":")[0] for said_now in said][-2:] == [
        "MLflow did not take 9 points of the curves (they are kept, and --resume offers them again)",
        "the run stays open in MLflow",
    ]


def test_the_store_must_be_reachable_at_the_start(tmp_path: Path):
    with pytest.raises(RegistryError, match="there is no folder"):
        Tracker(f"sqlite:///{tmp_path}/nowhere/mlflow.db")
    with pytest.raises(UsageError, match="cannot be a registered model's name"):
        Tracker(f"sqlite:///{tmp_path}/mlflow.db", register="a/b")
    assert not (tmp_path / "mlflow.db").exists()
