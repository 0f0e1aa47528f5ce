"""In-memory copy of the API keys: key lookup, and usage counted against quotas."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime

from interlinear.errors import KeyFileError
from service.auth.key_store import KEY_PATTERN, ApiKey, KeyStore, RateUsage
from service.auth.rate_limits import RateLimiter
from service.store.database import STORE_TIMEOUT

log = logging.getLogger("interlinear.service")

SYNC_SECONDS = 0.5
DELETE_EVERY = 60  # syncs between two deletions of full buckets


class KeyCache:
    """The keys of a store, synchronized in a background thread; looked up and counted without waiting.

    Every SYNC_SECONDS the thread adds the units that callers took here to the store, in one transaction, and reads the
    keys and the usage by all services. So a key that is added or revoked takes effect everywhere within a second.

    One service keeps to a quota exactly. Services that share a store count by themselves between two syncs: together
    they exceed a quota by no more than the others accepted since their last sync. While the store is unavailable, keys
    stay unchanged last read, and usage is added later; the log reports a failure once.
    """

    def __init__(self, store: KeyStore, limiters: Mapping[str, RateLimiter] | None = None) -> None:
        """`limiters`: the rate limiters shared with other services of the store, by kind of caller."""
        self.store = store
        self.limiters = limiters or {}
        self._day = _today()
        self._keys = {key.id: key for key in store.list_keys()}
        self._pending: Counter[tuple[date, str]] = Counter()  # usage to add at the next sync
        self._in_sync: Counter[tuple[date, str]] = Counter()  # usage being added
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._failing = False
        self._syncs = 0
        self._thread = threading.Thread(target=self._run, name="keys", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, if it was started, after writing all usage."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(2 * STORE_TIMEOUT)
        self.store.close()

    def find(self, key: str) -> ApiKey | None:
        """The record of a key, valid or not. A lookup takes equally long for a key that does not exist."""
        match = KEY_PATTERN.fullmatch(key)
        record = self._keys.get(match["id"], DUMMY_KEY) if match else DUMMY_KEY
        return record if record.matches(key) else None

    def count(self, key: ApiKey, cost: int = 1) -> bool:
        """Count a request of `cost` units; False if the key's quota has fewer left."""
        with self._lock:
            if key.quota is not None and self._left(key) < cost:
                return False
            self._pending[_today(), key.id] += cost
        return True

    def refund(self, key: ApiKey, cost: int = 1) -> None:
        """Undo the count of a request that was not done."""
        with self._lock:
            self._pending[_today(), key.id] -= cost

    def left(self, key: ApiKey) -> int:
        """Units that the key has left today, as far as this service knows. The key must have a quota."""
        with self._lock:
            return max(0, self._left(key))

    def _left(self, key: ApiKey) -> int:
        assert key.quota is not None
        today = _today()
        synced = self._keys.get(key.id, key).used if today == self._day else 0
        return key.quota - synced - self._pending[today, key.id] - self._in_sync[today, key.id]

    def _run(self) -> None:
        while not self._ending.wait(SYNC_SECONDS):
            self.sync()
        self.sync()

    def sync(self) -> None:
        """Write the usage of keys and rates, and read the keys and the usage by other services."""
        try:
            self._exchange()
        except KeyFileError as error:
            if not self._failing:
                log.error("%s Keys stay as they were last read.", error)
            self._failing = True
            return
        self._failing = False
        if self._syncs % DELETE_EVERY == 0 and self.limiters:
            self._delete_full_buckets()
        self._syncs += 1

    def _exchange(self) -> None:
        """Write the usage, and read the state of the store. Raises KeyFileError; the next one writes the usage then."""
        today, started = _today(), time.monotonic()
        with self._lock:
            self._in_sync, self._pending = self._pending, Counter()
        taken = {
            f"{kind} {caller}": RateUsage(seconds, age)
            for kind, limiter in self.limiters.items()
            for caller, (seconds, age) in limiter.drain(started).items()
        }
        try:
            synced = self.store.sync({each: units for each, units in self._in_sync.items() if units}, today, taken)
        except KeyFileError:
            with self._lock:
                self._pending.update(self._in_sync)
                self._in_sync = Counter()
            raise
        now = time.monotonic()
        with self._lock:
            self._keys, self._day, self._in_sync = {key.id: key for key in synced.keys}, today, Counter()
        for kind, limiter in self.limiters.items():
            prefix = f"{kind} "
            limiter.merge({c.removeprefix(prefix): s for c, s in synced.rates.items() if c.startswith(prefix)}, now)

    def _delete_full_buckets(self) -> None:
        try:
            self.store.delete_full_buckets()
        except KeyFileError as error:
            log.warning("%s Buckets that are full stay there until the next deletion.", error)


def _today() -> date:
    return datetime.now(UTC).date()


DUMMY_KEY = ApiKey("", "", b"", bytes(32), datetime.min.replace(tzinfo=UTC), None, None, None, None, 0, frozenset())
