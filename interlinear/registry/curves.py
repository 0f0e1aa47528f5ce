"""Learning curves of trainings in MLflow, and the record that links a run's folder to its MLflow run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE
from pydantic import BaseModel, ValidationError

from interlinear.errors import RegistryError, UsageError
from interlinear.registry.names import FolderName, RunName, parse_model_name
from interlinear.registry.store import MlflowStore

RUN_RECORD = "mlflow.json"
DEV_BLEU, DEV_PERPLEXITY, TRAIN_LOSS = "dev/bleu", "dev/perplexity", "epoch/train_loss"
DEV_ROUGE = "dev/rouge-l"
DEV_GATE = "dev/gate"  # mean of the contextual gates over the words of the dev set
TRAIN_GUIDE = "epoch/train_guide"
EPOCH_SECONDS = "epoch/seconds"
TRAINING_SECONDS = "epoch/training_seconds"  # in total
BY_EPOCH = ("dev/", "epoch/")  # prefixes of curves with a point after every epoch
SEED = "training.seed"
PARENT = "mlflow.parentRunId"  # MLflow's tag with the run that a run is nested in
GROUP_TAG = "family"  # the tag with the group's name on a run that groups others, such as the seeds of a system

Curves = dict[str, dict[int, float]]  # by name, the value at each update


class RunRecord(BaseModel):
    """mlflow.json in a run's folder: the MLflow run in which a resumed training continues."""

    tracking: str
    run_id: str


@dataclass(frozen=True)
class RunCurves:
    """A training's curves, recipe and data set, and its settings without the seed."""

    run_id: str
    recipe: str
    dataset: str
    settings: dict[str, str]
    curves: Curves

    def per_epoch(self, name: str) -> tuple[float, ...]:
        """A curve's value after every epoch. Raises RegistryError where the run has no such curve."""
        if not (points := self.curves.get(name)):
            raise RegistryError(
                f"run {self.run_id}", f"it has no curve {name}", f"it has {', '.join(sorted(self.curves)) or 'none'}"
            )
        return ordered_values(points)


def curve_title(name: str) -> str:
    """A curve's name for display: `dev/bleu` is dev BLEU."""
    return name.replace("/", " ").replace("_", " ").replace("bleu", "BLEU").replace("rouge", "ROUGE")


def ordered_values(points: Mapping[int, float]) -> tuple[float, ...]:
    """A curve's values in the order of updates."""
    return tuple(value for _, value in sorted(points.items()))


def read_curves(store: MlflowStore, run_id: str) -> Curves:
    """A run's curves with a point after every epoch. Of an epoch that was run twice, the later point counts."""
    with store.errors():
        names = [name for name in store.client.get_run(run_id).data.metrics if name.startswith(BY_EPOCH)]
        histories = {name: store.client.get_metric_history(run_id, name) for name in names}
    return {
        name: {point.step: point.value for point in sorted(history, key=lambda point: int(point.timestamp))}
        for name, history in histories.items()
    }


def read_run_curves(name: str, tracking: str | None = None) -> RunCurves:
    """The curves of a training, named by `runs:/ID` or by a run's folder with its record.

    Raises UsageError for a name of neither form, RegistryError where the store or the run cannot be found.
    """
    store, run_id = _find_run(name, tracking)
    with store.errors():
        try:
            data = store.client.get_run(run_id).data
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            raise RegistryError(
                store.display_uri, f"there is no run '{run_id}'", "name its store by --tracking"
            ) from None
    curves = read_curves(store, run_id)
    settings = {key: value for key, value in data.params.items() if key != SEED}
    return RunCurves(run_id, data.tags.get("recipe", run_id), data.tags.get("dataset", ""), settings, curves)


def find_training_run(store: MlflowStore, model: str, folder: Path) -> str | None:
    """The run that logged a model, by the model's name, or by the training record beside its bundle's `folder`.

    None where this store has no such run. Raises RegistryError where it does not answer.
    """
    match parse_model_name(model):
        case RunName(run_id):
            return run_id
        case FolderName():
            try:
                record = RunRecord.model_validate_json((folder.parent / RUN_RECORD).read_bytes())
            except (OSError, ValidationError):
                return None
            if record.tracking != store.display_uri:
                return None
            with store.errors():
                return str(store.client.get_run(record.run_id).info.run_id)
        case registered:
            stored = store.find(registered)
            assert stored.name and stored.version
            with store.errors():
                return store.client.get_model_version(stored.name, stored.version).run_id or None


def create_group(store: MlflowStore, experiment: str, name: str, tags: Mapping[str, str]) -> str:
    """Create a run that groups others, their parent; returns its id. It is open until it is terminated."""
    experiment_id = store.experiment(experiment)
    with store.errors():
        own = {GROUP_TAG: name, MLFLOW_RUN_NOTE: f"The common run of those below it, `{name}`."}
        run = store.client.create_run(experiment_id, tags={**tags, **own}, run_name=name)
    return str(run.info.run_id)


def _find_run(name: str, tracking: str | None) -> tuple[MlflowStore, str]:
    if match := re.fullmatch(r"runs:/(\w[\w-]*)(?:/.*)?", name):
        return MlflowStore(tracking), match[1]
    folder = Path(name)
    if not folder.is_dir():
        raise UsageError(name, "there is no such run", "a run is runs:/ID or the folder of a training")
    try:
        record = RunRecord.model_validate_json((folder / RUN_RECORD).read_bytes())
    except (OSError, ValidationError):
        raise UsageError(
            name,
            f"it has no {RUN_RECORD}, which says where its curves are",
            "a run's folder has one, if MLflow logged it",
        ) from None
    return MlflowStore(tracking or record.tracking), record.run_id
