"""Tunes the systems of a group, with `interlinear tune`, before they are trained."""

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from interlinear.reproduction.commands import run_commands
from interlinear.reproduction.run_training import ReproduceConfig, setting

if TYPE_CHECKING:
    from training.reproduce.papers import PaperTables
    from training.reproduce.results import SystemKey
    from training.reproduce.tunings import SystemTuning

EPOCHS = "training.epochs"  # of a trial they are the budget's


def tuning_command(key: "SystemKey", table: "PaperTables", config: ReproduceConfig) -> list[str]:
    """The arguments of `interlinear` that tune a system, or go on with that."""
    group = table.groups[key.group]
    assert group.tuning is not None
    training, budget = group.training(key.system, key.scale), group.tuning
    settings = {name: value for name, value in training.settings.items() if name != EPOCHS} | budget.settings
    arguments = ["tune", training.recipe, "--data", training.data, "--run", run_name(key)]
    arguments += ["--trials", str(budget.trials), "--epochs", str(budget.epochs), "--grace", str(budget.grace)]
    arguments += ["--seed", str(budget.seed)]
    arguments += [word for name, value in settings.items() for word in ("--set", setting(name, value))]
    arguments += ["--experiment", key.table]
    arguments += ["--resume"] if (config.runs / run_name(key)).is_dir() else []
    return arguments + config.tuning_options()


def tune_systems(keys: "Sequence[SystemKey]", table: "PaperTables", config: ReproduceConfig) -> "list[SystemTuning]":
    """Tune systems one after the other, each on all processors, and store the results. Raises as `run_commands`."""
    from training.reproduce.tunings import SystemTuning, write_tuning
    from training.tuning.record import read_record

    tunings = []
    with closing(run_commands(keys, lambda key: tuning_command(key, table, config), 1, "its tuning")) as finished:
        for key in finished:
            group = table.groups[key.group]
            assert group.tuning is not None
            record = read_record(config.runs / run_name(key))
            tuning = SystemTuning(
                place=key, training=group.training(key.system, key.scale), budget=group.tuning, record=record
            )
            write_tuning(config.output, tuning)
            tunings.append(tuning)
    return tunings


def run_name(key: "SystemKey") -> str:
    """The name of a system's tuning, which is that of its folder among the runs."""
    return f"{key}.tuning"
