"""Settings of every test run: one thread, no telemetry, and no MLflow or Ray address from the environment."""

import os
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

# torch, Ray and MLflow read these once, when they are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ.setdefault("RAY_AUTH_MODE", "token")  # as the commands do; some tests import Ray before training.ray
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "true"
os.environ["INTERLINEAR_SERVE_WARM_UP_TEXTS"] = "2"  # otherwise each service needs seconds until it is ready
for variable in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI", "RAY_ADDRESS"):
    os.environ.pop(variable, None)
# The environment says where corpora lie, but a test sets INTERLINEAR_DATA itself. pytest-xdist workers read the other
# name.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["INTERLINEAR_TESTS_CORPORA"] = os.environ.get("INTERLINEAR_DATA", "")
os.environ.pop("INTERLINEAR_DATA", None)
CORPORA = os.environ["INTERLINEAR_TESTS_CORPORA"]

# Shared modules whose assertions should say what was compared, as those of the tests do.
pytest.register_assert_rewrite("tests.papers.agreement", "tests.service.engine.engine_machine")

# In background jobs the shell ignores Ctrl-C (SIGINT), for the tests and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

with suppress(ModuleNotFoundError):  # a GPU machine that only runs the tests for a GPU has few packages
    from hypothesis import HealthCheck, settings

    # No deadline: on a busy machine the duration of an example means nothing.
    settings.register_profile("interlinear", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("interlinear")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with the longest tests first: one that came last would keep all processes but its own waiting. Long
    tests have a timeout that is longer than the usual one (pyproject.toml)."""
    seconds: Counter[Path] = Counter()
    for item in items:
        if mark := item.get_closest_marker("timeout"):
            seconds[item.path] = max(seconds[item.path], mark.args[0])
    items.sort(key=lambda item: -seconds[item.path])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count skipped tests by reason.

    If INTERLINEAR_TESTS_SKIPPED names a file, skips recorded there by earlier runs are counted too.
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
    """Folder of real corpora for the tests that use them; they are skipped if INTERLINEAR_DATA is not set."""
    if not CORPORA:
        pytest.skip("INTERLINEAR_DATA does not say where the corpora lie")
    return Path(CORPORA)
