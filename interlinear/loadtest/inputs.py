"""Reads and checks the options and input files of `interlinear bench`."""

import math
from pathlib import Path

from interlinear.loadtest.http_client import ANSWERS, RequestSpec, Route
from seq2seq.errors import DataError, UsageError

MAX_RATE = 5000.0  # requests a second; more than one core can send


def parse_rates(text: str) -> list[float]:
    """The numbers of --rate. Raises UsageError."""
    rates = []
    for word in text.split(","):
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not 0 < value <= MAX_RATE:
            raise UsageError(
                f"--rate {text}",
                f"'{word}' is not a number of requests a second",
                f"say more than 0, at most {MAX_RATE:g}",
            )
        rates.append(value)
    if len(set(rates)) < len(rates):
        raise UsageError(f"--rate {text}", "a rate is there twice", "name each once")
    return rates


def check_times(duration: float, warm_up: float, slo_p99_ms: float | None) -> None:
    """Raises UsageError for an invalid duration, warm-up or limit."""
    if not 0 < duration < math.inf:
        raise UsageError(f"--duration {duration:g}", "nothing can be measured in that time", "say seconds, more than 0")
    if not 0 <= warm_up < math.inf:
        raise UsageError(f"--warm-up {warm_up:g}", "is not a time", "say seconds, 0 for none")
    if slo_p99_ms is not None and not 0 < slo_p99_ms < math.inf:
        raise UsageError(f"--slo-p99-ms {slo_p99_ms:g}", "is not a limit", "say milliseconds, more than 0")


def check_open_files(connections: int) -> None:
    """Raises UsageError if the process may not open that many connections."""
    import resource

    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 50  # reserve for this process's own open files
    if connections > allowed:
        raise UsageError(
            f"--concurrency-limit {connections}",
            f"this shell allows about {allowed} connections",
            "raise that by ulimit -n, or lower the limit",
        )


def parse_route(route: str | None) -> Route | None:
    """The route, named with or without its slash. Raises UsageError."""
    if route is None:
        return None
    for path in ANSWERS:
        if route in (path, path[1:]):
            return path
    raise UsageError(f"--route {route}", "is not a route that takes load", f"say {' or '.join(ANSWERS)}")


def check_inputs(spec: RequestSpec) -> None:
    """Raises UsageError if a route gets an input that it does not accept, or lacks one that it needs."""
    (route, *_) = spec.routes
    if spec.pictures and route != "/translate/multimodal":
        raise UsageError("--image-dir", f"{route} takes no pictures", "they go to /translate/multimodal")
    if bool(spec.translations) != (route == "/post-edit"):
        problem = f"{route} takes no translations" if spec.translations else "/post-edit needs translations to edit"
        raise UsageError("--mt", problem, "it goes with --route /post-edit")


def read_images(folder: Path) -> tuple[bytes, ...]:
    """The contents of a folder's image files, recognised by suffix, in alphabetical order. Raises DataError."""
    from seq2seq.images.decode import SUFFIXES

    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise DataError(str(folder), "there is no picture in it", f"give a folder with {', '.join(SUFFIXES)}")
    return tuple(path.read_bytes() for path in paths)


def read_texts(path: Path) -> list[str]:
    """The lines of a file, without blank ones. Raises DataError."""
    from training.data.formats import read_file

    lines = [line for line in read_file(path) if line.strip()]
    if not lines:
        raise DataError(str(path), "there is no text in it", "give a file with a text a line")
    return lines
