"""Request and response types of the routes of documents."""

from datetime import datetime
from typing import ClassVar

from fastapi import Request
from pydantic import Field, create_model

from interlinear.documents.formats import ReadOptions
from service.files.file_job import FileJob, FileStatus
from service.http.documents.upload import UploadedDocument
from service.http.requests import ApiRequest, LanguageCode
from service.http.responses import ApiResponse
from service.http.terms import GlossaryTerm, term_fields
from service.problems import ProblemDetails, problem_details
from service.settings import Settings


class TranslateFileRequest(ApiRequest):
    """A document, and how to translate it."""

    model_config = ApiRequest.model_config | {"arbitrary_types_allowed": True}

    example: ClassVar[dict[str, str | int | bool]] = {"source": "de", "target": "en"}
    repeatable_fields: ClassVar[frozenset[str]] = frozenset({"do_not_translate", "keys"})
    file_field: ClassVar[str | None] = "file"

    file: UploadedDocument
    source: LanguageCode = Field(description="the language of the document, or `auto`")
    target: LanguageCode = Field(description="the language to translate into")
    model: str | None = Field(
        None, min_length=1, max_length=200, description="`name`, `name@alias` or `name@version`; default: the first fit"
    )
    glossary: list[GlossaryTerm] | None = None
    glossary_id: str | None = Field(
        None, min_length=1, max_length=100, description="a glossary of `/glossaries`; a term in `glossary` has priority"
    )
    do_not_translate: str | list[str] | None = None
    protect: bool | None = Field(
        None, description="keep URLs, e-mail addresses, numbers with units and the like as they are; default: true"
    )
    keys: str | list[str] | None = Field(
        None, description="keys, or names or numbers of columns, whose texts are translated; default: all"
    )
    encoding: str | None = Field(
        None,
        min_length=1,
        max_length=40,
        description="of an old text file, such as `cp1251`; default: UTF-8",
    )

    @property
    def read_options(self) -> ReadOptions:
        """How the document is read."""
        keys = [self.keys] if isinstance(self.keys, str) else self.keys or []
        return ReadOptions(tuple(keys), self.encoding)


class TranslateFileResponse(ApiResponse):
    """Response of `/translate_file`."""

    translatedFileUrl: str = Field(  # noqa: N815
        description="where the translated document can be downloaded",
    )


class FileProgress(ApiResponse):
    """How many texts of a document are translated: paragraphs, cells, messages."""

    done: int
    total: int = Field(description="0 until the document is read")


class FileInformation(ApiResponse):
    """A document that is translated, or was."""

    id: str
    name: str = Field(examples=["report.docx"])
    status: FileStatus
    segments: FileProgress
    untranslated: int = Field(description="sentences that stay as they are, because the model cannot read them")
    warnings: list[str] = Field(description="what in the document has to be looked at, a sentence each")
    translatedFileUrl: str | None = Field(None, description="once it is done")  # noqa: N815
    error: ProblemDetails | None = Field(None, description="why it has failed")
    expires: datetime | None = Field(None, description="when an ended one is deleted")

    @classmethod
    def of(cls, job: FileJob, request: Request) -> "FileInformation":
        return cls(
            id=job.id,
            name=job.request.name,
            status=job.status,
            segments=FileProgress(done=job.done, total=job.total),
            untranslated=job.untranslated,
            warnings=job.warnings,
            translatedFileUrl=download_url(job, request) if job.status == "done" else None,
            error=problem_details(job.problem, job.request.request_id) if job.problem else None,
            expires=job.expires,
        )


def download_url(job: FileJob, request: Request) -> str:
    """Where a translated document can be downloaded."""
    return public_url(request, "download_file", file_name=job.download)


def public_url(request: Request, route: str, **parameters: str) -> str:
    """The URL of a route for clients: at the service's public address, or else at the one that they have called."""
    url, public = request.url_for(route, **parameters), request.app.state.service.settings.public_url
    return f"{public.rstrip('/')}{url.path}" if public else str(url)


def translate_file_request_with_limits(settings: Settings) -> type[TranslateFileRequest]:
    """`TranslateFileRequest` with the limits of the service's settings."""
    description = f"the document, at most {settings.file_bytes:,} bytes; the suffix of its name says its format"
    return create_model(
        "TranslateFileRequest",
        __base__=TranslateFileRequest,
        __doc__=TranslateFileRequest.__doc__,
        file=(UploadedDocument, Field(description=description)),
        **term_fields(settings),
    )
