"""Address and reachability of a tracking store, and the name of its user."""

import fcntl
import getpass
import os
import re
import shutil
import socket
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import requests

from interlinear.errors import RegistryError, RegistryUnavailableError, UsageError
from interlinear.registry.relocation import ARTIFACTS

DEFAULT_TRACKING = "sqlite:///mlflow.db"
LOCKED = "another process has locked it for writing"
SQLITE_TIMEOUT = 5.0  # seconds that a lock of a SQLite file is waited for
_TIMEOUT = 5.0  # seconds until a store that does not answer counts as unreachable
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}


def tracking_uri(tracking: str | None) -> str:
    """A store's address: `tracking`, else MLFLOW_TRACKING_URI, else `./mlflow.db`.

    The path of a SQLite file is made absolute: MLflow keeps one engine for each address in a process, and the cache one
    record, so that the same relative path in another working folder would mean the first folder's file. In an address a
    path is percent-encoded, so the working folder is: its name may have a `%`, `?` or `#`.
    """
    uri = tracking or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_TRACKING
    scheme, _, path = uri.partition(":///")
    if scheme.partition("+")[0] != "sqlite" or not path or path.startswith((":memory:", "/")):
        return uri
    return f"{scheme}:///{quote(str(Path.cwd()))}/{path}"


def user() -> str:
    """The name of the current user: MLflow's user name, else the operating system's."""
    with suppress(OSError, KeyError):  # a container's user need not have a name
        return os.environ.get("MLFLOW_TRACKING_USERNAME") or getpass.getuser()
    return f"user {os.getuid()}"


def mask_password(uri: str) -> str:
    return re.sub(r"(?<=://)([^:@/]*):[^@/]*@", r"\1:***@", uri)


def sqlite_file(uri: str) -> Path:
    """The file of a SQLite address."""
    return Path(unquote(re.sub(r"^sqlite(\+\w+)?:///", "", uri).partition("?")[0]))


def check_reachable(uri: str, create: bool) -> Path | None:
    """Check, within seconds, that a store answers; returns the folder for artifacts where the store is a database.

    `create`: create a SQLite file that does not exist. Raises UsageError for an address of no known kind, RegistryError
    where the store does not answer.
    """
    scheme, host, port = _server(uri)
    if scheme == "sqlite":
        database = sqlite_file(uri)
        _check_sqlite(database, uri, create)
        return database.resolve().parent / ARTIFACTS
    if scheme not in ("http", "https", *_PORTS) or not host:
        raise UsageError(
            mask_password(uri),
            "is not a tracking store's address",
            "sqlite:///mlflow.db, http://host:5000, postgresql://...",
        )
    try:
        if scheme in _PORTS:
            socket.create_connection((host, port or _PORTS[scheme]), timeout=_TIMEOUT).close()
            _check_database(uri)
            return Path(ARTIFACTS).resolve()
        with requests.get(f"{uri.rstrip('/')}/health", timeout=_TIMEOUT, stream=True):
            pass  # any answer will do; MLflow interprets it
    except (OSError, requests.RequestException) as error:
        if isinstance(error, requests.exceptions.SSLError):
            return None  # it answers; MLflow's own settings decide about certificates
        where = f"{host}:{port}" if port else host
        raise RegistryError(
            where, "the tracking store does not answer", "start it or name another: --tracking"
        ) from error
    return None


def _server(uri: str) -> tuple[str, str | None, int | None]:
    """The scheme without a driver, the host and the port of an address; no host where it cannot be parsed."""
    try:
        parts = urlsplit(uri)
        return parts.scheme.partition("+")[0], parts.hostname, parts.port
    except ValueError:
        return "", None, None


def _check_database(uri: str) -> None:
    # MLflow would retry for minutes where a database refuses the connection.
    from sqlalchemy import create_engine
    from sqlalchemy.exc import SQLAlchemyError

    try:
        create_engine(uri).connect().close()
    except ModuleNotFoundError as error:
        raise RegistryError(
            mask_password(uri),
            f"the Python package {error.name}, which the connection needs, is not installed",
            "install it; for PostgreSQL psycopg[binary], with an address that begins with postgresql+psycopg://",
        ) from None
    except SQLAlchemyError as error:
        problem = " ".join(str(getattr(error, "orig", None) or error).split())
        raise RegistryError(mask_password(uri), problem[:300], "check its user, password and database") from None


def _check_sqlite(database: Path, uri: str, create: bool) -> None:
    # MLflow would retry for minutes where it cannot open the file.
    if not database.exists():
        if not create:
            raise RegistryError(uri, "there is no such store", "name the store by --tracking, or train first")
        if not database.resolve().parent.is_dir():
            raise RegistryError(uri, f"there is no folder {database.resolve().parent}", "make it or name another")
    try:
        address = f"{database.resolve().as_uri()}?mode={'rwc' if create else 'ro'}"
        with closing(sqlite3.connect(address, SQLITE_TIMEOUT, uri=True)) as file:
            file.execute("select count(*) from sqlite_master")
        if not database.stat().st_size:
            _create_sqlite(database)
    except (sqlite3.Error, OSError) as error:
        if "locked" in str(error):
            raise RegistryUnavailableError(uri, LOCKED, "wait until that has ended, and try again") from error
        raise RegistryError(uri, f"cannot be opened: {error}", "name an MLflow store by --tracking") from error


def _create_sqlite(database: Path) -> None:
    """Have MLflow create its tables in a temporary file, renamed when they are complete. It creates them one by one,
    for seconds, and can neither use nor repair a partial set left by a killed process."""
    from mlflow.store.tracking import DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    # a folder, since SQLite has files of its own that a kill may leave behind
    folder = database.with_name(f".{database.name}.draft")
    with database.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the system releases it when this process ends, also after a crash
        if database.stat().st_size:  # made by another process in the meantime
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        temporary = f"sqlite:///{quote(str(folder / database.name))}"
        SqlAlchemyStore(temporary, DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH).engine.dispose()
        (folder / database.name).replace(database)
        folder.rmdir()
