"""Tunes systems and trains runs of a paper's tables, each by a command of `interlinear` in a process of its own."""

import os
import subprocess
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from interlinear.cli.console import say
from interlinear.errors import DataError, TrainingError
from interlinear.installation import PYTHON
from research.papers import PaperTables
from research.records import Result, RunKey, SystemKey, result_file, write_record
from research.tracking import find_or_create_group
from research.tunings import SystemTuning, tuning_file
from training.tracking.run import EXPERIMENT, PARENT_RUN
from training.tuning.record import read_record

Key = TypeVar("Key")
Command = tuple[list[str], dict[str, str]]  # the arguments of `interlinear`, and environment variables

EPOCHS = "training.epochs"  # of a trial they are the budget's


@dataclass(frozen=True)
class ReproduceConfig:
    """Folders and options for training the runs. `output`: of results. `at_once`: concurrent trainings, on a cluster;
    `per_gpu`: trials of a tuning that share a GPU."""

    output: Path
    runs: Path
    prepared: Path
    data_root: Path | None = None
    tracking: str | None = None
    workers: int = 1
    gpu: bool = False
    address: str | None = None
    no_ray: bool = False
    at_once: int = 1
    per_gpu: int = 1

    def training_options(self) -> list[str]:
        """The same options for `interlinear train`."""
        arguments = ["--workers", str(self.workers)]
        return arguments + (["--no-ray"] if self.no_ray else self._cluster()) + self._shared_options()

    def tuning_options(self) -> list[str]:
        """The same options for `interlinear tune`, whose trials need Ray, and take a processor or a GPU each."""
        at_once = ["--at-once", str(self.at_once)] if self.address else []
        per_gpu = ["--per-gpu", str(self.per_gpu)] if self.per_gpu > 1 else []
        return at_once + per_gpu + self._cluster() + self._shared_options()

    def _cluster(self) -> list[str]:
        return ["--address", self.address] if self.address else []

    def _shared_options(self) -> list[str]:
        arguments = ["--runs", str(self.runs), "--prepared", str(self.prepared), *(["--gpu"] if self.gpu else [])]
        valued = {"--data-root": self.data_root, "--tracking": self.tracking}
        return arguments + [word for option, value in valued.items() if value for word in (option, str(value))]


def missing_runs(
    run_keys: Sequence[RunKey], results: Sequence[Result], table: PaperTables, output: Path
) -> list[RunKey]:
    """The runs without a stored result. Raises DataError for a stored result whose training settings differ from the
    current ones."""
    stored = {result.place: result.training for result in results}
    for run_key in run_keys:
        training = stored.get(run_key)
        if training and training != table.groups[run_key.group].training(run_key.system, run_key.scale):
            raise DataError(
                str(result_file(output, run_key)),
                f"the run was trained otherwise ({training.recipe} on {training.data}, {training.settings}) than the "
                "table says",
                "remove it, and it is trained again; or name another folder by --output",
            )
    return [run_key for run_key in run_keys if run_key not in stored]


def training_stages(run_keys: Sequence[RunKey], table: PaperTables) -> list[list[RunKey]]:
    """The runs in stages: a run comes in a later stage than the run whose weights it starts from."""
    stages: list[list[RunKey]] = []
    for run_key in run_keys:
        start = table.start_of(run_key)
        last_stage = next((i for i, stage in enumerate(stages) if start in stage), -1)
        while len(stages) <= last_stage + 1:
            stages.append([])
        stages[last_stage + 1].append(run_key)
    return stages


def trained_bundle(run_key: RunKey, config: ReproduceConfig) -> Path:
    """The folder of a run's trained model."""
    return config.runs / str(run_key) / "bundle"


def check_starts(missing: Sequence[RunKey], table: PaperTables, config: ReproduceConfig) -> None:
    """Raise DataError where a run starts from one whose result is stored, but whose weights are not."""
    for run_key in missing:
        start = table.start_of(run_key)
        if start and start not in missing and not (bundle := trained_bundle(start, config)).is_dir():
            raise DataError(
                str(bundle),
                f"the weights that {run_key} starts from are not there, only their result is",
                f"name their folder by --runs, or remove {result_file(config.output, start)}: they are trained again",
            )


def training_command(run_key: RunKey, table: PaperTables, config: ReproduceConfig) -> list[str]:
    """The arguments of `interlinear` that train a run, or resume it if it exists."""
    training = table.groups[run_key.group].training(run_key.system, run_key.scale)
    settings = {**training.settings, "training.seed": run_key.seed}
    if start := table.start_of(run_key):
        settings["training.init_from"] = trained_bundle(start, config)
    arguments = ["train", training.recipe, "--data", training.data, "--run", str(run_key)]
    arguments += [word for item in settings.items() for word in ("--set", setting(*item))]
    arguments += ["--register", f"{run_key.table}.{run_key.group}.{run_key.system}"]
    arguments += ["--resume"] if (config.runs / str(run_key)).is_dir() else []
    return arguments + config.training_options()


def tuning_command(key: SystemKey, table: PaperTables, config: ReproduceConfig) -> list[str]:
    """The arguments of `interlinear` that tune a system, or go on with its tuning."""
    group = table.groups[key.group]
    assert group.tuning is not None
    training, budget = group.training(key.system, key.scale), group.tuning
    settings = {name: value for name, value in training.settings.items() if name != EPOCHS} | budget.settings
    arguments = ["tune", training.recipe, "--data", training.data, "--run", f"{key}.tuning"]
    arguments += ["--trials", str(budget.trials), "--epochs", str(budget.epochs), "--grace", str(budget.grace)]
    arguments += ["--seed", str(budget.seed)]
    arguments += [word for item in settings.items() for word in ("--set", setting(*item))]
    arguments += ["--resume"] if (config.runs / f"{key}.tuning").is_dir() else []
    return arguments + config.tuning_options()


def setting(key: str, value: object) -> str:
    """A setting as `train --set` reads it, in YAML."""
    return f"{key}={'null' if value is None else value}"


def train_runs(stage: Sequence[RunKey], table: PaperTables, config: ReproduceConfig) -> Generator[RunKey]:
    """Train runs with `interlinear train`; yields each run when it ends. The MLflow run of its system is the parent of
    the runs of its seeds. Raises as `run_commands` does."""

    def command(key: RunKey) -> Command:
        tags = {"table": key.table, "group": key.group, "system": key.system, "scale": key.scale}
        name = f"{key.group}.{key.system}.{key.scale}"
        parent = find_or_create_group(config.tracking, key.table, name, tags)
        return training_command(key, table, config), {EXPERIMENT: key.table, PARENT_RUN: parent}

    return run_commands(stage, command, config.at_once, "its training")


def tune_systems(keys: Sequence[SystemKey], table: PaperTables, config: ReproduceConfig) -> Iterable[SystemTuning]:
    """Tune systems one after the other, each on all processors, and store the results. Raises as `run_commands`."""

    def command(key: SystemKey) -> Command:
        return tuning_command(key, table, config), {EXPERIMENT: key.table}

    with closing(run_commands(keys, command, 1, "its tuning")) as finished:
        for key in finished:
            group = table.groups[key.group]
            assert group.tuning is not None
            record = read_record(config.runs / f"{key}.tuning")
            training = group.training(key.system, key.scale)
            tuning = SystemTuning(place=key, training=training, budget=group.tuning, record=record)
            write_record(tuning_file(config.output, key), tuning)
            yield tuning


def run_commands(keys: Sequence[Key], command: Callable[[Key], Command], at_once: int, what: str) -> Generator[Key]:
    """Run a command for each key; yields each key when its command ends.

    `command`: of a key, asked for when it starts. `what`: the subject of the message if it fails.
    Raises TrainingError if one fails, and SystemExit if one was interrupted. Commands still running are then
    terminated; trainings save a checkpoint.
    """
    waiting = list(keys)
    running: dict[Key, subprocess.Popen[bytes]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                key = waiting.pop(0)
                words, environment = command(key)
                say(f"{key}: interlinear {' '.join(words)}")
                # In its own session, out of reach of the terminal's Ctrl-C: a second signal would end it unsaved.
                running[key] = subprocess.Popen(
                    [*PYTHON, "-m", "interlinear", *words], stdout=subprocess.DEVNULL, start_new_session=True,
                    env=os.environ | environment,
                )  # fmt: skip
            for key in [key for key, child in running.items() if child.poll() is not None]:
                code = running.pop(key).returncode
                if code > 128:
                    raise SystemExit(code)
                if code:
                    raise TrainingError(
                        str(key), f"{what} failed, as is said above", "the same command goes on with it"
                    )
                yield key
            time.sleep(0.2)
    finally:
        for child in running.values():
            child.terminate()
        for child in running.values():
            child.wait()
