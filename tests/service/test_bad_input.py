# ruff: noqa: E501 - tables of cases
"""Whatever is sent: a problem that names the cause, no traceback, and a service that goes on answering."""

import json
import urllib.request

import httpx
import pytest

GOOD = {"q": "Ein Hund läuft im Park.", "source": "de", "target": "en"}
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PARTS = {"Content-Type": "multipart/form-data; boundary=x"}


@pytest.fixture(autouse=True)
def goes_on_answering(client):
    yield
    assert client.post("/translate", json=GOOD).json()["translatedText"] == "A dog is running in the park."


def refused(answer: httpx.Response, status: int = 400) -> dict:
    """The problem of an answer, after what holds for all of them."""
    problem = answer.json()
    assert answer.status_code == problem["status"] == status, problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["error"] == problem["detail"]
    assert problem["title"]
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert "Traceback" not in answer.text
    return problem


FIELDS = {
    "q missing": ({"q": ...}, "q", "missing"),
    "q null": ({"q": None}, "q", "must be a valid string"),
    "q empty": ({"q": ""}, "q", "must not be empty"),
    "q blank": ({"q": " \n"}, "q", "nothing to translate"),
    "q an empty list": ({"q": []}, "q", "must not be empty"),
    "q a list of nothing": ({"q": ["", " "]}, "q", "nothing to translate"),
    "q a number": ({"q": 7}, "q", "string"),
    "q an object": ({"q": {"text": "Ein Hund"}}, "q", "string"),
    "q with null in it": ({"q": ["Ein Hund", None]}, "q[1]", "string"),
    "q with a list in it": ({"q": ["Ein Hund", ["läuft"]]}, "q[1]", "string"),
    "q of 1,000 items": ({"q": ["Ein Hund."] * 1000}, "q", "more than 100 items"),
    "q of too many characters": ({"q": "x" * 5001}, "q", "longer than 5000 characters"),
    "q of too many tokens": ({"q": "Hund " * 200}, "q", "200 tokens, and the model reads at most 150"),
    "an item of too many tokens": ({"q": ["Ein Hund.", "", "Hund " * 200]}, "q[2]", "200 tokens"),
    "source missing": ({"source": ...}, "source", "missing"),
    "source null": ({"source": None}, "source", "string"),
    "source no code": ({"source": "../../etc"}, "source", "pattern"),
    "a language that is not served": ({"source": "fr"}, "source", "must be de for en, not 'fr'"),
    "a pair that is not served": ({"target": "fr"}, "target", "must be en for de, not 'fr'"),
    "auto into what is not served": ({"source": "auto", "target": "fr"}, "target", "de to en"),
    "an unknown field": ({"quality": 11}, "quality", "the fields are"),
    "an unknown field of odd name": ({"<b>\0" * 900: 1}, "<b>", "the fields are"),
    "a field's name a surrogate": ({"\ud800": 1}, "the request", "must be valid Unicode"),
    "html": ({"format": "html"}, "format", "'text'"),
    "alternatives a string": ({"alternatives": "3"}, "alternatives", "integer"),
    "alternatives true": ({"alternatives": True}, "alternatives", "integer"),
    "alternatives too many": ({"alternatives": 5}, "alternatives", "less than 5"),
    "alternatives as many as the beam": ({"alternatives": 2, "beam_size": 2}, "alternatives", "fewer than beam_size"),
    "beam 0": ({"beam_size": 0}, "beam_size", "greater than or equal to 1"),
    "beam 10^9": ({"beam_size": 10**9}, "beam_size", "less than or equal to 5"),
    "beam beyond floats": ({"beam_size": 10**400}, "beam_size", "less than or equal to 5"),
    "max_length negative": ({"max_length": -1}, "max_length", "greater than or equal to 1"),
    "max_length over the model's": ({"max_length": 401}, "max_length", "at most 400"),
    "length_penalty a word": ({"length_penalty": "long"}, "length_penalty", "'none' or 'average'"),
    "length_penalty negative": ({"length_penalty": -1}, "length_penalty", "greater than or equal to 0"),
    "explain a word": ({"explain": "yes"}, "explain", "boolean"),
    "an unknown model": ({"model": "../secret"}, "model", "must be one that is served"),
    "an unknown version": ({"model": "de-en@99"}, "model", "must be one that is served"),
    "another pair's model": ({"model": "en-de"}, "target", "there is en to de"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "field", "cause"), FIELDS.values(), ids=FIELDS)
def test_a_field_at_fault_is_named(client, changes, field, cause):
    request = {name: value for name, value in (GOOD | changes).items() if value is not ...}
    problem = refused(client.post("/translate", content=json.dumps(request), headers=JSON))
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


@pytest.mark.parametrize(("body", "headers", "cause"), BODIES.values(), ids=BODIES)
def test_a_malformed_body_is_refused(client, body, headers, cause):
    problem = refused(client.post("/translate", content=body, headers=headers))
    assert cause in problem["detail"]


@pytest.mark.parametrize(
    "text",
    [
        "مرحبا بالعالم", "שלום עולם", "👩‍👩‍👧‍👦 🇩🇪 läuft", "Ein\u202eHund", "Z̷͎͝a̴l̶g̵o̶", "\x00\x01\x1b[31m Hund \x7f", "\ufeffEin\u00adHund",
        "a\tb\nc\r\n\u2028d", "\ufdd0▁<unk></s>", "\U0010ffff\uffff", "𝕰𝖎𝖓 𝕳𝖚𝖓𝖉", "e\u0301" * 40, "<script>alert(1)</script>", "%s %(q)s {q}",
    ],
)  # fmt: skip
def test_any_unicode_is_a_text(client, text):
    """Right to left, emoji, control characters, what programs use as marks: translated and explained like any text."""
    answer = client.post("/translate", json=GOOD | {"q": text, "explain": True})
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
    with pytest.raises(urllib.error.HTTPError) as error:  # a client that reads only once it has written all
        urllib.request.urlopen(f"{client.base_url}/translate", data=huge)
    assert error.value.code == 413


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"Content-Type": "text/plain"}, {"Content-Type": ""}, {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"}, {"Content-Type": "application/xml\t;;;"},
    ],
)  # fmt: skip
def test_other_media_are_refused(client, headers):
    refused(client.post("/translate", content=json.dumps(GOOD), headers=headers), 415)


@pytest.mark.parametrize(
    "path", ["/nothing", "/playground/../settings.py", "/playground/%2e%2e%2fapp.py", "/models/", "/%00"]
)
def test_what_is_not_there_is_404(client, path):
    refused(client.get(f"{path}"), 404)


def test_a_wrong_method_is_405(client):
    answer = client.get("/translate")
    refused(answer, 405)
    assert answer.headers["allow"] == "POST"
    refused(client.delete("/models"), 405)


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "soon", "1e"])
def test_a_deadline_must_be_seconds(client, seconds):
    problem = refused(client.post("/translate", json=GOOD, headers={"X-Request-Timeout": seconds}))
    assert "X-Request-Timeout" in problem["detail"]


@pytest.mark.parametrize(
    "request_", [{}, {"q": ""}, {"q": None}, {"q": ["a"]}, {"q": "x" * 5001}, {"q": "a", "foo": 1}, {"q": "\x00 "[1:]}]
)
def test_detect_refuses_alike(client, request_):
    refused(client.post("/detect", json=request_))


def test_optional_fields_may_be_null_or_left_empty(client):
    empty = dict.fromkeys(
        ("format", "alternatives", "api_key", "beam_size", "length_penalty", "max_length", "model", "explain")
    )
    assert client.post("/translate", json=GOOD | empty).status_code == 200
    assert client.post("/translate", data=GOOD | dict.fromkeys(empty, "")).status_code == 200
