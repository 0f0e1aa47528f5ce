"""Limits for one caller: request rate, size and duration of headers and bodies; and what is logged."""

import itertools
import json
import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlinear.cli import run as interlinear
from service import logging as service_logging
from service.auth.auth import client_address
from service.auth.key_store import KeyStore
from service.auth.rate_limits import RateLimit, RateLimiter
from service.http.server import MAX_PROBES
from tests.service.conftest import until

GOOD = {"q": "Ein Hund läuft.", "source": "de", "target": "en"}


# Buckets.


def test_a_token_bucket_by_hand():
    """2 a second, burst 3: three at 0 s; the next at 0.5 s, and at 10 s the bucket is full again."""
    buckets, rate = RateLimiter(), RateLimit(2.0, 3)
    asked = [(0.0, True, 2), (0.0, True, 1), (0.0, True, 0), (0.0, False, 0), (0.4, False, 0), (0.5, True, 0),
             (0.6, False, 0), (10.0, True, 2)]  # fmt: skip
    for now, allowed, left in asked:
        taken = buckets.take("a", rate, now)
        assert (taken.allowed, taken.left) == (allowed, left), now
    assert buckets.take("b", rate, 0.0).left == 2
    assert rate.policy == '"rate";q=3;w=2'
    assert (RateLimit.of(0.1).burst, RateLimit.of(2.5).burst, RateLimit.of(2.5, 9).burst) == (1, 3, 9)


def test_retry_after():
    buckets, rate = RateLimiter(), RateLimit(0.5, 1)
    assert buckets.take("a", rate, 100.0).allowed
    taken = buckets.take("a", rate, 100.5)
    assert not taken.allowed and taken.seconds == pytest.approx(1.5)
    assert not buckets.take("a", rate, 101.9).allowed
    assert buckets.take("a", rate, 102.0).allowed


@given(
    st.lists(st.floats(0, 3), min_size=1, max_size=60), st.floats(0.1, 20), st.integers(1, 10), st.integers(1, 3)
)  # fmt: skip
def test_the_rate_and_burst_are_never_exceeded(steps, per_second, burst, callers):
    """In any interval a caller gets at most a burst and the interval's share of the rate; a caller that waits is
    admitted."""
    buckets, rate = RateLimiter(), RateLimit(per_second, burst)
    allowed: dict[str, list[float]] = {}
    now = 0.0
    for i, step in enumerate(steps):
        now += step
        caller = str(i % callers)
        taken = buckets.take(caller, rate, now)
        if taken.allowed:
            allowed.setdefault(caller, []).append(now)
        else:
            assert taken.seconds <= 1 / per_second + 1e-6
            assert buckets.take(caller, rate, now + taken.seconds + 1e-6).allowed
            return
    for moments in allowed.values():
        for (i, first), (j, last) in itertools.combinations(enumerate(moments), 2):
            assert j - i + 1 <= burst + (last - first) * per_second + 1e-6


def test_many_callers_use_little_memory():
    buckets, rate = RateLimiter(max_callers=100), RateLimit(1.0, 5)
    for i in range(10_000):
        buckets.take(str(i), rate, 0.0)
    assert len(buckets) == 100
    for i in range(200):
        buckets.take("late", rate, 60.0 + i)
    assert len(buckets) == 1, "those that are full again are let go"


@pytest.mark.parametrize(
    ("host", "whose"),
    [
        ("192.0.2.7", "192.0.2.7"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"), ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"), ("unknown", "none"), ("", "none"),
    ],
)  # fmt: skip
def test_the_address_of_a_caller(host, whose):
    from starlette.requests import Request

    assert client_address(Request({"type": "http", "client": (host, 1), "headers": []})) == whose
    assert client_address(Request({"type": "http", "client": None, "headers": []})) == "none"


# A running service.


@pytest.fixture(scope="module")
def start(serving, settings):
    """Start a service of one model with some settings changed."""

    def started(**changes: object):
        return serving(type(settings).model_validate({"models": settings.models[:1], "threads": 1} | changes))

    return started


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("keys") / "keys.db"


@pytest.fixture(scope="module")
def keys(path):
    return {"slow": KeyStore(path).add("slow", rate=0.01), "quick": KeyStore(path).add("quick", rate=1000)}


@pytest.fixture(scope="module")
def strict(start, path, keys):
    """A service with strict limits."""
    with start(
        keys=path, rate=0.02, burst=2, trusted_proxies=["127.0.0.1"], origins=["https://example.org"],
        header_seconds=0.5, body_seconds=0.7, connections=12,
    ) as url:  # fmt: skip
        yield url


def asked(url: str, client: str, **sent: object) -> httpx.Response:
    """Send a request from a client address that a proxy reports."""
    headers = {"X-Forwarded-For": client, **sent.pop("headers", {})}
    return httpx.post(f"{url}/translate", headers=headers, timeout=30, **sent)


def rejected(url: str, reason: str) -> float:
    page = httpx.get(f"{url}/metrics").text
    found = re.search(rf'interlinear_rejected_total{{reason="{reason}"}} (\S+)', page)
    return float(found[1]) if found else 0.0


def test_each_address_has_its_own_rate(strict):
    answers = [asked(strict, "192.0.2.1", json=GOOD) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.headers["ratelimit-policy"] for answer in answers] == ['"rate";q=2;w=100'] * 3
    assert [re.match(r'"rate";r=(\d);t=\d+$', answer.headers["ratelimit"])[1] for answer in answers] == ["1", "0", "0"]
    assert 40 <= int(answers[2].headers["retry-after"]) <= 50
    assert answers[2].json()["detail"].startswith("more than 0.02 texts a second")
    assert rejected(strict, "rate") >= 1
    assert asked(strict, "192.0.2.2", json=GOOD).status_code == 200
    assert asked(strict, "10.0.0.1, 192.0.2.1", json=GOOD).status_code == 429, "the last that is no proxy of ours"
    assert asked(strict, "192.0.2.1, 127.0.0.1", json=GOOD).status_code == 429
    assert httpx.get(f"{strict}/languages", headers={"X-Forwarded-For": "192.0.2.1"}).status_code == 200


def test_a_rate_counts_texts(strict):
    """A list of five is admitted like one text, and delays the next requests accordingly."""
    first = asked(strict, "192.0.2.30", json=GOOD | {"q": ["Ein Hund."] * 5})
    assert (first.status_code, first.headers["ratelimit"]) == (200, '"rate";r=0;t=250')
    second = asked(strict, "192.0.2.30", json=GOOD)
    assert second.status_code == 429 and 190 < int(second.headers["retry-after"]) <= 200


def test_a_rate_counts_tokens_times_the_beam_if_that_is_more(strict):
    """60 sentences of 5 tokens or more are at least 1,500 at a beam of 5: two texts."""
    answer = asked(strict, "192.0.2.31", json=GOOD | {"q": "Ein Hund läuft. " * 60, "beam_size": 5})
    assert answer.status_code == 200
    assert int(answer.headers["ratelimit"].rpartition("=")[2]) >= 100, "in seconds, of which a text is 50"


def test_a_quota_counts_texts_and_is_never_exceeded(start, path):
    key = {"api_key": KeyStore(path).add("texts", quota=10)}
    with start(keys=path) as url:

        def ask(texts: int) -> tuple[int, str]:
            answer = httpx.post(f"{url}/translate", json=GOOD | key | {"q": ["Ein Hund läuft."] * texts}, timeout=30)
            return answer.status_code, re.search(r'"day";r=(\d+)', answer.headers["ratelimit"])[1]

        assert ask(7) == (200, "3")
        assert ask(4)[0] == 429, "three are left"
        assert ask(3) == (200, "0")
        assert ask(1) == (429, "0")


def test_an_ipv6_network_counts_as_one_caller(strict):
    codes = [asked(strict, f"2001:db8::{i}", json=GOOD).status_code for i in range(3)]
    assert codes == [200, 200, 429]


def test_each_key_has_its_own_rate(strict, keys):
    codes = [asked(strict, "192.0.2.3", json=GOOD | {"api_key": keys["quick"]}).status_code for _ in range(5)]
    assert codes == [200] * 5
    codes = [asked(strict, f"192.0.2.{i}", json=GOOD | {"api_key": keys["slow"]}).status_code for i in range(10, 13)]
    assert codes == [200, 200, 429]


def test_guessing_keys_is_limited(strict):
    codes = [asked(strict, "192.0.2.4", headers={"Authorization": f"Bearer {i}"}).status_code for i in range(3)]
    assert codes == [401, 401, 429]
    codes = [
        asked(strict, "192.0.2.5", data="%", headers={"Content-Type": "application/json"}).status_code for _ in "123"
    ]
    assert codes == [400, 400, 429]


def test_forwarded_addresses_are_ignored_by_default(start):
    with start(rate=0.02, burst=1) as url:
        assert [asked(url, f"192.0.2.{i}", json=GOOD).status_code for i in range(2)] == [200, 429]
        answer, _ = sync(url, POST + b"Connection: close\r\nContent-Length: 1000\r\n\r\n")
        assert status(answer) == 429, "by its headers: the body is not read"


def test_cors_origins_are_allowed_by_option_only(strict, client):
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    for origin, status in (("https://example.org", 200), ("https://evil.example", 400)):
        answer = httpx.options(f"{strict}/translate", headers={"Origin": origin} | ask)
        assert answer.status_code == status
        assert answer.headers.get("access-control-allow-origin") == (origin if status == 200 else None)
    answer = httpx.get(f"{strict}/languages", headers={"Origin": "https://example.org"})
    assert answer.headers["access-control-allow-origin"] == "https://example.org"
    assert "content-security-policy" in answer.headers
    assert "access-control-allow-credentials" not in answer.headers
    answer = client.get("/languages", headers={"Origin": "https://example.org"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert client.options("/translate", headers={"Origin": "https://example.org"} | ask).status_code == 405


# Slow, oversized or invalid bytes on a socket.


def sync(url: str, *pieces: bytes, pause: float = 0.0) -> tuple[bytes, float]:
    """Send pieces with pauses between them, and read until the service closes; returns the response and the seconds it
    took."""
    started = time.monotonic()
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
        except OSError:
            pass
        answer = b""
        try:
            while got := connection.recv(65_536):
                answer += got
        except ConnectionResetError:
            pass
    return answer, time.monotonic() - started


def status(answer: bytes) -> int:
    """The status of the first response; an error must be a problem."""
    head, _, body = answer.partition(b"\r\n\r\n")
    code = int(head.split()[1])
    assert json.loads(body)["status"] == code
    assert b"connection: close" in head.lower()
    return code


POST = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def test_slow_headers_time_out(strict):
    slow = rejected(strict, "slow")
    answer, seconds = sync(strict, *[bytes([byte]) for byte in POST * 3], pause=0.05)
    assert status(answer) == 408 and seconds < 10
    assert sync(strict)[0] == b"", "nor is a connection on which nothing comes"
    assert rejected(strict, "slow") == slow + 1


def test_slow_headers_after_a_response_time_out(strict):
    get = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    answer, seconds = sync(strict, get + get, *[bytes([byte]) for byte in get], pause=0.05)
    assert answer.count(b"HTTP/1.1 200") == 2 and answer.count(b"HTTP/1.1 408") == 1 and seconds < 10


def test_slow_bodies_time_out(strict, keys):
    key = f"Authorization: Bearer {keys['quick']}\r\n".encode()
    answer, seconds = sync(strict, POST + key + b"Content-Length: 1000\r\n\r\n", *[b" "] * 40, pause=0.05)
    assert status(answer) == 408 and seconds < 10
    assert rejected(strict, "slow_body") >= 1
    get = b"GET /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
    answer, seconds = sync(strict, get, *[b" "] * 40, pause=0.05)  # no route reads this body
    assert answer.count(b"HTTP/1.1") == 1 and answer.startswith(b"HTTP/1.1 200") and seconds < 10


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n", 400),
        (POST + b"Content-Length: -1\r\n\r\n", 400),
        (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: gzip\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40, 400),
    ],
)  # fmt: skip
def test_invalid_http_is_refused(strict, request_, code):
    answer, seconds = sync(strict, request_)
    assert seconds < 10
    assert status(answer) == code


SMUGGLED = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("length", [0, 5, 5 + len(SMUGGLED)])
@pytest.mark.parametrize("method", [POST, POST.replace(b"POST /translate", b"GET /health/live")])
def test_a_body_with_two_lengths_is_refused(strict, method, length):
    """Whichever length a proxy uses, nothing after the request is answered, and none of it is kept in memory."""
    both = b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % length
    answer, seconds = sync(strict, method + both + SMUGGLED)
    assert status(answer) == 400 and b"HTTP/1.1 200" not in answer and seconds < 10
    answer, _ = sync(strict, method.replace(b"1.1", b"1.0") + both.partition(b"\r\n")[2] + SMUGGLED)
    assert status(answer) == 400 and b"HTTP/1.1 200" not in answer


def in_chunks(size: int, count: int) -> bytes:
    """A request whose body, white space, is sent in so many chunks."""
    return POST + b"Transfer-Encoding: chunked\r\n\r\n" + (b"%x\r\n" % size + b" " * size + b"\r\n") * count


def test_a_body_of_tiny_chunks_is_refused(address):
    """Each chunk takes as long to parse as thousands of bytes, and delays everybody."""
    answer, _ = sync(address, in_chunks(1, 10_000) + b"0\r\n\r\n" + SMUGGLED)
    assert status(answer) == 400 and b"the chunks of the body are too small" in answer and b"200 OK" not in answer
    for size, count in ((1, 900), (64, 16_000)):  # chunks that arrive in parts, too
        answer = sent_whole(address, in_chunks(size, count) + b"0\r\n\r\n" + SMUGGLED)
        assert b"the body is not JSON" in answer and b"HTTP/1.1 200 OK" in answer
    body = json.dumps(GOOD).encode()
    one_by_one = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    answer = sent_whole(address, POST + b"Transfer-Encoding: chunked\r\n\r\n" + one_by_one + b"0\r\n\r\n")
    assert b"A dog is running." in answer, "a short body may come as it likes"


def sent_whole(url: str, request_: bytes) -> bytes:
    """Send a request and close the sending side (FIN); returns all that is answered."""
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20) as connection:
        connection.sendall(request_)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def post(body: bytes, *headers: bytes) -> bytes:
    return POST + b"".join(one + b"\r\n" for one in headers) + b"Content-Length: %d\r\n\r\n" % len(body) + body


def test_a_client_that_closed_its_sending_side_gets_its_response(address):
    answer = sent_whole(address, post(json.dumps(GOOD).encode()))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n") and json.loads(body)["translatedText"] == "A dog is running."
    events = sent_whole(address, post(json.dumps(GOOD).encode(), b"Accept: text/event-stream"))
    assert events.count(b"HTTP/1.1 200 OK\r\n") == 1 and b"event: answer" in events
    get = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    assert sent_whole(address, get * 3).count(b"HTTP/1.1 200 OK\r\n") == 3
    assert sent_whole(address, post(b"x").replace(b"Length: 1", b"Length: 2")) == b"", "which is not whole"
    assert sent_whole(address, b"GET / HT") == b"" and sent_whole(address, b"") == b""


def test_a_disconnected_client_is_detected(address):
    """The same bytes, but the client is gone: its request is cancelled."""
    gone = rejected(address, "gone")
    texts = ["".join(f"Ein Hund läuft {n} mal im Park {i}. " for i in range(40)) for n in range(20)]  # no two equal
    asked_ = json.dumps(GOOD | {"q": texts, "beam_size": 5}).encode()
    with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as connection:
        connection.sendall(post(asked_))
        time.sleep(0.05)
    for _ in range(200):
        if rejected(address, "gone") > gone:
            break
        time.sleep(0.05)
    assert rejected(address, "gone") == gone + 1


def test_a_request_is_refused_by_its_headers(strict, keys):
    """If an address has no quota left, or the key is invalid, the body is not read."""
    announced = b"Content-Length: 1000\r\n\r\n"
    for _ in range(2):
        assert asked(strict, "192.0.2.60", json=GOOD | {"api_key": "wrong"}).status_code == 401
    answer, _ = sync(strict, POST + b"X-Forwarded-For: 192.0.2.60\r\nConnection: close\r\n" + announced)
    assert status(answer) == 429
    answer, _ = sync(strict, POST + b"Authorization: Bearer wrong\r\nConnection: close\r\n" + announced)
    assert status(answer) in (401, 429)
    assert asked(strict, "192.0.2.60", headers={"Authorization": f"Bearer {keys['quick']}"}, json=GOOD).is_success


JSON, FORM = {"Content-Type": "application/json"}, {"Content-Type": "application/x-www-form-urlencoded"}
PART = b'--x\r\nContent-Disposition: form-data; name="api_key"\r\n\r\nwrong\r\n--x--\r\n'
WRONG_KEYS = {
    "half a character": ("/translate", {"content": b'{"api_key": "\\ud800"}', "headers": JSON}, 401),
    "a form": ("/summarize", {"data": {"api_key": "wrong"}}, 401),
    "parts": ("/detect", {"content": PART, "headers": {"Content-Type": "multipart/form-data; boundary=x"}}, 401),
    "a header": ("/translate", {"headers": JSON | {"Authorization": "Bearer \xff".encode("latin-1")}}, 401),
    "beside what is not JSON": ("/post-edit", {"content": b'{"api_key": "wrong', "headers": JSON}, 401),
    "of another media type": ("/translate", {"content": b"x", "headers": {"Content-Type": "text/plain"}}, 401),
    "too long": ("/translate/multimodal", {"content": b" " * 1_200_000, "headers": JSON}, 401),
    "metrics": ("/metrics", {"headers": {"Authorization": "Bearer wrong"}}, 401),
}


@pytest.fixture(scope="module")
def asking(start, path, keys):
    """A service that requires keys everywhere, including its metrics."""
    with start(
        keys=str(path), require_key=True, metrics_key=True, rate=0.02, burst=2, trusted_proxies=["127.0.0.1"]
    ) as url:
        yield url


@pytest.mark.parametrize("case", WRONG_KEYS)
def test_every_wrong_key_counts_towards_the_rate(asking, case):
    route, sent, code = WRONG_KEYS[case]
    client = {"X-Forwarded-For": f"192.0.2.{100 + list(WRONG_KEYS).index(case)}"}
    sent = sent | {"headers": sent.get("headers", {}) | client}
    method = "GET" if route == "/metrics" else "POST"
    answers = [httpx.request(method, asking + route, timeout=30, **sent) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [code, code, 429], answers[0].text


def test_too_many_connections_are_refused_and_the_service_recovers(start):
    """Idle connections that fill the limit, and more than are taken above it: probes are answered nevertheless, other
    requests are refused."""
    with start(connections=12) as url:  # whose idle connections are not closed meanwhile
        port = int(url.rpartition(":")[2])
        refused = rejected(url, "connections")
        crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(12 + 2 * MAX_PROBES)]
        try:
            for path, code in (("/health", 200), ("/health/live", 200), ("/health/ready", 200), ("/languages", 503)):
                answer, _ = sync(url, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())  # until it is closed
                assert answer.startswith(f"HTTP/1.1 {code} ".encode()) and b"connection: close" in answer.lower()
            answer, _ = sync(url, POST + b"Content-Length: 1000\r\n\r\n")
            assert status(answer) == 503, "and its body is not waited for"
            for connection in (crowd[12], crowd[-1]):  # the oldest above the limit made room, the newest has a second
                connection.settimeout(10)
                assert connection.recv(15) == b"HTTP/1.1 503 \r\n"
        finally:
            for connection in crowd:
                connection.close()
        until(lambda: httpx.get(f"{url}/languages").status_code == 200)
        assert rejected(url, "connections") >= refused + MAX_PROBES


def test_a_target_in_absolute_form_is_that_path_of_its_host(address):
    request_ = b"GET HTTP://example.org:80/health/live?x=1 HTTP/1.1\r\nHost: y\r\nConnection: close\r\n\r\n"
    assert sync(address, request_)[0].startswith(b"HTTP/1.1 200 ")
    assert sync(address, request_.replace(b"/health/live?x=1", b""))[0].startswith(b"HTTP/1.1 200 "), "the page"
    assert status(sync(address, request_.replace(b"live?x=1", b"lives"))[0]) == 404


def test_a_hundred_slow_clients_do_not_delay_others(start):
    with start(header_seconds=1.5) as url:
        port = int(url.rpartition(":")[2])
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        for i, connection in enumerate(slow):
            connection.sendall(POST[:20] if i % 2 else POST + b"Content-Length: 100\r\n\r\n{")
        assert httpx.post(f"{url}/translate", json=GOOD, timeout=30).json()["translatedText"] == "A dog is running."
        for connection in slow[1::2]:
            connection.settimeout(20)
            assert connection.recv(12) == b"HTTP/1.1 408"
        for connection in slow:
            connection.close()


@pytest.mark.parametrize("depth", [10, 500, 990, 1010, 50_000])
def test_nesting_is_refused_at_any_depth(client, depth):
    for opened, closed in ((b"[", b"]"), (b'{"a":', b"}")):
        body = b'{"q": ' + opened * depth + b"1" + closed * depth + b"}"
        assert client.post("/translate", content=body, headers={"Content-Type": "application/json"}).status_code == 400


@pytest.mark.parametrize(
    "name",
    ["../../../etc/passwd", "/etc/passwd", "de-en/../en-de", "de-en@../1", "models:/x/1", "\x00", "C:\\", "%2e%2e"],
)
def test_a_model_name_is_not_a_path(client, name):
    answer = client.post("/translate", json=GOOD | {"model": name})
    assert answer.status_code == 400 and "that is served" in answer.json()["detail"]


# Logging.


class Listening(logging.Handler):
    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def written(formatter: logging.Formatter, work: Callable[[logging.Logger], None]) -> str:
    handler, logger = Listening(formatter), logging.getLogger("interlinear.tested")
    logger.addHandler(handler)
    try:
        work(logger)
    finally:
        logger.removeHandler(handler)
    (line,) = handler.lines
    return line


def fails(logger: logging.Logger) -> None:
    try:
        raise ValueError("what a user wrote")
    except ValueError:
        logger.error(
            "it\nfailed\r\x1b[2J\x7f\x9b\u2028", exc_info=True, extra={"request_id": "r1", "unknown": "secret"}
        )


def test_a_record_as_json_and_as_text():
    written_line = written(service_logging.JsonFormatter(), fails)
    line = json.loads(written_line)
    assert (line["level"], line["message"], line["request_id"]) == ("error", "it\nfailed\r\x1b[2J\x7f\x9b\u2028", "r1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    assert line["exception"].startswith("ValueError at ")
    text = written(service_logging.TextFormatter(), fails)
    said = r"it failed\u000d\u001b[2J\u007f\u009b\u2028 request_id=r1 ValueError at "
    assert f"error interlinear.tested: {said}" in text
    assert text.isprintable() and written_line.isprintable(), "nothing begins a line or commands a terminal"
    assert "wrote" not in json.dumps(line) + text and "secret" not in json.dumps(line) + text


@pytest.mark.parametrize("style", ["json", pytest.param("text", marks=pytest.mark.slow)])
def test_texts_and_keys_are_not_in_the_log_or_the_metrics(bundles, tmp_path, style, capsys):
    """Marked words are sent in every place that a client controls; then everything that the service wrote is searched
    for them."""
    assert interlinear(["keys", "add", "the-app", "--keys", str(tmp_path / "keys.db")]) == 0
    key = capsys.readouterr().out.strip()
    options = [
        "--require-key",
        f"--set=log_format={style}",
        "--set=access_log=true",
        "--set=origins=[https://example.org]",
    ]
    command = [sys.executable, "-m", "interlinear", "serve", "--port", "0", "--model", f"mt={bundles.de_en}", *options]
    with subprocess.Popen(command, cwd=tmp_path, env=os.environ, stderr=subprocess.PIPE, text=True) as child:
        try:
            said = []
            for line in child.stderr:
                said.append(line)
                if match := re.search(r"playground (http://[^/]+)/", line):
                    break
            url, mark = match[1], "Marked"
            with httpx.Client(base_url=url, timeout=30) as client:
                good = GOOD | {"q": f"{mark} Hund.", "api_key": key}
                headers = {"X-Request-ID": "traced-7"}
                assert client.post("/translate", json=good | {"explain": True}, headers=headers).status_code == 200
                client.post(f"/translate?q={mark}", data=good)
                client.post("/translate", json=good | {"source": mark, mark: mark})
                client.post("/translate", json=good | {"model": mark})
                client.post("/translate", json=good | {"q": mark * 1000})
                client.post("/translate", content=mark, headers={"Content-Type": mark})
                client.post("/translate", content=f'{{"{mark}', headers={"Content-Type": "application/json"})
                client.post("/translate", json=good | {"api_key": f"{key[:-3]}{mark}"})
                client.get(f"/{mark}?{mark}", headers={"X-Request-ID": f"{mark} {mark}", "Cookie": mark})
                client.request(mark.upper(), "/translate")
                sync(url, f"{mark} {mark}\r\n\r\n".encode())
                metrics = client.get("/metrics").text
        finally:
            child.terminate()
        said += child.stderr.readlines()
        assert child.wait(60) == 0
    everything = "".join(said) + metrics
    assert mark.lower() not in everything.lower()
    assert key not in everything and key.split("_", 2)[2][:20] not in everything
    (translated,) = (line for line in said if "traced-7" in line)
    if style == "json":
        lines = [json.loads(line) for line in said]
        assert all(line["level"] == "info" for line in lines)
        line = json.loads(translated)
        assert (line["method"], line["route"], line["status"], line["key"]) == ("POST", "/translate", 200, "the-app")
        assert 0 < line["seconds"] < 30
    else:
        assert "POST /translate 200" in translated and "key=the-app" in translated
    assert "the-app" not in metrics


def test_an_invalid_setting_is_reported(bundles, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for arguments, code, sentence in (
        (("--set", "log_format=xml"), 2, "log_format: input should be 'text' or 'json'"),
        (("--set", "trusted_proxies=[proxy]"), 2, "must be an IP address or network"),
        (("--set", "origins=[example.org]"), 2, "must be like https://example.org"),
        (("--set", "rate=0"), 2, "rate: input should be greater than 0"),
        (("--set", "rates=5"), 2, "rates: there is no such setting; did you mean rate?"),
        (("--set", "rate"), 2, "rate: this is no setting. Write --set key=value"),
        (("--require-key",), 1, "keys.db: there is no such file. Make it by `interlinear keys add NAME`"),
    ):
        assert interlinear(["serve", "--port", "0", f"--model=mt={bundles.de_en}", *arguments]) == code, arguments
        said = capsys.readouterr().err
        *before, last = said.splitlines()
        assert sentence in last and all(line.startswith("interlinear: loading ") for line in before), said
