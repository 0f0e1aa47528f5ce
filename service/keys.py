"""API keys: a file that the command writes and a running service reads, and the service's view of it.

A key is `il_ID_SECRET`: the ID finds its record, the secret is 256 random bits. The file has only a salted SHA-256 of
the whole key. A slow hash protects what people make up, by making each guess dear; nobody guesses 256 random bits at
any price, and it would make each request dear instead.

The file is SQLite, of mode 0600: the command and several services may use it together, and a crash leaves it whole.
"""

import hashlib
import hmac
import logging
import os
import re
import secrets
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from seq2seq.errors import CallError, KeyFileError

log = logging.getLogger("interlinear.service")

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")  # it stands in logs
KEY = re.compile(r"il_(?P<id>[0-9a-f]{12})_[A-Za-z0-9_-]{43}")
POLL_SECONDS = 0.5
BUSY_SECONDS = 5  # how long a writer waits for another
TABLE = """CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, salt BLOB NOT NULL, digest BLOB NOT NULL, created TEXT NOT NULL,
    expires TEXT, revoked TEXT, quota INTEGER, rate REAL, day TEXT NOT NULL DEFAULT '', used INTEGER NOT NULL DEFAULT 0
)"""


@dataclass(frozen=True)
class Key:
    """What is kept of a key."""

    id: str
    name: str
    salt: bytes
    digest: bytes
    created: datetime
    expires: datetime | None
    revoked: datetime | None
    quota: int | None  # requests a day, by UTC
    rate: float | None  # requests a second; else the service's own limit
    used: int  # requests on the day it was read

    def is_made_of(self, key: str) -> bool:
        """Whether this is that key's record, in a time that does not depend on the answer."""
        return hmac.compare_digest(_digest(self.salt, key), self.digest)

    def state(self, now: datetime) -> str:
        """`valid`, `expired` or `revoked`."""
        if self.revoked:
            return "revoked"
        return "expired" if self.expires and self.expires <= now else "valid"


class KeyFile:
    """The file. Every method raises KeyFileError when it cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(
        self, name: str, quota: int | None = None, rate: float | None = None, expires: datetime | None = None
    ) -> str:
        """Make a key, and the file where there is none. The key itself is returned, and kept nowhere.

        Raises CallError: a name that cannot be one, or that another key has or had.
        """
        if not NAME.fullmatch(name):
            raise CallError(repr(name), "cannot be a key's name", "use up to 64 letters, digits, '.', '-' and '_'")
        key_id, salt = secrets.token_hex(6), secrets.token_bytes(16)
        key = f"il_{key_id}_{secrets.token_urlsafe(32)}"
        row = (key_id, name, salt, _digest(salt, key), _written(_now()), expires and _written(expires), quota, rate)
        with self._open(create=True) as database:
            try:
                database.execute(
                    "INSERT INTO keys (id, name, salt, digest, created, expires, quota, rate) VALUES (?,?,?,?,?,?,?,?)",
                    row,
                )
            except sqlite3.IntegrityError:
                raise CallError(name, "there is a key of this name, or was one", "give each key its own name") from None
        return key

    def revoke(self, which: str) -> Key:
        """Revoke a key by its name or ID; once is for good. Raises CallError: no such key."""
        with self._open() as database:
            database.execute(
                "UPDATE keys SET revoked = coalesce(revoked, ?) WHERE name = ? OR id = ?",
                (_written(_now()), which, which),
            )
            found = [key for key in _keys(database, _now().date()) if which in (key.name, key.id)]
        if not found:
            raise CallError(which, "there is no such key", "see `interlinear keys list`")
        return found[0]

    def list_keys(self) -> list[Key]:
        """All keys, also those that are no longer valid, in the order in which they were made."""
        with self._open() as database:
            return _keys(database, _now().date())

    def count(self, used: Mapping[tuple[date, str], int], today: date) -> list[Key]:
        """Add what keys were used for, by day and ID, in one transaction; all keys after that."""
        with self._open() as database:
            for (day, key_id), requests in used.items():
                database.execute(
                    "UPDATE keys SET used = max(0, iif(day = :day, used, 0) + :n), day = :day"
                    " WHERE id = :id AND day <= :day",
                    {"day": day.isoformat(), "n": requests, "id": key_id},
                )
            return _keys(database, today)

    @contextmanager
    def _open(self, create: bool = False) -> Iterator[sqlite3.Connection]:
        """A connection with one transaction around what is done with it."""
        try:
            if create:
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            elif not self.path.is_file():
                raise KeyFileError(str(self.path), "there is no such file", "make it by `interlinear keys add NAME`")
            uri = f"{self.path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)) as database, database:
                if create:
                    database.execute(TABLE)
                yield database
        except OSError as error:
            raise KeyFileError(str(self.path), f"the keys cannot be opened: {error.strerror}") from None
        except sqlite3.Error as error:
            raise KeyFileError(str(self.path), f"the keys cannot be read or written: {error}") from None


def _keys(database: sqlite3.Connection, today: date) -> list[Key]:
    rows = database.execute(
        "SELECT id, name, salt, digest, created, expires, revoked, quota, rate, iif(day = ?, used, 0)"
        " FROM keys ORDER BY created, id",
        (today.isoformat(),),
    )
    return [
        Key(key, name, salt, digest, datetime.fromisoformat(made), _read(expires), _read(revoked), quota, rate, used)
        for key, name, salt, digest, made, expires, revoked, quota, rate, used in rows
    ]


def _digest(salt: bytes, key: str) -> bytes:
    return hashlib.sha256(salt + key.encode()).digest()


def _now() -> datetime:
    return datetime.now(UTC)


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _read(moment: str | None) -> datetime | None:
    return datetime.fromisoformat(moment) if moment else None


class KeyRing:
    """The keys as a running service knows them: read and counted in a thread of its own, looked up without waiting.

    What the command changes is known within POLL_SECONDS. When the file cannot be used, the keys last read stay as they
    are, the log says so once, and what was counted is added when it can be.
    """

    def __init__(self, file: KeyFile) -> None:
        self.file = file
        self._day = _now().date()
        self._keys = {key.id: key for key in file.list_keys()}
        self._used: Counter[tuple[date, str]] = Counter()  # since the file was last written
        self._written: Counter[tuple[date, str]] = Counter()  # being written
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="keys", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End, with everything counted."""
        self._ending.set()
        self._thread.join(2 * BUSY_SECONDS)

    def find(self, key: str) -> Key | None:
        """The record of a key, valid or not. One that does not exist takes as long as one that does."""
        match = KEY.fullmatch(key)
        record = self._keys.get(match["id"], NOBODY) if match else NOBODY
        return record if record.is_made_of(key) else None

    def count(self, key: Key) -> bool:
        """Count a request, unless the key's quota is used up: then False."""
        with self._lock:
            used = self._used_today(key)
            if key.quota is not None and used >= key.quota:
                return False
            self._used[_now().date(), key.id] += 1
            return True

    def give_back(self, key: Key) -> None:
        """A request that was counted was not done after all."""
        with self._lock:
            self._used[_now().date(), key.id] -= 1

    def left(self, key: Key) -> int:
        """Requests that the key still has today; it must have a quota."""
        assert key.quota is not None
        with self._lock:
            return max(0, key.quota - self._used_today(key))

    def _used_today(self, key: Key) -> int:
        today = _now().date()
        known = self._keys.get(key.id, key).used if today == self._day else 0
        return known + self._used[today, key.id] + self._written[today, key.id]

    def _run(self) -> None:
        while not self._ending.wait(POLL_SECONDS):
            self._settle()
        self._settle()

    def _settle(self) -> None:
        """Write what was counted and read the keys."""
        with self._lock:
            self._written, self._used = self._used, Counter()
        today = _now().date()
        try:
            keys = self.file.count({which: n for which, n in self._written.items() if n}, today)
        except KeyFileError as error:
            with self._lock:
                self._used.update(self._written)
                self._written = Counter()
            if not self._failing:
                log.error("%s Keys stay as they were last read.", error)
            self._failing = True
            return
        with self._lock:
            self._keys, self._day, self._written = {key.id: key for key in keys}, today, Counter()
        self._failing = False


NOBODY = Key("", "", b"", bytes(32), datetime.min.replace(tzinfo=UTC), None, None, None, None, 0)
