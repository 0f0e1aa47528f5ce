"""Multipart forms with a large file, whose content is written to disk as it arrives."""

from collections.abc import Awaitable, Callable
from pathlib import PurePath
from typing import Annotated, Any, TypeVar

from fastapi import Request
from pydantic import WithJsonSchema

from interlinear.documents.files import suffix_of
from interlinear.errors import DataError
from service.engine.preparation import run_inline_or_in_thread
from service.files.file_store import StoredFile
from service.files.job_queue import FileJobs
from service.http.body_budget import BodyReservation
from service.http.dependencies import Service, ServiceDep
from service.http.multipart import FileSink, MultipartReader, not_a_file
from service.http.parsing import INLINE_BYTES, MULTIPART, collect_fields, media_type, parse_urlencoded, validate
from service.http.requests import ApiRequest
from service.problems import CLIENT_CLOSED_REQUEST, Problem

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


T = TypeVar("T", bound=ApiRequest)


def uploaded_form(kind: type[T], open_file: Callable[[Request, str], FileSink]) -> Callable[..., Awaitable[T]]:
    """A dependency that authenticates the caller and parses a multipart form as a `kind`, as `parsed_body` does.

    `open_file` gives the sink of the form's file from the request and the name of the file; raises Problem.
    """

    async def read(request: Request, service: ServiceDep) -> T:
        authenticated_by_header = service.auth.authenticate_headers(request)
        sinks: list[FileSink] = []

        def sink(name: str, file_name: str) -> FileSink:
            if name != kind.file_field or sinks:
                raise not_a_file(name)
            sinks.append(open_file(request, file_name))
            return sinks[0]

        try:
            fields = await read_fields(request, kind, sink, authenticated_by_header)
            return validate(kind, fields, strict=False)
        except BaseException:
            for each in sinks:
                each.discard()
            raise

    return read


async def read_fields(
    request: Request, kind: type[ApiRequest], sink: Callable[[str, str], FileSink], authenticated: bool
) -> dict[str, Any]:
    """The fields of the form, by name, unvalidated; they authenticate the caller if the headers have not. Raises
    Problem."""
    service: Service = request.app.state.service
    held: BodyReservation = request.state.body
    try:
        query = parse_urlencoded(request.scope["query_string"])
        fields = collect_fields([*query, *await read_form(request, service, sink)], kind)
    except Problem as problem:
        held.refused = problem.status not in (408, CLIENT_CLOSED_REQUEST)
        if not authenticated:
            service.auth.charge_rejected(request, problem)
        raise
    if not authenticated:
        api_key = fields.get("api_key")
        service.auth.authenticate(request, api_key if isinstance(api_key, str) else None)
    return fields


async def read_form(request: Request, service: Service, sink: Callable[[str, str], FileSink]) -> list[tuple[str, Any]]:
    """The names and values of the form. Each piece of the body is released once it is written. Raises Problem."""
    media, options = media_type(request)
    if media != MULTIPART:
        raise Problem(415, f"a body with a document is {MULTIPART}, not {media}")
    jobs, settings = service.files, service.settings
    if jobs:
        jobs.make_room(min(int(request.headers.get("content-length", settings.file_bytes)), settings.file_bytes))
    reader = MultipartReader(options, sink, settings.body_bytes)
    async for chunk in request.stream():
        await run_inline_or_in_thread(len(chunk) <= INLINE_BYTES, reader.write, chunk, executor=service.parse_executor)
        request.state.body.release(len(chunk))
    return reader.finish()
