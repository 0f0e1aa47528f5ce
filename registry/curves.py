"""What MLflow keeps of how a training went: its curves, and the record by which a run's folder finds them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlflow.exceptions import MlflowException
from pydantic import BaseModel, ValidationError

from registry.names import FolderName, RunName, parse
from registry.store import Store
from seq2seq.errors import CallError, RegistryError

RECORD = "mlflow.json"
DEV_BLEU, DEV_PERPLEXITY, TRAIN_LOSS = "dev/bleu", "dev/perplexity", "epoch/train_loss"
DEV_ROUGE = "dev/rouge-l"
EPOCH_SECONDS = "epoch/seconds"
TRAINING_SECONDS = "epoch/training_seconds"  # of training in all; runs of before this curve have that as EPOCH_SECONDS
BY_EPOCH = ("dev/", "epoch/")  # curves of these kinds have a point after every epoch
SEED = "training.seed"
PARENT = "mlflow.parentRunId"  # the tag by which MLflow nests a run in another
FAMILY = "family"  # the tag of a run that stands for others, such as the seeds of a system: its name

Curves = dict[str, dict[int, float]]  # by name, the value at each update


class RunRecord(BaseModel):
    """mlflow.json in a run's folder: the run in MLflow, so that a training that is resumed goes on in it."""

    tracking: str
    run_id: str


@dataclass(frozen=True)
class RunCurves:
    """A training's curves, what was trained on what, and its settings but for the seed."""

    run_id: str
    recipe: str
    dataset: str
    settings: dict[str, str]
    curves: Curves

    def by_epoch(self, name: str) -> tuple[float, ...]:
        """A curve's value after every epoch. Raises RegistryError where the run has no such curve."""
        if not (points := self.curves.get(name)):
            raise RegistryError(
                f"run {self.run_id}", f"it has no curve {name}", f"it has {', '.join(sorted(self.curves)) or 'none'}"
            )
        return in_order(points)


def title_of(name: str) -> str:
    """A curve's name for people: `dev/bleu` is dev BLEU."""
    return name.replace("/", " ").replace("_", " ").replace("bleu", "BLEU").replace("rouge", "ROUGE")


def in_order(points: Mapping[int, float]) -> tuple[float, ...]:
    """A curve's values, update by update."""
    return tuple(value for _, value in sorted(points.items()))


def read_curves(store: Store, run_id: str) -> Curves:
    """A run's curves with a point after every epoch. An epoch that was run twice counts once."""
    with store.errors():
        names = [name for name in store.client.get_run(run_id).data.metrics if name.startswith(BY_EPOCH)]
        histories = {name: store.client.get_metric_history(run_id, name) for name in names}
    return {
        name: {point.step: point.value for point in sorted(history, key=lambda point: int(point.timestamp))}
        for name, history in histories.items()
    }


def read_run(name: str, tracking: str | None = None) -> RunCurves:
    """The curves of a training: `runs:/ID`, or a run's folder, whose record says where MLflow has it.

    Raises CallError for a name of neither form, RegistryError where the store or the run cannot be found.
    """
    store, run_id = _located(name, tracking)
    with store.errors():
        try:
            data = store.client.get_run(run_id).data
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            raise RegistryError(store.shown, f"there is no run '{run_id}'", "name its store by --tracking") from None
    curves = read_curves(store, run_id)
    settings = {key: value for key, value in data.params.items() if key != SEED}
    return RunCurves(run_id, data.tags.get("recipe", run_id), data.tags.get("dataset", ""), settings, curves)


def run_of(store: Store, model: str, folder: Path) -> str | None:
    """The run that logged a model, by the model's name, or by the record of its training beside its bundle's `folder`.

    None where this store has no such run. Raises RegistryError where it does not answer.
    """
    match parse(model):
        case RunName(run_id):
            return run_id
        case FolderName():
            try:
                record = RunRecord.model_validate_json((folder.parent / RECORD).read_bytes())
            except (OSError, ValidationError):
                return None
            if record.tracking != store.shown:
                return None
            with store.errors():
                return str(store.client.get_run(record.run_id).info.run_id)
        case registered:
            found = store.find(registered)
            assert found.name and found.version
            with store.errors():
                return store.client.get_model_version(found.name, found.version).run_id or None


def family(tracking: str | None, experiment: str, name: str, tags: Mapping[str, str]) -> str:
    """The run of that experiment that stands for others, by its name; it is made where there is none."""
    store = Store(tracking, create=True)
    place = store.experiment(experiment)
    with store.errors():
        found = store.client.search_runs([place], f"tags.{FAMILY} = '{name}'", max_results=1)
        if found:
            return str(found[0].info.run_id)
        run_id = str(store.client.create_run(place, tags={**tags, FAMILY: name}, run_name=name).info.run_id)
        store.client.set_terminated(run_id, "FINISHED")
        return run_id


def keep_files(tracking: str | None, run_id: str, folder: Path) -> None:
    """Let a run have a folder's files, in place of those that it has by these names. Raises RegistryError."""
    store = Store(tracking)
    with store.errors():
        store.client.log_artifacts(run_id, str(folder))


def _located(name: str, tracking: str | None) -> tuple[Store, str]:
    if match := re.fullmatch(r"runs:/(\w[\w-]*)(?:/.*)?", name):
        return Store(tracking), match[1]
    folder = Path(name)
    if not folder.is_dir():
        raise CallError(name, "there is no such run", "a run is runs:/ID or the folder of a training")
    try:
        record = RunRecord.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValidationError):
        raise CallError(
            name, f"it has no {RECORD}, which says where its curves are", "a run's folder has one, if MLflow logged it"
        ) from None
    return Store(tracking or record.tracking), record.run_id
