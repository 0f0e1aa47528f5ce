"""`interlinear models` and `interlinear promote`: list registered models, and set aliases."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.cli.console import say, status
from interlinear.cli.options import DataRoot, Device, Json, Tracking
from interlinear.errors import RegistryError, UsageError

if TYPE_CHECKING:
    from interlinear.registry.store import ModelRecord

COLUMNS = ("NAME", "VERSION", "ALIASES", "LANGUAGES", "DEV BLEU", "RECIPE", "DATA", "CREATED")


def models(
    tracking: Tracking = None,
    as_json: Json = False,
    moved: Annotated[
        bool, typer.Option("--moved", help="First let a copied or moved store name its files beside its database.")
    ] = False,
) -> None:
    """List the registered models: every version, with its aliases and scores."""
    if moved:
        from interlinear.registry.address import sqlite_file, tracking_uri
        from interlinear.registry.relocation import relocate

        uri = tracking_uri(tracking)
        if not uri.startswith("sqlite"):
            raise UsageError("--moved", f"{uri} is no SQLite file", "its own server knows where its files lie")
        say(f"{relocate(sqlite_file(uri)):,} addresses were changed.")
    with status("opening the registry"):
        from interlinear.registry.store import MlflowStore

        records = MlflowStore(tracking).list_models()
    if as_json:
        print(json.dumps([asdict(record) | {"created": record.created.isoformat()} for record in records], indent=2))
        return
    rows = [
        (
            record.name,
            record.version,
            ",".join(record.aliases) or "-",
            record.languages or "-",
            dev_bleu(record),
            record.recipe or "-",
            record.dataset or "-",
            f"{record.created.astimezone():%Y-%m-%d %H:%M}",
        )
        for record in records
    ]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    for row in (COLUMNS, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def dev_bleu(record: "ModelRecord") -> str:
    """The dev BLEU score and, if recorded, what it was measured on."""
    if record.dev_bleu is None:
        return "-"
    return f"{record.dev_bleu:.2f}" + (f" ({record.dev_bleu_of})" if record.dev_bleu_of else "")


def promote(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="A registered model's name.")],
    version: Annotated[str, typer.Argument(metavar="VERSION", show_default=False, help="The version's number.")],
    alias: Annotated[str, typer.Option(metavar="ALIAS", help="The alias to set.")] = "champion",
    if_better_on: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET[:SPLIT]",
            show_default=False,
            help="Only if it is significantly better on this set than the alias's current version.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", show_default=False, help="The deciding metric; else bleu, or rouge-l for summaries."
        ),
    ] = None,
    why: Annotated[
        str | None, typer.Option(metavar="TEXT", show_default=False, help="Reason, stored with the version.")
    ] = None,
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Set an alias of a registered model to a version; who, when and why is stored in the version's tags."""
    from interlinear.cli.evaluation.promotion import compare_for_promotion
    from interlinear.registry.store import MlflowStore, Promotion

    if not if_better_on and (metric or data_root):
        option = "--metric" if metric else "--data-root"
        raise UsageError(option, "nothing is scored", "give --if-better-on, or leave it out")
    store = MlflowStore(tracking)
    current = store.alias_target(name, version, alias)
    figures = None
    if if_better_on and current and current != version:
        new, old = f"models:/{name}/{version}", f"models:/{name}/{current}"
        result = compare_for_promotion(new, old, if_better_on, metric, data_root, tracking, device)
        if not result.better:
            raise RegistryError(
                new,
                f"it is not better than {alias}, version {current}: {result}",
                f"{alias} stays; without --if-better-on it is promoted all the same",
            )
        figures = f"{result}; {result.signature}"
        say(f"it is better: {result}.")
    elif if_better_on:
        say(f"there is nothing to beat: {name} has no other version as {alias}.")
    store.promote(name, version, alias, Promotion(current, why, figures))
    say(f"models:/{name}@{alias} is version {version}.")
