"""Runs a peer's own command in its own environment, and writes its timings as JSON.

python timed.py OUTPUT training MODULE ARGUMENTS...            seconds a step, in windows of ten steps
python timed.py OUTPUT joeynmt-search|opennmt-search MODULE ARGUMENTS...     seconds a batch: encoder and search
"""

import json
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from stopwatch import Stopwatch


def timed(function: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    """The function with the duration of each call recorded."""

    def call(*args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter()
        result = function(*args, **kwargs)
        seconds.append(time.perf_counter() - begun)
        return result

    return call


def watch_joeynmt(seconds: list[float]) -> None:
    import joeynmt.prediction
    import joeynmt.search

    whole = joeynmt.search.beam_search

    def all_steps(*args: Any, **kwargs: Any) -> Any:
        # JoeyNMT reads min_output_length but does not pass it on: without this its search would end early.
        return whole(*args, **(kwargs | {"min_output_length": 20}))

    joeynmt.search.beam_search = all_steps
    joeynmt.prediction.search = timed(joeynmt.prediction.search, seconds)


def watch_opennmt(seconds: list[float]) -> None:
    from onmt.translate.translator import Translator

    Translator.translate_batch = timed(Translator.translate_batch, seconds)


def main(output: Path, what: str, arguments: list[str]) -> None:
    seconds: list[float] = []
    stopwatch = Stopwatch()
    if what == "joeynmt-search":
        watch_joeynmt(seconds)
    elif what == "opennmt-search":
        watch_opennmt(seconds)
    sys.argv = arguments
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    finally:  # JoeyNMT ends with an exception after the configured number of updates
        record = {
            "seconds": stopwatch.windows() if what == "training" else seconds,
            "parameters": stopwatch.parameters,
            "threads": torch.get_num_threads(),
        }
        output.write_text(json.dumps(record))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
