"""The keys as a running service knows them: looked up in memory, their quotas reserved ahead, their use counted."""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime

from seq2seq.errors import KeyFileError
from service.auth.key_store import KEY_PATTERN, STORE_TIMEOUT, ApiKey, KeyStore, RateUsage
from service.auth.rate_limits import RateLimiter

log = logging.getLogger("interlinear.service")

SYNC_SECONDS = 0.5
DELETE_EVERY = 60  # exchanges, between two looks for buckets that are full again
RESERVE_TIMEOUT = 2  # that a request waits for its key's quota before it is counted by what was last known


class KeyCache:
    """The keys of a store, read and counted in a thread of its own, looked up without waiting.

    Every POLL_SECONDS the thread exchanges with the store: what keys were used for and callers took goes there, keys
    and the other services' share come back. So a key that is added or revoked is known everywhere within a second, and
    what is counted arrives once, in one transaction.

    A quota is never exceeded, however many services share the store: a request is counted from units that were reserved
    there, a few ahead while much is left, and one by one towards the end. What a service has not used of them is given
    back at the next exchange. While the store cannot be used, keys stay as they were last read, requests are counted
    against that and added later, and the log says so once.
    """

    def __init__(self, store: KeyStore, limiters: Mapping[str, RateLimiter] | None = None) -> None:
        """`limiters`: by the kind of caller, those that are shared with other services of the store."""
        self.store = store
        self.limiters = limiters or {}
        self._day = _today()
        self._keys = {key.id: key for key in store.list_keys()}
        self._pending: Counter[tuple[date, str]] = Counter()  # to be added at the next exchange
        self._in_sync: Counter[tuple[date, str]] = Counter()  # being added
        self._reserved: Counter[tuple[date, str]] = Counter()  # units of quotas that are reserved and not used
        self._recent: Counter[str] = Counter()  # units of quotas that were used since the last exchange
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._failing = False
        self._syncs = 0
        self._thread = threading.Thread(target=self._run, name="keys", daemon=True)
        self._reserve_executor = ThreadPoolExecutor(
            1, "quotas"
        )  # one at a time, so that the next finds what one brought

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End, with everything counted and nothing reserved."""
        self._ending.set()
        self._thread.join(2 * STORE_TIMEOUT)
        self._reserve_executor.shutdown(wait=False, cancel_futures=True)
        self.store.close()

    def find(self, key: str) -> ApiKey | None:
        """The record of a key, valid or not. One that does not exist takes as long as one that does."""
        match = KEY_PATTERN.fullmatch(key)
        record = self._keys.get(match["id"], DUMMY_KEY) if match else DUMMY_KEY
        return record if record.matches(key) else None

    async def count(self, key: ApiKey, cost: int = 1) -> bool:
        """Count a request of so many units, unless less than that is left of the key's quota: then False.

        It waits for the store only when what is reserved does not suffice.
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
        """A request that was counted was not done after all."""
        with self._lock:
            self._pending[_today(), key.id] -= cost

    def left(self, key: ApiKey) -> int:
        """Units that the key still has today, those that other services reserved left out; it must have a quota."""
        assert key.quota is not None
        with self._lock:
            return max(0, self._left(key))

    def _left(self, key: ApiKey) -> int:
        today = _today()
        known = self._keys.get(key.id, key).used if today == self._day else 0
        pending = self._pending[today, key.id] + self._in_sync[today, key.id]
        return (key.quota or 0) - known - pending + self._reserved[today, key.id]

    def _spend(self, key: ApiKey, cost: int) -> bool:
        """Use units that are reserved. Those of yesterday are none."""
        which = (_today(), key.id)
        with self._lock:
            if self._reserved[which] < cost:
                return False
            self._reserved[which] -= cost
            self._recent[key.id] += cost
            return True

    def _spend_unreserved(self, key: ApiKey, cost: int) -> bool:
        with self._lock:
            if self._left(key) < cost:
                return False
            self._pending[_today(), key.id] += cost
            return True

    def _reserve(self, key: ApiKey, cost: int) -> bool:
        """Reserve units for a request, in a thread. False: there are not so many left."""
        today = _today()
        which = (today, key.id)
        with self._lock:
            missing = cost - self._reserved[which]
            pending = self._pending[which] + self._in_sync[which]
        if missing <= 0:
            return True
        granted, record = self.store.reserve(key.id, missing, pending, today)
        with self._lock:
            self._reserved[which] += granted
            if record and today == self._day:
                self._keys[key.id] = record
        return granted > 0

    def _run(self) -> None:
        while not self._ending.wait(SYNC_SECONDS):
            self.sync()
        self.sync()

    def sync(self) -> None:
        """Write what was counted and taken, read the keys, and reserve what the next exchange's time may need."""
        today, started = _today(), time.monotonic()
        wanted: dict[str, int] = {}
        with self._lock:
            self._in_sync, self._pending = self._pending, Counter()
            for (day, key_id), reserved in list(self._reserved.items()):
                aim = 0 if self._ending.is_set() or day != today else 2 * self._recent[key_id]
                if reserved > aim:
                    self._in_sync[day, key_id] -= reserved - aim
                    self._reserved[day, key_id] = aim
                elif aim > reserved:
                    wanted[key_id] = aim - reserved
                if not self._reserved[day, key_id] and not aim:
                    del self._reserved[day, key_id]
            self._recent.clear()
        drained = {kind: limiters.drain(started) for kind, limiters in self.limiters.items()}
        taken = {
            f"{kind} {caller}": RateUsage(seconds, age)
            for kind, callers in drained.items()
            for caller, (seconds, age) in callers.items()
        }
        try:
            known = self.store.sync({which: n for which, n in self._in_sync.items() if n}, today, wanted, taken)
            if (self._syncs % DELETE_EVERY) == 0 and self.limiters:
                self.store.delete_full_buckets()
        except KeyFileError as error:
            with self._lock:
                self._pending.update(self._in_sync)
                self._in_sync = Counter()
            if not self._failing:
                log.error("%s Keys stay as they were last read.", error)
            self._failing = True
            return
        now = time.monotonic()
        with self._lock:
            self._keys, self._day, self._in_sync = {key.id: key for key in known.keys}, today, Counter()
            self._reserved.update({(today, key_id): n for key_id, n in known.granted.items()})
        for kind, limiters in self.limiters.items():
            prefix = f"{kind} "
            limiters.merge({c.removeprefix(prefix): s for c, s in known.rates.items() if c.startswith(prefix)}, now)
        self._failing = False
        self._syncs += 1


def _today() -> date:
    return datetime.now(UTC).date()


DUMMY_KEY = ApiKey("", "", b"", bytes(32), datetime.min.replace(tzinfo=UTC), None, None, None, None, 0, frozenset())
