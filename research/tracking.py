"""Reproductions in MLflow and in model cards: runs that group others, their pages, and scores of a training's model."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from interlinear.bundle import README, Bundle
from interlinear.bundle.readme import readme_of_version, render_readme
from interlinear.metrics.score import Score
from interlinear.models.protocol import EncoderDecoder
from interlinear.registry.curves import GROUP_TAG, create_group
from interlinear.registry.evaluations import Evaluation, TrainingRun, dataset_of, metric_key, metrics_of
from interlinear.registry.store import MlflowStore


def find_or_create_group(tracking: str | None, experiment: str, name: str, tags: Mapping[str, str]) -> str:
    """The id of the experiment's group run with that name; created where it does not exist."""
    store = MlflowStore(tracking, create=True)
    experiment_id = store.experiment(experiment)
    with store.errors():
        groups = store.client.search_runs([experiment_id], f"tags.{GROUP_TAG} = '{name}'", max_results=1)
        if groups:
            return str(groups[0].info.run_id)
    run_id = create_group(store, experiment, name, tags)
    with store.errors():
        store.client.set_terminated(run_id, "FINISHED")
    return run_id


def log_files(tracking: str | None, run_id: str, folder: Path) -> None:
    """Upload a folder's files to a run, replacing files of the same names. Raises RegistryError."""
    store = MlflowStore(tracking)
    with store.errors():
        store.client.log_artifacts(run_id, str(folder))


def add_scores(bundle: Bundle[EncoderDecoder], scores: Mapping[str, Score]) -> str:
    """Rewrite a bundle's README.md with further scores by title; returns its text. `model.json` stays unchanged."""
    card = bundle.card.model_copy(update={"metrics": {**bundle.card.metrics, **scores}})
    parameters = sum(map(torch.Tensor.numel, bundle.model.parameters()))
    text = render_readme(card, parameters, bundle.tokenizers["target"].config.operations_on)
    (bundle.folder / README).write_text(text, encoding="utf-8")
    return text


def add_to_training(
    training: TrainingRun, evaluations: Sequence[Evaluation], tags: Mapping[str, str], readme: str
) -> None:
    """Log scores in the training's own run, where MLflow's page compares runs by them and by `tags`, and as tags of the
    model and of its registered versions, each with its signature. `readme`, the model card with these scores, replaces
    their description.

    Raises RegistryError.
    """
    scored: dict[str, str] = {}
    for evaluation in evaluations:
        for name, signature in evaluation.signatures.items():
            key = f"{metric_key(evaluation.split)}_{name}"
            scored |= {key: f"{evaluation.scores[name]:.2f}", f"{key}_signature": signature}
    client = training.store.client
    with training.store.errors():
        client.log_inputs(training.run_id, datasets=[dataset_of(evaluation) for evaluation in evaluations])
        client.log_batch(
            training.run_id,
            metrics=[metric for evaluation in evaluations for metric in metrics_of(evaluation, training.model_id)],
        )
        for key, value in {**tags, **scored}.items():
            client.set_tag(training.run_id, key, value)
        if training.model_id is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "artifacts", "bundle", README)
            file.parent.mkdir(parents=True)
            file.write_text(readme, encoding="utf-8")
            client.log_model_artifacts(training.model_id, folder)
        client.set_logged_model_tags(training.model_id, scored)
        for version in client.search_model_versions(f"run_id = '{training.run_id}'"):
            if version.source == f"models:/{training.model_id}":
                for key, value in scored.items():
                    client.set_model_version_tag(version.name, version.version, key, value)
                card = readme_of_version(readme, version.name, str(version.version), training.store.display_uri)
                client.update_model_version(version.name, version.version, card)
