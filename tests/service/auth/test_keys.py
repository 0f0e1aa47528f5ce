"""API keys: created, listed and revoked by the command while a service runs; checked, counted, and never shown
again."""

import json
import re
import sqlite3
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, date, datetime, timedelta
from functools import partial

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlinear.cli import run as interlinear
from interlinear.errors import KeyFileError, UsageError
from service.auth.key_cache import KeyCache
from service.auth.key_store import KEY_PATTERN, KeyStore, RateUsage
from service.auth.rate_limits import RateLimit, RateLimiter
from service.auth.scopes import Scope
from service.http.parsing import INLINE_BYTES
from tests.service.test_serve import address, process

GOOD = {"q": "Ein Hund läuft.", "source": "de", "target": "en"}
LIMITED = [("few", "--quota", "3"), ("slow", "--rate", "0.01")]
TODAY = date(2030, 5, 17)


@pytest.fixture
def store(uri) -> Iterator[KeyStore]:
    store = KeyStore(uri)
    yield store
    store.close()


def test_the_file_contains_no_key_and_is_readable_by_its_owner_only(tmp_path):
    store = KeyStore(tmp_path / "keys.db")
    key = store.add("app", quota=5)
    assert KEY_PATTERN.fullmatch(key)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    kept = store.path.read_bytes()
    assert key.encode() not in kept
    assert key[len("il_0123456789ab_") :].encode() not in kept
    (record,) = store.list_keys()
    assert record.matches(key) and not record.matches(key[:-1] + ("A" if key[-1] != "A" else "B"))
    assert record.salt != next(k for k in [store.add("other")] and store.list_keys() if k.name == "other").salt


def test_a_key_is_stored_as_created(store):
    moment = datetime(2199, 1, 2, 3, 4, 5, tzinfo=UTC)
    key = store.add("app", 10, 2.5, moment, (Scope.METRICS, Scope.TRANSLATE))
    (record,) = store.list_keys()
    assert record.matches(key) and record.id == KEY_PATTERN.fullmatch(key)["id"]
    assert (record.name, record.quota, record.rate, record.expires) == ("app", 10, 2.5, moment)
    assert record.scopes == {"translate", "metrics"}
    store.add("plain")
    assert store.list_keys()[1].scopes == {Scope.TRANSLATE}
    assert store.revoke(record.id).state(datetime.now(UTC)) == "revoked"
    first = store.list_keys()[0].revoked
    assert store.revoke("app").revoked == first, "once is for good"
    with pytest.raises(UsageError, match="there is no such key"):
        store.revoke("nobody")


def test_names_are_unique(store):
    store.add("app")
    store.revoke("app")
    with pytest.raises(UsageError, match="there is a key of this name"):
        store.add("app")
    for name in ("", "a b", "é", "x" * 65, "a\n"):
        with pytest.raises(UsageError, match="cannot be a key's name"):
            store.add(name)


def test_keys_can_be_moved_to_another_store(uri, tmp_path, capsys):
    file = KeyStore(tmp_path / "old.db")
    first = file.add("first", quota=9, rate=2.5, scopes=(Scope.METRICS,))
    today = datetime.now(UTC).date()
    file.sync({(today, file.list_keys()[0].id): 4}, today)
    KeyStore(uri).add("here")
    for came in ("1 keys came: first.", "0 keys came."):
        assert interlinear(["keys", "import", str(tmp_path / "old.db"), "--keys", uri]) == 0
        assert came in capsys.readouterr().err
    moved, here = KeyStore(uri).list_keys()
    assert (here.name, moved) == ("here", file.list_keys()[0]) and moved.matches(first) and moved.used == 4
    other = KeyStore(tmp_path / "other.db")
    other.add("first")
    with pytest.raises(UsageError, match="first: another key has this name"):
        KeyStore(uri).import_from(other)


def test_usage_is_counted_by_day(store):
    store.add("app")
    key_id = store.list_keys()[0].id
    tomorrow = TODAY + timedelta(days=1)
    used = lambda counted, day: [key.used for key in store.sync(counted, day).keys]  # noqa: E731
    assert used({(TODAY, key_id): 3}, TODAY) == [3]
    assert used({(TODAY, key_id): 2, (TODAY, "nobody"): 9}, TODAY) == [5]
    assert used({}, tomorrow) == [0]
    assert used({(TODAY, key_id): 1, (tomorrow, key_id): 4}, tomorrow) == [4]
    assert used({(TODAY, key_id): 7}, tomorrow) == [4], "a day that is over is over"
    assert used({(tomorrow, key_id): -9}, tomorrow) == [0]


def test_concurrent_writers_lose_nothing(uri):
    KeyStore(uri).add("app")
    key_id = KeyStore(uri).list_keys()[0].id

    def write(i: int) -> None:
        store = KeyStore(uri)
        store.add(f"more-{i}") if i % 3 == 0 else store.sync({(TODAY, key_id): 1}, TODAY)
        store.close()

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(write, range(30)))
    keys = KeyStore(uri).sync({}, TODAY).keys
    assert len(keys) == 11
    assert next(k.used for k in keys if k.id == key_id) == 20


def test_an_invalid_key_store_is_reported(tmp_path, server):
    with pytest.raises(KeyFileError, match="there is no such file"):
        KeyCache(KeyStore(tmp_path / "none.db"))
    (tmp_path / "text.db").write_text("these are no keys, " * 100)
    with pytest.raises(KeyFileError, match="cannot be read or written"):
        KeyStore(tmp_path / "text.db").list_keys()
    with closing(sqlite3.connect(tmp_path / "other.db")) as other, other:
        other.execute("CREATE TABLE runs (id TEXT)")
    with pytest.raises(KeyFileError, match="there are no keys in it"):
        KeyStore(tmp_path / "other.db").list_keys()
    with pytest.raises(KeyFileError, match="cannot be opened"):
        KeyStore(tmp_path / "no" / "folder.db").add("app")
    for url in ("mysql://a:s3cret@h/d", "postgresql://a:s3cret@h", "://s3cret", "postgresql://a:s3cret@h:port/d"):
        with pytest.raises(UsageError, match="keys cannot be kept there") as refused:
            KeyStore(url)
        assert "s3cret" not in str(refused.value)
    with pytest.raises(KeyFileError, match="cannot be read or written") as refused:
        KeyStore(server.replace("s3cret", "wr0ng")).list_keys()
    assert "wr0ng" not in str(refused.value) and "interlinear:***@127.0.0.1" in str(refused.value)


def counted(cache: KeyCache, key, times: int, cost: int = 1) -> list[bool]:
    return [cache.count(key, cost) for _ in range(times)]


def test_a_rate_limit_survives_a_restart(store):
    key = store.add("app", quota=4)
    cache = KeyCache(store)
    record = cache.find(key)
    assert counted(cache, record, 3) == [True] * 3
    assert cache.left(record) == 1
    cache.sync()
    assert cache.left(record) == 1 and store.list_keys()[0].used == 3
    cache.refund(record)
    assert cache.left(record) == 2
    cache.start()
    cache.stop()

    cache = KeyCache(store)
    assert cache.left(cache.find(key)) == 2
    assert counted(cache, record, 3) == [True, True, False]


def test_a_request_is_counted_by_its_cost(store):
    keys = [store.add("app", quota=10), store.add("more")]
    cache = KeyCache(store)
    record, unbounded = map(cache.find, keys)
    assert counted(cache, record, 2, cost=4) == [True, True]
    assert counted(cache, record, 1, cost=3) == [False], "too much is not counted at all"
    assert cache.left(record) == 2 and counted(cache, record, 3) == [True, True, False]
    cache.refund(record, 4)
    assert counted(cache, record, 2, cost=4) == [True, False]
    assert counted(cache, unbounded, 3, cost=100) == [True] * 3
    cache.start()
    cache.stop()
    assert [key.used for key in store.list_keys()] == [10, 300]


def test_one_service_keeps_to_a_quota_exactly(store, monkeypatch):
    monkeypatch.setattr("service.auth.key_cache.SYNC_SECONDS", 0.001)
    key = store.add("app", quota=100)
    cache = KeyCache(store)
    record = cache.find(key)
    cache.start()
    with ThreadPoolExecutor(8) as callers:
        assert sum(callers.map(lambda _: cache.count(record), range(240))) == 100
    cache.stop()
    assert store.list_keys()[0].used == 100


def test_services_exceed_a_quota_by_what_the_others_accept_between_two_syncs(store, uri):
    key = store.add("app", quota=100)
    caches = [KeyCache(KeyStore(uri)) for _ in range(3)]
    records = [cache.find(key) for cache in caches]

    def ask(times: int) -> int:
        return sum(sum(counted(cache, record, times)) for cache, record in zip(caches, records, strict=True))

    def sync() -> None:
        for _ in range(2):  # the first one writes what the others read in the second
            for cache in caches:
                cache.sync()

    assert ask(30) == 90
    sync()
    assert [cache.left(record) for cache, record in zip(caches, records, strict=True)] == [10, 10, 10]
    assert ask(20) == 30, "ten by each, of which two do not know of the others"
    sync()
    assert ask(1) == 0 and store.list_keys()[0].used == 120
    for cache in caches:
        cache.stop()


def test_keys_stay_valid_during_a_store_outage(tmp_path, caplog):
    store = KeyStore(tmp_path / "keys.db")
    key = store.add("app", quota=4)
    cache = KeyCache(store)
    record = cache.find(key)
    assert counted(cache, record, 2) == [True, True]
    away = store.path.rename(store.path.with_name("away"))
    for _ in range(3):
        cache.sync()
    assert counted(cache, record, 1) == [True]
    assert cache.find(key) is not None and cache.left(record) == 1
    assert [r.message for r in caplog.records if "no such file" in r.message][1:] == [], "said once"
    away.rename(store.path)
    cache.sync()
    assert store.list_keys()[0].used == 3
    assert counted(cache, record, 3) == [True, False, False]


COUNTING = """
    import sys, time
    from service.auth.key_store import KeyStore
    from service.auth.key_cache import KeyCache

    uri, key, cost = sys.argv[1], sys.argv[2], int(sys.argv[3])
    cache = KeyCache(KeyStore(uri))
    cache.start()
    print("ready", flush=True)
    sys.stdin.readline()
    counted = 0
    for _ in range(300):
        counted += cache.count(cache.find(key), cost)
        time.sleep(0.01)
    print(counted)
    cache.stop()
"""


@pytest.mark.parametrize("uri", [pytest.param("sqlite", marks=pytest.mark.slow), "postgresql"], indirect=True)
def test_services_that_share_a_store_lose_no_usage_and_end_at_the_quota(uri):
    store = KeyStore(uri)
    few, many = store.add("few", quota=250), store.add("many")
    cases = [(few, 1), (few, 3), (many, 2)]
    services = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(COUNTING), uri, key, str(cost)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for key, cost in cases
    ]  # fmt: skip
    try:
        assert [service.stdout.readline() for service in services] == ["ready\n"] * 3
        for service in services:
            service.stdin.write("\n")
            service.stdin.flush()
        counts = [int(service.stdout.readline()) * cost for service, (_, cost) in zip(services, cases, strict=True)]
        assert [service.wait(30) for service in services] == [0, 0, 0]
    finally:
        for service in services:
            service.kill()
            service.wait()
    assert 248 <= counts[0] + counts[1] < 300 + 900, "both stop, at the quota or after one more sync"
    assert min(counts) > 0 and counts[2] == 600
    assert [key.used for key in store.list_keys()] == [counts[0] + counts[1], 600]


def test_a_key_revoked_by_one_service_is_refused_by_the_others(store, uri):
    key = store.add("lost")
    caches = [KeyCache(KeyStore(uri)) for _ in range(2)]
    for cache in caches:
        cache.start()
    try:
        store.revoke("lost")
        until = time.monotonic() + 5
        while {cache.find(key).state(datetime.now(UTC)) for cache in caches} != {"revoked"}:
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        for cache in caches:
            cache.stop()


def test_a_rate_limit_is_shared(store, uri):
    store.add("app")
    buckets = [RateLimiter(shared=True) for _ in range(3)]
    caches = [KeyCache(KeyStore(uri), {"address": each}) for each in buckets]
    rate, now = RateLimit(0.01, 10), time.monotonic()
    assert [buckets[0].take("a", rate, now).allowed for _ in range(4)] == [True] * 4
    assert [buckets[1].take("a", rate, now).allowed for _ in range(3)] == [True] * 3
    for cache in (*caches, *caches):
        cache.sync()
    now = time.monotonic()
    for each in buckets:
        assert each.take("a", rate, now, cost=4).allowed is False, "3 are left of 10"
    assert buckets[2].take("a", rate, now, cost=3).allowed and buckets[2].take("b", rate, now).allowed
    for cache in (caches[2], *caches):
        cache.sync()
    assert not any(each.take("a", rate, time.monotonic()).allowed for each in buckets)
    for cache in caches:
        cache.store.close()


def test_a_store_holds_rates_of_active_callers_only(store):
    store.add("app")
    assert store.sync({}, TODAY, taken={"x a": RateUsage(60, 0.0), "x b": RateUsage(1e-3, 5.0)}).rates.keys() == {"x a"}
    seconds = store.sync({}, TODAY, taken={"x a": RateUsage(30, 0.1)}).rates["x a"]
    assert 80 < seconds <= 90
    store.delete_full_buckets()
    assert store.sync({}, TODAY).rates.keys() == {"x a"}


@given(st.text(st.characters(), max_size=80) | st.from_regex(KEY_PATTERN, fullmatch=True))
@example("\ud800")
def test_no_other_text_is_a_valid_key(made, text):
    cache, key = made
    assert (cache.find(text) is not None) == (text == key)
    near = key[:16] + text
    assert (cache.find(near) is not None) == (near == key)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    store = KeyStore(tmp_path_factory.mktemp("cache") / "keys.db")
    key = store.add("app")
    return KeyCache(store), key


# A running service.


def command(path, *arguments: str) -> None:
    assert interlinear(["keys", *arguments, "--keys", str(path)]) == 0


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys.db"
    KeyStore(path).add("unused")
    return path


@pytest.fixture(scope="module")
def guarded(shared, path):
    address = shared(keys=str(path), require_key=True, metrics_key=True)
    with httpx.Client(base_url=address, timeout=30) as client:
        yield client


def made_key(path, capsys, *arguments: str) -> str:
    command(path, "add", *arguments)
    said = capsys.readouterr()
    key = said.out.strip()
    assert KEY_PATTERN.fullmatch(key) and key not in said.err
    return key


def until(answered, status: int, said: str = "") -> httpx.Response:
    """The service's response after it has seen a change: within a second, or later on a slow machine."""
    for _ in range(200):
        if (answer := answered()).status_code == status and said in answer.text:
            return answer
        time.sleep(0.05)
    raise AssertionError(answer.text)


def test_every_route_that_does_work_requires_a_key(guarded, path, capsys):
    key = made_key(path, capsys, "app")
    until(lambda: guarded.post("/translate", json=GOOD | {"api_key": key}), 200)
    for route, body in (
        ("/translate", GOOD), ("/translate/multimodal", GOOD), ("/post-edit", GOOD), ("/summarize", {"text": "a"}),
        ("/detect", {"q": "Ein Hund"}),
    ):  # fmt: skip
        basic, broken = {"Authorization": f"Basic {key}"}, {"Content-Type": "application/json"}
        for sent in (
            *({"json": body | more} for more in ({}, {"api_key": ""}, {"api_key": 7}, {"api_key": None})),
            {"data": body}, {"json": {}}, {"json": body, "headers": basic}, {"content": b"{", "headers": broken},
        ):  # fmt: skip
            answer = guarded.post(route, **sent)
            assert answer.status_code == 401, (route, sent)
            assert answer.headers["www-authenticate"] == 'Bearer realm="interlinear"'
            assert answer.json()["error"] == "Please contact the server operator to get an API key"
    bearer = {"Authorization": f"bearer  {key}"}
    inside = GOOD | {"api_key": key}
    parts = {name: (None, value) for name, value in inside.items()}
    for sent in ({"json": GOOD, "headers": bearer}, {"data": inside}, {"json": inside}, {"files": parts}):
        assert guarded.post("/translate", **sent).status_code == 200, sent
    long = GOOD | {"q": "a" * 2 * INLINE_BYTES}  # read in a thread
    assert [guarded.post("/translate", json=long | more).status_code for more in ({}, {"api_key": key})] == [401, 400]


@pytest.mark.parametrize("wrong", ["x", "il_0123456789ab_" + "A" * 43, "il_", "é", "😀", "x" * 5000])
def test_a_wrong_key_is_401(guarded, wrong):
    answer = guarded.post("/translate", json=GOOD | {"api_key": wrong})
    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    if wrong.isascii():
        answer = guarded.post("/translate", json=GOOD, headers={"Authorization": f"Bearer {wrong}"})
        assert answer.status_code == 401


def test_routes_without_keys(guarded, path, capsys):
    for route in ("/health/live", "/health/ready", "/languages", "/models", "/frontend/settings", "/", "/openapi.json"):
        assert guarded.get(route).status_code == 200, route
    settings_page = guarded.get("/frontend/settings").json()
    assert (settings_page["keyRequired"], settings_page["apiKeys"]) == (True, True)
    assert guarded.get("/metrics").status_code == 401
    bearer = {"Authorization": f"Bearer {made_key(path, capsys, 'prometheus', '--scope', 'metrics')}"}
    until(lambda: guarded.get("/metrics", headers=bearer), 200)
    paths = guarded.get("/openapi.json").json()["paths"]
    assert paths["/translate"]["post"]["security"] == paths["/metrics"]["get"]["security"] == [{"key": []}]
    assert "security" not in paths["/languages"]["get"]


def test_a_running_service_refuses_a_revoked_key(guarded, path, capsys):
    key = made_key(path, capsys, "lost")
    ask = lambda: guarded.post("/translate", json=GOOD | {"api_key": key})  # noqa: E731
    until(ask, 200)
    command(path, "revoke", "lost")
    answer = until(ask, 403)
    assert "revoked" in answer.json()["detail"]


def test_an_expired_key_is_401(guarded, path, capsys):
    moment = datetime.now(UTC) + timedelta(seconds=2)
    key = made_key(path, capsys, "brief", "--expires", f"{moment:%Y-%m-%dT%H:%M:%S}")
    until(lambda: guarded.post("/translate", json=GOOD | {"api_key": key}), 401, "the key has expired")
    assert datetime.now(UTC) >= moment.replace(microsecond=0)


def test_a_quota_is_exhausted(guarded, path, capsys):
    key = made_key(path, capsys, "small", "--quota", "3")
    until(lambda: guarded.post("/translate", json={"api_key": key}), 400)  # a known key; its invalid request is counted
    answers = [guarded.post("/translate", json=GOOD | {"api_key": key}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert re.fullmatch(r'"day";q=3;w=86400', answers[0].headers["ratelimit-policy"])
    assert [re.search(r"r=(\d+)", answer.headers["ratelimit"])[1] for answer in answers] == ["1", "0", "0", "0"]
    assert 0 < int(answers[2].headers["retry-after"]) <= 86_400
    for _ in range(100):
        command(path, "list", "--json")
        (small,) = (one for one in json.loads(capsys.readouterr().out) if one["name"] == "small")
        if small["used"] == 3:
            break
        time.sleep(0.05)
    assert small["used"] == 3 and small["quota"] == 3


def test_the_keys_command_lists_and_refuses_with_a_message(path, capsys, tmp_path):
    made_key(path, capsys, "listed", "--quota", "7", "--rate", "0.5", "--expires", "2199-12-31")
    command(path, "revoke", "listed")
    command(path, "list")
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("listed "))
    assert line.split()[2] == "revoked" and line.split()[4:] == ["2199-12-31", "7", "0", "0.5", "translate"]
    made_key(path, capsys, "figures", "--scope", "metrics", "--scope", "admin")
    command(path, "list", "--json")
    assert [one["scopes"] for one in json.loads(capsys.readouterr().out)][-1] == ["admin", "metrics"]
    for arguments, sentence in (
        (("add", "listed"), "there is a key of this name"),
        (("add", "a b"), "cannot be a key's name"),
        (("add", "late", "--expires", "2001-01-01"), "not in the future"),
        (("add", "late", "--expires", "soon"), "does not match"),
        (("add", "fast", "--rate", "-1"), "a rate is more than 0"),
        (("add", "fast", "--rate", "nan"), "a rate is more than 0"),
        (("add", "odd", "--scope", "everything"), "is not one of"),
        (("add", "none", "--quota", "0"), "greater than or equal to 1"),
        (("add", "big", "--quota", "9" * 20), "a quota is at most 2,147,483,647 texts a day"),
        (("revoke", "nobody"), "there is no such key"),
    ):
        assert interlinear(["keys", *arguments, "--keys", str(path)]) == 2
        said = capsys.readouterr()
        assert sentence in said.err and said.err.count("\n") == 1 and not said.out
    assert interlinear(["keys", "list", "--keys", str(tmp_path / "none.db")]) == 1
    assert "there is no such file" in capsys.readouterr().err


def test_a_service_without_keys_accepts_any_key(client):
    """LibreTranslate's clients send a key to services that require none."""
    assert client.post("/translate", json=GOOD | {"api_key": "any"}).status_code == 200
    assert client.post("/translate", json=GOOD, headers={"Authorization": "Bearer any"}).status_code == 200
    assert client.get("/frontend/settings").json()["keyRequired"] is False


@pytest.fixture
def two(bundles, uri, tmp_path) -> Iterator[list[httpx.Client]]:
    """Two services in processes of their own that share only the key store."""
    KeyStore(uri).add("unused")
    options = ["--model", f"mt={bundles.de_en}", "--require-key"]
    with ExitStack() as stack:
        children = [
            stack.enter_context(process(*options, folder=tmp_path, INTERLINEAR_SERVE_KEYS=uri)) for _ in range(2)
        ]
        yield [stack.enter_context(httpx.Client(base_url=address(child), timeout=60)) for child in children]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_services_in_separate_processes_share_keys_quotas_and_rates(two, uri, capsys):
    first, second = two

    def ask(client: httpx.Client, key: str, **body: str) -> httpx.Response:
        return client.post("/translate", json=(body or GOOD), headers={"Authorization": f"Bearer {key}"})

    def known(key: str) -> None:
        """Both services know the key: an invalid request is refused as invalid."""
        for client in two:
            until(partial(ask, client, key, q="a"), 400)

    lost, few, slow = made_key(uri, capsys, "lost"), *(made_key(uri, capsys, *words) for words in LIMITED)
    known(made_key(uri, capsys, "last"))
    assert [ask(client, lost).status_code for client in two] == [200, 200]
    command(uri, "revoke", "lost")
    for client in two:
        assert "revoked" in until(partial(ask, client, lost), 403).json()["detail"]

    assert [ask(client, few).status_code for client in (first, second, first)] == [200, 200, 200]
    for sign in ("counted", "seen"):  # a service that knows a new key has written its own usage, and read the other's
        known(made_key(uri, capsys, sign))
    assert [ask(client, few).status_code for client in two] == [429, 429], "three a day of both together"

    assert ask(first, slow).status_code == 200
    for sign in (
        "written",
        "read",
    ):  # once both know two more keys, each has read the other's updates twice
        known(made_key(uri, capsys, sign))
    answer = ask(second, slow)
    assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 60
