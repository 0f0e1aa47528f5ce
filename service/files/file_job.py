"""A document to translate as a job: its request, progress and result."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePath
from typing import Literal

from interlinear.documents.files import written_suffix
from interlinear.documents.formats import ReadOptions
from interlinear.generation.terms import TermOptions
from service.files.file_store import StoredFile
from service.problems import Problem

FileStatus = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED: tuple[FileStatus, ...] = ("done", "failed", "cancelled")


@dataclass(frozen=True)
class FileRequest:
    """The request of a caller.

    name: the document's name, whose suffix names the format. source, target: language tags, `auto` for a source to
    detect. model: the reference of a model. find_terms: gives the term options for a pair of languages; raises Problem.
    request_id: the id of the request that created the job, for messages. charge: charges the caller for a number of
    texts; raises Problem. refund: takes the charge back. options: how to read the document.
    """

    name: str
    source: str
    target: str
    model: str | None
    request_id: str
    find_terms: Callable[[tuple[str, str]], Awaitable[TermOptions]]
    charge: Callable[[int], None]
    refund: Callable[[], None]
    options: ReadOptions


@dataclass(eq=False)
class FileJob:
    """A document whose translation is waiting, running or ended.

    id: unguessable; sufficient for a download. owner: the name of the caller's key, empty without one: only this caller
    sees the job. caller: the caller whose share of the running jobs it takes. awaited: whether a client waits for the
    answer, also while the service is being stopped. done, total: segments of the document, once it is parsed.
    untranslated: sentences that the model could not read. expires: when the service deletes it, once it has ended.
    """

    owner: str
    caller: str
    request: FileRequest
    upload: StoredFile
    id: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    status: FileStatus = "queued"
    awaited: bool = False
    done: int = 0
    total: int = 0
    untranslated: int = 0
    warnings: list[str] = field(default_factory=list)  # warnings for readers of the translation
    target: str = ""  # language code of the model
    result: StoredFile | None = None
    problem: Problem | None = None
    expires: datetime | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def download(self) -> str:
        """The last part of the URL of the translated document."""
        return f"{self.id}.{self.target}{written_suffix(self.request.name).lower()}"

    @property
    def translated_name(self) -> str:
        """The name of the translated document: `report.docx` becomes `report.en.docx`."""
        name = PurePath(self.request.name)
        return f"{name.stem}.{self.target}{written_suffix(name.name)}"

    def delete_files(self) -> None:
        """Delete the uploaded and the translated document."""
        self.upload.delete()
        if self.result:
            self.result.delete()
