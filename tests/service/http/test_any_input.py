"""Any value of any field, form, header or path is answered or refused with 4xx, never with 5xx."""

import json
import re
import socket
import urllib.parse
from collections.abc import Iterator

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from service.auth.key_store import KeyStore
from service.http.requests import (
    DetectRequest,
    MultimodalRequest,
    PostEditRequest,
    SummarizeRequest,
    TranslateRequest,
)
from tests.service.http.test_bad_input import ALL, JSON

KINDS = (TranslateRequest, MultimodalRequest, PostEditRequest, SummarizeRequest, DetectRequest)
ROUTES = ALL | {"/detect": {"q": "Ein Hund läuft."}}
HEADERS = (
    "Authorization", "Content-Type", "Content-Encoding", "Accept", "Expect", "Origin", "X-Request-Timeout",
    "X-Request-ID", "X-Forwarded-For", "Transfer-Encoding", "Content-Length", "Connection", "Host", "Upgrade",
)  # fmt: skip
KNOWN = (
    "Bearer ", "Bearer il_0123456789ab_", "application/json", "application/x-www-form-urlencoded",
    "multipart/form-data", "; charset=", "; boundary=", "text/event-stream", "100-continue", "chunked", "close",
    "websocket", "1e9", "de",
)  # fmt: skip
OF_PAGES = ("Range", "If-Range", "If-None-Match", "If-Modified-Since", "Authorization", "X-Request-ID", "Cookie")
RANGES = ("bytes=0-", "bytes=-1", "bytes=5-1", "bytes=0-0,2-2", "bytes=" + "9" * 5000 + "-", "[x", "a/b?c#d@")

text = st.text(st.characters(), max_size=20)  # all of Unicode, including lone surrogates
field = st.sampled_from(sorted({name for kind in KINDS for name in kind.model_fields}))
value = st.recursive(
    text | st.none() | st.booleans() | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
route = st.sampled_from(sorted(ROUTES))
header = st.tuples(st.sampled_from(HEADERS), st.builds(str.__add__, st.sampled_from(["", *KNOWN]), text))
many = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def octets(said: str) -> bytes:
    """UTF-8 with lone surrogates encoded, which is invalid UTF-8."""
    return said.encode(errors="surrogatepass")


@pytest.fixture(scope="module")
def asking(one_model, serving, tmp_path_factory) -> Iterator[httpx.Client]:
    """A service that requires keys."""
    keys = str(tmp_path_factory.mktemp("keys") / "keys.db")
    KeyStore(keys).add("app")
    with (
        serving(one_model.model_copy(update={"keys": keys, "require_key": True})) as url,
        httpx.Client(base_url=url, timeout=30) as client,
    ):
        yield client


def ends(client: httpx.Client, asking: httpx.Client, route: str, content: bytes, media: dict[str, str]) -> None:
    """Without keys the request is answered or refused; if keys are required, it is refused for lack of one."""
    answer = client.post(route, content=content, headers=media)
    assert answer.status_code == 200 or 400 <= answer.status_code < 500, answer.text
    answer = asking.post(route, content=content, headers=media)
    assert answer.status_code == 401, answer.text


@given(route, st.dictionaries(field | text, value, max_size=4), st.booleans())
@example("/translate", {"q": "&#" + "9" * 4900 + ";", "format": "html"}, True)
@many
def test_any_json(client, asking, route, changes, escaped):
    ends(client, asking, route, octets(json.dumps(ROUTES[route] | changes, ensure_ascii=escaped)), JSON)


@given(route, st.lists(st.tuples(field | text, text), max_size=4))
@many
def test_any_form(client, asking, route, changes):
    pairs = [*({} if changes[:1] == [("q", "")] else ROUTES[route]).items(), *changes]
    form = "&".join(
        f"{urllib.parse.quote_from_bytes(octets(n))}={urllib.parse.quote_from_bytes(octets(v))}" for n, v in pairs
    )
    ends(client, asking, route, form.encode(), {"Content-Type": "application/x-www-form-urlencoded"})


@given(route, st.lists(st.tuples(field | text, text, st.booleans()), max_size=4))
@many
def test_any_parts(client, asking, route, changes):
    parts = b""
    for name, said, file in [*((n, v, False) for n, v in ROUTES[route].items()), *changes]:
        more = b'; filename="a"' if file else b""
        parts += b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n' % (octets(name), more)
        parts += octets(said) + b"\r\n"
    ends(client, asking, route, parts + b"--x--\r\n", {"Content-Type": "multipart/form-data; boundary=x"})


def statuses(client: httpx.Client, request: bytes) -> list[int]:
    """The statuses of all responses to bytes sent on a connection of their own."""
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=30) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        try:
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        except ConnectionResetError:
            return []
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


def with_headers(route: str, changes: dict[str, str]) -> bytes:
    body = octets(json.dumps(ROUTES[route]))
    usual = {"Host": "x", "Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [octets(f"{name}: {said}") for name, said in (usual | changes).items()]
    return b"\r\n".join([f"POST {route} HTTP/1.1".encode(), *lines, b"", body])


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_the_unchanged_request_is_answered(client, asking, route):
    """Bytes that are no whole request, as some of the following are not, have no answer."""
    assert (statuses(client, with_headers(route, {})), statuses(asking, with_headers(route, {}))) == ([200], [401])


@given(route, st.lists(header, min_size=1, max_size=4))
@many
def test_any_header(client, asking, route, changes):
    request = with_headers(route, dict(changes))
    for code in statuses(client, request):
        assert code == 200 or 400 <= code < 500 or code == 100
    for code in statuses(asking, request):
        assert 400 <= code < 500 or code == 100


@given(
    st.sampled_from(["/", "/docs", "/models", "/languages", "/metrics", "/health/ready", "/openapi.json", "/nothing"]),
    st.lists(st.tuples(st.sampled_from(["Host", *OF_PAGES]), st.sampled_from(["", *RANGES]) | text), max_size=4),
)
@many
def test_any_header_of_a_page(client, asking, path, changes):
    lines = [octets(f"{name}: {said}") for name, said in ({"Host": "x"} | dict(changes)).items()]
    request = b"\r\n".join([f"GET {path} HTTP/1.1".encode(), *lines, b"", b""])
    for service in (client, asking):
        for code in statuses(service, request):
            assert 200 <= code < 500


@given(text, text, st.sampled_from(["GET", "POST", "HEAD", "OPTIONS", "PUT", "BREW"]), st.booleans())
@many
def test_any_address(client, asking, path, query, method, quoted):
    target = "/" + path + "?" + query
    written = urllib.parse.quote_from_bytes(octets(target), safe="/?%").encode() if quoted else octets(target)
    request = method.encode() + b" " + written + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    for service in (client, asking):
        for code in statuses(service, request):
            assert code == 200 or 400 <= code < 500
