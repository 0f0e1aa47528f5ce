"""Small untrained bundles of `tests/interlinear`, tables of two systems, and results of runs made of lines."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from interlinear.metrics.catalogue import select_metrics
from interlinear.metrics.metric import Preprocessing, ReferenceSet, SystemOutputs
from research.__main__ import run
from research.outputs import add_outputs, outputs_sha256
from research.papers import PaperTables, load_paper
from research.records import DevPoint, Result, RunKey, TestResult, result_file, write_record
from tests.interlinear.cli.conftest import TEST, describe, editing_toy, gated_toy, parallel, seeing_toy, toy
from tests.training.toy import SETTINGS

__all__ = ["editing_toy", "gated_toy", "parallel", "seeing_toy", "toy"]

REFERENCES = [f"a {animal} runs in the garden ." for animal in ("dog", "cat", "man", "girl", "horse")] * 2
ONE = [line.replace("runs", "walks") for line in REFERENCES]
OTHER = [*REFERENCES[:4], *ONE[4:]]
SYSTEMS = {"one": ONE, "other": OTHER}


def group_of(folder: Path, metrics: str, **keys: object) -> dict[str, object]:
    """A group of two systems. `keys`: others of its keys, or other values."""
    return {
        "about": "two systems",
        "core": True,
        "data": str(folder / "data.yaml"),
        "tests": {"test": metrics},
        "published": "gain",
        "systems": {"one": 0.0, "other": 1.0},
        **keys,
    }


def write_paper(
    folder: Path,
    metrics: str,
    more: dict[str, object] | None = None,
    figures: Sequence[str] = ("table",),
    **keys: object,
) -> PaperTables:
    """`paper.yaml`: tables of the group `toys` of two systems, and more groups. `keys`: of the group."""
    groups = {"toys": group_of(folder, metrics, **keys), **(more or {})}
    paper = {"about": "Two systems", "figures": [*figures], "groups": groups}
    (folder / "paper.yaml").write_text(yaml.safe_dump(paper, sort_keys=False))
    return load_paper(str(folder / "paper.yaml"))


def command(folder: Path) -> list[str]:
    """What `python -m research` is told for the folder's `paper.yaml`."""
    return [
        "reproduce", str(folder / "paper.yaml"), "--no-ray", "--tracking", f"sqlite:///{folder}/mlflow.db",
        "--output", str(folder), "--runs", str(folder / "trained"), "--prepared", str(folder / "prepared"),
    ]  # fmt: skip


def reproduce(folder: Path, *options: str) -> int:
    """Run the command in this process; returns its exit code."""
    return run([*command(folder), *options])


def toy_settings(*left_out: str) -> dict[str, object]:
    """The settings of small trainings, but for some."""
    pairs = (setting.split("=", 1) for setting in SETTINGS)
    return {name: yaml.safe_load(value) for name, value in pairs if name not in left_out}


def keep_run(folder: Path, paper: PaperTables, system: str, lines: Sequence[str], group: str = "toys") -> Result:
    """Store the result and the outputs of a run of `paper.yaml` that was scored by TER."""
    place = RunKey(table="paper", group=group, system=system, scale="small", seed=1)
    (ter,) = select_metrics(["ter"], Preprocessing(language="en"))
    score = ter.score(SystemOutputs.from_lines(lines), ReferenceSet.from_lines([REFERENCES], "translation"))
    test = TestResult(reading=Preprocessing(language="en"), scores={"ter": score}, outputs_sha256=outputs_sha256(lines))
    result = Result(
        place=place,
        training=paper.groups[group].training(system, "small"),
        commit="0123456789abcdef",
        machine="a machine",
        date="2026-01-01",
        seconds=90,
        parameters=1000,
        weights_sha256=f"{group}.{system}",
        curve=[DevPoint(epoch=1, perplexity=3, bleu=4)],
        tests={"test": test},
    )
    add_outputs(folder, "paper", {(str(place), "test"): lines})
    write_record(result_file(folder, place), result)
    return result


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of `data.yaml`, a data set of ten lines."""
    monkeypatch.setenv("INTERLINEAR_CACHE", str(tmp_path / "cache"))
    for name, lines in (("test.de", ["ein Hund läuft im Garten ."] * 10), ("test.en", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    describe(tmp_path, "data", test=TEST)
    return tmp_path


@pytest.fixture
def kept(data: Path) -> Path:
    """The data set, and results with one run of each of two systems."""
    paper = write_paper(data, "ter")
    for system, lines in SYSTEMS.items():
        keep_run(data, paper, system, lines)
    return data
