"""Request bodies that would use too much memory or time: counted, bounded, and refused before authentication."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.auth.key_store import KeyStore
from service.http import parsing
from service.http.body_budget import FREE_BYTES, BodyBudget, BodyReservation
from service.metrics import Metrics
from service.problems import Problem
from tests.service.balls import picture
from tests.service.http.routes.test_multimodal import encoded

ROUTE = "/translate/multimodal"
BALL = {"q": "The ball.", "source": "en", "target": "de"}
GOOD = {"q": "Ein Hund läuft.", "source": "de", "target": "en"}
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
RED = encoded(picture("rote"))


# The body budget, worked by hand: times in seconds; below 100 kB a second a body is slow.


@pytest.fixture
def budget() -> BodyBudget:
    return BodyBudget(1_000_000, Metrics())


def body(budget: BodyBudget, now: float = 0.0) -> BodyReservation:
    return BodyReservation(budget, budget, 100_000, now)


def test_received_bytes_are_counted_and_released(budget):
    first, second = body(budget), body(budget)
    assert first.reserve(400_000, 0.0) and second.reserve(600_000, 0.0) and budget.held == 1_000_000
    assert not second.reserve(1, 0.1), "there is no room, and nobody is slow"
    first.shrink_to(100_000)
    assert budget.held == 700_000 and second.reserve(1, 0.2)
    second.shrink_to(0)
    assert budget.held == 100_000


def test_the_slowest_body_is_evicted_first(budget):
    slow, slower, quick = body(budget), body(budget), body(budget)
    assert slow.reserve(150_000, 0.0) and slower.reserve(150_000, 0.0)
    for tenth in range(1, 31):  # 80, 10 and 120 kB a second
        assert (
            slow.reserve(8_000, tenth / 10) and slower.reserve(1_000, tenth / 10) and quick.reserve(12_000, tenth / 10)
        )
    late = body(budget, 3.0)
    assert late.reserve(FREE_BYTES, 3.0) and late.reserve(100_000, 3.0)
    assert (slower.evicted, slow.evicted, quick.evicted) == (True, False, False)
    assert late.reserve(300_000, 3.0)
    assert (slow.evicted, quick.evicted) == (True, False)
    assert not late.reserve(900_000, 3.0), "one that is quick is not ended for another"


def test_a_complete_body_is_not_evicted(budget):
    whole, late = body(budget), body(budget)
    assert whole.reserve(900_000, 0.0)
    whole.complete()
    assert not late.reserve(200_000, 9.0) and not whole.evicted


def test_slow_bodies_are_evicted_only_if_that_makes_enough_room(budget):
    """Not those whose bytes are on disk, nor for a body that does not fit without them either."""
    whole, written, slow = body(budget), body(budget), body(budget)
    assert whole.reserve(850_000, 0.0)
    whole.complete()
    assert written.reserve(90_000, 0.0)
    written.release(90_000)
    assert slow.reserve(100_000, 0.0)
    late = body(budget, 9.0)
    assert not late.reserve(200_000, 9.0) and not slow.evicted
    assert late.reserve(120_000, 9.0)
    assert (slow.evicted, written.evicted) == (True, False)


def test_small_bodies_and_a_single_body_are_accepted(budget):
    large = body(budget)
    assert large.reserve(5_000_000, 0.0), "it is alone"
    small = body(budget)
    assert small.reserve(FREE_BYTES, 0.0) and not small.reserve(1, 0.0)


def test_bodies_of_authenticated_callers_count_too(budget):
    unknown = BodyBudget(100_000, Metrics())
    one = BodyReservation(unknown, budget, 1.0, 0.0)
    assert one.reserve(90_000, 0.0) and unknown.held == 90_000
    one.authenticated()
    assert (unknown.held, budget.held) == (0, 90_000)
    assert one.reserve(500_000, 0.0) and budget.held == 590_000


# Parsing.


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=50)), min_size=1, max_size=9), st.integers(4, 30))
def test_a_form_is_parsed_as_written(fields, piece):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsing, "CHUNK_BYTES", piece)
        assert parsing.parse_urlencoded(urllib.parse.urlencode(fields).encode()) == fields


@given(st.text("%+aä4f0G"), st.integers(4, 9))
def test_escapes_are_decoded_as_by_urllib(text, piece):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsing, "CHUNK_BYTES", piece)
        try:
            expected = urllib.parse.unquote_to_bytes(text.replace("+", " ")).decode()
        except UnicodeDecodeError:
            with pytest.raises(UnicodeDecodeError):
                parsing.url_decode(text.encode())
        else:
            assert parsing.url_decode(text.encode()) == expected


def values(value: object) -> int:
    """The number of values in a JSON document: entries of lists and objects, with their names, and the list itself."""
    match value:
        case list():
            return 1 + max(0, len(value) - 1) + sum(map(values, value))
        case dict():
            return 1 + len(value) + max(0, len(value) - 1) + sum(map(values, value.values()))
    return 0


TEXTS = st.text('"\\[]{},:aä\n', max_size=12)
DOCUMENTS = st.recursive(
    TEXTS | st.none() | st.integers() | st.booleans(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)
)


@pytest.mark.slow
@given(DOCUMENTS, st.integers(2, 9), st.booleans(), st.sampled_from([None, 1]))
@example(["\\" * 40, '"' * 40, '\\"' * 20, []], 7, True, None)
@settings(max_examples=300)
def test_values_are_counted_outside_of_strings_only(document, piece, escaped, indent):
    written = json.dumps(document, ensure_ascii=escaped, indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsing, "CHUNK_BYTES", piece)
        parsing.check_values(written, values(document))
        if values(document):
            with pytest.raises(Problem, match="nested too deep, or has more than"):
                parsing.check_values(written, values(document) - 1)


# A running service, attacked over sockets.


@pytest.fixture(scope="module")
def key(tmp_path_factory) -> tuple[str, str]:
    """A key store with one key, and the key."""
    store = str(tmp_path_factory.mktemp("keys") / "keys.db")
    return store, KeyStore(store).add("app")


@pytest.fixture
def small(shared) -> str:
    """A service with little memory for bodies."""
    return shared("de-en", "pictures", body_room=2_000_000)


@contextmanager
def sending(url: str, route: str, announced: int, sent: int, media: str = JSON) -> Iterator[socket.socket]:
    """A connection that announces so many bytes of a body, and sends fewer."""
    head = f"POST {route} HTTP/1.1\r\nHost: x\r\nContent-Type: {media}\r\nContent-Length: {announced}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20) as connection:
        connection.sendall(head.encode() + b" " * sent)
        yield connection


def metric(url: str, name: str) -> float:
    (found,) = re.findall(rf"^{name} (\S+)$", httpx.get(f"{url}/metrics").text, re.MULTILINE)
    return float(found)


def until_held(url: str, length: int) -> None:
    deadline = time.monotonic() + 20
    while metric(url, "interlinear_held_bytes") != length:
        assert time.monotonic() < deadline, metric(url, "interlinear_held_bytes")
        time.sleep(0.05)


def test_announced_bodies_do_not_use_the_budget(shared, key):
    url = shared("pictures", keys=key[0], require_key=True)
    with ExitStack() as idle:
        for announced in (16_048_576,) * 4 + (2_914_560,):
            idle.enter_context(sending(url, ROUTE, announced, 1))
        until_held(url, 5)
        bearer = {"Authorization": f"Bearer {key[1]}"}
        answer = httpx.post(url + ROUTE, data=BALL, files={"image": ("a.png", RED)}, headers=bearer, timeout=30)
        assert answer.status_code == 200, answer.text


def test_stalled_bodies_are_evicted_for_others(small):
    with ExitStack() as idle:
        still = [idle.enter_context(sending(small, ROUTE, 950_000, 949_999)) for _ in range(2)]
        until_held(small, 2 * 949_999)
        time.sleep(1.5)  # within the first second no body is slow
        large = ("a.png", RED + bytes(1_500_000))
        answer = httpx.post(small + ROUTE, data=BALL, files={"image": large}, timeout=30)
        assert answer.status_code == 200, answer.text
        assert any(connection.recv(12) == b"HTTP/1.1 408" for connection in still)


def test_texts_share_the_budget(small):
    with ExitStack() as idle:
        for route in ("/translate", "/summarize", "/detect", "/post-edit"):
            idle.enter_context(sending(small, route, 1_000_000, 900_000))
        time.sleep(0.5)
        assert 900_000 <= metric(small, "interlinear_held_bytes") <= 2_000_000 + 4 * FREE_BYTES
        answer = httpx.post(f"{small}/translate", json=GOOD, timeout=30)
        assert answer.status_code == 200, "a small one is always taken"


def test_a_text_that_was_read_does_not_use_the_budget(small):
    """Its white space is released while the request waits in the queue."""
    with httpx.Client(timeout=60) as client:
        body = json.dumps(GOOD | {"q": ["Ein Hund läuft im Park. " * 40] * 20}).encode() + b" " * 1_000_000
        headers = {"Content-Type": JSON, "Accept": "text/event-stream"}
        with client.stream("POST", f"{small}/translate", content=body, headers=headers) as streamed:
            assert next(streamed.iter_bytes())
            until_held(small, 0)


def test_without_a_key_header_no_more_than_a_text_is_read(shared, key):
    url = shared("pictures", keys=key[0], require_key=True)
    large = {"image": ("a.png", RED + bytes(2_000_000))}
    answer = httpx.post(url + ROUTE, data=BALL | {"api_key": key[1]}, files=large, timeout=30)
    assert answer.status_code == 401 and answer.headers["www-authenticate"] == 'Bearer realm="interlinear"'
    assert "longer than 1048576 bytes the key is needed in Authorization: Bearer" in answer.json()["detail"]
    assert httpx.post(url + ROUTE, data=BALL, files=large, timeout=30).status_code == 401
    bearer = {"Authorization": f"Bearer {key[1]}"}
    answer = httpx.post(url + ROUTE, data=BALL, files=large, headers=bearer, timeout=30)
    assert answer.json()["translatedText"] == "Der rote Ball."
    answer = httpx.post(url + ROUTE, data=BALL | {"api_key": key[1]}, files={"image": ("a.png", RED)}, timeout=30)
    assert answer.json()["translatedText"] == "Der rote Ball."


def test_callers_without_a_key_hold_few_bytes(shared, key):
    url = shared(keys=key[0], require_key=True, body_room=8_000_000)
    with ExitStack() as idle:
        for _ in range(8):
            idle.enter_context(sending(url, "/translate", 1_000_000, 900_000))
        time.sleep(0.5)
        assert 900_000 <= metric(url, "interlinear_held_bytes") <= 1_000_000 + 8 * FREE_BYTES
        answer = httpx.post(f"{url}/translate", json=GOOD | {"api_key": key[1]}, timeout=30)
        assert answer.status_code == 200


ATTACKS = {
    "escapes": (FORM, b"q=" + b"%41" * 2_700_000),
    "lists": (JSON, b'{"a":[' + b"[]," * 2_700_000 + b"[]]}"),
    "parameters of base64": (FORM, b"source=en&target=de&image=data:a/b;" + b"a=b;" * 2_000_000 + b"base64,"),
}


@pytest.fixture(scope="module")
def process(bundles, tmp_path_factory) -> Iterator[tuple[int, str, str]]:
    """A service in a process of its own that requires keys: its process id, address and a key."""
    folder = tmp_path_factory.mktemp("process")
    key = KeyStore(folder / "keys.db").add("app")
    command = [sys.executable, "-m", "interlinear", "serve", "--port", "0", "--require-key"]
    with subprocess.Popen(
        [*command, "--model", f"mt={bundles.de_en}"], cwd=folder, env=os.environ, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            found = next(filter(None, (re.search(r"playground (http://[^/]+)/", line) for line in child.stderr)))
            yield child.pid, found[1], key
        finally:
            child.terminate()


def resident(pid: int) -> int:
    """The peak resident memory of a process, in bytes."""
    (found,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
@pytest.mark.parametrize(
    "known", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["without a key", "with a key"]
)
@pytest.mark.parametrize(("media", "attack"), ATTACKS.values(), ids=ATTACKS)
def test_memory_is_bounded_by_the_length_of_bodies(process, media, attack, known):
    """8 MB crafted for the parser, which may take 400 MB and more if it is not limited."""
    pid, url, key = process
    headers = {"Content-Type": media} | ({"Authorization": f"Bearer {key}"} if known else {})
    httpx.post(f"{url}/translate", json=GOOD, headers={"Authorization": f"Bearer {key}"}, timeout=30)
    before = resident(pid)
    answer = httpx.post(url + ROUTE, content=attack, headers=headers, timeout=60)
    assert answer.status_code == (400 if known else 401), answer.text
    assert resident(pid) - before < 10 * len(attack)
