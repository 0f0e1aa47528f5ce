"""Console output and exit codes: results go to stdout, messages to stderr, an expected error becomes one sentence.

Exit codes: 0 success, 1 the work failed, 2 the call was wrong, 130 and 143 interrupted.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import TypeVar, cast

import typer

from interlinear.errors import InterlinearError, UsageError, as_sentence
from interlinear.installation import how_to_install

T = TypeVar("T")

LOG_SECONDS = 30.0  # seconds between two lines of progress where there is no terminal

DONE, FAILED, WRONG_CALL, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

# Optional packages and the extra that installs each. Both extras install mlflow; `serve` only its reading part.
EXTRAS = {
    "ray": "train",
    "psutil": "train",
    "mlflow": "train",
    "pandas": "train",
    "fastapi": "serve",
    "starlette": "serve",
    "uvicorn": "serve",
    "pydantic_settings": "serve",
    "prometheus_client": "serve",
    "langcodes": "serve",
    "py3langid": "serve",
    "aiohttp": "serve",
    "sqlalchemy": "serve",
    "python_multipart": "serve",
}


def say(message: str) -> None:
    """Print one message to stderr, with credentials masked, because stderr may be stored as a log."""
    from interlinear.registry.credentials import mask_credentials

    print(f"interlinear: {mask_credentials(message)}", file=sys.stderr, flush=True)


@contextmanager
def status(message: str) -> Iterator[None]:
    """Show a message on stderr while the block runs, and erase it afterwards. Without a terminal nothing is shown."""
    if not sys.stderr.isatty():
        yield
        return
    line = f"interlinear: {message} ..."
    print(line, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(f"\r{' ' * len(line)}\r", end="", file=sys.stderr, flush=True)


def write_utf8() -> None:
    """Have this process print UTF-8, as it reads, whatever its locale is; what UTF-8 cannot have is escaped. Raises
    UsageError where stdout is closed."""
    if sys.stderr is None:  # closed, as a daemon may start a command
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    if sys.stdout is None:
        raise UsageError("stdout", "is closed, and results go there", "redirect it: > FILE, or > /dev/null")
    for stream in (sys.stdout, sys.stderr):
        cast(TextIOWrapper, stream).reconfigure(encoding="utf-8", errors="backslashreplace")


def exit_code_of(work: Callable[[], int | None]) -> int:
    """Call `work`, print an expected error as a sentence, and return the command's exit code. A bug keeps its
    traceback."""
    try:
        code = work() or DONE
        sys.stdout.flush()
        return code
    except typer.Exit as end:
        return end.exit_code
    except InterlinearError as error:
        say(str(error))
        return WRONG_CALL if isinstance(error, UsageError) else FAILED
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        remedy = f" See `{context.command_path} --help`." if context else ""
        message = error.format_message()
        if message.startswith("Usage: "):  # the help of a command group that is called without a command
            print(message, file=sys.stderr)
        else:
            say(f"{as_sentence(message.replace('Value error, ', ''))}{remedy}")
        return error.exit_code
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        extra = EXTRAS[package]
        say(f"this needs the package '{package}', which is not installed: {how_to_install(extra)}.")
        return FAILED
    except BrokenPipeError:
        # The reader of our output closed the pipe. Python flushes stdout again at exit, so redirect it to /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted.")
        return INTERRUPTED
    except OSError as error:
        if error.filename is None and error.errno is None:
            raise
        say(f"{error.filename or 'system'}: {error.strerror}.")
        return FAILED


def end_on_sigterm() -> None:
    """On SIGTERM, unwind the stack, so that open resources are closed, and exit with code 143."""

    def unwind(_signal: int, _frame: FrameType | None) -> None:
        sys.exit(TERMINATED)

    signal.signal(signal.SIGTERM, unwind)


def progress(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """Yield the items and show a progress bar on stderr; without a terminal, a line every half minute."""
    if not sys.stderr.isatty():
        printed = time.monotonic()
        for done, item in enumerate(items, 1):
            yield item
            if time.monotonic() - printed >= LOG_SECONDS:
                say(f"{label}: {done:,}" + (f" of {total:,}" if total else ""))
                printed = time.monotonic()
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, description=label, total=total, console=Console(stderr=True), transient=True)


@contextmanager
def download_progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """Progress bars on stderr, one for each file; without a terminal, a line for each."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    tasks: dict[str, int] = {}
    if not sys.stderr.isatty():

        def print_line(path: str, done: int, size: int | None) -> None:
            if tasks.setdefault(path, done) == done:
                say(f"fetching {path}" + (f", {size:,} bytes" if size else ""))

        yield print_line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:

        def update_bar(path: str, done: int, size: int | None) -> None:
            if path not in tasks:
                tasks[path] = int(bars.add_task(path, total=size))
            bars.update(bars.tasks[tasks[path]].id, completed=done, total=size)

        yield update_bar
