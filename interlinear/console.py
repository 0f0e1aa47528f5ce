"""What the command says and how it ends: results to stdout, the rest to stderr, an expected error as one sentence.

Exit codes: 0 done, 1 the work failed, 2 the call was wrong, 130 and 143 interrupted.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

import typer

from seq2seq.errors import InterlinearError, UsageError, as_sentence

T = TypeVar("T")

DONE, FAILED, WRONG_CALL, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

# Packages that a bare install lacks, and the extra that brings each. (Both bring mlflow; `serve` the part that reads.)
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
    "py3langid": "serve",
    "aiohttp": "serve",
    "sqlalchemy": "serve",
    "python_multipart": "serve",
}


def say(message: str) -> None:
    """One line for the person at the terminal, on stderr, which may be somebody's log: without credentials."""
    from registry.credentials import mask_credentials

    print(f"interlinear: {mask_credentials(message)}", file=sys.stderr, flush=True)


@contextmanager
def status(message: str) -> Iterator[None]:
    """Show what is being waited for while the block runs, as a line on stderr that goes afterwards; without a terminal
    nothing."""
    if not sys.stderr.isatty():
        yield
        return
    line = f"interlinear: {message} ..."
    print(line, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(f"\r{' ' * len(line)}\r", end="", file=sys.stderr, flush=True)


def exit_code_of(work: Callable[[], int | None]) -> int:
    """Do the work; say an expected error as a sentence; return the command's exit code. A bug keeps its traceback."""
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
        if message := error.format_message():  # a group without a verb has printed its help instead
            say(f"{as_sentence(message.replace('Value error, ', ''))}{remedy}")
        return error.exit_code
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        extra = EXTRAS[package]
        say(f"this needs the package '{package}', which is not installed. Run pip install 'interlinear[{extra}]'.")
        return FAILED
    except BrokenPipeError:
        # Whoever read our output has read enough. Python flushes stdout once more at exit: let that go nowhere.
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
    """Let SIGTERM unwind the stack, so that what is open is closed, and end with 143."""

    def unwind(_signal: int, _frame: FrameType | None) -> None:
        sys.exit(TERMINATED)

    signal.signal(signal.SIGTERM, unwind)


def progress(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """The items, with a progress bar on stderr while they pass; without a terminal, just the items."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, description=label, total=total, console=Console(stderr=True), transient=True)
