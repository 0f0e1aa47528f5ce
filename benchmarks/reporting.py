"""What every report says: machine, commit, command; numbers in a table; and how idle the machine was."""

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).parent.parent
CALM = 0.05  # maximum share of the processor that others may use during a measurement
PATIENCE = 120.0  # seconds to wait for an idle machine
# Processor features that determine the speed of matrix products.
UNITS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "neon", "bf16")


def read(path: str) -> str:
    """The contents of a system file, or an empty string if it does not exist."""
    return Path(path).read_text() if Path(path).is_file() else ""


def commit() -> str:
    """The measured commit, and whether its files have uncommitted changes."""

    def git(*arguments: str) -> str:
        try:
            found = subprocess.run(["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True)
        except FileNotFoundError:  # a machine without git
            return ""
        return found.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "interlinear", "training", "service")
    return (git("rev-parse", "--short=10", "HEAD") or "unknown") + (" with changes" if changed else "")


def command() -> str:
    """The command line, without this machine's folders."""
    words = ["FOLDER" if Path(word).is_absolute() else word for word in sys.argv[1:]]
    module = ".".join(Path(sys.argv[0]).resolve().relative_to(ROOT.resolve()).with_suffix("").parts)
    module = module.removesuffix(".__main__")  # of a package
    return " ".join(["python -m", module, *words])


@dataclass(frozen=True)
class Machine:
    """The machine of a measurement; AMX determines much of the gain of bf16."""

    processor: str
    cores: int
    units: tuple[str, ...]  # those of UNITS that the processor has
    memory_gib: int
    system: str
    python: str
    torch: str

    @classmethod
    def here(cls) -> "Machine":
        facts = dict.fromkeys(("model name", "flags"), "")
        for line in read("/proc/cpuinfo").splitlines():
            name, _, value = line.partition(":")
            if not facts.get(name.strip(), "?"):
                facts[name.strip()] = value.strip()
        flags = facts["flags"].split()
        memory = next((line.split()[1] for line in read("/proc/meminfo").splitlines() if "MemTotal" in line), "0")
        return cls(
            processor=facts["model name"] or platform.processor(),
            cores=len(os.sched_getaffinity(0)),
            units=tuple(unit for unit in UNITS if unit in flags),
            memory_gib=round(int(memory) / 2**20),
            system=platform.platform(),
            python=platform.python_version(),
            torch=torch.__version__,
        )

    def __str__(self) -> str:
        units = ", ".join(self.units) or f"none of {', '.join(UNITS)}"
        return (
            f"{self.cores} cores of {self.processor} ({units}), {self.memory_gib} GiB; "
            f"Python {self.python}, torch {self.torch}"
        )


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [columns, ["---"] * len(columns), *rows])


def say(message: str) -> None:
    """Print progress to stderr."""
    print(message, file=sys.stderr, flush=True)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def table_number(value: float) -> str:
    """A number as shown in tables: 2,684 or 12.3 or 0.95."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


@dataclass
class Disturbance:
    """The share of the processor that other programs used during a measurement."""

    share: float = 0.0


@contextmanager
def alone(wait: bool = True) -> Iterator[Disturbance]:
    """Wait until the machine is idle, for two minutes at most, then measure whether it stays so.

    OpenMP's threads wait for one another by spinning, so that one busy process can slow two threads down many times
    over: a result is meaningful only together with the load of other programs.
    """
    if wait:
        wait_until_calm()
    disturbance = Disturbance()
    wall, busy, own = time.monotonic(), busy_seconds(), own_seconds()
    yield disturbance
    others = (busy_seconds() - busy) - (own_seconds() - own)
    disturbance.share = max(0.0, others / ((time.monotonic() - wall) * len(os.sched_getaffinity(0))))


def wait_until_calm() -> None:
    """Wait for three seconds in which hardly anything ran; prints a message after the timeout."""
    end, calm = time.monotonic() + PATIENCE, 0
    while calm < 3:
        if time.monotonic() > end:
            say("the machine is not calm: figures are disturbed")
            return
        before = busy_seconds()
        time.sleep(1)
        calm = calm + 1 if busy_seconds() - before < CALM * len(os.sched_getaffinity(0)) else 0


def busy_seconds() -> float:
    """Processor time that all programs have used since the machine started."""
    user, nice, system = (int(word) for word in read("/proc/stat").split(maxsplit=4)[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """Processor time that this process, and its ended children, have used."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
