"""Runs commands of `interlinear`, each in a process of its own."""

import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from interlinear.console import say
from seq2seq.errors import TrainingError
from seq2seq.installation import PYTHON

Key = TypeVar("Key")


def run_commands(keys: Sequence[Key], arguments: Callable[[Key], list[str]], at_once: int, what: str) -> Generator[Key]:
    """Run a command for each key; yields each key when its command ends.

    `arguments`: of a key's command, asked for when it starts. `what`: the subject of the message if it fails.
    Raises TrainingError if one fails, and SystemExit if one was interrupted. Commands still running are then
    terminated; trainings save a checkpoint.
    """
    waiting = list(keys)
    running: dict[Key, subprocess.Popen[bytes]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                key = waiting.pop(0)
                words = arguments(key)
                say(f"{key}: interlinear {' '.join(words)}")
                # In its own session, out of reach of the terminal's Ctrl-C: a second signal would end it unsaved.
                running[key] = subprocess.Popen(
                    [*PYTHON, "-m", "interlinear", *words], stdout=subprocess.DEVNULL, start_new_session=True
                )
            for key in [key for key, child in running.items() if child.poll() is not None]:
                code = running.pop(key).returncode
                if code > 128:
                    raise SystemExit(code)
                if code:
                    raise TrainingError(
                        str(key), f"{what} failed, as is said above", "the same command goes on with it"
                    )
                yield key
            time.sleep(0.2)
    finally:
        for child in running.values():
            child.terminate()
        for child in running.values():
            child.wait()
