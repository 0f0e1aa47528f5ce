"""The cache of keys beside other writers: syncs that fail in part, and syncs and reservations at the same time."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from service.auth import key_cache
from service.auth.key_cache import KeyCache
from service.auth.key_store import KeyStore, RateUsage, SyncResult
from service.auth.rate_limits import RateLimiter
from tests.service.auth.test_keys import TODAY, counted, store

__all__ = ["store"]  # a fixture

NO_DELETION = "CREATE TRIGGER full_disk BEFORE DELETE ON rates BEGIN SELECT RAISE(FAIL, 'the disk is full'); END"


def test_buckets_that_cannot_be_deleted_change_nothing_of_a_sync(tmp_path, caplog):
    """Usage that is written is not written again, and a revoked key is refused."""
    store = KeyStore(tmp_path / "keys.db")
    key, lost = store.add("app"), store.add("lost")
    cache = KeyCache(store, {"key": RateLimiter(shared=True)})
    store.sync({}, TODAY, taken={"key full": RateUsage(1e-3, 5.0)})
    with closing(sqlite3.connect(store.path)) as database, database:
        database.execute(NO_DELETION)
    assert counted(cache, cache.find(key), 10) == [True] * 10
    store.revoke("lost")
    for _ in range(3):
        cache.sync()
    assert [one.used for one in store.list_keys()] == [10, 0]
    assert cache.find(lost).state(datetime.now(UTC)) == "revoked"
    assert "the disk is full" in caplog.text


def test_units_returned_by_a_sync_are_granted_once(store, uri, monkeypatch):
    """A request asks for units after the sync is committed, and before the service knows what it has read."""
    monkeypatch.setattr(key_cache, "RESERVE_TIMEOUT", 60)
    key, asked = store.add("app", quota=100), threading.Event()
    served: list[bool] = []

    class Asking(KeyStore):
        """Has a request that asks for four units while a sync ends."""

        def sync(self, *arguments: Any) -> SyncResult:
            synced = super().sync(*arguments)
            if asked.is_set():
                request.start()
                request.join(0.5)
            return synced

    cache = KeyCache(Asking(uri))
    record = cache.find(key)
    request = threading.Thread(target=lambda: served.extend(counted(cache, record, 1, cost=4)))
    assert counted(cache, record, 1) == [True]
    cache.sync()
    assert store.list_keys()[0].used == 3, "one unit, and two that the service reserves for the next half second"
    today = datetime.now(UTC).date()
    store.sync({(today, record.id): 97}, today)  # of another service: the quota is used up but for those two
    asked.set()
    cache.sync()
    request.join()
    asked.clear()
    assert 98 + 4 * sum(served) + sum(counted(cache, record, 5)) <= 100
    cache.store.close()


def test_services_that_use_and_reserve_the_same_keys_do_not_wait_for_each_other_forever(uri):
    KeyStore(uri).add("one", quota=10**9)
    KeyStore(uri).add("two", quota=10**9)
    one, two = (key.id for key in KeyStore(uri).list_keys())

    def sync(used: str, wanted: str) -> None:
        store = KeyStore(uri)
        for _ in range(100):
            store.sync({(TODAY, used): 1}, TODAY, {wanted: 1})
        store.close()

    with ThreadPoolExecutor(2) as services:
        list(services.map(sync, (one, two), (two, one)))
    assert [key.used for key in KeyStore(uri).sync({}, TODAY).keys] == [200, 200]
