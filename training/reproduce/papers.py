"""A paper's tables: which systems they have, what the paper says of each, and what was measured here, run by run."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError

from seq2seq.errors import DataError, UsageError
from seq2seq.metrics.metric import Preprocessing, Statistics
from seq2seq.metrics.score import IntervalScore, Score
from training.package_files import resource_folder
from training.yaml_files import first_problem, read_mapping

ScaleName = Literal["small", "paper"]


class StrictModel(BaseModel):
    """What a file of ours holds: no keys but these."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Scale(StrictModel):
    """How a group is trained at one scale."""

    recipe: str | None = Field(None, description="of a system, `{}` is its name; else `{}`, or `paper/{}`")
    data: str | None = Field(None, description="else the group's")
    settings: dict[str, Any] = {}


class TrainingSpec(StrictModel):
    """How one system is trained."""

    recipe: str
    data: str
    settings: dict[str, Any]


class Variant(StrictModel):
    """A system that is another one's recipe with settings of its own."""

    of: str
    settings: dict[str, Any] = {}


class SystemGroup(StrictModel):
    """Systems of one table that are trained alike. The first is the baseline that gains are counted from."""

    about: str
    core: bool = Field(False, description="trained where nothing else is asked for")
    data: str
    tests: dict[str, str] = Field(description="splits of the data set, and the scores of each, by comma")
    published: str = Field(description="the score that the paper's figures are, or `gain`: they are gains in it")
    systems: dict[str, float | None] = Field(min_length=2, description="each system's figure in the paper")
    also: dict[str, dict[str, float]] = Field({}, description="the paper's figures in further scores, by system")
    variants: dict[str, Variant] = Field({}, description="systems that are no recipe's name")
    starts_from: dict[str, str] = Field({}, description="a system, and another of the group that it starts from")
    settings: dict[str, Any] = {}
    small: Scale = Scale()
    paper: Scale = Scale()

    def training(self, system: str, scale: ScaleName) -> TrainingSpec:
        """How one of its systems is trained at a scale, but for the seed and what it starts from."""
        own, usual = (self.small, "{}") if scale == "small" else (self.paper, "paper/{}")
        variant = self.variants.get(system, Variant(of=system))
        settings = self.settings | own.settings | variant.settings
        return TrainingSpec(
            recipe=(own.recipe or usual).format(variant.of), data=own.data or self.data, settings=settings
        )

    def published_score(self, system: str, test: str, metric: str) -> float | None:
        """What the paper reports of a system; on test sets but the first, and other scores, nothing."""
        if test != next(iter(self.tests)):
            return None
        return self.systems[system] if metric == self.metric else self.also.get(metric, {}).get(system)

    @property
    def metric(self) -> str:
        """The score that stands in the table: the first of the first test."""
        return next(iter(self.tests.values())).split(",")[0] if self.published == "gain" else self.published


class PaperTables(StrictModel):
    """A paper's tables, as far as they are reproduced."""

    about: str
    groups: dict[str, SystemGroup]


class RunKey(StrictModel):
    """One run of a table: which system, at which scale, with which seed."""

    table: str
    group: str
    system: str
    scale: ScaleName
    seed: int

    def __str__(self) -> str:
        return f"{self.table}.{self.group}.{self.system}.{self.scale}.{self.seed}"


class TestResult(StrictModel):
    """What a run scored on one test set; and, for significance, what every sentence adds to each score."""

    reading: Preprocessing
    scores: dict[str, SerializeAsAny[IntervalScore | Score]]
    left_out: dict[str, str] = {}
    unedited: dict[str, float] = Field(
        {}, description="scores of the machine translations that are edited, as they are"
    )
    lengths: list[int] = Field(description="words of every source")
    statistics: dict[str, list[str]] = Field(description="a line of numbers for every sentence")

    def of(self, metric: str) -> Statistics:
        """What every sentence adds to a score, (N, S)."""
        return np.array([[float(number) for number in row.split()] for row in self.statistics[metric]])


def format_statistics(statistics: Statistics) -> list[str]:
    """Statistics as they are kept: whole numbers, as most are, without a fraction."""
    return [" ".join(f"{number:.12g}" for number in row) for row in statistics.tolist()]


class DevPoint(StrictModel):
    """The dev set's verdict after an epoch."""

    epoch: int
    perplexity: float
    bleu: float


class Result(StrictModel):
    """A run that ended: what was trained, by which code, where, and what came of it."""

    place: RunKey
    training: TrainingSpec
    commit: str | None
    machine: str
    date: str
    seconds: float = Field(description="of training")
    parameters: int
    weights_sha256: str
    bundle: str
    curve: list[DevPoint]
    tests: dict[str, TestResult]


def paper_names() -> list[str]:
    """The papers whose tables are reproduced."""
    return sorted(path.stem for path in resource_folder("tables").glob("*.yaml"))


def load_paper(name: str) -> PaperTables:
    """A paper's tables by name, or by a YAML file's path. Raises CallError, DataError."""
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
    """The runs that are wanted, seed by seed, so that a table is whole as early as can be.

    `only` names groups, or systems of the core groups, or `GROUP/SYSTEM`. Raises CallError for a name that is neither.
    """
    chosen: list[tuple[str, str]] = []
    core = {key: group for key, group in table.groups.items() if group.core}
    for word in only:
        group, _, system = word.partition("/")
        if group in table.groups:
            own = table.groups[group].systems
            found = [(group, one) for one in own if not system or one == system]
        else:
            found = [(key, word) for key, one in core.items() if word in one.systems]
        if not found:
            systems = dict.fromkeys(one for each in core.values() for one in each.systems)
            raise UsageError(
                f"--only {word}",
                "the paper's tables have no such group or system",
                f"groups are {', '.join(table.groups)}; systems of the core {', '.join(systems)}",
            )
        chosen += found
    if not only:
        chosen = [(key, system) for key, group in core.items() for system in group.systems]
    for group, system in list(chosen):  # what a system starts from comes before it
        start = table.groups[group].starts_from.get(system)
        if start and (group, start) not in chosen:
            chosen.insert(chosen.index((group, system)), (group, start))
    return [
        RunKey(table=name, group=group, system=system, scale=scale, seed=seed)
        for seed in range(1, seeds + 1)
        for group, system in dict.fromkeys(chosen)
    ]


def result_file(folder: Path, place: RunKey) -> Path:
    """Where a run's result is kept."""
    return folder / "runs" / f"{place}.json"


def write_result(folder: Path, result: Result) -> Path:
    """Keep a run's result, whole or not at all."""
    path = result_file(folder, result.place)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False, encoding="utf-8") as draft:
        draft.write(result.model_dump_json(indent=1) + "\n")
    Path(draft.name).chmod(0o644)
    return Path(draft.name).replace(path)


def read_results(folder: Path, name: str) -> list[Result]:
    """All results of a paper's tables that are kept there. Raises DataError for a file that is none, and for a copy of
    another, which would count as a further seed."""
    found: dict[tuple[RunKey, str], Result] = {}
    for path in sorted((folder / "runs").glob(f"{name}.*.json")):
        try:
            result = Result.model_validate_json(path.read_bytes())
        except (ValidationError, OSError) as error:
            first = str(error).splitlines()[0]
            raise DataError(
                str(path), f"it is no result of a run ({first})", "remove it, and it is trained again"
            ) from None
        if path != result_file(folder, result.place):
            raise DataError(
                str(path), f"it is the result of another run, {result.place}", "remove it, and this one is trained"
            )
        any_seed = result.place.model_copy(update={"seed": 0})
        if (other := found.setdefault((any_seed, result.weights_sha256), result)) is not result:
            raise DataError(
                str(path),
                f"seed {result.place.seed} has the weights of seed {other.place.seed}: one is a copy of the other",
                "remove the copy, and it is trained",
            )
    return list(found.values())
