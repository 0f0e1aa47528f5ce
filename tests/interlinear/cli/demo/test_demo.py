"""Parts of the demo; the slow test runs the complete demo twice."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from interlinear.cli.demo.demo_example import DemoSentence, count_crossings, pick_example
from interlinear.cli.demo.demo_run import DemoRun
from interlinear.cli.demo.training_record import code_hash
from interlinear.errors import ServiceError


def test_crossings_are_pairs_of_links_that_cross():
    assert count_crossings("0-0 1-1 2-2") == 0
    assert count_crossings("0-1 1-0") == 1
    assert count_crossings("0-2 1-1 2-0") == 3
    assert count_crossings("0-0 0-1 1-1") == 0
    assert count_crossings("") == 0


def test_the_example_sentence_is_correct_short_and_reordered():
    rows = [
        DemoSentence("a b c", "A B C", "0-0 1-1 2-2"),
        DemoSentence("d e f", "F E D", "0-2 1-1 2-0"),
        DemoSentence("g h i", "H G I", "0-1 1-0 2-2"),
        DemoSentence("j " * 12, "J", "0-3 1-2 2-1 3-0"),
    ]
    right = ["A B C", "F E D", "H G I", "J"]
    assert pick_example(rows, right) == "d e f"
    assert pick_example(rows, ["A B C", "E E F", "H G I", "J"]) == "g h i"  # the hardest one is wrong
    assert pick_example(rows, ["", "F E E", "", "J"]) == "d e f"  # none is correct


def test_the_code_hash_is_stable():
    assert code_hash() == code_hash() and len(code_hash()) == 64


@pytest.mark.slow
def test_a_service_that_does_not_start_is_reported(tmp_path, monkeypatch):
    from rich.console import Console

    monkeypatch.chdir(tmp_path)
    demo_run = DemoRun(tmp_path, Console(quiet=True))
    with pytest.raises(ServiceError, match=r"did not come up \(interlinear: .*service\.log"), demo_run.service():
        pass


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_complete_demo_twice(tmp_path):
    """From an empty folder to a gloss; the second run is faster; no process is left."""
    command = [sys.executable, "-m", "interlinear", "demo", "--folder", str(tmp_path / "demo")]
    took = []
    for _ in range(2):
        begun = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        took.append(time.monotonic() - begun)
        assert done.returncode == 0, done.stderr
        before, _, score = done.stdout.partition("BLEU ")
        assert "generated sentences" in before and float(score.split()[0]) > 50
        assert "alignment 0-" in done.stdout and "http://127.0.0.1:8000" in done.stdout
        assert (tmp_path / "demo" / "attention.png").read_bytes().startswith(b"\x89PNG")
        assert still_in(tmp_path) == []
    assert took[1] < took[0] / 2
    assert json.loads((tmp_path / "demo" / "trained.json").read_text())["version"] == "1"


def still_in(folder: Path) -> list[str]:
    """Processes whose working directory is a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found
