"""Results of the runs that reproduce a paper, as stored files."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, SerializeAsAny, ValidationError

from seq2seq.errors import DataError
from seq2seq.metrics.metric import Preprocessing, Statistics
from seq2seq.metrics.score import IntervalScore, Score
from training.reproduce.gates import GateAnalysis
from training.reproduce.other_systems import ToolkitSystem
from training.reproduce.strict_model import StrictModel

ScaleName = Literal["small", "paper"]


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
    statistics: dict[str, list[str]] = Field(description="a line of numbers for every sentence")

    def of(self, metric: str) -> Statistics:
        """The statistics of each sentence for a score, (N, S)."""
        return parse_statistics(self.statistics[metric])


class TestResult(StrictModel):
    """The scores of a run on one test set, and the statistics of each sentence, for significance tests."""

    reading: Preprocessing
    scores: dict[str, SerializeAsAny[IntervalScore | Score]]
    left_out: dict[str, str] = Field({}, description="scores that the test set does not support, with the reason")
    unedited: dict[str, float] = Field({}, description="scores of the unedited machine translations, in post-editing")
    lengths: list[int] = Field(description="number of words of every source")
    statistics: dict[str, list[str]] = Field(description="a line of numbers for every sentence")
    joined_from: str | None = Field(None, description="the test set whose lines were joined to this one")
    shuffled: ShuffledImages | None = None
    outputs_sha256: str | None = Field(None, description="of the text of the stored outputs; None: none are stored")

    def of(self, metric: str) -> Statistics:
        """The statistics of each sentence for a score, (N, S)."""
        return parse_statistics(self.statistics[metric])


def parse_statistics(lines: Sequence[str]) -> Statistics:
    """Statistics from their stored form, (N, S)."""
    return np.array([[float(number) for number in row.split()] for row in lines])


def format_statistics(statistics: Statistics) -> list[str]:
    """Statistics as they are stored: a line for each sentence, whole numbers without a fraction."""
    return [" ".join(f"{number:.12g}" for number in row) for row in statistics.tolist()]


class DevPoint(StrictModel):
    """The dev set scores after an epoch."""

    epoch: int
    perplexity: float
    bleu: float
    gate: float | None = Field(None, description="mean of the contextual gates over the dev set's words")


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

    @property
    def version(self) -> str:
        """The abbreviated commit."""
        return (self.commit or "unknown")[:10]

    @property
    def minutes(self) -> float:
        return self.seconds / 60

    @property
    def epochs(self) -> int:
        """The number of epochs that were trained."""
        return len(self.curve)


class ToolkitResult(StrictModel):
    """The scores of the stored outputs of another toolkit's system."""

    place: RunKey
    system: ToolkitSystem
    tests: dict[str, TestResult]

    @property
    def version(self) -> str:
        return f"{self.system.toolkit} {self.system.version}"

    @property
    def minutes(self) -> float | None:
        return self.system.minutes

    @property
    def parameters(self) -> int | None:
        return self.system.parameters

    @property
    def epochs(self) -> None:
        """Not known."""


ScoredRun = Result | ToolkitResult


def result_file(folder: Path, place: RunKey) -> Path:
    """The path of a run's result."""
    return folder / "runs" / f"{place}.json"


def toolkit_result_file(folder: Path, place: RunKey) -> Path:
    """The path of the scores of another toolkit's outputs, beside the outputs."""
    return folder / "outputs" / f"{place.without_scale}.json"


def write_result(folder: Path, result: ScoredRun) -> Path:
    """Write a result atomically."""
    find_file = result_file if isinstance(result, Result) else toolkit_result_file
    path = find_file(folder, result.place)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False, encoding="utf-8") as temporary:
        temporary.write(result.model_dump_json(indent=1) + "\n")
    Path(temporary.name).chmod(0o644)
    return Path(temporary.name).replace(path)


def read_toolkit_result(folder: Path, place: RunKey) -> ToolkitResult | None:
    """The stored scores of another toolkit's outputs; None if there are none, of another form or at another scale."""
    try:
        result = ToolkitResult.model_validate_json(toolkit_result_file(folder, place).read_bytes())
    except (ValidationError, OSError):
        return None
    return result if result.place == place else None


def read_results(folder: Path, name: str) -> list[Result]:
    """All stored results of a paper's tables. Raises DataError for an invalid file, and for a copy of another
    result, which would count as a further seed."""
    results: dict[tuple[RunKey, str], Result] = {}
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
        without_seed = result.place.model_copy(update={"seed": 0})
        weights = result.weights_sha256 or path.name  # unknown weights are nobody's copy
        if (other := results.setdefault((without_seed, weights), result)) is not result:
            raise DataError(
                str(path),
                f"seed {result.place.seed} has the weights of seed {other.place.seed}: one is a copy of the other",
                "remove the copy, and it is trained",
            )
    return list(results.values())
