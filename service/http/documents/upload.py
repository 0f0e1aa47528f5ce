"""Multipart forms with a large file, whose content is written to disk as it arrives."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import Request

from service.engine.preparation import run_inline_or_in_thread
from service.http.body_budget import BodyReservation
from service.http.dependencies import Service, ServiceDep
from service.http.multipart import FileSink, MultipartReader, not_a_file
from service.http.parsing import INLINE_BYTES, MULTIPART, collect_fields, media_type, parse_urlencoded, validate
from service.http.requests import ApiRequest
from service.problems import CLIENT_CLOSED_REQUEST, Problem

T = TypeVar("T", bound=ApiRequest)


def uploaded_form(kind: type[T], open_file: Callable[[Request, str], FileSink]) -> Callable[..., Awaitable[T]]:
    """A dependency that authenticates the caller and parses a multipart form as a `kind`, as `parsed_body` does.

    `open_file` gives the sink of the form's file from the request and the name of the file; raises Problem.
    """

    async def read(request: Request, service: ServiceDep) -> T:
        authenticated_by_header = await service.auth.authenticate_headers(request)
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
    """The fields of the form, by name, unvalidated, of a caller who is authenticated by them if not before. Raises
    Problem."""
    service: Service = request.app.state.service
    held: BodyReservation = request.state.body
    try:
        query = parse_urlencoded(request.scope["query_string"])
        fields = collect_fields([*query, *await read_form(request, service, sink)], kind)
    except Problem as problem:
        held.refused = problem.status not in (408, CLIENT_CLOSED_REQUEST)
        if not authenticated:
            await service.auth.charge_rejected(request, problem)
        raise
    if not authenticated:
        api_key = fields.get("api_key")
        await service.auth.authenticate(request, api_key if isinstance(api_key, str) else None)
    return fields


async def read_form(request: Request, service: Service, sink: Callable[[str, str], FileSink]) -> list[tuple[str, Any]]:
    """The names and values of the form. Each piece of the body is released once it is written. Raises Problem."""
    media, options = media_type(request)
    if media != MULTIPART:
        raise Problem(415, f"a body with a document is {MULTIPART}, not {media}")
    reader = MultipartReader(options, sink, service.settings.body_bytes)
    async for chunk in request.stream():
        await run_inline_or_in_thread(len(chunk) <= INLINE_BYTES, reader.write, chunk, executor=service.parse_executor)
        request.state.body.release(len(chunk))
    return reader.finish()
