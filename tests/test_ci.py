"""The extra steps of CI after the main tests, and the summary of skipped tests at the end of a run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from tests import test_wheel
from tests.service import test_faults, test_ray_serve

ROOT = Path(__file__).parent.parent
SKIPS = """
import pytest

@pytest.mark.parametrize("page", range(2))
def test_one(page):
    pytest.skip("there is no browser")

def test_another():
    pytest.importorskip("no_such_module", reason="a module is missing")

def test_what_is_not_skipped():
    pass
"""
NONE = """
def test_what_is_not_skipped():
    pass
"""


def test_skipped_tests_are_counted_by_reason_before_the_last_line(tmp_path):
    """Includes the skips of earlier runs, if a file records them."""
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    said = "skipped: 3: 2 there is no browser; 1 a module is missing"
    for tests, kept, expected, last in (
        (NONE, "", "", "1 passed"),
        (SKIPS, "skipped", said, "1 passed, 3 skipped"),
        (NONE, "skipped", said, "1 passed"),
    ):
        (tmp_path / "test_some.py").write_text(tests)
        environment = {
            "INTERLINEAR_TESTS_SKIPPED": kept and str(tmp_path / kept),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",  # the file changes faster than the timestamp of its bytecode can tell
        }
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "test_some.py"],
            cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, timeout=100, check=True,
        )  # fmt: skip
        lines = run.stdout.splitlines()
        assert re.fullmatch(rf"{last} in .*s", lines[-1])
        assert [line for line in lines if line.startswith("skipped")] == [expected] * bool(expected)
        assert not expected or lines[-2] == expected


def test_ci_runs_faults_replicas_and_the_wheel_after_the_two_commands():
    commands = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line.startswith("make ")]
    assert commands == ["make demo", "make test", "make test-ci"]
    assert len(marked(test_faults)) == 3
    assert len(marked(test_ray_serve)) == 1
    assert len(marked(test_wheel)) == 1


def marked(module: ModuleType) -> list[str]:
    """The file's slow tests that CI runs."""
    of_file = getattr(module, "pytestmark", [])
    tests = ((name, test) for name, test in vars(module).items() if name.startswith("test_"))
    marks = {name: [*of_file, *getattr(test, "pytestmark", [])] for name, test in tests}
    return [name for name, own in marks.items() if {"ci", "slow"} <= {mark.name for mark in own}]
