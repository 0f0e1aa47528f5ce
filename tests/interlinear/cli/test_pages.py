"""The pages name every option of a command, and every setting of the service and reason of a refusal."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from interlinear.cli import app
from service.metrics import REASONS
from service.settings import Settings

ROOT = Path(__file__).parents[3]
PAGES = "\n".join(
    page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
)
REST_API = (ROOT / "docs" / "rest-api.md").read_text(encoding="utf-8")


def options(command: Any, name: str) -> Iterator[tuple[str, list[str]]]:
    """Each option of a command, or of its subcommands: the command's name, and the option's names."""
    if subcommands := getattr(command, "commands", {}):
        for word, subcommand in subcommands.items():
            yield from options(subcommand, f"{name} {word}")
        return
    for parameter in command.params:
        if names := [each for each in (*parameter.opts, *parameter.secondary_opts) if each.startswith("--")]:
            yield name, names


def test_every_option_is_named_on_a_page() -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", PAGES))
    known = options(get_command(app), "interlinear")
    assert [(command, *names) for command, names in known if not named & {*names}] == []


def test_every_setting_of_the_service_is_named_on_a_page() -> None:
    named = set(re.findall(r"`(?:INTERLINEAR_SERVE_|\.\.\._)?(\w+)`", PAGES))
    assert [name for name in Settings.model_fields if not {name, name.upper()} & named] == []


def test_every_reason_of_a_refusal_is_named_on_a_page() -> None:
    named = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "security.md").read_text(encoding="utf-8")))
    assert [reason for reason in REASONS if not reason.startswith("image_") and reason not in named] == []


def test_lists_in_environment_variables_are_written_as_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in re.findall(r"(INTERLINEAR_SERVE_\w+)='(.*?)'", REST_API):
        monkeypatch.setenv(variable, value)
    settings = Settings()
    assert settings.trusted_proxies == ("10.0.0.2", "10.1.0.0/16")
    assert [model.uri for model in settings.models] == ["models:/de-en@champion"]
