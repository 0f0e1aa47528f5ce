"""What every test runs under: one thread, nothing sent to anybody, and its own folder for what it writes."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before torch, Ray and MLflow are imported anywhere: they read these once.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "true"
for variable in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI", "RAY_ADDRESS"):
    os.environ.pop(variable, None)
# Whoever runs the tests says where corpora lie; a test says it itself. Workers of pytest-xdist have the other name.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["INTERLINEAR_TESTS_CORPORA"] = os.environ.get("INTERLINEAR_DATA", "")
os.environ.pop("INTERLINEAR_DATA", None)
CORPORA = os.environ["INTERLINEAR_TESTS_CORPORA"]

# A shell that starts the tests in the background has them, and whatever they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine fails nothing: how long an example takes says nothing about it.
settings.register_profile("interlinear", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("interlinear")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count what was skipped, by its reason.

    Where INTERLINEAR_TESTS_SKIPPED names a file, what the runs before this one left there is counted too.
    """
    reports = terminalreporter.stats.get("skipped", [])
    reasons = [report.longrepr[2].removeprefix("Skipped: ") for report in reports]
    if kept := os.environ.get("INTERLINEAR_TESTS_SKIPPED"):
        with Path(kept).open("a+") as file:
            file.seek(0)
            before = file.read().splitlines()
            file.writelines(f"{reason}\n" for reason in reasons)
        reasons = before + reasons
    if reasons:
        counted = (f"{count} {reason}" for reason, count in Counter(reasons).most_common())
        terminalreporter.write_line(f"skipped: {len(reasons)}: {'; '.join(counted)}")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """Where real corpora lie, for the tests that look at them; they are skipped where INTERLINEAR_DATA is not set."""
    if not CORPORA:
        pytest.skip("INTERLINEAR_DATA does not say where the corpora lie")
    return Path(CORPORA)
