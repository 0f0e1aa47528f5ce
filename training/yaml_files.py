"""YAML files that people write - data sets, recipes, tables of papers - and what is wrong with one, in one sentence."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from seq2seq.errors import InterlinearError


def read_mapping(path: Path, error: type[InterlinearError], name: str, shown_in: str) -> dict[str, Any]:
    """A file's mapping. Raises `error` that names the file as `name`, with line and column where YAML is broken;
    `shown_in` is the page of the documentation that shows such a file."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        place = f"{name}, line {mark.line + 1}, column {mark.column + 1}" if mark else name
        raise error(place, f"is not YAML: {problem.problem or problem.context}", f"see {shown_in}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise error(name, f"is not YAML: {' '.join(str(problem).split())}", f"see {shown_in}") from None
    except OSError as problem:
        raise error(name, f"cannot be read: {problem.strerror}") from None
    if not isinstance(content, dict):
        raise error(name, "holds text, and no keys with values", f"see {shown_in}")
    return content


def error_message(problem: ErrorDetails) -> str:
    """What pydantic says of a value, as this project says it: a word that is none of some gets the nearest of them."""
    if problem["type"] != "literal_error":
        return problem["msg"].removeprefix("Value error, ")
    choices = [choice.strip("'\"") for choice in problem["ctx"]["expected"].replace(" or ", ", ").split(", ")]
    given = problem["input"]
    return f"{given!r} is none of {', '.join(choices)}{did_you_mean(str(given), choices, '; ')}"


def first_problem(error: ValidationError, omitted_index: int | None = None) -> str:
    """The first thing that is wrong, as `key: what`. `omitted_index`: a place in the key's path that the file lacks."""
    first = error.errors()[0]
    place = [part for number, part in enumerate(first["loc"]) if number != omitted_index]
    key = ".".join(str(part) for part in place)
    if first["type"] == "extra_forbidden":
        return f"unknown key '{key}'"
    if first["type"] == "missing":
        return f"the key '{key}' is missing"
    what = error_message(first)
    return f"{key}: {what}" if key else what


def did_you_mean(word: str, choices: Iterable[str], prefix: str = "") -> str:
    """The nearest of some words, as a question; nothing where none is near."""
    near = difflib.get_close_matches(word, list(choices), 1)
    return f"{prefix}did you mean {near[0]}?" if near else ""
