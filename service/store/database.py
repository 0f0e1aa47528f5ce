"""Transactions in an SQLite file, or in a PostgreSQL database that replicas share."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, extract, func, make_url, select
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from interlinear.errors import StoreError, UsageError
from interlinear.installation import how_to_install

LARGEST_INTEGER = 2**31 - 1  # in a column of PostgreSQL
STORE_TIMEOUT = 5  # seconds to wait for a connection, for another writer, and for a statement

IMMEDIATE = "interlinear_immediate"  # an option of a connection: whether its transaction takes the write lock

CreateSchema = Callable[[Connection, Path | None, bool], None]


class Database:
    """A file (by its path) or a database (`postgresql://USER@HOST/DATABASE`); SQLAlchemy connects on first use."""

    def __init__(
        self,
        uri: str | Path,
        content: str,
        create_schema: CreateSchema,
        remedy: str,
        error: type[StoreError] = StoreError,
    ) -> None:
        """`content`: the kind of records, for messages, such as "keys"; `remedy`: how to make a file that does not
        exist.

        `create_schema(connection, path, create)` creates the tables before the first transaction. Transactions raise
        an `error`. Raises UsageError for an invalid URL, or one of an unsupported database.
        """
        self.content, self.remedy, self.error = content, remedy, error
        self.path: Path | None = None
        self._create_schema = create_schema
        self._schema_ready = False
        if isinstance(uri, Path) or "://" not in uri:
            self.path = Path(uri)
        else:
            url = parse_url(uri, content)
            if url.get_backend_name() == "sqlite":
                self.path = Path(url.database or "")
        self.name = str(self.path) if self.path else url.render_as_string(hide_password=True)
        self._engine = _sqlite_engine(self.path) if self.path else _postgresql_engine(url, self.name)

    def close(self) -> None:
        """Close connections; the next transaction opens new ones."""
        self._engine.dispose()

    def clock(self, connection: Connection) -> float:
        """Seconds since 1970 by the clock that all users of the store share."""
        if self.path:
            return time.time()
        return float(connection.scalar(select(extract("epoch", func.clock_timestamp()))) or 0.0)

    @contextmanager
    def transaction(self, create: bool = False, writes: bool = True) -> Iterator[Connection]:
        """A connection inside one transaction. `create`: whether a file that does not exist is created; `writes`: one
        that only reads takes no lock that others wait for."""
        try:
            if self.path and create:
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            elif self.path and not self.path.is_file():
                raise self.error(self.name, "there is no such file", self.remedy)
            engine = self._engine.execution_options(**{IMMEDIATE: writes or not self._schema_ready})
            with engine.begin() as connection:
                if not self._schema_ready:
                    self._create_schema(connection, self.path, create)
                yield connection
            self._schema_ready = True
        except OSError as error:
            raise self.error(self.name, f"the {self.content} cannot be opened: {error.strerror}") from None
        except SQLAlchemyError as error:
            self._schema_ready = False
            reason = " ".join(str(getattr(error, "orig", None) or error).split())
            raise self.error(self.name, f"the {self.content} cannot be read or written: {reason}") from None


def parse_url(uri: str, content: str) -> URL:
    """Parse a database's URL. Raises UsageError, without the URL, which may have a password."""
    try:
        url = make_url(uri)
        if url.get_backend_name() in ("postgresql", "sqlite") and url.database:
            return url
    except (ArgumentError, ValueError):
        pass
    scheme = uri.partition("://")[0]
    raise UsageError(
        f"{scheme}://...", f"{content} cannot be kept there", "name a file, or postgresql://USER@HOST/DATABASE"
    )


def _sqlite_engine(path: Path) -> Engine:
    # SQLite must not create the file: a transaction creates it, with its mode.
    address = f"{path.absolute().as_uri()}?mode=rw"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(address, uri=True, timeout=STORE_TIMEOUT, isolation_level=None)

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        """Take the write lock when a transaction that writes begins, because SQLite waits for other writers only
        there."""
        connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options()[IMMEDIATE] else "BEGIN")

    return engine


def _postgresql_engine(url: URL, name: str) -> Engine:
    options = f"-c statement_timeout={1000 * STORE_TIMEOUT} -c lock_timeout={1000 * STORE_TIMEOUT}"
    try:
        return create_engine(
            url.set(drivername="postgresql+psycopg"),
            connect_args={
                "connect_timeout": STORE_TIMEOUT, "tcp_user_timeout": 1000 * STORE_TIMEOUT, "options": options,
            },
            pool_size=2, max_overflow=0, pool_timeout=STORE_TIMEOUT, pool_pre_ping=True, hide_parameters=True,
        )  # fmt: skip
    except ModuleNotFoundError:
        raise UsageError(name, "PostgreSQL's driver is not here", how_to_install("postgres")) from None
