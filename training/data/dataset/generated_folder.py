"""The folder of a data set whose text is written by models, line by line: its record, and how it is continued.

Its folder NAME has NAME.yaml, the description, without which the data set is not complete; a record, in JSON, of where
the text comes from; and files of lines. A file that is not complete yet has the suffix `.part`.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import yaml

from interlinear.errors import UsageError
from interlinear.files import CHECKSUM_KEY, content_checksum, read_checked_json
from training.data.arrays import write_atomically

CHUNK = 1 << 20  # bytes read at a time
NEW_FOLDER = "name a folder that does not exist with --output"


@dataclass(frozen=True)
class GeneratedFolder:
    """A folder by its absolute path.

    record_name: the file of the record. kind: the kind of folder, for messages. recorded: the keys of the record that
    must be equal for its lines to be continued, and for each the message where it differs.
    """

    record_name: ClassVar[str]
    kind: ClassVar[str]
    recorded: ClassVar[Mapping[str, str]]

    path: Path

    @property
    def description(self) -> Path:
        return self.path / f"{self.path.name}.yaml"

    @property
    def complete(self) -> bool:
        return self.description.is_file()

    def check(self, record: Mapping[str, Any]) -> bool:
        """Whether the folder holds lines with this record; False: it is free.

        Raises UsageError for a folder with other files, or with lines of other models, options or data.
        """
        if not self.path.exists():
            return False
        if not self.path.is_dir():
            raise UsageError(str(self.path), "is a file", NEW_FOLDER)
        if not (self.path / self.record_name).is_file():
            if any(not path.name.startswith(".") for path in self.path.iterdir()):
                raise UsageError(str(self.path), f"is there already, and is no {self.kind}", NEW_FOLDER)
            return False
        recorded = self.read_record()
        for key, difference in self.recorded.items():
            if _identity(recorded.get(key)) != _identity(record[key]):
                raise UsageError(str(self.path), difference, f"{NEW_FOLDER}, or remove this one")
        return True

    def read_record(self) -> dict[str, Any]:
        """The record. Raises UsageError if it is damaged."""
        try:
            return dict(read_checked_json(self.path / self.record_name))
        except ValueError as error:
            raise UsageError(str(self.path / self.record_name), f"is damaged: {error}", NEW_FOLDER) from None

    def create(self, record: Mapping[str, Any]) -> None:
        """Create the folder, if it does not exist, with its record, which has at least the keys of `recorded`."""
        self.path.mkdir(parents=True, exist_ok=True)
        content = {**record, CHECKSUM_KEY: content_checksum(record)}
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_atomically(self.path / self.record_name, text.encode())

    def write_description(self, content: Mapping[str, Any]) -> None:
        """Write the description, which completes the data set."""
        text = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=120)
        write_atomically(self.description, text.encode())


def partial(file: Path) -> Path:
    """The path of a file's lines until it is complete."""
    return file.with_name(f"{file.name}.part")


def open_lines(file: Path) -> tuple[BinaryIO, int]:
    """A file of lines, to be continued, and its number of lines. A line without its end is removed."""
    if file.is_file():  # it was complete, and the description was not written
        file.rename(partial(file))
    lines = end = position = 0
    continued = partial(file).open("ab+", buffering=0)
    continued.seek(0)
    while chunk := continued.read(CHUNK):
        lines += chunk.count(b"\n")
        if b"\n" in chunk:
            end = position + chunk.rindex(b"\n") + 1
        position += len(chunk)
    continued.truncate(end)
    return continued, lines


def complete_lines(file: Path) -> None:
    """Give a file of lines its final name, with its content on the disk."""
    with partial(file).open("rb") as written:
        os.fsync(written.fileno())
    partial(file).rename(file)


def _identity(recorded: object) -> object:
    """A record's value without names, which may change: weights and data are compared by their checksums."""
    if isinstance(recorded, list):
        return [_identity(each) for each in recorded]
    if isinstance(recorded, Mapping):
        return {key: _identity(value) for key, value in recorded.items() if key != "name"}
    return recorded
