"""What the parts have in common: a case is a model whose rows of the report are measured one after the other."""

import logging
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.reporting import ROOT

MESSAGE_CHARACTERS = 300  # of an error

Row = dict[str, Any]  # a measurement: what was measured, and numbers by name


@dataclass(frozen=True)
class Setting:
    """Where and how thoroughly a part is measured. quick: tiny sizes, to show that everything runs."""

    device: torch.device
    quick: bool


@dataclass(frozen=True)
class Deadline:
    """A time until which measurements may begin."""

    seconds: float
    begun: float = field(default_factory=time.monotonic)

    @property
    def end(self) -> float:
        return self.begun + self.seconds

    @property
    def remaining(self) -> float:
        return self.end - time.monotonic()

    @property
    def passed(self) -> bool:
        return self.remaining < 0


@dataclass(frozen=True)
class Case:
    """A step of a part.

    weight: the share of the part's time that it may take, relative to the other cases. rows: measures until a deadline,
    at least one row; a row with the key `error` says what could not be measured.
    """

    name: str
    weight: float
    rows: Callable[[Setting, Deadline], Iterator[Row]]


@dataclass(frozen=True)
class Part:
    """A part of the report. share: of the time that all have; columns: of its table, by their keys in a row."""

    name: str
    title: str
    share: float
    columns: Mapping[str, str]
    notes: str
    cases: Callable[[Setting], Sequence[Case]]


class ProgramWarningError(Exception):
    """A warning of the program: that a search is not compiled, for example, and slower."""


class RaiseWarnings(logging.Handler):
    """Raises the program's warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        raise ProgramWarningError(record.getMessage())


@contextmanager
def warnings_raised() -> Iterator[None]:
    """Inside, a warning of the program is an error, so that what falls back to a slower way is not taken for it."""
    handler, logger = RaiseWarnings(logging.WARNING), logging.getLogger("interlinear")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def describe(error: Exception) -> str:
    """An error in one line: its type and message, and where it was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    message = " ".join(str(error).replace(f"{ROOT}{os.sep}", "").split())[:MESSAGE_CHARACTERS]
    return f"{type(error).__name__}: {message} ({Path(frame.filename).name}:{frame.lineno})"
