"""Database tables of API keys and callers' rates."""

from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    func,
    inspect,
    literal_column,
    select,
)

from seq2seq.errors import KeyFileError

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
