"""Small untrained bundles of `tests/interlinear`, and results of runs made of lines."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from research.outputs import add_outputs, outputs_sha256
from research.papers import PaperTables, load_paper
from research.records import DevPoint, Result, RunKey, TestResult, result_file, write_record
from seq2seq.metrics.catalogue import select_metrics
from seq2seq.metrics.metric import Preprocessing, ReferenceSet, SystemOutputs
from tests.interlinear.conftest import gated_toy, parallel, seeing_toy, toy

__all__ = ["gated_toy", "parallel", "seeing_toy", "toy"]

REFERENCES = [f"a {animal} runs in the garden ." for animal in ("dog", "cat", "man", "girl", "horse")] * 2
ONE = [line.replace("runs", "walks") for line in REFERENCES]
OTHER = [*REFERENCES[:4], *ONE[4:]]
SYSTEMS = {"one": ONE, "other": OTHER}


def write_paper(folder: Path, metrics: str, **keys: object) -> PaperTables:
    """`paper.yaml`: tables of one group of two systems. `keys`: of the group."""
    group = {
        "about": "two systems",
        "core": True,
        "data": str(folder / "data.yaml"),
        "tests": {"test": metrics},
        "published": "gain",
        "systems": {"one": 0.0, "other": 1.0},
    }
    paper = {"about": "Two systems", "figures": ["table"], "groups": {"toys": group | keys}}
    (folder / "paper.yaml").write_text(yaml.safe_dump(paper))
    return load_paper(str(folder / "paper.yaml"))


def keep_run(folder: Path, paper: PaperTables, system: str, lines: Sequence[str]) -> Result:
    """Store the result and the outputs of a run of `paper.yaml` that was scored by TER."""
    place = RunKey(table="paper", group="toys", system=system, scale="small", seed=1)
    (ter,) = select_metrics(["ter"], Preprocessing(language="en"))
    score = ter.score(SystemOutputs.from_lines(lines), ReferenceSet.from_lines([REFERENCES], "translation"))
    test = TestResult(reading=Preprocessing(language="en"), scores={"ter": score}, outputs_sha256=outputs_sha256(lines))
    result = Result(
        place=place,
        training=paper.groups["toys"].training(system, "small"),
        commit="0123456789abcdef",
        machine="a machine",
        date="2026-01-01",
        seconds=90,
        parameters=1000,
        weights_sha256=system,
        curve=[DevPoint(epoch=1, perplexity=3, bleu=4)],
        tests={"test": test},
    )
    add_outputs(folder, "paper", {(str(place), "test"): lines})
    write_record(result_file(folder, place), result)
    return result


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set of ten lines, and a folder of results with one run of each of two systems."""
    monkeypatch.setenv("INTERLINEAR_CACHE", str(tmp_path / "cache"))
    for name, lines in (("test.de", ["ein Hund läuft im Garten ."] * 10), ("test.en", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    content = {
        "task": "translation",
        "about": "ten lines",
        "licence": "none",
        "languages": {"source": "de", "target": "en"},
        "splits": {"test": {"source": "test.de", "target": "test.en"}},
    }
    (tmp_path / "data.yaml").write_text(yaml.safe_dump(content))
    paper = write_paper(tmp_path, "ter")
    for system, lines in SYSTEMS.items():
        keep_run(tmp_path, paper, system, lines)
    return tmp_path
