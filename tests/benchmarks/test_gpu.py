"""`python -m benchmarks.gpu`: what it computes, what it survives, and that it needs few packages."""

import json
import os
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from benchmarks.gpu.run import run_part
from benchmarks.gpu.timing import activity_of, union

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def test_time_in_which_a_gpu_works() -> None:
    """Kernels of two streams overlap; an annotation spans a pause; the host's calls are launches, waiting is none."""
    assert union([(5, 6), (0, 2), (1, 3), (1, 2)]) == 4
    events = [
        {"cat": "kernel", "name": "gemm", "ts": 100, "dur": 50},
        {"cat": "kernel", "name": "gemm", "ts": 120, "dur": 50},
        {"cat": "gpu_memcpy", "name": "Memcpy DtoH", "ts": 300, "dur": 10},
        {"cat": "gpu_user_annotation", "name": "Optimizer.step", "ts": 100, "dur": 900},
        {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 0, "dur": 5},
        {"cat": "cuda_runtime", "name": "cudaGraphLaunch", "ts": 10, "dur": 5},
        {"cat": "cuda_runtime", "name": "cudaStreamSynchronize", "ts": 20, "dur": 500},
        {"cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 5},
        {"name": "process_name", "ph": "M"},
    ]
    found = activity_of(events)
    assert (found.kernels, found.launches, found.busy_seconds) == (3, 2, pytest.approx(80e-6))
    row = found.as_row(count=2, seconds=100e-6)
    assert (row["kernels"], row["launches"], row["idle"]) == (1.5, 1, pytest.approx(0.6))


WORKER = """
import argparse, json, os, signal, sys, time
parser = argparse.ArgumentParser()
for option in ("--records", "--first", "--seconds"):
    parser.add_argument(option)
asked = parser.parse_args()
def write(case, **record):
    with open(asked.records, "a") as file:
        file.write(json.dumps({"case": case, **record}) + "\\n")
for case in range(int(asked.first), 5):
    write(case, begin=f"case {case}")
    if case == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if case == 2:
        print("hangs", flush=True)
        time.sleep(600)
    if case == 3:
        write(case, error="lost its device")
        sys.exit(3)
    write(case, row={"measured": case})
    write(case, end=True)
"""


def test_a_process_that_dies_or_hangs_is_followed_by_another(tmp_path: Path) -> None:
    changes: list[int] = []
    outcome = run_part(
        [sys.executable, "-c", WORKER], 5, tmp_path / "part.jsonl", 60, lambda new: changes.append(len(new.rows)), 4
    )
    assert [row["measured"] for row in outcome.rows] == [0, 4]
    assert [failure.partition(":")[0] for failure in outcome.failures] == ["case 1", "case 2", "case 3"]
    crashed, hung, lost = outcome.failures
    assert "SIGSEGV" in crashed and "4 s without a result" in hung and lost.endswith("lost its device")
    assert not outcome.running and changes[-1] == 2 and 1 in changes
    assert "hangs" in (tmp_path / "part.log").read_text()


# Runs first in every process that has it in PYTHONPATH.
HIDING = """
import sys
from importlib.machinery import PathFinder

class Listed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {modules!r} else super().find_spec(name, path, target)

    @classmethod
    def find_distributions(cls, *context):
        found = super().find_distributions(*context)
        return (own for own in found if own.name.lower().replace("_", "-") in {distributions!r})

sys.meta_path[sys.meta_path.index(PathFinder)] = Listed
"""


def distribution(name: str) -> str:
    return name.lower().replace("_", "-")


@pytest.fixture(scope="module")
def listed_packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that find torch, numpy, the packages of requirements.txt and theirs, and no others,
    though they are installed here."""
    lines = (ROOT / "benchmarks/gpu/requirements.txt").read_text().splitlines()
    waiting = ["torch", "numpy", *(Requirement(line).name for line in lines if line[0] != "#")]
    listed: set[str] = set()
    while waiting:
        if (name := distribution(waiting.pop())) not in listed:
            listed.add(name)
            needed = map(Requirement, requires(name) or [])
            waiting += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    owners = {name: set(map(distribution, own)) for name, own in packages_distributions().items()}
    others = {name for name, own in owners.items() if not own & {*listed, "interlinear-nmt"}}
    folder = tmp_path_factory.mktemp("listed")
    (folder / "sitecustomize.py").write_text(HIDING.format(modules=others, distributions=listed))
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


IMPORTS = """
import importlib
from pathlib import Path

for absent in ("ray", "mlflow", "fastapi", "httpx", "hypothesis", "sacremoses"):
    try:
        importlib.import_module(absent)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"{absent} can be imported")
files = sorted([*Path("benchmarks/gpu").glob("*.py"), *Path("tests/interlinear").rglob("test_gpu*.py"),
                *Path("tests/training").rglob("test_gpu*.py"), Path("tests/conftest.py")])
for file in files:
    print(importlib.import_module(".".join(file.with_suffix("").parts)).__name__)
"""


def test_it_imports_only_what_its_requirements_name(listed_packages: dict[str, str]) -> None:
    """Nor do the tests for a GPU that it runs."""
    run = subprocess.run(
        [sys.executable, "-c", IMPORTS], cwd=ROOT, env=listed_packages, check=False, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    imported = run.stdout.split()
    assert {"benchmarks.gpu.__main__", "tests.training.loop.test_gpu", "tests.conftest"} <= set(imported)


@pytest.mark.timeout(600)
def test_everything_runs_on_a_cpu(tmp_path: Path, listed_packages: dict[str, str]) -> None:
    """All parts with tiny models, every mode of training, search and engine, and only the listed packages."""
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", "--output", str(tmp_path), "--device", "cpu", "--quick"],
        cwd=ROOT, env=listed_packages, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    parts = json.loads((tmp_path / "report.json").read_text())["parts"]
    assert list(parts) == ["device", "tests", "training", "search", "engine"]
    assert all(part["ended"] == part["cases"] and not part["failures"] for part in parts.values())
    results = [row["result"] for row in parts["tests"]["rows"]]
    assert sum("passed" in result for result in results) >= 2 and not any("failed" in result for result in results)
    from benchmarks.gpu import search, training

    for name, modes in (("training", training.MODES), ("search", search.MODES), ("engine", search.MODES)):
        rows = parts[name]["rows"]
        assert {row["mode"] for row in rows} == set(modes)
        speed = {"training": "tokens_per_second", "search": "sentences_per_second", "engine": "capacity"}[name]
        assert all(row[speed] > 0 for row in rows)
