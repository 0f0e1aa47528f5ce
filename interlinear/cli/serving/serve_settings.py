"""Settings of `interlinear serve` from its options, a YAML file and the environment."""

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_settings import SettingsError

from interlinear.errors import RegistryError, UsageError
from interlinear.registry.names import CHAMPION
from service.settings import ServedModelConfig, Settings
from training.yaml_files import load_yaml

PREFIX = "INTERLINEAR_SERVE_"
MODEL_REMEDY = "say --model NAME=MODEL, where MODEL is a bundle's folder or models:/NAME@champion"


def load_settings(path: Path | None, options: dict[str, Any]) -> Settings:
    """The settings: options override the file, which overrides the environment. Raises UsageError with the key at
    fault."""
    content = read_config(path) if path else {}
    set_options = {name: value for name, value in options.items() if value not in (None, [], ())}
    try:
        return Settings(**(content | set_options))
    except SettingsError as error:  # an environment variable that is not valid JSON
        raise UsageError(f"{PREFIX}...", str(error), "lists are written as JSON: see docs/rest-api.md") from None
    except ValidationError as error:
        first_error = error.errors(include_url=False)[0]
        key, problem, prefix = ".".join(map(str, first_error["loc"])), first_error["msg"], "Value error, "
        problem = problem.removeprefix(prefix) if problem.startswith(prefix) else problem[:1].lower() + problem[1:]
        name = key.partition(".")[0] or "models"  # errors without a key concern the list of models
        if first_error["type"] == "extra_forbidden" and name not in Settings.model_fields:
            near = get_close_matches(name, Settings.model_fields, 1)
            problem = "there is no such setting" + (f"; did you mean {near[0]}?" if near else "")
        if path and name in content and name not in set_options:
            problem_text = f"{key}: {problem}" if key else problem
            raise UsageError(f"--config {path}", problem_text, "see docs/rest-api.md") from None
        raise UsageError(key or name, problem, f"see the option, --set, or {PREFIX}{name.upper()}") from None


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a YAML file. Raises UsageError."""
    try:
        content = load_yaml(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        problem = " ".join(f"cannot be read: {error}".split())
        raise UsageError(f"--config {path}", problem, "see docs/rest-api.md") from None
    if not isinstance(content, dict):
        raise UsageError(f"--config {path}", "holds no settings", "it begins with models:, see docs/rest-api.md")
    return {str(name): value for name, value in content.items()}


def parse_model(text: str) -> ServedModelConfig:
    """Parse `NAME=MODEL`, or a MODEL that keeps its own name. Raises UsageError."""
    name, equals, uri = text.partition("=")
    if not equals or "/" in name or ":" in name:
        return ServedModelConfig(uri=text)
    if not name or not uri:
        raise UsageError(f"--model {text}", "a name or a model is missing", MODEL_REMEDY)
    return ServedModelConfig(name=name, uri=uri)


def champion_models(tracking: str | None) -> tuple[ServedModelConfig, ...]:
    """The registered models with a champion. Raises UsageError if there is none."""
    from interlinear.registry.store import MlflowStore

    try:
        names = [record.name for record in MlflowStore(tracking).list_models() if CHAMPION in record.aliases]
    except RegistryError as error:
        raise UsageError(
            "--model", f"no model is given, and there is no registry to choose from ({error.problem})", MODEL_REMEDY
        ) from None
    if not names:
        raise UsageError("--model", "no model is given, and the registry has no champion", MODEL_REMEDY)
    return tuple(ServedModelConfig(uri=f"models:/{name}@{CHAMPION}") for name in names)
