"""The pages name every option of a command, and every setting of the service and reason of a refusal."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from interlinear.cli import app
from interlinear.search import SearchOptions
from service.metrics import REASONS
from service.settings import Settings

ROOT = Path(__file__).parents[3]
PAGES = "\n".join(
    page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
)
REST_API = (ROOT / "docs" / "rest-api.md").read_text(encoding="utf-8")


def options(command: Any, name: str) -> Iterator[tuple[str, list[str]]]:
    """Each option of a command, and of its subcommands: the command's name, and the option's names."""
    for word, subcommand in getattr(command, "commands", {}).items():
        yield from options(subcommand, f"{name} {word}")
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


def shown(default: object) -> str:
    """A default as a page writes it."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return str(list(default))
    return f"{default:g}" if isinstance(default, float) else str(default)


@pytest.mark.parametrize(
    ("page", "row", "fields"),
    [
        ("rest-api.md", r"\| `INTERLINEAR_SERVE_(\w+)` \| ([^|]*) \|", Settings.model_fields),
        ("recipes.md", r"\| `(\w+)` \| ([^|]*) \|", SearchOptions.model_fields),
    ],
)
def test_the_tables_of_the_pages_have_the_defaults_of_the_declarations(page: str, row: str, fields: Mapping[str, Any]):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").partition("## Search: `search`")
    found = dict(re.findall(row, text[2] or text[0]))
    rows = {name.lower(): default.strip("`") for name, default in found.items() if name.lower() in fields}
    assert len(rows) >= 11
    assert rows == {name: rows[name] if fields[name].default is None else shown(fields[name].default) for name in rows}


def test_every_reason_of_a_refusal_is_named_on_a_page() -> None:
    named = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "security.md").read_text(encoding="utf-8")))
    assert [reason for reason in REASONS if not reason.startswith("image_") and reason not in named] == []


def test_lists_in_environment_variables_are_written_as_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in re.findall(r"(INTERLINEAR_SERVE_\w+)='(.*?)'", REST_API):
        monkeypatch.setenv(variable, value)
    settings = Settings()
    assert settings.trusted_proxies == ("10.0.0.2", "10.1.0.0/16")
    assert [model.uri for model in settings.models] == ["models:/de-en@champion"]
