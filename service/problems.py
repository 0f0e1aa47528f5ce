"""Errors as RFC 9457 problem details, with the member `error` that LibreTranslate's clients read."""

import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path

from interlinear.registry.credentials import mask_credentials

MOST_ECHOED = 60  # characters of a caller's value
TEXT_FIELDS = ("q", "s", "text")


def error_sentence(problems: Sequence[ErrorDetails]) -> str | None:
    """LibreTranslate's sentence for the first problem that it has one for, in its order: a missing parameter before an
    invalid one; None if it has none. `problems` with their inputs."""
    problems = [details for details in problems if details["loc"]]  # errors of a field, not of the whole request
    missing = next((details for details in problems if is_missing(details)), None)
    if missing:
        return f"Invalid request: missing {missing['loc'][0]} parameter"
    return next((sentence for details in problems if (sentence := invalid(details))), None)


def is_missing(details: ErrorDetails) -> bool:
    """Whether a parameter is missing as LibreTranslate sees it: also if it is an empty text or list."""
    empty = details["type"] in ("string_too_short", "too_short") and details["loc"][0] in TEXT_FIELDS
    return details["type"] == "missing" or empty


def invalid(details: ErrorDetails) -> str | None:
    """LibreTranslate's sentence for an invalid parameter."""
    name, value, context = details["loc"][0], details["input"], details.get("ctx", {})
    if name == "alternatives" and details["type"] in ("int_parsing", "int_type"):
        return "Invalid request: alternatives parameter is not a number"
    if name == "format" and details["type"] == "literal_error":
        return f"{str(value)[:MOST_ECHOED]} format is not supported"
    if name == "q" and details["type"] in ("string_too_long", "too_long"):
        return f"Invalid request: request ({len(value)}) exceeds text limit ({context['max_length']})"
    return None


log = logging.getLogger("interlinear.service")

MEDIA_TYPE = "application/problem+json"
SCHEMA = "#/components/schemas/ProblemDetails"  # added by http/openapi.py
MAX_ECHOED_CHARACTERS = 60  # longest excerpt of a caller's text in a response
RETRYABLE_STATUSES = frozenset({429, 503})  # the client is asked to retry, and the request is not charged to a quota
CLIENT_CLOSED_REQUEST = 499  # not sent to a client, but counted in the metrics


class FieldProblem(BaseModel):
    """A field of a request, and its error."""

    field: str = Field(examples=["q[3]"])
    problem: str = Field(examples=["must not be longer than 5000 characters"])


class ProblemDetails(BaseModel):
    """RFC 9457 problem details."""

    type: str = Field(default="about:blank", examples=["about:blank"])
    title: str = Field(examples=["Bad Request"])
    status: int = Field(examples=[400])
    detail: str = Field(examples=["format must be 'text'"])
    error: str = Field(description="LibreTranslate's sentence for its clients, or else the detail again")
    errors: list[FieldProblem] = []
    request_id: str = Field(description="also in the header X-Request-ID and in the service's log")


class Problem(Exception):  # noqa: N818 - what it is called in RFC 9457
    """A request cannot be answered: the status, one sentence, and the invalid fields, if any."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        fields: Sequence[FieldProblem] = (),
        headers: Mapping[str, str] | None = None,
        error: str | None = None,
    ) -> None:
        """`error`: LibreTranslate's sentence for the same problem, where it has one."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.error = error or detail
        self.fields = list(fields)
        self.headers = dict(headers or {})

    @classmethod
    def in_field(cls, field: str, problem: str, error: str | None = None, status: int = 400) -> "Problem":
        """A problem, by default a 400, that names one field."""
        return cls(status, f"{field} {problem}", fields=[FieldProblem(field=field, problem=problem)], error=error)

    @classmethod
    def too_many_requests(cls, detail: str, seconds: int) -> "Problem":
        """A 429 with Retry-After."""
        return cls(429, detail, headers={"Retry-After": str(seconds)}, error=f"Slowdown: {detail}")

    @classmethod
    def unavailable(cls, detail: str, seconds: int = 5) -> "Problem":
        """A 503 with Retry-After."""
        return cls(503, detail, headers={"Retry-After": str(seconds)})


def excerpt(text: object) -> str:
    """A caller's text, shortened and made valid Unicode for a response."""
    words = str(text).encode("utf-8", "backslashreplace").decode()
    return words if len(words) <= MAX_ECHOED_CHARACTERS else words[:MAX_ECHOED_CHARACTERS] + "…"


def problem_json(problem: Problem, request_id: str) -> str:
    """The problem as JSON on one line."""
    return json.dumps(problem_details(problem, request_id).model_dump(), ensure_ascii=False)


def problem_details(problem: Problem, request_id: str) -> ProblemDetails:
    """The problem as a member of a response."""
    detail = mask_credentials(problem.detail)
    return ProblemDetails(
        title=HTTPStatus(problem.status).phrase if problem.status != CLIENT_CLOSED_REQUEST else "Client Closed Request",
        status=problem.status,
        detail=detail,
        error=mask_credentials(problem.error),
        errors=[
            FieldProblem(field=problem_field.field, problem=mask_credentials(problem_field.problem))
            for problem_field in problem.fields
        ],
        request_id=request_id,
    )


def problem_response(problem: Problem, request_id: str) -> Response:
    """The problem as an HTTP response."""
    body = problem_json(problem, request_id).encode("utf-8", "backslashreplace")
    return Response(body, problem.status, problem.headers, MEDIA_TYPE)


def validation_problem(error: ValidationError, known_fields: Sequence[str]) -> Problem:
    """A 400 for an invalid request that names every invalid field. `known_fields`: the fields that exist."""
    sentences: dict[str, list[str]] = {}
    problems = error.errors(include_url=False, include_context=True, include_input=False)
    for details in problems:
        sentences.setdefault(_field_path(details), []).append(_message(details, known_fields))
    fields = [FieldProblem(field=f, problem=" or ".join(dict.fromkeys(s))) for f, s in list(sentences.items())[:10]]
    detail = "; ".join(f"{f.field} {f.problem}" for f in fields)
    inputs = error.errors(include_url=False, include_context=True)
    return Problem(400, detail, fields=fields, error=error_sentence(inputs))


# Discriminator tags, which pydantic puts into the location of an error, but which are not fields of the request.
_UNION_TAGS = {"text", "texts", "list", "word", "number"}


def _field_path(details: ErrorDetails) -> str:
    first, *rest = details["loc"] or ("the request",)
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in rest if step not in _UNION_TAGS]
    return excerpt(first) + excerpt("".join(steps))


def _message(details: ErrorDetails, known_fields: Sequence[str]) -> str:
    context = details.get("ctx", {})
    match details["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return f"is not a field; the fields are {', '.join(known_fields)}"
        case "string_unicode":
            return "must be valid Unicode, and a lone surrogate is not"
        case "string_too_short" | "too_short":
            return "must not be empty"
        case "string_too_long":
            return f"must not be longer than {context['max_length']} characters"
        case "too_long":
            return f"must not have more than {context['max_length']} items"
        case "literal_error":
            return f"must be {context['expected']}"
        case "is_instance_of":  # of a file's sink
            return "must be a file: a part of the form with a `filename`"
        case "finite_number":
            return "must be a finite number"
        case _:
            message = details["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
            return message if message.startswith(("must", "is ")) else f"must be {message}"


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` argument of FastAPI routes, which documents these errors in OpenAPI."""
    return {
        status: {"description": _DESCRIPTIONS[status], "content": {MEDIA_TYPE: {"schema": {"$ref": SCHEMA}}}}
        for status in statuses
    }


_DESCRIPTIONS = {
    400: "The request is invalid; the invalid field is named",
    401: "A key is required, or the key is malformed, unknown or expired",
    403: "The key has been revoked, or lacks the scope",
    404: "The caller has nothing of this name",
    408: "The body did not arrive within the service's time limit",
    413: "The body, or a picture in it, is over the limit",
    415: "The body is neither JSON nor a form, or the format of a picture is not supported",
    422: "The picture is damaged or animated, or has too many pixels",
    429: "Too much is waiting already, or the caller's rate or quota is used up; `Retry-After` says when to retry",
    503: "The service is not ready, is being stopped, or its search has ended; `Retry-After` says when to retry",
    504: "The time limit of the caller or the service was exceeded",
}


def documented_methods(app: FastAPI, path: str) -> list[str]:
    """The methods of a path in the OpenAPI document, in alphabetical order; none for a page."""
    paths: dict[str, dict[str, Any]] = app.openapi()["paths"]
    return sorted(
        method.upper()
        for template, operations in paths.items()
        if compile_path(template)[0].fullmatch(path)
        for method in operations
    )


def install_handlers(app: FastAPI) -> None:
    """Make the app answer every error with problem details."""

    async def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return problem_response(error, request.state.request_id)

    async def on_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = {
            404: f"there is nothing at {excerpt(request.url.path)}",
            405: f"{excerpt(request.url.path)} does not take {excerpt(request.method)}",
        }.get(error.status_code, str(error.detail))
        headers = error.headers
        if error.status_code == 405 and (methods := documented_methods(app, request.url.path)):
            headers = {"Allow": ", ".join(methods)}  # Starlette names only the methods of the path's first route
        return problem_response(Problem(error.status_code, detail, headers=headers), request.state.request_id)

    app.add_exception_handler(Problem, on_problem)
    app.add_exception_handler(HTTPException, on_http_exception)
