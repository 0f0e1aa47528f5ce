"""A paper's tables: their systems, the published figures, and the runs that reproduce them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import Field, ValidationError, model_validator

from interlinear.errors import DataError, UsageError
from research.records import RunKey, ScaleName, StrictModel, TrainingSpec
from training.yaml_files import first_problem, read_mapping

TABLES = Path(__file__).parent / "tables"


class PublishedSystem(StrictModel):
    """A system's figures from a publication, shown beside ours without a significance test."""

    name: str
    citation: str = Field(description="the publication, and where in it the figures are")
    settings: str = Field("", description="how the figures were computed, where that matters")
    scores: dict[str, dict[str, float]] = Field(description="by test set, then by score")


class ToolkitSystem(StrictModel):
    """A system that another toolkit trained on the same data; its outputs are scored beside ours.

    `python -m research add` stores the outputs of a seed for a test set under the name `PAPER.GROUP.NAME.SEED.TEST`.
    """

    about: str = Field(description="architecture, subwords, optimizer and search")
    toolkit: str
    version: str = Field(description="release or commit")
    parameters: int | None = None
    minutes: float | None = Field(None, description="of training, the mean over the seeds")


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
    grace: int = Field(1, ge=1, description="epochs before a trial may be stopped")
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
    taken_from: dict[str, str] = Field({}, description="systems whose runs are those of another group, by its name")
    tuning: TuningBudget | None = Field(None, description="each system is tuned first, all by the same budget")
    settings: dict[str, Any] = Field({}, description="recipe keys of all systems")
    small: Scale = Scale()
    paper: Scale = Scale()

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
        if unknown := [one for one in self.taken_from if one not in self.systems]:
            raise ValueError(f"taken_from: {unknown[0]} is none of the group's systems: {', '.join(self.systems)}")
        if both := set(self.taken_from).intersection(self.starts_from):
            raise ValueError(
                f"{min(both)} is among taken_from and starts_from: the other group says what it starts from"
            )
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
    figures: list[str] = Field([], max_length=2, description="of all figures those that the page shows")
    groups: dict[str, SystemGroup]

    @model_validator(mode="after")
    def _check_taken_runs(self) -> Self:
        for name, group in self.groups.items():
            for system, source in group.taken_from.items():
                taken = f"{name}.taken_from: {system} of {source}"
                other = self.groups.get(source)
                if other is None or system not in other.systems or other.taken_from:
                    groups = [key for key, one in self.groups.items() if system in one.systems and not one.taken_from]
                    raise ValueError(f"{taken}: groups that train it are {', '.join(groups) or 'none'}")
                if missing := [test for test in group.tests if test not in other.tests]:
                    raise ValueError(f"{taken}: that group is not tested on {missing[0]}")
                if any(group.data_at(scale) != other.data_at(scale) for scale in get_args(ScaleName)):
                    raise ValueError(f"{taken}: that group has other data")
        return self

    def start_of(self, run_key: RunKey) -> RunKey | None:
        """The run whose weights a run starts from."""
        start = self.groups[run_key.group].starts_from.get(run_key.system)
        return None if start is None else self.source_of(run_key.model_copy(update={"system": start}))

    def source_of(self, run_key: RunKey) -> RunKey:
        """The run itself, or that of the group from which its system is taken."""
        group = self.groups[run_key.group].taken_from.get(run_key.system, run_key.group)
        return run_key.model_copy(update={"group": group})

    def stages(self, run_key: RunKey) -> list[RunKey]:
        """The runs that a run needs, each after the one whose weights it starts from, and last the run itself."""
        stages = [self.source_of(run_key)]
        while (start := self.start_of(stages[0])) is not None:
            stages.insert(0, start)
        return stages


def paper_names() -> list[str]:
    """The names of the papers whose tables are here."""
    return sorted(path.stem for path in TABLES.glob("*.yaml"))


def load_paper(name: str) -> PaperTables:
    """A paper's tables, by name or by the path of a YAML file. Raises UsageError, DataError."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else TABLES / f"{name}.yaml"
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
    ordered = [
        run_key
        for seed in range(1, seeds + 1)
        for group, system in chosen
        for run_key in table.stages(RunKey(table=name, group=group, system=system, scale=scale, seed=seed))
    ]
    return list(dict.fromkeys(ordered))
