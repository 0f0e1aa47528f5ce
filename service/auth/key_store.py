"""The store of API keys, their usage and callers' rates: an SQLite file, or a PostgreSQL database shared by replicas.

A key is `il_ID_SECRET`: the ID finds its record, and the secret has 256 random bits. The store has only a salted
SHA-256 of the whole key. A slow hash would not add security: it makes each guess of a human's password expensive, but
256 random bits cannot be guessed at any price, and it would make each request expensive instead.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
    case,
    delete,
    func,
    insert,
    inspect,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from interlinear.errors import KeyFileError, UsageError
from service.auth.scopes import Scope
from service.store.database import Database

metadata = MetaData()
KEYS = Table(
    "keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("salt", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("created", Text, nullable=False),
    Column("expires", Text),
    Column("revoked", Text),
    Column("quota", Integer),
    Column("rate", Double),
    Column("day", Text, nullable=False, server_default=""),
    Column("used", Integer, nullable=False, server_default="0"),
    Column("scopes", Text, nullable=False),
)
RATES = Table(
    "rates",
    metadata,
    Column("caller", Text, primary_key=True),
    Column("full_at", Double, nullable=False, index=True),  # seconds since 1970 on the store's clock
)


def create_schema(connection: Connection, path: Path | None, create: bool) -> None:
    """Create the tables.

    `path`: the SQLite file; None for PostgreSQL. Raises KeyFileError for a file without keys, unless `create`.
    """
    if path is None:  # services that start at the same time create them once
        connection.execute(select(func.pg_advisory_xact_lock(literal_column("7236837541"))))
    if path and not create and not inspect(connection).has_table(KEYS.name):
        raise KeyFileError(str(path), "there are no keys in it", "name the file of `interlinear keys add`")
    metadata.create_all(connection)


NAME_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,64}")  # names appear in logs
KEY_PATTERN = re.compile(r"il_(?P<id>[0-9a-f]{12})_[A-Za-z0-9_-]{43}")
MAX_SHARED_CALLERS = 1000  # callers whose rates are written in one sync; 20 times as many are read


@dataclass(frozen=True)
class ApiKey:
    """The record of a key."""

    id: str
    name: str
    salt: bytes
    digest: bytes
    created: datetime
    expires: datetime | None
    revoked: datetime | None
    quota: int | None  # units a day, by UTC
    rate: float | None  # units a second; default: the service's limit
    used: int  # units used on the day of reading
    scopes: frozenset[Scope]

    def matches(self, key: str) -> bool:
        """Whether this is the key's record, compared in constant time."""
        return hmac.compare_digest(_digest(self.salt, key), self.digest)

    def state(self, now: datetime) -> str:
        """`valid`, `expired` or `revoked`."""
        if self.revoked:
            return "revoked"
        return "expired" if self.expires and self.expires <= now else "valid"


@dataclass(frozen=True)
class RateUsage:
    """The units that a caller took from its token bucket since the last sync."""

    seconds: float  # seconds in which the bucket refills by these units
    age: float  # seconds since the first of these units was taken


@dataclass(frozen=True)
class SyncResult:
    """The state of the store after a sync: all keys, and the buckets that are not full."""

    keys: list[ApiKey]
    rates: Mapping[str, float]  # seconds until the bucket is full, by caller


class KeyStore:
    """Keys and rates in a file (by its path) or a database (`postgresql://USER@HOST/DATABASE`).

    SQLAlchemy connects on first use. Every method raises KeyFileError if the store cannot be read or written. Raises
    UsageError for an invalid URL, or one of an unsupported database.
    """

    def __init__(self, uri: str | Path) -> None:
        self._database = Database(uri, "keys", create_schema, "make it by `interlinear keys add NAME`", KeyFileError)
        self.name, self.path = self._database.name, self._database.path

    def close(self) -> None:
        """Close connections; the store opens new ones if it is used again."""
        self._database.close()

    def add(
        self,
        name: str,
        quota: int | None = None,
        rate: float | None = None,
        expires: datetime | None = None,
        scopes: Sequence[Scope] = (Scope.TRANSLATE,),
    ) -> str:
        """Create a key, and the store if it does not exist. Returns the key itself, which is stored nowhere.

        Raises UsageError for an invalid name, or a name that another key has or had.
        """
        if not NAME_PATTERN.fullmatch(name):
            raise UsageError(repr(name), "cannot be a key's name", "use up to 64 letters, digits, '.', '-' and '_'")
        key_id, salt = secrets.token_hex(6), secrets.token_bytes(16)
        key = f"il_{key_id}_{secrets.token_urlsafe(32)}"
        row = {
            "id": key_id, "name": name, "salt": salt, "digest": _digest(salt, key), "created": _format_time(_now()),
            "expires": expires and _format_time(expires), "quota": quota, "rate": rate,
            "scopes": ",".join(scope for scope in Scope if scope in scopes),
        }  # fmt: skip
        with self._database.transaction(create=True) as connection:
            try:
                connection.execute(insert(KEYS), row)
            except IntegrityError:
                raise UsageError(
                    name, "there is a key of this name, or was one", "give each key its own name"
                ) from None
        return key

    def revoke(self, name_or_id: str) -> ApiKey:
        """Revoke a key permanently, by its name or ID. Raises UsageError if there is no such key."""
        with self._database.transaction() as connection:
            chosen = (KEYS.c.name == name_or_id) | (KEYS.c.id == name_or_id)
            moment = func.coalesce(KEYS.c.revoked, _format_time(_now()))
            connection.execute(update(KEYS).where(chosen).values(revoked=moment))
            revoked = [key for key in _select_keys(connection, _now().date()) if name_or_id in (key.name, key.id)]
        if not revoked:
            raise UsageError(name_or_id, "there is no such key", "see `interlinear keys list`")
        return revoked[0]

    def import_from(self, other: "KeyStore") -> list[ApiKey]:
        """Copy the keys of another store, with their limits and usage, and create this store if it does not exist.

        Keys whose ID this store already has are not changed. Returns the keys that were added. Raises UsageError if
        another key has the name of one.
        """
        with other._database.transaction(writes=False) as connection:
            rows = [dict(row._mapping) for row in connection.execute(select(KEYS))]
        with self._database.transaction(create=True) as connection:
            known_ids = set(connection.scalars(select(KEYS.c.id)))
            for row in (row for row in rows if row["id"] not in known_ids):
                try:
                    connection.execute(insert(KEYS), row)
                except IntegrityError:
                    raise UsageError(
                        row["name"],
                        "another key has this name",
                        "make a new one in its place, by `interlinear keys add`",
                    ) from None
            return [key for key in _select_keys(connection, _now().date()) if key.id not in known_ids]

    def list_keys(self) -> list[ApiKey]:
        """All keys, including expired and revoked ones, in order of creation."""
        with self._database.transaction(writes=False) as connection:
            return _select_keys(connection, _now().date())

    def sync(
        self, used: Mapping[tuple[date, str], int], today: date, taken: Mapping[str, RateUsage] | None = None
    ) -> SyncResult:
        """Add the usage of keys, by day and ID, and of rates, and read keys and rates, in one transaction. The largest
        MAX_SHARED_CALLERS of `taken` are written."""
        with self._database.transaction(writes=bool(used or taken)) as connection:
            if used:  # locked in the order of their IDs, so that two services cannot deadlock
                chosen = select(KEYS.c.id).where(KEYS.c.id.in_({key_id for _, key_id in used}))
                connection.execute(chosen.order_by(KEYS.c.id).with_for_update())
            for (day, key_id), units in sorted(used.items()):
                _add_usage(connection, key_id, units, day)
            rates = self._sync_rates(connection, taken or {})
            return SyncResult(_select_keys(connection, today), rates)

    def _sync_rates(self, connection: Connection, taken: Mapping[str, RateUsage]) -> dict[str, float]:
        now = self._database.clock(connection)
        largest = sorted(taken, key=lambda caller: taken[caller].seconds, reverse=True)[:MAX_SHARED_CALLERS]
        if largest:
            since, seconds = bindparam("since", type_=Double), bindparam("seconds", type_=Double)
            row = {"caller": bindparam("who", type_=Text), "full_at": since + seconds}
            later = case((RATES.c.full_at > since, RATES.c.full_at), else_=since) + seconds
            upsert = (sqlite.insert if self.path else postgresql.insert)(RATES).values(row)
            connection.execute(
                upsert.on_conflict_do_update(index_elements=["caller"], set_={"full_at": later}),
                [
                    {"who": caller, "since": now - taken[caller].age, "seconds": taken[caller].seconds}
                    for caller in sorted(largest)  # sorted, so that two services cannot deadlock
                ],
            )
        not_full = (
            select(RATES).where(RATES.c.full_at > now).order_by(RATES.c.full_at.desc()).limit(20 * MAX_SHARED_CALLERS)
        )
        return {caller: full_at - now for caller, full_at in connection.execute(not_full)}

    def delete_full_buckets(self) -> None:
        """Delete the buckets that are full again: a full bucket is the same as none."""
        with self._database.transaction() as connection:
            full = select(RATES.c.caller).where(RATES.c.full_at <= self._database.clock(connection))
            connection.execute(delete(RATES).where(RATES.c.caller.in_(full.with_for_update(skip_locked=True))))


def _add_usage(connection: Connection, key_id: str, units: int, day: date) -> None:
    """Add units (negative: refunds) to a day's usage, unless a later day has begun."""
    used = case((KEYS.c.day == day.isoformat(), KEYS.c.used), else_=0) + units
    connection.execute(
        update(KEYS)
        .where(KEYS.c.id == key_id, KEYS.c.day <= day.isoformat())
        .values(used=case((used > 0, used), else_=0), day=day.isoformat())
    )


def _select_keys(connection: Connection, today: date) -> list[ApiKey]:
    rows: Sequence[Any] = connection.execute(select(KEYS).order_by(KEYS.c.created, KEYS.c.id)).all()
    return [
        ApiKey(
            row.id, row.name, row.salt, row.digest, datetime.fromisoformat(row.created), _parse_time(row.expires),
            _parse_time(row.revoked), row.quota, row.rate, row.used if row.day == today.isoformat() else 0,
            frozenset(scope for scope in Scope if scope in row.scopes.split(",")),
        )
        for row in rows
    ]  # fmt: skip


def _digest(salt: bytes, key: str) -> bytes:
    return hashlib.sha256(salt + key.encode(errors="surrogatepass")).digest()  # JSON can encode a lone surrogate


def _now() -> datetime:
    return datetime.now(UTC)


def _format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _parse_time(moment: str | None) -> datetime | None:
    return datetime.fromisoformat(moment) if moment else None
