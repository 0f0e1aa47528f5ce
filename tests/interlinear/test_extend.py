"""The examples of docs/extend.md, as one program; and how a package of one's own is found."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from interlinear.components import Components

PAGE = Path(__file__).parents[2] / "docs" / "extend.md"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(PAGE.parents[1]))
    return tmp_path


def blocks():
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_page_runs(folder):
    attention, training = blocks()
    assert len(attention.rstrip().splitlines()) <= 20
    done = subprocess.run([sys.executable, "-c", attention + training], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"\[\(\d+, \d+\)", done.stdout.splitlines()[-1]), done.stdout


def test_a_package_is_found_by_its_entry_point(folder):
    """By the command: as installed packages, it has a folder of metadata."""
    (folder / "mine.py").write_text(blocks()[0])
    (folder / "mine-1.dist-info").mkdir()
    (folder / "mine-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (folder / "mine-1.dist-info/entry_points.txt").write_text("[interlinear.components]\nmine = mine\n")
    settings = ["--set", "model.attention=dot", "--set", "model.directions=summed"]
    command = [sys.executable, "-m", "interlinear", "info", "rnnsearch_small", *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "parameters" in done.stdout, done.stderr


def test_a_name_that_nobody_registered_is_refused_with_those_that_there_are():
    kinds = Components("kind", "interlinear.components")

    @kinds.register("one")
    class One:
        pass

    assert kinds["one"] is One
    with pytest.raises(ValueError, match="kind: there is no two; there are one"):
        kinds.check("two")
    with pytest.raises(ValueError, match="kind: there is a one already"):
        kinds.register("one")(type("Other", (), {}))
