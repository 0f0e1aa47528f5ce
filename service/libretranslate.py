"""LibreTranslate's sentences for invalid requests, which its clients show: the member `error` of a problem."""

from collections.abc import Sequence

from pydantic_core import ErrorDetails

MOST_ECHOED = 60  # characters of a caller's value
TEXT_FIELDS = ("q", "s", "text")


def error_sentence(problems: Sequence[ErrorDetails]) -> str | None:
    """LibreTranslate's sentence for the first problem that it has one for, in its order: a missing parameter before an
    invalid one; None if it has none. `problems` with their inputs."""
    problems = [details for details in problems if details["loc"]]  # of a field, and not of the whole request
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
