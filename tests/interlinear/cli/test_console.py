"""What long work prints where stderr is a log."""

import time
from collections.abc import Iterator

import pytest

from interlinear.cli.console import LOG_SECONDS, progress


def test_long_work_writes_a_line_of_progress_every_half_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def slow(items: int) -> Iterator[int]:
        for item in range(items):
            yield item
            now[0] += LOG_SECONDS / 2

    assert list(progress(slow(5), "reading", 1_000)) == list(range(5))
    assert list(progress(slow(3), "counting")) == list(range(3))
    assert capsys.readouterr().err.splitlines() == [
        "interlinear: reading: 3 of 1,000",
        "interlinear: reading: 5 of 1,000",
        "interlinear: counting: 3",
    ]
