"""`POST /translate_file` and `/download_file`, compatible with LibreTranslate; `/files`: the same as a job."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import FileResponse, JSONResponse, Response

from service.files.job_queue import FileJobs
from service.http.dependencies import ServiceDep
from service.http.documents.jobs import accept_job, file_jobs, find_job, finish, no_such_file
from service.http.documents.messages import (
    FileInformation,
    TranslateFileRequest,
    TranslateFileResponse,
    download_url,
    public_url,
    translate_file_request_with_limits,
)
from service.http.documents.upload import open_document, uploaded_form
from service.http.openapi import upload_documentation
from service.problems import problem_responses
from service.settings import Settings

TRANSLATE_FILE_PATH = "/translate_file"
DOWNLOAD = "application/octet-stream"  # whatever the format, so that no browser displays it
RESPOND_ASYNC = "respond-async"
PREFER_PARAMETER = {
    "name": "Prefer",
    "in": "header",
    "description": "`respond-async` (RFC 7240): answer 202 with the job, which can be asked for and cancelled.",
    "schema": {"type": "string"},
}


def router(settings: Settings) -> APIRouter:
    """The routes, with the limits of the settings."""
    routes = APIRouter(tags=["documents"])
    kind = translate_file_request_with_limits(settings)
    errors = problem_responses(401, 403, 404, 429)
    accepted = {
        "model": FileInformation,
        "description": "With `Prefer: respond-async`: the job",
        "headers": {"Location": {"description": "of the job", "schema": {"type": "string"}}},
    }

    # The jobs are the first dependency, so that a service without them says so whatever the body is.
    @routes.post(
        TRANSLATE_FILE_PATH,
        response_model=TranslateFileResponse,
        responses={202: accepted, **problem_responses(503, 504)},
        openapi_extra=upload_documentation(kind, [PREFER_PARAMETER]),
    )
    async def translate_file(
        http_request: Request,
        jobs: Annotated[FileJobs, Depends(file_jobs)],
        service: ServiceDep,
        request: Annotated[TranslateFileRequest, Depends(uploaded_form(kind, open_document))],
    ) -> Response:
        """Translate a document, and answer once it is done; with `Prefer: respond-async` at once."""
        job = accept_job(service, jobs, http_request, request)
        if prefers_async(http_request.headers.getlist("prefer")):
            location = public_url(http_request, "get_file", file_id=job.id)
            headers = {"Location": location, "Preference-Applied": RESPOND_ASYNC}
            content = FileInformation.of(job, http_request).model_dump(mode="json", exclude_none=True)
            return JSONResponse(content, 202, headers)
        await finish(service, jobs, job, http_request)
        return JSONResponse({"translatedFileUrl": download_url(job, http_request)})

    @routes.get("/files/{file_id}", response_model=FileInformation, response_model_exclude_none=True, responses=errors)
    async def get_file(
        file_id: str, request: Request, jobs: Annotated[FileJobs, Depends(file_jobs)], service: ServiceDep
    ) -> FileInformation:
        """How far the translation of a document of the caller is."""
        return FileInformation.of(find_job(service, jobs, request, file_id), request)

    @routes.delete("/files/{file_id}", status_code=204, responses=errors)
    async def delete_file(
        file_id: str, request: Request, jobs: Annotated[FileJobs, Depends(file_jobs)], service: ServiceDep
    ) -> None:
        """Cancel the translation of a document of the caller, and delete it."""
        jobs.forget(find_job(service, jobs, request, file_id))

    @routes.get(
        "/download_file/{file_name}",
        response_class=FileResponse,
        responses={
            200: {
                "description": "The translated document",
                "content": {DOWNLOAD: {"schema": {"type": "string", "format": "binary"}}},
            },
            **problem_responses(403, 404),
        },
    )
    async def download_file(file_name: str, jobs: Annotated[FileJobs, Depends(file_jobs)]) -> FileResponse:
        """A translated document. Whoever knows its URL needs no key."""
        job = jobs.find_download(file_name)
        if job is None or job.result is None:
            raise no_such_file()
        return FileResponse(job.result.path, media_type=DOWNLOAD, filename=job.translated_name)

    return routes


def prefers_async(values: list[str]) -> bool:
    """Whether `Prefer` headers ask for an answer before the work is done."""
    preferences = (part.partition(";")[0].strip().lower() for value in values for part in value.split(","))
    return RESPOND_ASYNC in preferences
