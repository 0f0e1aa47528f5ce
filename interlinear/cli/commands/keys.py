"""API keys of a service: the commands `keys add`, `keys list`, `keys revoke` and `keys import`."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.cli.console import say
from interlinear.cli.help import App
from interlinear.cli.options import SHARED, Json
from interlinear.errors import UsageError
from service.auth.scopes import Scope

if TYPE_CHECKING:
    from service.auth.key_store import ApiKey

app = App(no_args_is_help=True)

Keys = Annotated[
    str,
    typer.Option(
        "--keys",
        metavar="FILE|URL",
        envvar="INTERLINEAR_SERVE_KEYS",
        help="The key store: an SQLite file, or postgresql://USER@HOST/DATABASE.",
    ),
    SHARED,
]
COLUMNS = ("NAME", "ID", "STATE", "CREATED", "EXPIRES", "QUOTA/DAY", "USED TODAY", "RATE/S", "SCOPES")


@app.callback()
def store(keys: Keys = "keys.db") -> None:
    """Create, list, revoke and import API keys of a service."""


@app.command()
def add(
    name: Annotated[
        str, typer.Argument(metavar="NAME", show_default=False, help="Name of the key's owner; appears in logs.")
    ],
    quota: Annotated[
        int | None, typer.Option(metavar="N", min=1, show_default=False, help="Maximum number of texts a day (UTC).")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="N", show_default=False, help="Maximum number of texts a second; else the service's setting."
        ),
    ] = None,
    expires: Annotated[
        datetime | None,
        typer.Option(
            metavar="DATE",
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
            show_default=False,
            help="Expiry time in UTC: YYYY-MM-DD, or YYYY-MM-DDTHH:MM:SS.",
        ),
    ] = None,
    scopes: Annotated[
        list[Scope] | None,
        typer.Option("--scope", show_default="translate", help="Permitted use; may be repeated."),
    ] = None,
    *,
    keys: Keys,
) -> None:
    """Create a key and print it, once: only its hash is stored. A running service accepts it within a second."""
    from service.auth.key_store import KeyStore
    from service.store.database import LARGEST_INTEGER

    if quota is not None and quota > LARGEST_INTEGER:
        raise UsageError(f"--quota {quota}", f"a quota is at most {LARGEST_INTEGER:,} texts a day")
    if rate is not None and not 0 < rate <= 1e6:
        raise UsageError(f"--rate {rate:g}", "a rate is more than 0, and at most a million a second")
    expiry = expires.replace(tzinfo=UTC) if expires else None
    if expiry and expiry <= datetime.now(UTC):
        raise UsageError(f"--expires {expires:%Y-%m-%dT%H:%M:%S}", "that is not in the future")
    key = KeyStore(keys).add(name, quota, rate, expiry, scopes or (Scope.TRANSLATE,))
    say(f"{name}'s key, which is not shown again, is:")
    print(key)


@app.command("list")
def list_keys(keys: Keys, as_json: Json = False) -> None:
    """List the keys with their state, limits and usage; the keys themselves are not shown."""
    from service.auth.key_store import KeyStore

    api_keys, now = KeyStore(keys).list_keys(), datetime.now(UTC)
    if as_json:
        print(json.dumps([key_record(key, now) for key in api_keys], indent=2))
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
        for key in api_keys
    ]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    for row in (COLUMNS, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def key_record(key: "ApiKey", now: datetime) -> dict[str, str | int | float | list[str] | None]:
    """A key in the form of the JSON output."""
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
    keys: Keys,
) -> None:
    """Revoke a key permanently. A running service refuses it within a second."""
    from service.auth.key_store import KeyStore

    key = KeyStore(keys).revoke(name)
    say(f"{key.name} ({key.id}) is revoked.")


@app.command("import")
def import_keys(
    source: Annotated[str, typer.Argument(metavar="FILE|URL", show_default=False, help="The store to import from.")],
    keys: Keys,
) -> None:
    """Import the keys of another file or database: they work as before, with their limits and today's usage."""
    from service.auth.key_store import KeyStore

    imported = KeyStore(keys).import_from(KeyStore(source))
    say(f"{len(imported)} keys came" + (f": {', '.join(key.name for key in imported)}." if imported else "."))
