"""Evaluation scores in MLflow: in the run that trained the model, or in a run nested below it."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelInput, LoggedModelStatus, Metric, Param
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

from interlinear.errors import RegistryError
from interlinear.registry.address import user
from interlinear.registry.curves import PARENT, find_training_run
from interlinear.registry.resolve import fetch_bundle
from interlinear.registry.store import MlflowStore
from interlinear.registry.store.mlflow_metadata import SHORTLIST_TAG, model_tags


@dataclass(frozen=True)
class TrainingRun:
    """The run that trained a model, and the model that it logged, if MLflow still has it."""

    model: str  # the name in the request
    store: MlflowStore
    run_id: str
    experiment_id: str
    model_id: str | None


@dataclass(frozen=True)
class Evaluation:
    """Scores by name on a split of a data set or on files, with their signatures and the settings of the search."""

    test_set: str
    split: str
    sha256: str  # of the test set's text
    rows: int
    scores: Mapping[str, float]
    signatures: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)


def find_training(model: str, tracking: str | None = None) -> TrainingRun:
    """The training run of a model, named by a bundle's folder, `models:/...` or `runs:/...`.

    Raises the errors of `fetch_bundle`, and RegistryError where the store has no such run.
    """
    from interlinear.bundle import read_card

    store = MlflowStore(tracking)
    folder = fetch_bundle(model, store.uri).folder
    own = model_tags(read_card(folder))
    run_id = find_training_run(store, model, folder)
    with store.errors():
        run = store.client.get_run(run_id) if run_id else None
        if run is None or run.info.lifecycle_stage != "active":
            raise RegistryError(
                model,
                f"{store.display_uri} has no run that trained it",
                "name the store by --tracking, or leave --log out",
            )
        logged = [logged_model for logged_model in store.logged(run) if logged_model.status == LoggedModelStatus.READY]
    model_ids = [
        logged_model.model_id
        for logged_model in logged
        if all(logged_model.tags.get(tag) == own.get(tag) for tag in ("weights_sha256", SHORTLIST_TAG))
    ]
    return TrainingRun(model, store, run.info.run_id, run.info.experiment_id, model_ids[-1] if model_ids else None)


def log_evaluation(training: TrainingRun, evaluation: Evaluation) -> str:
    """Log scores as a run nested below the training's and attach them to the model; returns that run's address.

    Raises RegistryError.
    """
    tags = {f"{name}_signature": signature for name, signature in evaluation.signatures.items()}
    tags |= {PARENT: training.run_id, "model": training.model, "test_set": evaluation.test_set, "mlflow.user": user()}
    tags |= {"mlflow.source.name": "interlinear evaluate", "mlflow.source.type": "LOCAL"}
    tags[MLFLOW_RUN_NOTE] = f"Scores of `{training.model}` on `{evaluation.test_set}`."
    store = training.store
    with store.errors():
        run = store.client.create_run(training.experiment_id, tags=tags, run_name=f"evaluate {evaluation.test_set}")
        run_id = str(run.info.run_id)
        status = "FAILED"
        try:
            store.client.log_inputs(
                run_id,
                datasets=[dataset_of(evaluation)],
                models=[LoggedModelInput(training.model_id)] if training.model_id else [],
            )
            store.client.log_batch(
                run_id,
                metrics=metrics_of(evaluation, training.model_id),
                params=[Param(key, value) for key, value in evaluation.settings.items()],
            )
            status = "FINISHED"
        finally:
            store.client.set_terminated(run_id, status)
    return store.run_url(training.experiment_id, run_id)


def dataset_of(evaluation: Evaluation) -> DatasetInput:
    """The test set as an MLflow data set, identified by its text's fingerprint."""
    dataset = Dataset(
        name=evaluation.test_set,
        digest=evaluation.sha256[:32],  # MLflow accepts at most 36 characters
        source_type="local",
        source=json.dumps({"split": evaluation.split}),
        profile=json.dumps({"sha256": evaluation.sha256, "rows": evaluation.rows}),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", evaluation.split)])


def metrics_of(evaluation: Evaluation, model_id: str | None) -> list[Metric]:
    """The scores as metrics of that model on that test set."""
    now, dataset = int(time.time() * 1000), dataset_of(evaluation).dataset
    return [
        Metric(f"{metric_key(evaluation.split)}/{name}", score, now, 0, model_id, dataset.name, dataset.digest)
        for name, score in evaluation.scores.items()
    ]


def metric_key(split: str) -> str:
    """A split's name, restricted to characters that MLflow allows in keys."""
    return re.sub(r"[^\w. -]", "_", split)
