"""Results of the runs that reproduce a paper: stored records, and the same with the statistics of every sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError

from interlinear.errors import DataError
from interlinear.metrics.metric import Preprocessing, Statistics
from interlinear.metrics.score import IntervalScore, Score
from training.data.arrays import write_atomically

ScaleName = Literal["small", "paper"]


class StrictModel(BaseModel):
    """Base of the models of our files: immutable, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TrainingSpec(StrictModel):
    """The training settings of one system."""

    recipe: str
    data: str
    settings: dict[str, Any]


class SystemKey(StrictModel):
    """The identity of a system at a scale: table, group, system, and scale."""

    table: str
    group: str
    system: str
    scale: ScaleName

    def __str__(self) -> str:
        return f"{self.table}.{self.group}.{self.system}.{self.scale}"


class RunKey(SystemKey):
    """The identity of a run of a system: its seed as well."""

    seed: int

    def __str__(self) -> str:
        return f"{super().__str__()}.{self.seed}"

    @property
    def of_system(self) -> SystemKey:
        """The key of the run's system, whose seeds share it."""
        return SystemKey(table=self.table, group=self.group, system=self.system, scale=self.scale)

    @property
    def without_scale(self) -> str:
        """The name of a run of another toolkit, which has one size."""
        return f"{self.table}.{self.group}.{self.system}.{self.seed}"


class ShuffledImages(StrictModel):
    """The scores of a run with every image moved to another line, as `evaluate --shuffle-images` computes them.

    `awareness`: by score, how much better the right images are (Elliott 2018); `p_values`: by score, then by test.
    """

    seed: int
    lines: int = Field(description="number of lines with an image")
    scores: dict[str, float]
    awareness: dict[str, float]
    p_values: dict[str, dict[str, float]]
    statistics: dict[str, list[str]] = Field(description="of these outputs, which are not stored")


class TestResult(StrictModel):
    """The scores of a run on one test set."""

    reading: Preprocessing
    scores: dict[str, SerializeAsAny[IntervalScore | Score]]
    left_out: dict[str, str] = Field({}, description="scores that the test set does not support, with the reason")
    unedited: dict[str, float] = Field({}, description="scores of the unedited machine translations, in post-editing")
    statistics: dict[str, list[str]] = Field({}, description="of scores of alignments, which the outputs do not have")
    joined_from: str | None = Field(None, description="the test set whose lines were joined to this one")
    shuffled: ShuffledImages | None = None
    outputs_sha256: str | None = Field(None, description="of the text of the stored outputs; None: none are stored")


def parse_statistics(lines: Sequence[str]) -> Statistics:
    """Statistics from their stored form, (N, S)."""
    return np.array([[float(number) for number in row.split()] for row in lines])


def format_statistics(statistics: Statistics) -> list[str]:
    """Statistics as they are stored: a line for each sentence, 12 digits, whole numbers without a fraction."""
    return [" ".join(f"{number:.12g}" for number in row) for row in statistics.tolist()]


class DevPoint(StrictModel):
    """The dev set scores after an epoch."""

    epoch: int
    perplexity: float
    bleu: float
    gate: float | None = Field(None, description="mean of the contextual gates over the dev set's words")


class ClassGate(StrictModel):
    """The words of a class and their mean gate, the share of the annotations; 1 - mean is that of the word context."""

    words: int
    mean: float


class GateAnalysis(StrictModel):
    """What the contextual gates of a run do."""

    by_class: dict[str, ClassGate] = Field(description="over the references of the first test set, by word class")
    fixed: dict[float, float] = Field(description="dev BLEU by the value at which all gates are fixed")
    learned: float = Field(description="dev BLEU of the gates as they were learned")


class Result(StrictModel):
    """A completed run: its training settings, code version and machine, and its results."""

    place: RunKey
    training: TrainingSpec
    commit: str | None
    machine: str
    date: str
    seconds: float = Field(description="of training")
    parameters: int
    weights_sha256: str = Field(description="empty: not known")
    curve: list[DevPoint]
    tests: dict[str, TestResult]
    gates: GateAnalysis | None = Field(None, description="of a system with contextual gates")


@dataclass(frozen=True, eq=False)
class ScoredTest:
    """The result of a run on one test set with the numbers of each of its N sentences.

    `statistics`: by score, (N, S). `lengths`: number of words of every source; empty if no outputs are stored.
    """

    result: TestResult
    statistics: Mapping[str, Statistics]
    lengths: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class ScoredRun:
    """A run as tables show it: one of ours, with its `result`, or one of another toolkit.

    `version`: abbreviated commit, or the toolkit's release. `minutes`, `epochs`: of training; None: not known.
    """

    place: RunKey
    version: str
    minutes: float | None
    parameters: int | None
    tests: Mapping[str, ScoredTest]
    result: Result | None = field(default=None, repr=False)

    @classmethod
    def of(cls, result: Result, tests: Mapping[str, ScoredTest]) -> "ScoredRun":
        """One of our runs. `tests`: the result's, by name."""
        version = (result.commit or "unknown")[:10]
        return cls(result.place, version, result.seconds / 60, result.parameters, tests, result)

    @property
    def epochs(self) -> int | None:
        return len(self.result.curve) if self.result else None


def result_file(folder: Path, place: RunKey) -> Path:
    """The path of a run's result. `folder`: of results."""
    return folder / "runs" / f"{place}.json"


def write_record(path: Path, record: StrictModel) -> None:
    """Write a record in one line of JSON, complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f"{record.model_dump_json(exclude_defaults=True)}\n".encode())


def read_results(folder: Path, name: str) -> list[Result]:
    """All stored results of a paper's tables. Raises DataError for an invalid file, and for a copy of another
    result, which would count as a further seed."""
    results: dict[tuple[SystemKey, str], Result] = {}
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
        weights = result.weights_sha256 or path.name  # unknown weights are nobody's copy
        if (other := results.setdefault((result.place.of_system, weights), result)) is not result:
            raise DataError(
                str(path),
                f"seed {result.place.seed} has the weights of seed {other.place.seed}: one is a copy of the other",
                "remove the copy, and it is trained",
            )
    return list(results.values())
