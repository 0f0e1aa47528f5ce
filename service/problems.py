"""What goes wrong, as RFC 9457 problem details, with the member `error` that LibreTranslate's clients read."""

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

from registry.credentials import mask_credentials

log = logging.getLogger("interlinear.service")

MEDIA_TYPE = "application/problem+json"
SCHEMA = "#/components/schemas/ProblemDetails"  # app.py puts it there
MAX_ECHOED_CHARACTERS = 60  # characters of a caller's own words that an answer repeats
CLIENT_CLOSED_REQUEST = 499  # nobody reads it; the metrics count it


class FieldProblem(BaseModel):
    """One field of a request, and what is wrong with it."""

    field: str = Field(examples=["q[3]"])
    problem: str = Field(examples=["must not be longer than 5000 characters"])


class ProblemDetails(BaseModel):
    """RFC 9457 problem details."""

    type: str = Field(default="about:blank", examples=["about:blank"])
    title: str = Field(examples=["Bad Request"])
    status: int = Field(examples=[400])
    detail: str = Field(examples=["format must be 'text'"])
    error: str = Field(description="the detail again, where LibreTranslate's clients look for it")
    errors: list[FieldProblem] = []
    request_id: str = Field(description="also in the header X-Request-ID and in the service's log")


class Problem(Exception):  # noqa: N818 - what it is called in RFC 9457
    """A request cannot be answered: the status, one sentence, and where a field is at fault, which."""

    def __init__(
        self, status: int, detail: str, *, fields: Sequence[FieldProblem] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.fields = list(fields)
        self.headers = dict(headers or {})

    @classmethod
    def in_field(cls, field: str, problem: str) -> "Problem":
        """A 400 that names one field."""
        return cls(400, f"{field} {problem}", fields=[FieldProblem(field=field, problem=problem)])

    @classmethod
    def too_many_requests(cls, detail: str, seconds: int) -> "Problem":
        """A 429 that says when to come again."""
        return cls(429, detail, headers={"Retry-After": str(seconds)})

    @classmethod
    def unavailable(cls, detail: str, seconds: int = 5) -> "Problem":
        """A 503 that says when to come again."""
        return cls(503, detail, headers={"Retry-After": str(seconds)})


def excerpt(text: object) -> str:
    """A caller's own words as an answer may repeat them: short, and valid Unicode whatever they were."""
    words = str(text).encode("utf-8", "backslashreplace").decode()
    return words if len(words) <= MAX_ECHOED_CHARACTERS else words[:MAX_ECHOED_CHARACTERS] + "…"


def problem_json(problem: Problem, request_id: str) -> str:
    """The problem as JSON on one line."""
    detail = mask_credentials(problem.detail)
    body = ProblemDetails(
        title=HTTPStatus(problem.status).phrase if problem.status != CLIENT_CLOSED_REQUEST else "Client Closed Request",
        status=problem.status,
        detail=detail,
        error=detail,
        errors=[FieldProblem(field=one.field, problem=mask_credentials(one.problem)) for one in problem.fields],
        request_id=request_id,
    )
    return json.dumps(body.model_dump(), ensure_ascii=False)


def problem_response(problem: Problem, request_id: str) -> Response:
    """The problem as an answer."""
    body = problem_json(problem, request_id).encode("utf-8", "backslashreplace")
    return Response(body, problem.status, problem.headers, MEDIA_TYPE)


def validation_problem(error: ValidationError, known_fields: Sequence[str]) -> Problem:
    """A 400 for a request of the wrong shape, naming every field at fault; `known_fields` are the fields that there are."""
    sentences: dict[str, list[str]] = {}
    for one in error.errors(include_url=False, include_context=True, include_input=False):
        sentences.setdefault(_field_path(one), []).append(_message(one, known_fields))
    fields = [FieldProblem(field=f, problem=" or ".join(dict.fromkeys(s))) for f, s in list(sentences.items())[:10]]
    return Problem(400, "; ".join(f"{f.field} {f.problem}" for f in fields), fields=fields)


_UNION_TAGS = {"text", "texts", "word", "number"}  # which branch of a union was taken: nothing to a reader


def _field_path(problem_json: ErrorDetails) -> str:
    first, *rest = problem_json["loc"] or ("the request",)
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in rest if step not in _UNION_TAGS]
    return excerpt(first) + excerpt("".join(steps))


def _message(problem_json: ErrorDetails, known_fields: Sequence[str]) -> str:
    context = problem_json.get("ctx", {})
    match problem_json["type"]:
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
        case "finite_number":
            return "must be a finite number"
        case _:
            message = problem_json["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
            return message if message.startswith(("must", "is ")) else f"must be {message}"


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What FastAPI's `responses` wants, so that OpenAPI says what can go wrong."""
    return {
        status: {"description": _DESCRIPTIONS[status], "content": {MEDIA_TYPE: {"schema": {"$ref": SCHEMA}}}}
        for status in statuses
    }


_DESCRIPTIONS = {
    400: "The request is not one that can be answered; the field at fault is named",
    401: "A key is needed, or the key given is malformed, unknown or expired",
    403: "The key has been revoked, or is not for this",
    408: "The body did not arrive in the time that the service allows",
    413: "The body, or a picture in it, is over the limit",
    415: "The body is neither JSON nor a form, or a picture is of a format that is not read",
    422: "The picture is damaged, moves, or has too many pixels",
    429: "Too much waits already, or the caller's rate or quota is used up; `Retry-After` says when to come again",
    503: "The service is not ready, is being stopped, or its search has ended; `Retry-After` says when to come again",
    504: "The time that the caller or the service allows was over",
}


def install_handlers(app: FastAPI) -> None:
    """Answer every error of the app with problem details."""

    async def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return problem_response(error, request.state.request_id)

    async def on_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = {
            404: f"there is nothing at {excerpt(request.url.path)}",
            405: f"{excerpt(request.url.path)} does not take {excerpt(request.method)}",
        }.get(error.status_code, str(error.detail))
        return problem_response(Problem(error.status_code, detail, headers=error.headers), request.state.request_id)

    app.add_exception_handler(Problem, on_problem)
    app.add_exception_handler(HTTPException, on_http_exception)
