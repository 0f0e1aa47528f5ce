"""The cache of keys beside other writers: syncs that fail in part, and syncs at the same time."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta

from service.auth.key_cache import KeyCache
from service.auth.key_store import KeyStore, RateUsage
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


def test_services_that_use_the_same_keys_do_not_wait_for_each_other_forever(uri):
    KeyStore(uri).add("one", quota=10**9)
    KeyStore(uri).add("two", quota=10**9)
    one, two = (key.id for key in KeyStore(uri).list_keys())

    def sync(*used: str) -> None:
        store = KeyStore(uri)
        for _ in range(100):
            store.sync({(TODAY + timedelta(days=n), key_id): 1 for n, key_id in enumerate(used)}, TODAY)
        store.close()

    with ThreadPoolExecutor(2) as services:
        list(services.map(sync, (one, two), (two, one)))
    assert [key.used for key in KeyStore(uri).sync({}, TODAY + timedelta(days=1)).keys] == [100, 100]
