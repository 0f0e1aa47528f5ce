"""Tunings of a table's systems: all of a group get the same budget, and the best values become a system's settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from interlinear.errors import DataError
from research.papers import PaperTables, TuningBudget, Variant
from research.records import RunKey, ScaleName, StrictModel, SystemKey, TrainingSpec
from training.tuning.record import METRIC_NAMES, TrialRecord, TuningRecord
from training.tuning.report import best_score


class SystemTuning(StrictModel):
    """A completed tuning of a system: what was tuned, by which budget, and every trial."""

    place: SystemKey
    training: TrainingSpec
    budget: TuningBudget
    record: TuningRecord

    @property
    def best(self) -> TrialRecord:
        """The trial with the best dev score; a completed tuning has one."""
        best = self.record.best_trial()
        assert best is not None
        return best

    @property
    def run_settings(self) -> dict[str, Any]:
        """What is set in the system's runs, so that they train as the best trial did: its values, and the settings of
        all trials. Empty where the recipe itself is the best."""
        return self.budget.settings | self.best.values if self.best.settings else {}

    @property
    def score_name(self) -> str:
        return METRIC_NAMES[self.record.metric]

    @property
    def recipe_score(self) -> str:
        """The best dev score of the first trial, which is the recipe itself."""
        return best_score(self.record, self.record.trials[0])

    @property
    def chosen_score(self) -> str:
        """The best dev score of all trials."""
        return best_score(self.record, self.best)


def tunings_to_do(run_keys: Sequence[RunKey], table: PaperTables, done: Sequence[SystemTuning]) -> list[SystemKey]:
    """The tunings that runs need and that are not stored, in the order of the runs."""
    needed = dict.fromkeys(run.of_system for run in run_keys if table.groups[run.group].tuning)
    stored = {tuning.place for tuning in done}
    return [key for key in needed if key not in stored]


def apply_tunings(table: PaperTables, tunings: Sequence[SystemTuning]) -> PaperTables:
    """The tables with the settings of tunings' best trials as settings of their systems. `tunings`: of one scale.

    Where the recipe itself is the best, and another group trains the system in the same way, the runs are that group's.
    """
    groups = dict(table.groups)
    for tuning in tunings:
        group, system = groups[tuning.place.group], tuning.place.system
        update: dict[str, Any] = {}
        if tuning.run_settings:
            variant = group.variants.get(system, Variant(of=system))
            tuned = variant.model_copy(update={"settings": variant.settings | tuning.run_settings})
            update["variants"] = {**group.variants, system: tuned}
        elif same := group_that_trains(tuning, table):
            update["taken_from"] = {**group.taken_from, system: same}
        groups[tuning.place.group] = group.model_copy(update=update)
    return table.model_copy(update={"groups": groups})


def group_that_trains(tuning: SystemTuning, table: PaperTables) -> str | None:
    """The first group without a tuning that trains and tests a system as the tuning's group does."""
    own = table.groups[tuning.place.group]
    for name, group in table.groups.items():
        system, scale = tuning.place.system, tuning.place.scale
        trained_here = system in group.systems and system not in {*group.taken_from, *group.starts_from}
        if (
            trained_here
            and not group.tuning
            and group.training(system, scale) == tuning.training
            and all(
                set(scores.split(",")) <= set(group.tests.get(test, "").split(","))
                for test, scores in own.tests.items()
            )
        ):
            return name
    return None


def tuning_file(folder: Path, place: SystemKey) -> Path:
    """The path of a stored tuning. `folder`: of results."""
    return folder / "tunings" / f"{place}.json"


def read_tunings(folder: Path, name: str, table: PaperTables, scale: ScaleName) -> list[SystemTuning]:
    """The stored tunings of a paper's groups at a scale, by group and system.

    Raises DataError for one that cannot be read, or whose budget or training settings are not the table's.
    """
    places = [
        SystemKey(table=name, group=key, system=system, scale=scale)
        for key, group in table.groups.items()
        if group.tuning
        for system in group.systems
    ]
    return [read_tuning(path, place, table) for place in places if (path := tuning_file(folder, place)).is_file()]


def read_tuning(path: Path, place: SystemKey, table: PaperTables) -> SystemTuning:
    """A stored tuning. Raises DataError."""
    remedy = "remove it, and the system is tuned again"
    try:
        tuning = SystemTuning.model_validate_json(path.read_bytes())
    except (ValidationError, OSError):
        raise DataError(str(path), "is not the record of a tuning", remedy) from None
    group = table.groups[place.group]
    current = (place, group.training(place.system, place.scale), group.tuning)
    if (tuning.place, tuning.training, tuning.budget) != current:
        raise DataError(str(path), "the system was tuned otherwise than the table says", remedy)
    return tuning
