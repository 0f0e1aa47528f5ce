"""Reads the input lines of a translation from files or stdin, with their machine translations and images."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import TypeVar, cast

from interlinear.cli.decoding.images import numbered_images
from interlinear.cli.decoding.translation import InputLine
from interlinear.cli.options import STDIN
from interlinear.config import ModelConfig
from interlinear.errors import DataError, UsageError
from interlinear.source_names import MT
from training.data.text_lines import LineReader, decompress, open_text

Item = TypeVar("Item")
END_OF_INPUT = object()


def attach_inputs(
    groups: Iterator[list[InputLine]], config: ModelConfig, mt: Path | None, folder: Path | None
) -> Iterator[list[InputLine]]:
    """Add the machine translations and images to the lines. Raises UsageError for inputs that the model does not read,
    DataError for different numbers of lines."""
    if mt and MT not in config.texts:
        raise UsageError("--mt", f"the model edits no translations: it reads {', '.join(config.sources)}")
    if folder and not config.images:
        raise UsageError("--image-dir", f"the model reads no pictures: it reads {', '.join(config.sources)}")
    translations = chain.from_iterable(read_groups([mt])) if mt else None
    pictures = numbered_images(folder) if folder else None
    for group in groups:
        lines = []
        for line in group:
            texts = {MT: next_item(translations, str(mt)).text} if translations else {}
            image = next(pictures) if pictures else None
            images = {next(iter(config.images)): image} if image else {}
            lines.append(replace(line, extra_texts=texts, pictures=images))
        yield lines
    if translations and next(translations, END_OF_INPUT) is not END_OF_INPUT:
        raise line_count_error(str(mt))


def next_item(items: Iterator[Item], name: str) -> Item:
    """The next item. Raises DataError if there is none."""
    for item in items:
        return item
    raise line_count_error(name)


def line_count_error(name: str) -> DataError:
    return DataError(name, "it has not as many lines as there are to translate", "line i of each must belong together")


def read_groups(files: Sequence[Path]) -> Iterator[list[InputLine]]:
    """The lines of the files in order, or of stdin (also `-`), in groups: the lines available so far, at least one.

    A file is therefore translated in large batches, while lines that are typed or piped are translated at once.
    """
    read = 0
    for path in files or (STDIN,):
        with open_text(path) if path != STDIN else nullcontext(open_stdin()) as reader:
            first, failed = read + 1, False
            for group in reader.groups():
                lines = []
                for number, line in enumerate(group, read + 1):
                    try:
                        text: str | DataError = reader.decode(line, number - first + 1)
                    except DataError as error:  # how to convert the file is said once
                        text = DataError(error.where, error.problem, "" if failed else error.remedy)
                        failed = True
                    lines.append(InputLine(number, f"{reader.name}, line {number - first + 1}", text))
                yield lines
                read += len(group)


def open_stdin() -> LineReader:
    """The lines of stdin. Raises UsageError where it is closed."""
    if sys.stdin is None:  # a daemon may start a command without it
        raise UsageError("stdin", "is closed", "name a file, or pipe lines to the command")
    file, compressed = decompress(cast(BufferedReader, sys.stdin.buffer), "stdin")
    return LineReader(file, "stdin", compressed)
