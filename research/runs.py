"""Trains the runs of a paper's tables, each in a process of its own."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interlinear.reproduction.commands import run_commands
from seq2seq.errors import DataError

if TYPE_CHECKING:
    from training.reproduce.papers import PaperTables
    from training.reproduce.results import Result, RunKey


@dataclass(frozen=True)
class ReproduceConfig:
    """Folders and options for training the runs. `at_once`: concurrent trainings, on a cluster; `per_gpu`: trials of a
    tuning that share a GPU."""

    output: Path
    runs: Path
    prepared: Path
    data_root: Path | None
    tracking: str | None
    workers: int
    gpu: bool
    address: str | None
    no_ray: bool
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
    run_keys: "Sequence[RunKey]", results: "Sequence[Result]", table: "PaperTables", output: Path
) -> "list[RunKey]":
    """The runs without a stored result. Raises DataError for a stored result whose training settings differ from the
    current ones."""
    from training.reproduce.results import result_file

    stored = {result.place: result for result in results}
    for run_key in run_keys:
        if run_key in stored:
            check_same(run_key, stored[run_key], table, result_file(output, run_key))
    return [run_key for run_key in run_keys if run_key not in stored]


def check_same(run_key: "RunKey", result: "Result", table: "PaperTables", path: Path) -> None:
    """Raise DataError for a stored result whose training settings differ from the current ones."""
    current, stored = table.groups[run_key.group].training(run_key.system, run_key.scale), result.training
    if stored != current:
        raise DataError(
            str(path),
            f"the run was trained otherwise ({stored.recipe} on {stored.data}, {stored.settings}) than the table says",
            "remove it, and it is trained again; or name another folder by --output",
        )


def training_stages(run_keys: "Sequence[RunKey]", table: "PaperTables") -> "list[list[RunKey]]":
    """The runs in stages: a run comes in a later stage than the run whose weights it starts from."""
    stages: list[list[RunKey]] = []
    for run_key in run_keys:
        start = table.start_of(run_key)
        last_stage = next((i for i, stage in enumerate(stages) if start in stage), -1)
        while len(stages) <= last_stage + 1:
            stages.append([])
        stages[last_stage + 1].append(run_key)
    return stages


def trained_bundle(run_key: "RunKey", config: ReproduceConfig) -> Path:
    """The folder of a run's trained model."""
    return config.runs / str(run_key) / "bundle"


def check_starts(missing: "Sequence[RunKey]", table: "PaperTables", config: ReproduceConfig) -> None:
    """Raise DataError where a run starts from one whose result is stored, but whose weights are not."""
    from training.reproduce.results import result_file

    for run_key in missing:
        start = table.start_of(run_key)
        if start and start not in missing and not (bundle := trained_bundle(start, config)).is_dir():
            raise DataError(
                str(bundle),
                f"the weights that {run_key} starts from are not there, only their result is",
                f"name their folder by --runs, or remove {result_file(config.output, start)}: they are trained again",
            )


def training_command(run_key: "RunKey", table: "PaperTables", config: ReproduceConfig) -> list[str]:
    """The arguments of `interlinear` that train a run, or resume it if it exists."""
    group = table.groups[run_key.group]
    training = group.training(run_key.system, run_key.scale)
    settings = {**training.settings, "training.seed": run_key.seed}
    if start := table.start_of(run_key):
        settings["training.init_from"] = trained_bundle(start, config)
    arguments = ["train", training.recipe, "--data", training.data, "--run", str(run_key)]
    arguments += [word for key, value in settings.items() for word in ("--set", setting(key, value))]
    arguments += ["--experiment", run_key.table, "--register", f"{run_key.table}.{run_key.group}.{run_key.system}"]
    arguments += ["--resume"] if (config.runs / str(run_key)).is_dir() else []
    return arguments + config.training_options()


def setting(key: str, value: object) -> str:
    """A setting as `train --set` reads it, in YAML."""
    return f"{key}={'null' if value is None else value}"


def train_runs(stage: "Sequence[RunKey]", table: "PaperTables", config: ReproduceConfig) -> "Generator[RunKey]":
    """Train runs with `interlinear train`; yields each run when it ends. Raises as `run_commands` does."""

    def arguments(run_key: "RunKey") -> list[str]:
        return [*training_command(run_key, table, config), "--parent", system_run(run_key, config)]

    return run_commands(stage, arguments, config.at_once, "its training")


def system_run(run_key: "RunKey", config: ReproduceConfig) -> str:
    """The id of the MLflow run of a system, the parent of the runs of its seeds."""
    from registry.curves import find_or_create_group

    tags = {"table": run_key.table, "group": run_key.group, "system": run_key.system, "scale": run_key.scale}
    return find_or_create_group(
        config.tracking, run_key.table, f"{run_key.group}.{run_key.system}.{run_key.scale}", tags
    )
