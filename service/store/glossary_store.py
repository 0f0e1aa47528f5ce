"""The store of glossaries that callers keep in the service, each with the name of its key."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Integer,
    MetaData,
    Row,
    Table,
    Text,
    and_,
    delete,
    false,
    func,
    insert,
    literal_column,
    select,
)

from interlinear.generation.terms import GlossaryEntry
from interlinear.generation.terms.entries import write_entries
from service.store.database import Database

metadata = MetaData()
GLOSSARIES = Table(
    "glossaries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("key", Text, nullable=False, index=True),  # "" without a key
    Column("name", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("entry_count", Integer, nullable=False),
    Column("entries", Text, nullable=False),  # tab-separated
)
# One of PostgreSQL's advisory locks; the keys' and suggestions' tables have lower ones.
WRITE_LOCK: ColumnElement[int] = literal_column("7236837543")


class GlossariesFullError(Exception):
    """A key has as many glossaries as it may have."""


@dataclass(frozen=True)
class Glossary:
    """A glossary without its entries. key: the name of its caller's key, empty without one."""

    id: str
    key: str
    name: str
    source: str
    target: str
    created: datetime
    entry_count: int


class GlossaryStore:
    """Glossaries in the file or database of the API keys. Every method raises StoreError if it cannot be read or
    written; the constructor raises UsageError for an invalid URL."""

    def __init__(self, uri: str | Path) -> None:
        self._database = Database(uri, "glossaries", _create_schema, "create it with `interlinear keys add`")

    def close(self) -> None:
        """Close connections; the store opens new ones if it is used again."""
        self._database.close()

    def create(self) -> None:
        """Create the table, and the file if it does not exist."""
        with self._database.transaction(create=True):
            pass

    def add(
        self, key: str, name: str, source: str, target: str, entries: Sequence[GlossaryEntry], per_key: int
    ) -> Glossary:
        """Keep a new glossary. Raises GlossariesFullError if the key has `per_key` already."""
        created = datetime.now(UTC).replace(microsecond=0)
        glossary = Glossary(str(uuid.uuid4()), key, name, source, target, created, len(entries))
        with self._database.transaction(create=True) as connection:
            if self._database.path is None:  # counting and inserting must not interleave; SQLite has one writer
                connection.execute(select(func.pg_advisory_xact_lock(WRITE_LOCK)))
            count = select(func.count()).select_from(GLOSSARIES).where(GLOSSARIES.c.key == key)
            if (connection.scalar(count) or 0) >= per_key:
                raise GlossariesFullError
            row = {**vars(glossary), "created": created.isoformat(), "entries": write_entries(entries)}
            connection.execute(insert(GLOSSARIES), row)
        return glossary

    def list(self, key: str) -> list[Glossary]:
        """The glossaries of a key, the oldest first."""
        return [*self._select(GLOSSARIES.c.key == key)]

    def find(self, key: str, glossary_id: str) -> Glossary | None:
        """A key's glossary; None if the key has no such glossary."""
        return next(iter(self._select(_is_glossary(key, glossary_id))), None)

    def read_entries(self, key: str, glossary_id: str) -> str | None:
        """The entries of a key's glossary as `write_entries` writes them; None if the key has no such glossary."""
        chosen = select(GLOSSARIES.c.entries).where(_is_glossary(key, glossary_id))
        with self._database.transaction(create=True, writes=False) as connection:
            return connection.scalar(chosen)

    def _select(self, condition: ColumnElement[bool]) -> Sequence[Glossary]:
        columns = [column for column in GLOSSARIES.c if column.name != "entries"]
        chosen = select(*columns).where(condition).order_by(GLOSSARIES.c.created, GLOSSARIES.c.id)
        with self._database.transaction(create=True, writes=False) as connection:
            return [_read(row) for row in connection.execute(chosen)]

    def delete(self, key: str, glossary_id: str) -> bool:
        """Delete a key's glossary; False if it has no such glossary."""
        chosen = delete(GLOSSARIES).where(_is_glossary(key, glossary_id))
        with self._database.transaction(create=True) as connection:
            return connection.execute(chosen).rowcount > 0


def _is_glossary(key: str, glossary_id: str) -> ColumnElement[bool]:
    """The condition on a row to be this glossary of a key."""
    if "\0" in glossary_id:  # PostgreSQL takes no such text
        return false()
    return and_(GLOSSARIES.c.key == key, GLOSSARIES.c.id == glossary_id)


def _read(row: Row) -> Glossary:  # type: ignore[type-arg]
    return Glossary(
        row.id, row.key, row.name, row.source, row.target, datetime.fromisoformat(row.created), row.entry_count
    )


def _create_schema(connection: Connection, path: Path | None, create: bool) -> None:
    """Create the table, beside the keys' tables."""
    if path is None:  # services that start at the same time create it once
        connection.execute(select(func.pg_advisory_xact_lock(WRITE_LOCK)))
    metadata.create_all(connection)
