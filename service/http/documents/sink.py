"""Documents in requests: how an upload is written to disk, and what a job is made of."""

from pathlib import PurePath
from typing import Annotated

from fastapi import Request
from pydantic import WithJsonSchema

from documents.files import suffix_of
from seq2seq.errors import DataError
from service.files.file_store import StoredFile
from service.files.job_queue import FileJobs
from service.problems import Problem

LONGEST_NAME = 200  # characters of a document's name that are kept
UNSUPPORTED = "Invalid request: file format not supported"  # LibreTranslate's sentence
EMPTY = "Invalid request: empty file"


class DocumentFileUpload:
    """A document on disk, and the name that its user gave it."""

    def __init__(self, name: str, file: StoredFile) -> None:
        self.name, self.file = name, file


UploadedDocument = Annotated[DocumentFileUpload, WithJsonSchema({"type": "string", "format": "binary"})]


class DocumentSink:
    """Writes a document to disk as it arrives."""

    def __init__(self, jobs: FileJobs, name: str) -> None:
        """Raises Problem for a name without the suffix of a supported format, and if there is no room."""
        self.name = checked_name(name)
        self._jobs, self._limit = jobs, jobs.settings.file_bytes
        self._file = jobs.create_file()

    def write(self, data: bytes) -> None:
        """Append data. Raises Problem."""
        if self._file.size + len(data) > self._limit:
            problem = f"must not be larger than {self._limit:,} bytes"
            raise Problem.in_field("file", problem, status=413)
        self._jobs.write(self._file, data)

    def finish(self) -> DocumentFileUpload:
        """The document. Raises Problem if it is empty."""
        self._jobs.close(self._file)
        if not self._file.size:
            raise Problem.in_field("file", "is empty; give a file with text", EMPTY)
        return DocumentFileUpload(self.name, self._file)

    def discard(self) -> None:
        """Delete the document."""
        self._file.delete()


def open_document(request: Request, name: str) -> DocumentSink:
    """The sink of a request's document. Raises Problem."""
    jobs: FileJobs = request.app.state.service.files
    return DocumentSink(jobs, name)


def checked_name(name: str) -> str:
    """A document's name, without folders and control characters. Raises Problem if it has no known suffix."""
    name = "".join(character for character in name if character.isprintable())
    name = name.replace("\\", "/").rpartition("/")[2].strip()
    if not name:
        raise Problem.in_field("file", "has no name, whose suffix says its format", EMPTY)
    try:
        suffix = suffix_of(name)
    except DataError as error:
        raise Problem.in_field("file", f"{error.problem}; {error.remedy}", UNSUPPORTED) from None
    stem = PurePath(name).stem
    return stem[: LONGEST_NAME - len(suffix)] + PurePath(name).suffix
