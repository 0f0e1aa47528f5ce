"""`python -m benchmarks.gpu`: what it computes, what it survives, and that it needs few packages."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu.__main__ import main
from benchmarks.gpu.cases import ProgramWarningError, warnings_raised
from benchmarks.gpu.engine import Load, highest_rate
from benchmarks.gpu.floor import Work, update_operations, update_work
from benchmarks.gpu.models import LONGEST, SHORTEST, SYSTEMS, System, random_lengths
from benchmarks.gpu.report import GpuReport
from benchmarks.gpu.run import FileResult, Outcome, read_test_log, run_part
from benchmarks.gpu.timing import activity_of, union
from benchmarks.gpu.worker import PARTS
from seq2seq.generate import SequenceGenerator
from seq2seq.search.compiled import CompiledStep, compiling

ROOT = Path(__file__).parents[2]


def test_lengths_are_those_of_image_captions() -> None:
    """Multi30k's training set has 11.1 German and 11.9 English words a line, with deviations of 3.8, without counting
    punctuation marks, of which each line has one or two."""
    lengths = random_lengths(20_000)
    for side in (lengths.source, lengths.target):
        assert 12 < side.mean() < 14 and 3.5 < side.std() < 5
        assert side.min() >= SHORTEST and side.max() <= LONGEST
    assert np.corrcoef(lengths.source, lengths.target)[0, 1] > 0.8
    np.testing.assert_array_equal(lengths.source, random_lengths(20_000).source)


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


@pytest.mark.parametrize("name", SYSTEMS)
def test_an_updates_operations_are_linear_in_either_length(name: str) -> None:
    """So those of long batches follow from those of short ones; `uam` pads a target to its source's length."""
    system = System(name, "tiny")
    work = update_work(system, [(3, 7, 9), (5, 11, 6)])
    longer = 11 if name == "uam" else 6
    expected = 3 * update_operations(system, 7, 9) + 5 * update_operations(system, 11, longer)
    assert work.operations == pytest.approx(expected / 2)


def test_a_gpu_without_a_profiler_has_no_numbers() -> None:
    """Rather than no kernels, and a GPU that idles all the time."""
    found = activity_of([{"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 0, "dur": 5}])
    assert found.as_row(count=2, seconds=1.0) == {"kernels": None, "launches": None, "idle": None}


def test_a_warning_of_the_program_is_an_error() -> None:
    """A search that falls back to the slower step is not measured as the faster one."""

    def broken(graph: object, inputs: object) -> object:
        raise RuntimeError("cannot find Python.h")

    system = System("rnnsearch", "tiny")
    bundle = replace(system.bundle(system.build().eval()), search_step=CompiledStep(broken))
    request = system.request(bundle.model, 5, 5, 2, np.random.default_rng(3))
    with compiling(), warnings_raised(), pytest.raises(ProgramWarningError, match=r"Python\.h"):
        list(SequenceGenerator(bundle).generate([request]))


def test_the_floor_is_the_slower_of_products_and_memory() -> None:
    assert Work(operations=6e12, bytes=1e9).seconds(2e12, 1e9) == 3
    assert Work(operations=6e12, bytes=8e9).seconds(2e12, 1e9) == 8


def test_the_highest_rate_that_holds() -> None:
    tried = []

    def holds(rate: float) -> bool:
        tried.append(rate)
        return rate < 37

    assert highest_rate(holds, 64, 6) == 36 and len(tried) == 6
    assert highest_rate(lambda rate: False, 64, 6) == 0


def test_open_load_counts_from_when_a_sentence_was_due() -> None:
    """What has no answer when the load ends is infinite, rather than left out."""
    system, random = System("rnnsearch", "tiny"), np.random.default_rng(3)
    bundle = system.bundle(system.build().eval())
    encoder = SequenceGenerator(bundle, slots=4)
    row = encoder.encode(system.request(bundle.model, 5, 30, 2, random))
    load = Load(lambda: row, patience=60)
    load.thread.load(0, bundle, slots=4, width=5)
    load.thread.start()
    try:
        calm = load.open_load(rate=5, seconds=1, random=random)
        load.patience = 0
        flooded = load.open_load(rate=20_000, seconds=0.1, random=random)
    finally:
        load.thread.stop(5)
    assert len(calm) == 5 and np.isfinite(calm).all() and (calm > 0).all()
    assert len(flooded) == 2000 and np.isinf(flooded).sum() > 1000


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


def test_a_part_ends_at_its_deadline_with_what_it_has_measured(tmp_path: Path) -> None:
    script = WORKER.replace("case == 1", "case == 9")
    outcome = run_part([sys.executable, "-c", script], 5, tmp_path / "part.jsonl", 5, lambda new: None)
    assert [row["measured"] for row in outcome.rows] == [0, 1]
    assert (outcome.failures, outcome.ended, outcome.cut) == ([], 2, "case 2")


def test_a_part_that_has_measured_nothing_is_a_failure(tmp_path: Path) -> None:
    script = WORKER.replace("case == 2", "case == 0")
    outcome = run_part([sys.executable, "-c", script], 1, tmp_path / "part.jsonl", 5, lambda new: None)
    (failure,) = outcome.failures
    assert failure.startswith("case 0") and "the time of its part was over" in failure


def test_a_worker_that_cannot_start_is_a_failure(tmp_path: Path) -> None:
    outcome = run_part([sys.executable, "-c", "1 / 0"], 5, tmp_path / "part.jsonl", 60, lambda new: None)
    assert len(outcome.failures) == 1 and "status 1" in outcome.failures[0] and "part.log" in outcome.failures[0]
    assert "ZeroDivisionError" in (tmp_path / "part.log").read_text()


PYTEST = """
tests/test_gpu.py::test_one PASSED                                       [ 33%]
tests/test_gpu.py::test_two FAILED                                       [ 66%]
tests/test_gpu.py::test_three PASSED                                     [100%]
FAILED tests/test_gpu.py::test_two - assert 1 == 2
==================== 1 failed, 2 passed, 3 deselected in 6.58s ====================
"""


def test_what_pytest_has_found() -> None:
    assert read_test_log(PYTEST, 1) == FileResult(
        "1 failed, 2 passed, 3 deselected in 6.58s", ["FAILED tests/test_gpu.py::test_two - assert 1 == 2"]
    )
    cut = "\n".join(PYTEST.splitlines()[:2])
    stopped, crashed = read_test_log(cut, None), read_test_log(cut, -signal.SIGSEGV)
    assert stopped.failures == ["pytest was stopped when the time of its part was over: 1 passed before it ended"]
    assert "SIGSEGV" in crashed.failures[0]
    skipped = "tests/test_gpu.py::test_one SKIPPED (no GPU)\n=== 3 skipped in 0.10s ==="
    assert read_test_log(skipped, 0).failures == ["no test ran: 3 skipped in 0.10s"]
    passed = PYTEST.replace("FAILED", "PASSED").replace("1 failed, 2 passed", "3 passed")
    assert read_test_log(passed, 0) == FileResult("3 passed, 3 deselected in 6.58s", [])


def test_the_report_is_complete_after_each_measurement(tmp_path: Path) -> None:
    report = GpuReport(tmp_path, PARTS, command="python -m benchmarks.gpu")
    report.update("device", Outcome([{"device": "GPU of a test", "fp32": 1e12, "bf16": 4e12, "bytes": 1e9}], cases=1))
    row = {"mode": "eager", "words_per_second": 12_345.0, "precision": "bf16", "idle": 0.25}
    row |= {"operations": 8e9, "bytes": 1e6}
    report.update("search", Outcome([row], ["case 1: it is lost"], cases=2, ended=1))
    text, content = (tmp_path / "report.md").read_text(), json.loads((tmp_path / "report.json").read_text())
    cells = next(line for line in text.splitlines() if "| eager |" in line).split(" | ")
    assert {"eager", "12,345", "2.00"} <= set(cells) and "25 % |" in cells[-1] and "GPU of a test" in text
    assert "- search: case 1: it is lost" in text and report.failures == ["search: case 1: it is lost"]
    assert content["parts"]["search"]["rows"] == [row] and content["commit"]


def test_a_device_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu", "--output", str(tmp_path / "new"), "--device", "cuda:99"])
    with pytest.raises(SystemExit, match="--device cuda:99"):
        main()
    assert not (tmp_path / "new").exists()


IMPORTS = """
import importlib, importlib.machinery, sys
from importlib.metadata import packages_distributions, requires
from dataclasses import replace
from pathlib import Path
from packaging.requirements import Requirement

needed = {"torch", "numpy"}
waiting = ["torch", "numpy"] + [
    Requirement(line).name
    for line in Path("benchmarks/gpu/requirements.txt").read_text().splitlines()
    if line[0] != "#"
]
while waiting:
    name = waiting.pop().lower().replace("_", "-")
    needed.add(name)
    for requirement in map(Requirement, requires(name) or []):
        new = requirement.name.lower().replace("_", "-")
        if new not in needed and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            waiting.append(new)
distributions = {
    module: {name.lower().replace("_", "-") for name in names} for module, names in packages_distributions().items()
}

class Present(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in distributions and not distributions[top] & needed and "interlinear-nmt" not in distributions[top]:
            return None
        return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Present
for absent in ("ray", "mlflow", "fastapi", "httpx", "hypothesis"):
    try:
        importlib.import_module(absent)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"{absent} can be imported")
files = sorted([*Path("benchmarks/gpu").glob("*.py"), *Path("tests/seq2seq").rglob("test_gpu*.py"),
                *Path("tests/training").rglob("test_gpu*.py"), Path("tests/conftest.py")])
for file in files:
    print(importlib.import_module(".".join(file.with_suffix("").parts)).__name__)
"""


def test_it_imports_only_what_its_requirements_name() -> None:
    """Nor do the tests for a GPU that it runs. Other packages, though installed here, are hidden from the process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", IMPORTS], cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    imported = run.stdout.split()
    assert {"benchmarks.gpu.__main__", "tests.training.loop.test_gpu", "tests.conftest"} <= set(imported)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.timeout(600)
def test_everything_runs_on_a_cpu(tmp_path: Path) -> None:
    """All parts with tiny models: every mode of training, search and engine."""
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", "--output", str(tmp_path), "--device", "cpu", "--quick"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, capture_output=True, text=True,
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
