"""A paper's tables: their systems, the published figures, and the runs that reproduce them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from seq2seq.errors import DataError, UsageError
from training.package_files import resource_folder
from training.reproduce.other_systems import PublishedSystem, ToolkitSystem
from training.reproduce.results import RunKey, ScaleName, TrainingSpec
from training.reproduce.strict_model import StrictModel
from training.yaml_files import first_problem, read_mapping


class Scale(StrictModel):
    """The training settings of a group at one scale."""

    recipe: str | None = Field(None, description="`{}` is the system's name; default: `{}` or `paper/{}`")
    data: str | None = Field(None, description="default: the data set of the group")
    settings: dict[str, Any] = Field({}, description="recipe keys")
    systems: dict[str, dict[str, Any]] = Field({}, description="recipe keys of single systems")


class Variant(StrictModel):
    """A system that uses the recipe of another one, with its own settings."""

    of: str
    settings: dict[str, Any] = Field({}, description="recipe keys of this system")


class TuningBudget(StrictModel):
    """What every system of a group is tuned by on the dev set, with `interlinear tune`, before it is trained."""

    trials: int = Field(8, ge=1, description="the first is the recipe itself")
    epochs: int = Field(ge=1, description="of a trial, at most")
    seed: int = Field(1, description="of the trials' values")
    settings: dict[str, Any] = Field({}, description="recipe keys of all trials, which are not tuned")


class SystemGroup(StrictModel):
    """Systems of one table that share training settings. The first is the baseline for gains."""

    about: str
    core: bool = Field(False, description="trained by default")
    data: str
    tests: dict[str, str] = Field(description="splits of the data set, with comma-separated scores for each")
    published: str = Field(description="the score of the paper's figures, or `gain` if they are gains")
    systems: dict[str, float | None] = Field(min_length=2, description="each system's figure in the paper")
    also: dict[str, dict[str, float]] = Field({}, description="the paper's figures by other scores, then by system")
    also_published: list[PublishedSystem] = Field([], description="systems of other publications")
    toolkit_systems: dict[str, ToolkitSystem] = Field({}, description="systems of other toolkits, with stored outputs")
    shuffle_images: list[str] = Field([], description="test sets that are scored with wrong images too")
    variants: dict[str, Variant] = Field({}, description="systems that are not named after a recipe")
    starts_from: dict[str, str] = Field({}, description="systems that start from another system of the group")
    tuning: TuningBudget | None = Field(None, description="each system is tuned first, all by the same budget")
    settings: dict[str, Any] = Field({}, description="recipe keys of all systems")
    small: Scale = Scale()
    paper: Scale = Scale()

    def stages(self, system: str) -> list[str]:
        """The systems whose weights a system starts from, the first one first, and the system itself."""
        stages = [system]
        while (start := self.starts_from.get(stages[0])) is not None:
            stages.insert(0, start)
        return stages

    @model_validator(mode="after")
    def _check_systems(self) -> Self:
        unknown = [one for pair in self.starts_from.items() for one in pair if one not in self.systems]
        if unknown:
            raise ValueError(f"starts_from: {unknown[0]} is none of the group's systems: {', '.join(self.systems)}")
        for system in self.starts_from:
            passed, one = {system}, self.starts_from.get(system)
            while one is not None and one not in passed:
                passed.add(one)
                one = self.starts_from.get(one)
            if one is not None:
                raise ValueError(f"starts_from: {system} starts from {one}, which starts from itself")
        for name, scale in (("small", self.small), ("paper", self.paper)):
            if unknown := [one for one in scale.systems if one not in self.systems]:
                systems = ", ".join(self.systems)
                raise ValueError(f"{name}.systems: {unknown[0]} is none of the group's systems: {systems}")
        if self.tuning and self.starts_from:
            raise ValueError("tuning: systems that start from another one are not tuned: leave one of the two keys out")
        return self

    @model_validator(mode="after")
    def check_test_sets(self) -> "SystemGroup":
        named = {test: f"also_published names {test}" for each in self.also_published for test in each.scores}
        named |= {test: f"shuffle_images names {test}" for test in self.shuffle_images}
        for test, where in named.items():
            if test not in self.tests:
                raise ValueError(f"{where}, which is not among the test sets: {', '.join(self.tests)}")
        if both := set(self.systems).intersection(self.toolkit_systems):
            raise ValueError(f"{min(both)} is among systems and toolkit_systems: name one of them differently")
        return self

    def data_at(self, scale: ScaleName) -> str:
        """The data set at a scale."""
        return (self.small if scale == "small" else self.paper).data or self.data

    def training(self, system: str, scale: ScaleName) -> TrainingSpec:
        """The training settings of a system at a scale, without the seed and the model that it starts from."""
        scale_settings, recipe_pattern = (self.small, "{}") if scale == "small" else (self.paper, "paper/{}")
        variant = self.variants.get(system, Variant(of=system))
        own = scale_settings.systems.get(system, {})
        settings = self.settings | scale_settings.settings | variant.settings | own
        return TrainingSpec(
            recipe=(scale_settings.recipe or recipe_pattern).format(variant.of),
            data=self.data_at(scale),
            settings=settings,
        )

    def published_score(self, system: str, test: str, metric: str) -> float | None:
        """The paper's score of a system; None for scores that the paper does not report, and for test sets other
        than the first."""
        if test != next(iter(self.tests)):
            return None
        return self.systems.get(system) if metric == self.metric else self.also.get(metric, {}).get(system)

    @property
    def metric(self) -> str:
        """The table's main score: the published one; if gains are published, the first of the first test set."""
        return next(iter(self.tests.values())).split(",")[0] if self.published == "gain" else self.published


class PaperTables(StrictModel):
    """The tables of a paper that are reproduced."""

    about: str
    groups: dict[str, SystemGroup]


def paper_names() -> list[str]:
    """The names of the papers that are shipped with the program."""
    return sorted(path.stem for path in resource_folder("tables").glob("*.yaml"))


def load_paper(name: str) -> PaperTables:
    """A paper's tables, by name or by the path of a YAML file. Raises UsageError, DataError."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else resource_folder("tables") / f"{name}.yaml"
    if not path.is_file():
        raise UsageError(
            name, "there is no such paper here", f"there are {', '.join(paper_names())}, or give a YAML file"
        )
    content = read_mapping(path, DataError, str(path), "docs/reproduce.md")
    try:
        return PaperTables.model_validate(content)
    except ValidationError as error:
        raise DataError(
            str(path), f"describes no paper's tables: {first_problem(error)}", "see docs/reproduce.md"
        ) from None


def plan_runs(name: str, table: PaperTables, scale: ScaleName, seeds: int, only: Sequence[str] = ()) -> list[RunKey]:
    """The runs to do, ordered by seed, so that a complete table is available as early as possible.

    `only`: names of groups, of systems in core groups, or `GROUP/SYSTEM`; if empty, all core groups. Systems that the
    chosen ones start from are added. Raises UsageError for an unknown name.
    """
    chosen: list[tuple[str, str]] = []
    core = {key: group for key, group in table.groups.items() if group.core}
    for name_or_system in only:
        group, _, system = name_or_system.partition("/")
        if group in table.groups:
            systems_of_group = table.groups[group].systems
            matches = [(group, one) for one in systems_of_group if not system or one == system]
        else:
            matches = [(key, name_or_system) for key, one in core.items() if name_or_system in one.systems]
        if not matches:
            systems = dict.fromkeys(one for group_systems in core.values() for one in group_systems.systems)
            raise UsageError(
                f"--only {name_or_system}",
                "the paper's tables have no such group or system",
                f"groups are {', '.join(table.groups)}; systems of the core {', '.join(systems)}",
            )
        chosen += matches
    if not only:
        chosen = [(key, system) for key, group in core.items() for system in group.systems]
    ordered = [(group, one) for group, system in chosen for one in table.groups[group].stages(system)]
    return [
        RunKey(table=name, group=group, system=system, scale=scale, seed=seed)
        for seed in range(1, seeds + 1)
        for group, system in dict.fromkeys(ordered)
    ]
