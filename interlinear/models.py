"""`interlinear models` and `interlinear promote`: what the registry holds, and which version a name means."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from interlinear.arguments import Json, Tracking

COLUMNS = ("NAME", "VERSION", "ALIASES", "LANGUAGES", "DEV BLEU", "RECIPE", "DATA", "CREATED")


def models(tracking: Tracking = None, as_json: Json = False) -> None:
    """List the registered models: every version, with its aliases and scores."""
    from registry.store import Store

    records = Store(tracking).list_models()
    if as_json:
        print(json.dumps([asdict(record) | {"created": record.created.isoformat()} for record in records], indent=2))
        return
    rows = [
        (
            record.name,
            record.version,
            ",".join(record.aliases) or "-",
            record.languages or "-",
            "-" if record.dev_bleu is None else f"{record.dev_bleu:.1f}",
            record.recipe or "-",
            record.dataset or "-",
            f"{record.created.astimezone():%Y-%m-%d %H:%M}",
        )
        for record in records
    ]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    for row in (COLUMNS, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def promote(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="A registered model's name.")],
    version: Annotated[str, typer.Argument(metavar="VERSION", show_default=False, help="The version's number.")],
    alias: Annotated[str, typer.Option(metavar="ALIAS", help="The alias that shall point to it.")] = "champion",
    tracking: Tracking = None,
) -> None:
    """Let an alias of a registered model point to a version."""
    from interlinear.terminal import say
    from registry.store import Store

    Store(tracking).promote(name, version, alias)
    say(f"models:/{name}@{alias} is version {version}.")
