"""The files of `translate --output`: what may be read, and where it may be written."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from documents import DocumentFile
from seq2seq.errors import UsageError


def document_to_translate(files: Sequence[Path], output: Path, unused: Mapping[str, object]) -> DocumentFile:
    """The document that a call with --output names, before a model is loaded. Raises UsageError for options that a
    document does not have, DataError for a document that cannot be read."""
    from documents.files import read_file

    if given := next((option for option, value in unused.items() if value), None):
        raise UsageError(given, "it is for lines, and --output writes a document", "leave one of them out")
    if len(files) != 1:
        raise UsageError("--output", "it takes one document", "name one input file")
    check_output(files[0], output)
    return read_file(files[0])


def check_lines(files: Sequence[Path]) -> None:
    """Raises UsageError for a file that has no lines of text, by its suffix."""
    from documents.files import ARCHIVE_READERS

    for file in files:
        if file.suffix.lower() in ARCHIVE_READERS:
            name = f"{file.stem}.translated{file.suffix}"
            raise UsageError(str(file), "it is a document, and not lines of text", f"say where to write it: -o {name}")


def check_output(file: Path, output: Path) -> None:
    """Raises UsageError if a document cannot be written there."""
    if file.suffix.lower() != output.suffix.lower():
        problem = f"{output.name} has not the suffix of {file.name}, and a document keeps its format"
        raise UsageError("--output", problem, f"name it {output.with_suffix(file.suffix).name}")
    if output.is_dir() or not output.absolute().parent.is_dir():
        problem = "is a folder" if output.is_dir() else "is in a folder that does not exist"
        raise UsageError("--output", f"{output} {problem}", "name a file in an existing folder")
    if output.exists() and output.samefile(file):
        raise UsageError("--output", f"{output} is the document itself", "name another file")


def write_at_once(path: Path, content: bytes) -> None:
    """Write a file that is there completely or, after an error, as it was."""
    handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
