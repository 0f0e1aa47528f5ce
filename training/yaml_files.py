"""Finds the YAML files that ship with the program; reads YAML files that users write (data sets, recipes, tables of
papers) and describes an error in one sentence."""

import difflib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from interlinear.errors import InterlinearError, RecipeError

PACKAGE = Path(__file__).parent
MERGE = "tag:yaml.org,2002:merge"  # the tag of `<<`


def resource_folder(folder: Literal["recipes", "corpora"]) -> Path:
    """The folder with that name: inside this package in an installed wheel, beside the packages in a checkout."""
    installed = PACKAGE / folder
    return installed if installed.is_dir() else PACKAGE.parent / folder


class UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a mapping with a duplicate key, of which YAML libraries silently keep the last value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        first: dict[str, yaml.Mark] = {}
        for key, _ in node.value:
            if key.tag != MERGE and key.value in first:
                problem = f"the key '{key.value}' is there already, in line {first[key.value].line + 1}"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            if isinstance(key, yaml.ScalarNode):
                first[key.value] = key.start_mark
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> Any:
    """The value of a YAML text. Raises yaml.YAMLError, also for a key that a mapping has twice."""
    return yaml.load(text, UniqueKeyLoader)  # a safe loader


def is_yaml_file(name: str) -> bool:
    """Whether a name is a path of a YAML file, and not a name of a shipped one."""
    return name.lower().endswith((".yaml", ".yml"))


def read_mapping(path: Path, error: type[InterlinearError], name: str, shown_in: str) -> dict[str, Any]:
    """Read a YAML file that must hold a mapping.

    Raises `error`, which names the file as `name`, with line and column for a syntax error. `shown_in`: the
    documentation page with an example.
    """
    try:
        content = load_yaml(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        location = f"{name}, line {mark.line + 1}, column {mark.column + 1}" if mark else name
        raise error(location, f"is not YAML: {problem.problem or problem.context}", f"see {shown_in}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise error(name, f"is not YAML: {' '.join(str(problem).split())}", f"see {shown_in}") from None
    except OSError as problem:
        raise error(name, f"cannot be read: {problem.strerror}") from None
    if not isinstance(content, dict):
        raise error(name, "is not a mapping of keys to values", f"see {shown_in}")
    return content


def error_message(problem: ErrorDetails) -> str:
    """Pydantic's message in this project's wording. A literal that is not among the choices gets the closest choice."""
    if problem["type"] != "literal_error":
        return problem["msg"].removeprefix("Value error, ")
    choices = [choice.strip("'\"") for choice in problem["ctx"]["expected"].replace(" or ", ", ").split(", ")]
    value = problem["input"]
    return f"{value!r} is none of {', '.join(choices)}{did_you_mean(str(value), choices, '; ')}"


def first_problem(error: ValidationError, omitted_index: int | None = None) -> str:
    """The first validation error as `key: problem`. `omitted_index`: a position in the key's path that the file does
    not have."""
    first = error.errors()[0]
    location = [part for number, part in enumerate(first["loc"]) if number != omitted_index]
    key = ".".join(str(part) for part in location)
    if first["type"] == "extra_forbidden":
        return f"unknown key '{key}'"
    if first["type"] == "missing":
        return f"the key '{key}' is missing"
    message = error_message(first)
    return f"{key}: {message}" if key else message


def did_you_mean(word: str, choices: Iterable[str], prefix: str = "") -> str:
    """A question that suggests the closest of some words; empty where none is close."""
    near = difflib.get_close_matches(word, list(choices), 1)
    return f"{prefix}did you mean {near[0]}?" if near else ""


def parse_settings(settings: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The key and the value of each `key=value`, as of `--set`. Raises RecipeError for one that is not, or whose value
    is not YAML."""
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise RecipeError(setting, "this is no setting", "write --set key=value, for example model.layers=2")
        try:
            yield key.strip(), load_yaml(value)
        except yaml.YAMLError as error:
            reason = f": {error.problem}" if isinstance(error, yaml.MarkedYAMLError) and error.problem else ""
            raise RecipeError(key, f"the value {value!r} is no YAML{reason}") from None
