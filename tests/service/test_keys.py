"""Keys: made, listed and revoked by the command while a service runs; asked for, counted, and never shown again."""

import json
import re
import stat
import threading
import time
from datetime import UTC, date, datetime, timedelta

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlinear.cli import run as interlinear
from seq2seq.errors import CallError, KeyFileError
from service.bodies import SHORT
from service.keys import KEY, KeyFile, KeyRing

GOOD = {"q": "Ein Hund läuft.", "source": "de", "target": "en"}
TODAY = date(2030, 5, 17)


@pytest.fixture
def file(tmp_path):
    return KeyFile(tmp_path / "keys.db")


def test_the_file_has_no_key_and_is_its_owners(file):
    key = file.add("app", quota=5)
    assert KEY.fullmatch(key)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    kept = file.path.read_bytes()
    assert key.encode() not in kept
    assert key.rpartition("_")[2].encode() not in kept and key[16:].encode() not in kept
    (record,) = file.list_keys()
    assert record.is_made_of(key) and not record.is_made_of(key[:-1] + ("A" if key[-1] != "A" else "B"))
    assert record.salt != next(k for k in [file.add("other")] and file.list_keys() if k.name == "other").salt


def test_a_name_is_given_once(file):
    file.add("app")
    file.revoke("app")
    with pytest.raises(CallError, match="there is a key of this name"):
        file.add("app")
    for name in ("", "a b", "é", "x" * 65, "a\n"):
        with pytest.raises(CallError, match="cannot be a key's name"):
            file.add(name)


def test_use_is_counted_by_day(file):
    file.add("app")
    key_id = file.list_keys()[0].id
    tomorrow = TODAY + timedelta(days=1)
    assert [k.used for k in file.count({(TODAY, key_id): 3}, TODAY)] == [3]
    assert [k.used for k in file.count({(TODAY, key_id): 2, (TODAY, "nobody"): 9}, TODAY)] == [5]
    assert [k.used for k in file.count({}, tomorrow)] == [0]
    assert [k.used for k in file.count({(TODAY, key_id): 1, (tomorrow, key_id): 4}, tomorrow)] == [4]
    assert [k.used for k in file.count({(TODAY, key_id): 7}, tomorrow)] == [4], "a day that is over is over"
    assert [k.used for k in file.count({(tomorrow, key_id): -9}, tomorrow)] == [0]


def test_many_writers_at_once_lose_nothing(file):
    file.add("app")
    key_id = file.list_keys()[0].id
    threads = [threading.Thread(target=file.count, args=({(TODAY, key_id): 1}, TODAY)) for _ in range(20)]
    threads += [threading.Thread(target=file.add, args=(f"more-{i}",)) for i in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = file.count({}, TODAY)
    assert len(keys) == 11
    assert next(k.used for k in keys if k.id == key_id) == 20


def test_what_is_no_file_of_keys_is_said(tmp_path):
    with pytest.raises(KeyFileError, match="there is no such file"):
        KeyRing(KeyFile(tmp_path / "none.db"))
    (tmp_path / "text.db").write_text("these are no keys, " * 100)
    with pytest.raises(KeyFileError, match="cannot be read or written"):
        KeyFile(tmp_path / "text.db").list_keys()
    with pytest.raises(KeyFileError, match="cannot be opened"):
        KeyFile(tmp_path / "no" / "folder.db").add("app")


def test_a_ring_counts_over_a_restart_and_a_lost_file(file, caplog):
    key = file.add("app", quota=4)
    ring = KeyRing(file)
    record = ring.find(key)
    assert [ring.count(record) for _ in range(3)] == [True] * 3
    assert ring.left(record) == 1
    ring._settle()
    assert ring.left(record) == 1 and file.list_keys()[0].used == 3
    ring.give_back(record)
    ring._settle()

    ring = KeyRing(file)
    assert ring.left(ring.find(key)) == 2
    away = file.path.rename(file.path.with_name("away"))
    assert ring.count(record)
    for _ in range(3):
        ring._settle()
    assert ring.find(key) is not None and ring.left(record) == 1
    assert [r.message for r in caplog.records if "no such file" in r.message][1:] == [], "said once"
    away.rename(file.path)
    ring._settle()
    assert file.list_keys()[0].used == 3
    assert [ring.count(record) for _ in range(3)] == [True, False, False]


@given(st.text(max_size=80) | st.from_regex(KEY, fullmatch=True))
def test_no_other_text_is_a_key(made, text):
    ring, key = made
    assert (ring.find(text) is not None) == (text == key)
    near = key[:16] + text
    assert (ring.find(near) is not None) == (near == key)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    file = KeyFile(tmp_path_factory.mktemp("ring") / "keys.db")
    key = file.add("app")
    return KeyRing(file), key


# A running service.


def command(path, *arguments: str) -> None:
    assert interlinear(["keys", *arguments, "--keys", str(path)]) == 0


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys.db"
    KeyFile(path).add("unused")
    return path


@pytest.fixture(scope="module")
def guarded(serving, settings, path):
    options = {"keys": path, "require_key": True, "metrics_key": True, "models": settings.models[:1]}
    with serving(settings.model_copy(update=options)) as address, httpx.Client(base_url=address, timeout=30) as client:
        yield client


def made_key(path, capsys, *arguments: str) -> str:
    command(path, "add", *arguments)
    said = capsys.readouterr()
    key = said.out.strip()
    assert KEY.fullmatch(key) and key not in said.err
    return key


def until(answered, status: int, said: str = "") -> httpx.Response:
    """What a service answers once it has seen a change: within a second, and a slow machine's more."""
    for _ in range(200):
        if (answer := answered()).status_code == status and said in answer.text:
            return answer
        time.sleep(0.05)
    raise AssertionError(answer.text)


def test_a_key_is_asked_for_wherever_work_is_done(guarded, path, capsys):
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
            assert answer.json()["error"] == answer.json()["detail"]
    bearer = {"Authorization": f"bearer  {key}"}
    inside = GOOD | {"api_key": key}
    parts = {name: (None, value) for name, value in inside.items()}
    for sent in ({"json": GOOD, "headers": bearer}, {"data": inside}, {"json": inside}, {"files": parts}):
        assert guarded.post("/translate", **sent).status_code == 200, sent
    long = GOOD | {"q": "a" * 2 * SHORT}  # read in a thread
    assert [guarded.post("/translate", json=long | more).status_code for more in ({}, {"api_key": key})] == [401, 400]


@pytest.mark.parametrize("wrong", ["x", "il_0123456789ab_" + "A" * 43, "il_", "é", "😀", "x" * 5000])
def test_a_wrong_key_is_401(guarded, wrong):
    answer = guarded.post("/translate", json=GOOD | {"api_key": wrong})
    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    if wrong.isascii():
        answer = guarded.post("/translate", json=GOOD, headers={"Authorization": f"Bearer {wrong}"})
        assert answer.status_code == 401


def test_what_stays_open(guarded, path, capsys):
    for route in ("/health/live", "/health/ready", "/languages", "/models", "/frontend/settings", "/", "/openapi.json"):
        assert guarded.get(route).status_code == 200, route
    told = guarded.get("/frontend/settings").json()
    assert (told["keyRequired"], told["apiKeys"]) == (True, True)
    assert guarded.get("/metrics").status_code == 401
    bearer = {"Authorization": f"Bearer {made_key(path, capsys, 'prometheus')}"}
    until(lambda: guarded.get("/metrics", headers=bearer), 200)
    paths = guarded.get("/openapi.json").json()["paths"]
    assert paths["/translate"]["post"]["security"] == paths["/metrics"]["get"]["security"] == [{"key": []}]
    assert "security" not in paths["/languages"]["get"]


def test_a_revoked_key_is_refused_by_a_running_service(guarded, path, capsys):
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


def test_a_quota_is_used_up(guarded, path, capsys):
    key = made_key(path, capsys, "small", "--quota", "3")
    until(lambda: guarded.post("/translate", json={"api_key": key}), 400)  # known, and counted: its fault
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


def test_the_command_lists_and_refuses_in_a_sentence(path, capsys, tmp_path):
    made_key(path, capsys, "listed", "--quota", "7", "--rate", "0.5", "--expires", "2199-12-31")
    command(path, "revoke", "listed")
    command(path, "list")
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("listed "))
    assert line.split()[2] == "revoked" and line.split()[4:] == ["2199-12-31", "7", "0", "0.5"]
    for arguments, sentence in (
        (("add", "listed"), "there is a key of this name"),
        (("add", "a b"), "cannot be a key's name"),
        (("add", "late", "--expires", "2001-01-01"), "not in the future"),
        (("add", "late", "--expires", "soon"), "does not match"),
        (("add", "fast", "--rate", "-1"), "a rate is more than 0"),
        (("add", "fast", "--rate", "nan"), "a rate is more than 0"),
        (("add", "none", "--quota", "0"), "greater than or equal to 1"),
        (("revoke", "nobody"), "there is no such key"),
    ):
        assert interlinear(["keys", *arguments, "--keys", str(path)]) == 2
        said = capsys.readouterr()
        assert sentence in said.err and said.err.count("\n") == 1 and not said.out
    assert interlinear(["keys", "list", "--keys", str(tmp_path / "none.db")]) == 1
    assert "there is no such file" in capsys.readouterr().err


def test_without_keys_any_key_will_do(client):
    """As LibreTranslate's clients send one to services that ask for none."""
    assert client.post("/translate", json=GOOD | {"api_key": "any"}).status_code == 200
    assert client.post("/translate", json=GOOD, headers={"Authorization": "Bearer any"}).status_code == 200
    assert client.get("/frontend/settings").json()["keyRequired"] is False
