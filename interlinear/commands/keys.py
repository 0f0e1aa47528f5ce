"""API keys of a service: the verbs `keys add`, `keys list`, `keys revoke` and `keys import`."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.console import say
from interlinear.options import Json
from seq2seq.errors import UsageError
from service.auth.scopes import Scope

if TYPE_CHECKING:
    from service.auth.key_store import ApiKey

app = typer.Typer(help="Make, list, revoke and import the keys that a service asks for.", no_args_is_help=True)

Keys = Annotated[
    str,
    typer.Option(
        "--keys",
        metavar="FILE|URL",
        envvar="INTERLINEAR_SERVE_KEYS",
        help="Where they are: an SQLite file, or postgresql://USER@HOST/DATABASE.",
    ),
]
COLUMNS = ("NAME", "ID", "STATE", "CREATED", "EXPIRES", "QUOTA/DAY", "USED TODAY", "RATE/S", "SCOPES")


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="Who it is for; logs show it.")],
    quota: Annotated[
        int | None, typer.Option(metavar="N", min=1, show_default=False, help="Most texts a day, by UTC.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(metavar="N", show_default=False, help="Most texts a second, else as the service is set."),
    ] = None,
    expires: Annotated[
        datetime | None,
        typer.Option(
            metavar="DATE",
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
            show_default=False,
            help="From when on it is refused, by UTC: YYYY-MM-DD, or YYYY-MM-DDTHH:MM:SS.",
        ),
    ] = None,
    scopes: Annotated[
        list[Scope] | None,
        typer.Option("--scope", show_default="translate", help="What it is good for; several times for several."),
    ] = None,
    keys: Keys = "keys.db",
) -> None:
    """Make a key and print it, once: only its hash is kept. A running service knows it within a second."""
    from service.auth.key_store import KeyStore

    if rate is not None and not 0 < rate <= 1e6:
        raise UsageError(f"--rate {rate:g}", "a rate is more than 0, and at most a million a second")
    moment = expires.replace(tzinfo=UTC) if expires else None
    if moment and moment <= datetime.now(UTC):
        raise UsageError(f"--expires {expires:%Y-%m-%dT%H:%M:%S}", "that is not in the future")
    key = KeyStore(keys).add(name, quota, rate, moment, scopes or (Scope.TRANSLATE,))
    say(f"{name}'s key, which is not shown again, is:")
    print(key)


@app.command("list")
def list_keys(keys: Keys = "keys.db", as_json: Json = False) -> None:
    """List the keys: their state, limits and use, never a key itself."""
    from service.auth.key_store import KeyStore

    known, now = KeyStore(keys).list_keys(), datetime.now(UTC)
    if as_json:
        print(json.dumps([key_record(key, now) for key in known], indent=2))
        return
    rows = [
        (
            key.name,
            key.id,
            key.state(now),
            f"{key.created:%Y-%m-%d}",
            f"{key.expires:%Y-%m-%d}" if key.expires else "-",
            str(key.quota or "-"),
            str(key.used),
            "-" if key.rate is None else f"{key.rate:g}",
            ",".join(sorted(key.scopes)),
        )
        for key in known
    ]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    for row in (COLUMNS, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def key_record(key: "ApiKey", now: datetime) -> dict[str, str | int | float | list[str] | None]:
    """What a program may know of a key."""
    return {
        "name": key.name,
        "id": key.id,
        "state": key.state(now),
        "created": key.created.isoformat(),
        "expires": key.expires.isoformat() if key.expires else None,
        "revoked": key.revoked.isoformat() if key.revoked else None,
        "quota": key.quota,
        "used": key.used,
        "rate": key.rate,
        "scopes": sorted(key.scopes),
    }


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="A key's name or ID.")],
    keys: Keys = "keys.db",
) -> None:
    """Revoke a key, for good. A running service refuses it within a second."""
    from service.auth.key_store import KeyStore

    key = KeyStore(keys).revoke(name)
    say(f"{key.name} ({key.id}) is revoked.")


@app.command("import")
def import_keys(
    source: Annotated[str, typer.Argument(metavar="FILE|URL", show_default=False, help="Where the keys are now.")],
    keys: Keys = "keys.db",
) -> None:
    """Take over the keys of another file or database: they work as before, with their limits and today's use."""
    from service.auth.key_store import KeyStore

    imported = KeyStore(keys).import_from(KeyStore(source))
    say(f"{len(imported)} keys came" + (f": {', '.join(key.name for key in imported)}." if imported else "."))
