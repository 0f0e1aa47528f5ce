"""Training from Python: `interlinear.train`."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from training.events import Observer, Outcome
from training.loop.trainer import train as train_here
from training.runs.job import create_job


def train(
    recipe: str,
    data: str,
    settings: Sequence[str] = (),
    run: str | None = None,
    resume: bool = False,
    register: str | None = None,
    tracking: str | None = None,
    workers: int | None = None,
    device: str = "cpu",
    observers: Sequence[Observer] = (),
    runs: Path = Path("runs"),
    prepared: Path = Path("prepared"),
) -> Outcome:
    """Train a recipe's model on a data set, log it to MLflow, and return how the training ended.

    recipe, data: names, or paths of YAML files. settings: `key=value`, as `--set` takes them. run: the folder in
    `runs`; with `resume` its training continues. register: the name under which the model is registered.
    tracking: the MLflow store, by default as for the command. workers: trains on Ray with this number of workers; None:
    in this process. device: `cpu` or `cuda`. observers: `training.events.Observer`.

    Raises UsageError, DataError, RegistryError and TrainingError.
    """
    from training.tracking.run import Tracker

    job = create_job(recipe, data, settings, None, prepared, runs, run, resume, tracking)
    with ExitStack() as stack:
        tracker = stack.enter_context(Tracker(tracking, register))
        if workers is None:
            return train_here(job, observers=[tracker, *observers], device=device)
        from training.ray.cluster import WorkerGroupConfig
        from training.ray.driver import train_on_ray

        group = WorkerGroupConfig(workers, workers, gpu=device.startswith("cuda"))
        return train_on_ray(job, group, [tracker, *observers])
