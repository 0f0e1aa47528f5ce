"""The result of a tuning: a table of its trials, and the best values as a recipe."""

from pathlib import Path
from typing import Any

import yaml

from training.data.arrays import write_atomically
from training.data.dataset import open_dataset
from training.recipe import load_recipe
from training.recipe.loading import set_key
from training.tuning.record import METRIC_NAMES, TrialRecord, TuningRecord
from training.tuning.space import setting_text, value_of
from training.yaml_files import is_yaml_file, load_yaml

BEST_FILE = "best.yaml"


def trial_table(record: TuningRecord) -> str:
    """The trials with their values, epochs, best dev score and state, one a line; `*` marks the best."""
    keys = list(record.space)
    names = [key.rpartition(".")[2] for key in keys]
    rows = [["trial", *names, "epochs", f"dev {METRIC_NAMES[record.metric]}", "state"]]
    for trial in record.trials:
        values = [setting_text(trial.values.get(key)) for key in keys]
        rows.append([mark(record, trial), *values, str(len(trial.curve)), best_score(record, trial), trial.state])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *line[1:]]) for row, line in zip(rows, lines, strict=True))


def mark(record: TuningRecord, trial: TrialRecord) -> str:
    """A trial's name, with `*` for the best."""
    return f"{trial.name} *" if trial is record.best_trial() else trial.name


def best_score(record: TuningRecord, trial: TrialRecord) -> str:
    """A trial's best dev score, for display."""
    best = record.best_epoch(trial)
    return "-" if best is None else f"{record.score(best):.2f}"


def best_settings(record: TuningRecord) -> list[str]:
    """The settings of the best trial as `KEY=VALUE`, including the settings of all trials."""
    best = record.best_trial()
    return [*record.settings, *(best.settings if best else ())]


def write_best_recipe(record: TuningRecord, folder: Path) -> Path:
    """Write the best trial's recipe, which extends the one that was tuned; returns its path."""
    best = record.best_trial()
    assert best is not None
    # A recipe that is a file is found from every folder by its whole path.
    base = str(Path(record.recipe).resolve()) if is_yaml_file(record.recipe) else record.recipe
    content: dict[str, Any] = {
        "about": f"{Path(record.recipe).stem} tuned on {record.data}: {best.name} of {len(record.trials)} trials, "
        f"dev {METRIC_NAMES[record.metric]} {best_score(record, best)}",
        "extends": base,
    }
    for setting in best_settings(record):
        key, _, value = setting.partition("=")
        set_key(content, key.strip(), load_yaml(value), base)
    path = folder / BEST_FILE
    write_atomically(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True).encode())
    return path


def overridden_settings(record: TuningRecord, best: Path, data_root: Path | None) -> list[str]:
    """The best settings that the data set's defaults override in the recipe `best`: these alone need `--set`."""
    defaults = open_dataset(record.data, data_root).defaults
    settings = best_settings(record)
    wanted, loaded = load_recipe(record.recipe, settings, defaults), load_recipe(str(best), (), defaults)
    keys = {setting: setting.partition("=")[0].strip() for setting in settings}
    return [setting for setting, key in keys.items() if value_of(wanted, key) != value_of(loaded, key)]
