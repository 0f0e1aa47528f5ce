"""Creates, finds and awaits the jobs of requests with a document."""

from fastapi import Request

from interlinear.generation.terms import TermOptions
from service.files.file_job import FileJob, FileRequest
from service.files.job_queue import FileJobs
from service.http.dependencies import Caller, Service, ServiceDep, caller_within
from service.http.documents.messages import TranslateFileRequest
from service.http.kept_glossaries import owner, with_kept_entries
from service.http.terms import term_options
from service.problems import Problem


async def file_jobs(service: ServiceDep) -> FileJobs:
    """The jobs of a service that translates documents. Raises Problem 403."""
    if service.files is None:
        raise Problem(403, "Files translation are disabled on this server.")
    return service.files


def accept_job(service: Service, jobs: FileJobs, http_request: Request, request: TranslateFileRequest) -> FileJob:
    """Queue a document, or delete it: raises Problem for languages that are not translated, and if there is no room."""
    try:
        models = service.models
        if request.source == "auto":
            models.source_languages("translation", request.target, request.model)
        else:
            models.for_languages("translation", request.source, request.target, request.model)
        caller = caller_within(http_request, service, service.settings.file_work_seconds)
        job = FileJob(owner(caller), caller.name, file_request(service, caller, request), request.file.file)
        jobs.submit(job)
    except BaseException:
        request.file.file.delete()
        raise
    return job


def file_request(service: Service, caller: Caller, request: TranslateFileRequest) -> FileRequest:
    """The job's part of its HTTP request."""
    http_request = caller.request
    options = term_options(request.glossary, request.do_not_translate, request.protect)

    async def find_terms(language_pair: tuple[str, str]) -> TermOptions:
        if request.glossary_id is None:
            return options
        return await with_kept_entries(service, caller, options, request.glossary_id, {language_pair})

    return FileRequest(
        request.file.name,
        request.source,
        request.target,
        request.model,
        http_request.state.request_id,
        find_terms,
        options=request.read_options,
        charge=lambda texts: service.auth.charge(http_request, texts),
        refund=lambda: service.auth.refund(http_request.scope["state"]),
    )


async def finish(service: Service, jobs: FileJobs, job: FileJob, request: Request) -> None:
    """Wait until a document is translated. If it cannot be, raises Problem and deletes the job; the job is also deleted
    if the client disconnects, or at its deadline."""
    caller: Caller = caller_within(request, service, service.settings.file_work_seconds)
    job.awaited = True
    try:
        with service.engine.admit(caller.name, ()):  # without texts of its own: a stop waits for it
            await caller.wait_for(job.ended.wait())
        if job.problem:
            raise job.problem
        if job.status == "cancelled":
            raise Problem.unavailable("the translation was cancelled")
    except BaseException:
        jobs.forget(job)
        raise


def find_job(service: Service, jobs: FileJobs, request: Request, file_id: str) -> FileJob:
    """A job of the caller. Raises Problem."""
    key = service.auth.identify(request)
    job = jobs.find(file_id, key.name if key else "")
    if job is None:
        raise no_such_file()
    return job


def no_such_file() -> Problem:
    return Problem(404, "you have no such document here, or it has been deleted after its time")
