"""The store of suggestions: corrected translations that callers sent, with the name of their key."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    delete,
    func,
    insert,
    inspect,
    literal_column,
    select,
)

from interlinear.errors import StoreError
from service.store.database import LARGEST_INTEGER, Database

metadata = MetaData()
SUGGESTIONS = Table(
    "suggestions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("created", Text, nullable=False),
    Column("key", Text, nullable=False, index=True),  # "" without a key
    Column("source", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("translation", Text, nullable=False),
    sqlite_autoincrement=True,  # an id is not used again after a deletion
)
# One of PostgreSQL's advisory locks; the keys' schema has the number below.
WRITE_LOCK: ColumnElement[int] = literal_column("7236837542")


class SuggestionsFullError(Exception):
    """A limit of the store is reached; `of_key`: whether it is one key's limit."""

    def __init__(self, limit: int, of_key: bool) -> None:
        super().__init__(limit, of_key)
        self.limit = limit
        self.of_key = of_key


@dataclass(frozen=True)
class Suggestion:
    """A text and its suggested translation; `key`: the name of the caller's key, empty without one."""

    text: str
    translation: str
    source: str
    target: str
    key: str = ""

    @property
    def digest(self) -> bytes:
        """SHA-256 of the content, to detect repetitions."""
        parts = (self.text, self.translation, self.source, self.target, self.key)
        return hashlib.sha256("\0".join(parts).encode()).digest()


@dataclass(frozen=True)
class StoredSuggestion:
    """A suggestion as it is stored."""

    id: int
    created: datetime
    suggestion: Suggestion


class SuggestionStore:
    """Suggestions in the file or database of the API keys. Every method raises StoreError if it cannot be read or
    written; the constructor raises UsageError for an invalid URL."""

    def __init__(self, uri: str | Path) -> None:
        remedy = "name the store of a service that keeps suggestions, with --keys"
        self._database = Database(uri, "suggestions", _create_schema, remedy)
        self.name = self._database.name

    def close(self) -> None:
        """Close connections; the store opens new ones if it is used again."""
        self._database.close()

    def create(self) -> None:
        """Create the table, and the file if it does not exist."""
        with self._database.transaction(create=True):
            pass

    def add(self, suggestion: Suggestion, per_key: int, total: int) -> bool:
        """Store a suggestion; False if its key has sent the same before. Raises SuggestionsFullError if there are
        `per_key` of its key, or `total` altogether."""
        with self._database.transaction(create=True) as connection:
            if self._database.path is None:  # counting and inserting must not interleave; SQLite has one writer
                connection.execute(select(func.pg_advisory_xact_lock(WRITE_LOCK)))
            same = select(SUGGESTIONS.c.id).where(SUGGESTIONS.c.digest == suggestion.digest)
            if connection.scalar(same) is not None:
                return False
            count = select(func.count()).select_from(SUGGESTIONS)
            if (connection.scalar(count.where(SUGGESTIONS.c.key == suggestion.key)) or 0) >= per_key:
                raise SuggestionsFullError(per_key, of_key=True)
            if (connection.scalar(count) or 0) >= total:
                raise SuggestionsFullError(total, of_key=False)
            row = {
                "digest": suggestion.digest,
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "key": suggestion.key,
                "source": suggestion.source,
                "target": suggestion.target,
                "text": suggestion.text,
                "translation": suggestion.translation,
            }
            connection.execute(insert(SUGGESTIONS), row)
            return True

    def list(
        self, key: str | None = None, source: str | None = None, target: str | None = None
    ) -> list[StoredSuggestion]:
        """The suggestions in the order of their arrival; only of a key (by name), of a source or a target language if
        given."""
        wanted = {SUGGESTIONS.c.key: key, SUGGESTIONS.c.source: source, SUGGESTIONS.c.target: target}
        chosen = [column == value for column, value in wanted.items() if value is not None]
        with self._database.transaction(writes=False) as connection:
            rows = connection.execute(select(SUGGESTIONS).where(*chosen).order_by(SUGGESTIONS.c.id)).all()
        return [
            StoredSuggestion(
                row.id,
                datetime.fromisoformat(row.created),
                Suggestion(row.text, row.translation, row.source, row.target, row.key),
            )
            for row in rows
        ]

    def delete(self, ids: Iterable[int]) -> int:
        """Delete suggestions by their ids; returns how many there were."""
        with self._database.transaction() as connection:
            return sum(
                connection.execute(delete(SUGGESTIONS).where(SUGGESTIONS.c.id == suggestion_id)).rowcount
                for suggestion_id in set(ids)
                if 0 < suggestion_id <= LARGEST_INTEGER  # no other can be asked for
            )


def _create_schema(connection: Connection, path: Path | None, create: bool) -> None:
    """Create the table, beside the keys' tables. Raises StoreError for a file without it, unless `create`."""
    if path is None:  # services that start at the same time create it once
        connection.execute(select(func.pg_advisory_xact_lock(WRITE_LOCK)))
    if path and not create and SUGGESTIONS.name not in inspect(connection).get_table_names():
        raise StoreError(str(path), "there are no suggestions in it", "start the service with --set suggestions=true")
    metadata.create_all(connection)
