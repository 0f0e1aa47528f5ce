"""In-memory copy of the API keys: key lookup, reserved quota units and usage counts."""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime

from interlinear.errors import KeyFileError
from service.auth.key_store import KEY_PATTERN, ApiKey, KeyStore, RateUsage
from service.auth.rate_limits import RateLimiter
from service.store.database import STORE_TIMEOUT

log = logging.getLogger("interlinear.service")

SYNC_SECONDS = 0.5
DELETE_EVERY = 60  # syncs between two deletions of full buckets
RESERVE_TIMEOUT = 2  # seconds that a request waits for its key's quota; then the last synced usage decides


class KeyCache:
    """The keys of a store, synchronized in a background thread and looked up without waiting.

    Every SYNC_SECONDS the thread synchronizes with the store: it writes the use of keys and the units that callers
    took, and reads the keys and the usage by other services. So a key that is added or revoked takes effect
    everywhere within a second, and usage is written once, in one transaction.

    A quota is never exceeded, however many services share the store: a request is charged to units that were reserved
    in the store, a few in advance while much is left, and one by one towards the end. Units that a service did not
    use are returned at the next sync, and what the store refused is asked for again after that. While the store is
    unavailable, or takes longer than RESERVE_TIMEOUT, keys stay as they were last read, requests are checked against
    that and their usage is added later; the log reports a failure once.
    """

    def __init__(self, store: KeyStore, limiters: Mapping[str, RateLimiter] | None = None) -> None:
        """`limiters`: the rate limiters shared with other services of the store, by kind of caller."""
        self.store = store
        self.limiters = limiters or {}
        self._day = _today()
        self._keys = {key.id: key for key in store.list_keys()}
        self._pending: Counter[tuple[date, str]] = Counter()  # usage to add at the next sync
        self._in_sync: Counter[tuple[date, str]] = Counter()  # usage being added
        self._reserved: Counter[tuple[date, str]] = Counter()  # quota units reserved and not used
        self._refused: dict[tuple[date, str], int] = {}  # fewest units that the store refused since the last sync
        self._recent: Counter[str] = Counter()  # quota units used since the last sync
        self._lock = threading.Lock()
        # Held by threads, never on the event loop, from reading what the store does not know yet until what it answers
        # is known here: else units that a sync returns could be granted twice.
        self._exchanging = threading.Lock()
        self._ending = threading.Event()
        self._failing = False
        self._syncs = 0
        self._thread = threading.Thread(target=self._run, name="keys", daemon=True)
        # One thread, so that a reservation sees the units of the one before.
        self._reserve_executor = ThreadPoolExecutor(1, "quotas")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, if it was started, after writing all usage and returning all reserved units."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(2 * STORE_TIMEOUT)
        self._reserve_executor.shutdown(wait=False, cancel_futures=True)
        self.store.close()

    def find(self, key: str) -> ApiKey | None:
        """The record of a key, valid or not. A lookup takes equally long for a key that does not exist."""
        match = KEY_PATTERN.fullmatch(key)
        record = self._keys.get(match["id"], DUMMY_KEY) if match else DUMMY_KEY
        return record if record.matches(key) else None

    async def count(self, key: ApiKey, cost: int = 1) -> bool:
        """Count a request of `cost` units; False if the key's quota has fewer left.

        Waits for the store only if the reserved units do not suffice.
        """
        if key.quota is None:
            with self._lock:
                self._pending[_today(), key.id] += cost
            return True
        loop = asyncio.get_running_loop()
        while not self._spend(key, cost):
            if self._failing:
                return self._spend_unreserved(key, cost)
            try:
                reserving = loop.run_in_executor(self._reserve_executor, self._reserve, key, cost)
                if not await asyncio.wait_for(reserving, RESERVE_TIMEOUT):
                    return False
            except (TimeoutError, KeyFileError):
                return self._spend_unreserved(key, cost)
        return True

    def refund(self, key: ApiKey, cost: int = 1) -> None:
        """Undo the count of a request that was not done."""
        usage_key = (_today(), key.id)
        with self._lock:
            self._pending[usage_key] -= cost
            self._refused.pop(usage_key, None)

    def left(self, key: ApiKey) -> int:
        """Units that the key has left today, without those that other services reserved. The key must have a quota."""
        assert key.quota is not None
        with self._lock:
            return max(0, self._left(key))

    def _left(self, key: ApiKey) -> int:
        today = _today()
        synced = self._keys.get(key.id, key).used if today == self._day else 0
        pending = self._pending[today, key.id] + self._in_sync[today, key.id]
        return (key.quota or 0) - synced - pending + self._reserved[today, key.id]

    def _spend(self, key: ApiKey, cost: int) -> bool:
        """Use reserved units. Units reserved on an earlier day do not count."""
        usage_key = (_today(), key.id)
        with self._lock:
            if self._reserved[usage_key] < cost:
                return False
            self._reserved[usage_key] -= cost
            self._recent[key.id] += cost
            return True

    def _spend_unreserved(self, key: ApiKey, cost: int) -> bool:
        with self._lock:
            if self._left(key) < cost:
                return False
            self._pending[_today(), key.id] += cost
            return True

    def _reserve(self, key: ApiKey, cost: int) -> bool:
        """Reserve units for a request, in a thread. False if the quota has too few left."""
        today = _today()
        usage_key = (today, key.id)
        with self._exchanging:
            with self._lock:
                missing = cost - self._reserved[usage_key]
                pending = self._pending[usage_key]
                refused = self._refused.get(usage_key)
            if missing <= 0:
                return True
            if refused is not None and missing >= refused:
                # Or else the requests of an exhausted key would keep the store from those who write to it.
                return False
            granted, record = self.store.reserve(key.id, missing, pending, today)
            with self._lock:
                self._reserved[usage_key] += granted
                if not granted:
                    self._refused[usage_key] = missing
                if record and today == self._day:
                    self._keys[key.id] = record
            return granted > 0

    def _run(self) -> None:
        while not self._ending.wait(SYNC_SECONDS):
            self.sync()
        self.sync()

    def sync(self) -> None:
        """Write the usage of keys and rates, read the keys, and reserve the units expected until the next sync."""
        try:
            with self._exchanging:
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
        wanted = self._begin_sync(today)
        drained = {kind: limiter.drain(started) for kind, limiter in self.limiters.items()}
        taken = {
            f"{kind} {caller}": RateUsage(seconds, age)
            for kind, callers in drained.items()
            for caller, (seconds, age) in callers.items()
        }
        try:
            synced = self.store.sync(
                {usage_key: units for usage_key, units in self._in_sync.items() if units}, today, wanted, taken
            )
        except KeyFileError:
            with self._lock:
                self._pending.update(self._in_sync)
                self._in_sync = Counter()
            raise
        now = time.monotonic()
        with self._lock:
            self._keys, self._day, self._in_sync = {key.id: key for key in synced.keys}, today, Counter()
            self._refused.clear()
            self._reserved.update({(today, key_id): units for key_id, units in synced.granted.items()})
        for kind, limiter in self.limiters.items():
            prefix = f"{kind} "
            rates = {
                caller.removeprefix(prefix): full_in
                for caller, full_in in synced.rates.items()
                if caller.startswith(prefix)
            }
            limiter.merge(rates, now)

    def _begin_sync(self, today: date) -> dict[str, int]:
        """Take the usage that is to be written, with the units to return. Returns the units to reserve, by key."""
        wanted: dict[str, int] = {}
        with self._lock:
            self._in_sync, self._pending = self._pending, Counter()
            for (day, key_id), reserved in list(self._reserved.items()):
                target = 0 if self._ending.is_set() or day != today else 2 * self._recent[key_id]
                if reserved > target:
                    self._in_sync[day, key_id] -= reserved - target
                    self._reserved[day, key_id] = target
                elif target > reserved:
                    wanted[key_id] = target - reserved
                if not self._reserved[day, key_id] and not target:
                    del self._reserved[day, key_id]
            self._recent.clear()
        return wanted

    def _delete_full_buckets(self) -> None:
        try:
            self.store.delete_full_buckets()
        except KeyFileError as error:
            log.warning("%s Buckets that are full stay there until the next deletion.", error)


def _today() -> date:
    return datetime.now(UTC).date()


DUMMY_KEY = ApiKey("", "", b"", bytes(32), datetime.min.replace(tzinfo=UTC), None, None, None, None, 0, frozenset())
