# ruff: noqa: E501 - tables of cases
"""Invalid requests get a problem that names the cause, without a traceback, and the service goes on answering."""

import json
import re
import urllib.request

import httpx
import pytest

from tests.parameters import slow_but

GOOD = {"q": "Ein Hund läuft im Park.", "source": "de", "target": "en"}
STORY = {"text": "A dog is running in the park."}
ROUTES = {"/translate": GOOD, "/summarize": STORY}
DRAFT = {"translation": "Ein Hund laufen im Park.", "source": "en", "target": "de"}
ALL = ROUTES | {"/translate/multimodal": {"q": "The ball.", "source": "en", "target": "de"}, "/post-edit": DRAFT}
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
LIBRETRANSLATE = re.compile(
    r"^Invalid request: |^Invalid JSON format$|^Slowdown: | is not supported$| is not available as a target language from "
)


PARTS = {"Content-Type": "multipart/form-data; boundary=x"}


@pytest.fixture(autouse=True, scope="module")
def goes_on_answering(client):
    yield
    assert client.post("/translate", json=GOOD).json()["translatedText"] == "A dog is running in the park."
    assert client.post("/summarize", json=STORY).json()["summaries"] == "Dog runs"


def refused(answer: httpx.Response, status: int = 400) -> dict:
    """The problem in a response, after checks that hold for all of them."""
    problem = answer.json()
    assert answer.status_code == problem["status"] == status, problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["error"] == problem["detail"] or LIBRETRANSLATE.search(problem["error"])
    assert problem["title"]
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert "Traceback" not in answer.text
    return problem


TEXT = "the text"  # the name of the field is the route's own

FIELDS = {
    "text missing": ({TEXT: ...}, TEXT, "missing"),
    "text null": ({TEXT: None}, TEXT, "must be a valid string"),
    "text empty": ({TEXT: ""}, TEXT, "must not be empty"),
    "text blank": ({TEXT: " \n"}, TEXT, "must not be blank"),
    "text an empty list": ({TEXT: []}, TEXT, "must not be empty"),
    "text a list of nothing": ({TEXT: ["", " "]}, TEXT, "must not be blank"),
    "text a number": ({TEXT: 7}, TEXT, "string"),
    "text an object": ({TEXT: {"text": "Ein Hund"}}, TEXT, "string"),
    "text with null in it": ({TEXT: ["Ein Hund", None]}, TEXT + "[1]", "string"),
    "text with a list in it": ({TEXT: ["Ein Hund", ["läuft"]]}, TEXT + "[1]", "string"),
    "text of 1,000 items": ({TEXT: ["Ein Hund."] * 1000}, TEXT, "more than 100 items"),
    "text of too many characters": ({TEXT: "x" * 5001}, TEXT, "longer than 5000 characters"),
    "an unknown field": ({"quality": 11}, "quality", "the fields are"),
    "an unknown field of odd name": ({"<b>\0" * 900: 1}, "<b>", "the fields are"),
    "a field's name a surrogate": ({"\ud800": 1}, "the request", "must be valid Unicode"),
    "alternatives a string": ({"alternatives": "3"}, "alternatives", "integer"),
    "alternatives true": ({"alternatives": True}, "alternatives", "integer"),
    "alternatives negative": ({"alternatives": -1}, "alternatives", "greater than or equal to 0"),
    "beam 0": ({"beam_size": 0}, "beam_size", "greater than or equal to 1"),
    "beam 10^9": ({"beam_size": 10**9}, "beam_size", "less than or equal to 5"),
    "beam beyond floats": ({"beam_size": 10**400}, "beam_size", "less than or equal to 5"),
    "max_length negative": ({"max_length": -1}, "max_length", "greater than or equal to 1"),
    "max_length over the model's": ({"max_length": 401}, "max_length", "at most 400"),
    "length_penalty a word": ({"length_penalty": "long"}, "length_penalty", "'none' or 'average'"),
    "length_penalty negative": ({"length_penalty": -1}, "length_penalty", "greater than or equal to 0"),
    "explain a word": ({"explain": "yes"}, "explain", "boolean"),
    "an unknown model": ({"model": "../secret"}, "model", "served for"),
    "an unknown version": ({"model": "de-en@99"}, "model", "served for"),
    "a picture": ({"image": "aGk="}, "image", "is not a field"),
}  # fmt: skip

TRANSLATE_FIELDS = {
    "source missing": ({"source": ...}, "source", "missing"),
    "source null": ({"source": None}, "source", "string"),
    "source no code": ({"source": "../../etc"}, "source", "pattern"),
    "a language that is not served": ({"source": "fr"}, "source", "must be de for en, not 'fr'"),
    "a pair that is not served": ({"target": "fr"}, "target", "must be en for de, not 'fr'"),
    "auto into what is not served": ({"source": "auto", "target": "fr"}, "target", "de to en"),
    "another format": ({"format": "markdown"}, "format", "'text', 'html' or 'xml'"),
    "another pair's model": ({"model": "en-de"}, "target", "there is en to de"),
    "a model of another task": ({"model": "headlines"}, "model", "must be one for translation, de-en@"),
    "terms of too many tokens": ({"q": "Hund", "glossary": [{"source": "Hund", "target": "µ" * 200}]}, "glossary", "401 tokens"),
    "a context": ({"context": "Im Park."}, "context", "is not read by de-en@"),
    "another mode of splitting": ({"split_sentences": "2"}, "split_sentences", "'0', '1' or 'nonewlines'"),
}  # fmt: skip

SUMMARIZE_FIELDS = {
    "a field of the other route": ({"q": "A dog."}, "q", "the fields are text, "),
    "max_length under the model's": ({"max_length": 1}, "max_length", "must be at least 2"),
    "languages": ({"source": "en"}, "source", "is not a field"),
    "text of too many tokens": ({"text": "a " * 200}, "text", "399 tokens, and the model reads at most 150"),
    "an item of too many tokens": ({"text": ["A dog.", "", "a " * 200]}, "text[2]", "399 tokens"),
    "a model of another task": ({"model": "de-en"}, "model", "is for translation"),
    "a model of another task by its alias": ({"model": "en-de@champion"}, "model", "served for summarization, headlines@"),
}  # fmt: skip

FAULTS = [
    *(pytest.param(route, *fault, id=f"{route[1:]}: {name}") for route in ROUTES for name, fault in FIELDS.items()),
    *(pytest.param("/translate", *fault, id=f"translate: {name}") for name, fault in TRANSLATE_FIELDS.items()),
    *(pytest.param("/summarize", *fault, id=f"summarize: {name}") for name, fault in SUMMARIZE_FIELDS.items()),
]


@pytest.mark.parametrize(("route", "changes", "field", "cause"), FAULTS)
def test_an_invalid_field_is_named(client, route, changes, field, cause):
    own = next(iter(ROUTES[route]))
    field, changes = field.replace(TEXT, own), {name.replace(TEXT, own): value for name, value in changes.items()}
    request = {name: value for name, value in (ROUTES[route] | changes).items() if value is not ...}
    problem = refused(client.post(route, content=json.dumps(request), headers=JSON))
    (named,) = (one for one in problem["errors"] if one["field"].startswith(field))
    assert cause in named["problem"] or cause in problem["detail"]
    assert field in problem["detail"]


BODIES = {
    "nothing": (b"", JSON, "not JSON"),
    "half an object": (b'{"q": "Ein', JSON, "not JSON"),
    "no object": (b'["Ein Hund"]', JSON, "must be a JSON object"),
    "a byte that is not UTF-8": (b'{"q": "\xff"}', JSON, "not UTF-8"),
    "a lone surrogate": (b'{"q": "\\ud800", "source": "de", "target": "en"}', JSON, "q must be valid Unicode"),
    "a lone surrogate in a list": (b'{"q": ["a", "\\udc00"], "source": "de", "target": "en"}', JSON, "q[1] must be valid Unicode"),
    "NaN": (b'{"q": "a", "source": "de", "target": "en", "length_penalty": NaN}', JSON, "NaN is no JSON number"),
    "Infinity": (b'{"q": "a", "length_penalty": -Infinity}', JSON, "-Infinity is no JSON number"),
    "a float beyond floats": (b'{"q": "a", "source": "de", "target": "en", "length_penalty": 1e999}', JSON, "length_penalty"),
    "a number of 100,000 digits": (b'{"beam_size": ' + b"9" * 100_000 + b"}", JSON, "too long"),
    "deep": (b'{"q": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", JSON, "nested too deep"),
    "a key twice": (b'{"q": "a", "q": "b"}', JSON, "q is given twice"),
    "8,000 keys, the last one twice": (b'{"q": "a"' + b"".join(b', "%x": 0' % i for i in range(8_000)) + b', "1f3f": 0}', JSON, "more than 1000 fields"),
    "80,000 keys": (b'{"q": "a"' + b"".join(b', "%x": 0' % i for i in range(80_000)) + b"}", JSON, "more than 20,200 values"),
    "lists of nothing": (b'{"q": [' + b"[]," * 100_000 + b"[]]}", JSON, "more than 20,200 values"),
    "an empty form": (b"", FORM, "q is missing"),
    "a form without values": (b"q", FORM, "the form is malformed"),
    "a form that is not UTF-8": (b"q=%ff&source=de&target=en", FORM, "not UTF-8"),
    "a form of 2,000 fields": (b"&".join([b"q=a"] * 2000), FORM, "the form is malformed"),
    "a form's field twice": (b"q=a&source=de&source=en&target=en", FORM, "source is given twice"),
    "a form's number": (b"q=a&source=de&target=en&beam_size=many", FORM, "beam_size"),
    "a form's NaN": (b"q=a&source=de&target=en&length_penalty=nan", FORM, "length_penalty"),
    "parts that do not end": (b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nEin Hund', PARTS, "the form is malformed"),
    "a part without a name": (b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--\r\n", PARTS, "no name"),
    "a file": (b'--x\r\nContent-Disposition: form-data; name="q"; filename="a"\r\n\r\na\r\n--x--\r\n', PARTS, "not a file"),
    "no boundary": (b"--x--", {"Content-Type": "multipart/form-data"}, "the form is malformed"),
    "no parts": (b"hello", PARTS, "the form is malformed"),
}  # fmt: skip


@pytest.mark.parametrize("route", ALL)
@pytest.mark.parametrize(("body", "headers", "cause"), BODIES.values(), ids=BODIES)
def test_a_malformed_body_is_refused(client, route, body, headers, cause):
    own = next(iter(ALL[route]))
    if own != "q":
        body = body.replace(b'"q"', f'"{own}"'.encode()).replace(b"q=", f"{own}=".encode())
        cause = re.sub(r"^q\b", own, cause)
    if route not in ROUTES:  # one text, not a list; with an image not even that
        cause = cause.replace(f"{own}[1] must be valid Unicode", "string").replace("q is missing", "source is missing")
    problem = refused(client.post(route, content=body, headers=headers))
    assert cause in problem["detail"]


TEXTS = [
    "مرحبا بالعالم", "שלום עולם", "👩‍👩‍👧‍👦 🇩🇪 läuft", "Ein\u202eHund", "Z̷͎͝a̴l̶g̵o̶", "\x00\x01\x1b[31m Hund \x7f", "\ufeffEin\u00adHund",
    "a\tb\nc\r\n\u2028d", "\ufdd0▁<unk></s>", "\U0010ffff\uffff", "𝕰𝖎𝖓 𝕳𝖚𝖓𝖉", "e\u0301" * 40, "<script>alert(1)</script>", "%s %(q)s {q}",
]  # fmt: skip


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("text", slow_but(TEXTS[::3], TEXTS))
def test_any_unicode_is_a_text(client, route, text):
    """Right-to-left text, emoji, control characters and internal marker characters are read and explained like any
    text."""
    request = ROUTES[route] | {next(iter(ROUTES[route])): text, "explain": True}
    answer = client.post(route, json=request)
    assert answer.status_code == 200, answer.text
    for span in answer.json()["explanations"][0]["source"]:
        assert text[span["start"] : span["end"]] == span["text"]


def test_ten_megabytes_are_refused_while_they_arrive(client):
    huge = json.dumps(GOOD | {"q": "Hund " * 2_000_000}).encode()
    problem = refused(client.post("/translate", content=huge, headers=JSON), 413)
    assert "1048576 bytes" in problem["detail"]
    chunks = (huge[i : i + 50_000] for i in range(0, len(huge), 50_000))  # no Content-Length
    refused(client.post("/translate", content=chunks, headers=JSON), 413)
    refused(client.post("/detect", data={"q": "x" * 2_000_000}), 413)
    refused(client.post("/summarize", data={"text": "x" * 10_000_000}), 413)
    with pytest.raises(urllib.error.HTTPError) as error:  # a client that reads only after it has sent everything
        urllib.request.urlopen(f"{client.base_url}/translate", data=huge)
    assert error.value.code == 413


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"Content-Type": "text/plain"}, {"Content-Type": ""}, {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/xml\t;;;"},
        *(JSON | {"Content-Encoding": coding} for coding in ("gzip", "br", "deflate", "zstd", "identity, gzip", "x")),
    ],
)  # fmt: skip
def test_other_media_types_are_refused(client, headers):
    for route, request in ALL.items():
        refused(client.post(route, content=json.dumps(request), headers=headers), 415)


@pytest.mark.parametrize(
    "path", ["/nothing", "/playground/../settings.py", "/playground/%2e%2e%2fapp.py", "/models/", "/%00"]
)
def test_unknown_paths_are_404(client, path):
    refused(client.get(f"{path}"), 404)


def test_a_wrong_method_is_405(client):
    for route in ALL:
        answer = client.get(route)
        refused(answer, 405)
        assert answer.headers["allow"] == "POST"
    refused(client.delete("/models"), 405)


@pytest.mark.parametrize("seconds", ["", "0", "-1", "nan", "inf", "soon", "1e"])
def test_a_deadline_must_be_a_number_of_seconds(client, seconds):
    for route, request in ALL.items():
        problem = refused(client.post(route, json=request, headers={"X-Request-Timeout": seconds}))
        assert "X-Request-Timeout" in problem["detail"]


@pytest.mark.parametrize(
    "request_", [{}, {"q": ""}, {"q": None}, {"q": ["a"]}, {"q": "x" * 5001}, {"q": "a", "foo": 1}, {"q": "\x00 "[1:]}]
)
def test_detect_refuses_the_same_input(client, request_):
    refused(client.post("/detect", json=request_))


@pytest.mark.parametrize("route", ROUTES)
def test_optional_fields_may_be_null_or_empty(client, route):
    names = ["alternatives", "api_key", "beam_size", "length_penalty", "max_length", "model", "explain"]
    empty = dict.fromkeys([*names, "format"] if route == "/translate" else names)
    assert client.post(route, json=ROUTES[route] | empty).status_code == 200
    assert client.post(route, data=ROUTES[route] | dict.fromkeys(empty, "")).status_code == 200
