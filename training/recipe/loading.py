"""Loads recipes: reads YAML files, resolves `extends`, applies defaults and overrides, and describes errors."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from interlinear.config import RecurrentArchitecture, TransformerArchitecture
from interlinear.errors import RecipeError
from interlinear.minimum_risk.minimum_risk import RiskOptions
from interlinear.search import SearchOptions
from training.recipe.settings import (
    GuideSettings,
    ImageSettings,
    Recipe,
    TargetSettings,
    TextSettings,
    TrainingSettings,
)
from training.yaml_files import error_message, is_yaml_file, load_yaml, parse_settings, read_mapping, resource_folder


def load_recipe(name: str, overrides: Sequence[str] = (), defaults: Mapping[str, Any] | None = None) -> Recipe:
    """Load a recipe by name or path, then apply a data set's defaults and `key=value` overrides (dotted keys).

    A default is skipped where the recipe sets its key to `null` (for example a recipe that counts a batch in sentences,
    not in tokens), and where it belongs to a source that the recipe does not have. Raises RecipeError, which names the
    file or the key.
    """
    content = read_recipe_file(name, ())
    for key, value in (defaults or {}).items():
        if not is_unset(content, key) and not is_for_missing_source(content, key):
            set_key(content, key, value, name)
    for key, value in parse_settings(overrides):
        set_key(content, key, value, name)
    return validate_recipe(name, content)


def stated_keys(name: str, overrides: Sequence[str] = (), defaults: Mapping[str, Any] | None = None) -> frozenset[str]:
    """The dotted keys that were set explicitly for a training: by overrides, by a data set's defaults, or in the user's
    own recipe files. Values of a shipped recipe are defaults; their keys are not included.

    Expects arguments that `load_recipe` has accepted.
    """
    stated = set(defaults or {})
    for override in overrides:
        key, _, value = override.partition("=")
        stated |= leaves({key.strip(): load_yaml(value)})
    shipped_recipes = resource_folder("recipes").resolve()
    current: str | None = name
    while current and is_yaml_file(current) and not Path(current).resolve().is_relative_to(shipped_recipes):
        content = read_mapping(Path(current), RecipeError, current, "docs/recipes.md")
        base = content.pop("extends", None)
        stated |= leaves(content)
        current = None if base is None else extended_name(current, str(base))
    return frozenset(stated)


def leaves(content: Mapping[str, Any], chain: str = "") -> set[str]:
    """The dotted keys of nested settings, without the keys of sections."""
    keys = set[str]()
    for key, value in content.items():
        keys |= leaves(value, f"{chain}{key}.") if isinstance(value, Mapping) else {f"{chain}{key}"}
    return keys


def validate_recipe(name: str, content: Mapping[str, Any]) -> Recipe:
    """Validate a file's content, `extends` already resolved. Raises RecipeError, which names the recipe and the key."""
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise recipe_error(name, error) from None


def recipe_names() -> list[str]:
    """The names of the recipes that ship with Interlinear."""
    folder = resource_folder("recipes")
    return sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml"))


def read_recipe_file(name: str, chain: tuple[str, ...]) -> dict[str, Any]:
    """A recipe file's content, merged over the recipe that it extends. `chain`: the recipes that led here."""
    path = Path(name) if is_yaml_file(name) else resource_folder("recipes") / f"{name}.yaml"
    if not path.is_file():
        near = difflib.get_close_matches(name, recipe_names(), 1)
        guess = f"did you mean {near[0]}?" if near else f"there are {', '.join(recipe_names())}, or give a YAML file"
        raise RecipeError(name, "there is no such recipe", guess)
    if name in chain:
        raise RecipeError(name, f"the recipe extends itself (by {' -> '.join([*chain, name])})")
    content = read_mapping(path, RecipeError, name, "docs/recipes.md")
    base = content.pop("extends", None)
    if base is None:
        return content
    return deep_merge(read_recipe_file(extended_name(name, str(base)), (*chain, name)), content)


def extended_name(name: str, base: str) -> str:
    """The recipe that a recipe's file extends: a shipped one, or a file beside it, else one in the working folder."""
    beside = Path(name).parent / base
    is_other_file = is_yaml_file(base) and beside.is_file() and not beside.samefile(name)
    return str(beside) if is_other_file else base


def deep_merge(base: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """Merge `content` over `base`, section by section."""
    merged = dict(base)
    for key, value in content.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = deep_merge(base[key], value) if both else value
    return merged


def set_key(content: dict[str, Any], key: str, value: Any, recipe: str) -> None:
    """Set one dotted key in place."""
    *sections, last = key.split(".")
    for section in sections:
        content = content.setdefault(section, {})
        if not isinstance(content, dict):
            raise RecipeError(f"{recipe}: {key}", f"'{section}' holds a value, and no keys")
    content[last] = value


def is_unset(content: Mapping[str, Any], key: str) -> bool:
    """Whether a recipe sets a dotted key to `null`."""
    *sections, last = key.split(".")
    for section in sections:
        content = content.get(section, {})
        if not isinstance(content, Mapping):
            return False
    return last in content and content[last] is None


def is_for_missing_source(content: Mapping[str, Any], key: str) -> bool:
    """Whether a dotted key belongs to a source that the recipe does not have."""
    section, _, rest = key.partition(".")
    sources = content.get("sources")
    return section == "sources" and isinstance(sources, Mapping) and rest.partition(".")[0] not in sources


def recipe_error(name: str, error: ValidationError) -> RecipeError:
    """A RecipeError for the first validation error, with its key and, for an unknown key, the closest known one."""
    first = error.errors()[0]
    location = list(first["loc"])
    section: type[BaseModel] = TextSettings
    model: type[BaseModel] = RecurrentArchitecture
    # A union's tag is not a key.
    if location[:1] == ["sources"] and len(location) > 2 and location.pop(2) == "image":
        section = ImageSettings
    if location[:1] == ["model"] and len(location) > 1 and location.pop(1) == "transformer":
        model = TransformerArchitecture
    key = ".".join(str(part) for part in location if not is_union_branch(part))
    if first["type"] == "extra_forbidden":
        models: dict[str, type[BaseModel]] = {
            "": Recipe,
            "model": model,
            "training": TrainingSettings,
            "training.risk": RiskOptions,
            "training.guide": GuideSettings,
            "search": SearchOptions,
            "target": TargetSettings,
        }
        section = models.get(key.rpartition(".")[0], section)
        keys = [field.alias or name for name, field in section.model_fields.items()]
        near = difflib.get_close_matches(str(first["loc"][-1]), keys, 1)
        known = f"did you mean {near[0]}?" if near else f"known here: {', '.join(keys)}"
        return RecipeError(f"{name}: {key}", "unknown key", known)
    message = error_message(first)
    if location and is_union_branch(location[-1]):  # a value that matches none of its allowed types
        messages = (other["msg"] for other in error.errors() if other["loc"][:-1] == first["loc"][:-1])
        message = ", or ".join(text.removeprefix("Input should be ") if i else text for i, text in enumerate(messages))
    if first["type"] in ("value_error", "model_kind") and ": " in message:  # the message names the key
        rule, _, message = message.partition(": ")
        key = f"{key}.{rule}" if key else rule
    return RecipeError(f"{name}: {key}", message[:1].lower() + message[1:])


def is_union_branch(part: object) -> bool:
    """Whether a part of a pydantic error location is the branch of a union, not a key."""
    return part in ("float", "constrained-int") or str(part).startswith("literal[")
