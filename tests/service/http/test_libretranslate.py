"""The requests of LibreTranslate's own tests, and what its clients look for in the answers."""

from collections.abc import Iterator

import httpx
import pytest

from tests.service.conftest import sentences, served, texts

HELLO = {"q": "Hello", "source": "en", "target": "es", "format": "text"}
SETTINGS = {
    "apiKeys", "charLimit", "filesTranslation", "frontendTimeout", "keyRequired", "language", "suggestions",
    "supportedFilesFormat",
}  # fmt: skip


@pytest.fixture(scope="module")
def spanish(serving, bundles) -> Iterator[httpx.Client]:
    """A service for English and Spanish, as LibreTranslate's tests load it, that any page may call."""
    pairs = texts([(english, german) for german, english in sentences()])  # the words do not matter here
    bundle = bundles.made("en-es", {"source": "en", "target": "es"}, pairs, learnt=4.0)
    service = serving(served({"en-es": bundle}, origins=("*",)))
    with service as address, httpx.Client(base_url=address, timeout=30) as client:
        yield client


def test_translate_a_form_and_a_list_in_json(spanish):
    answer = spanish.post("/translate", data=HELLO)
    assert answer.status_code == 200
    assert isinstance(answer.json()["translatedText"], str)
    batch = spanish.post("/translate", json=HELLO | {"q": ["Hello", "World"]})
    assert batch.status_code == 200
    assert len(batch.json()["translatedText"]) == 2


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"target": "zz"}, "zz is not supported"),
        ({"source": "zz"}, "zz is not supported"),
        ({"source": "ZZ", "target": "yy"}, "zz is not supported"),
        ({"source": "es", "target": "en"}, "English (en) is not available as a target language from Spanish (es)"),
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"target": None}, "Invalid request: missing target parameter"),
        ({"q": None, "source": None, "target": None}, "Invalid request: missing q parameter"),
        ({"alternatives": "many"}, "Invalid request: alternatives parameter is not a number"),
        ({"format": "markdown"}, "markdown format is not supported"),
        ({"q": "x" * 5001}, "Invalid request: request (5001) exceeds text limit (5000)"),
        ({"q": ["x"] * 101}, "Invalid request: request (101) exceeds text limit (100)"),
    ],
)
def test_errors_word_for_word(spanish, change, error):
    fields = {name: value for name, value in (HELLO | change).items() if value is not None}
    for sent in ({"data": fields}, {"json": fields}):
        answer = spanish.post("/translate", **sent)
        assert (answer.status_code, answer.json()["error"]) == (400, error)


def test_a_body_that_is_no_object(spanish):
    answer = spanish.post("/translate", json=["Hello"])
    assert (answer.status_code, answer.json()["error"]) == (400, "Invalid JSON format")


def test_parameters_may_be_in_the_address(spanish):
    expected = spanish.post("/translate", data=HELLO).json()
    assert spanish.post("/translate", params=HELLO).json() == expected
    split = {name: HELLO[name] for name in ("source", "target")}
    assert spanish.post("/translate", params=split, data={"q": HELLO["q"]}).json() == expected
    assert spanish.post("/translate", params=split, files={"q": (None, HELLO["q"])}).json() == expected
    assert spanish.post("/detect", params={"q": "Hello"}).status_code == 200
    document = {"file": ("a.txt", HELLO["q"].encode())}
    translated = spanish.post("/translate_file", params=split, files=document)
    assert translated.status_code == 200, translated.text
    twice = spanish.post("/translate", params={"target": "es"}, data=HELLO)
    assert (twice.status_code, twice.json()["errors"][0]["field"]) == (400, "target")


@pytest.mark.parametrize(
    ("route", "sent"),
    [
        ("/translate", {"data": HELLO}),
        ("/translate", {"json": HELLO}),
        ("/translate", {}),
        ("/translate_file", {"data": HELLO, "files": {"file": ("a.txt", b"Hello")}}),
    ],
    ids=["form", "JSON", "no body", "document"],
)
def test_a_key_in_the_address_is_refused(spanish, route, sent):
    answer = spanish.post(route, params={"api_key": "il_secret"}, **sent)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "api_key")
    assert "il_secret" not in answer.text


def test_detect(spanish):
    found = spanish.post("/detect", data={"q": "Hello"})
    assert found.status_code == 200
    assert {"confidence", "language"} <= set(found.json()[0])
    empty = spanish.post("/detect")
    assert (empty.status_code, empty.json()["error"]) == (400, "Invalid request: missing q parameter")


def test_languages_health_settings_and_specification(spanish):
    assert [{"en", "es"}] == [{language["code"] for language in spanish.get("/languages").json()}]
    assert spanish.get("/health").json() == {"status": "ok"}
    assert spanish.get("/spec").json()["paths"]["/translate"]
    settings = spanish.get("/frontend/settings").json()
    assert set(settings) == SETTINGS
    assert settings["language"] == {
        "source": {"code": "en", "name": "English"},
        "target": {"code": "es", "name": "Spanish"},
    }


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/detect"), ("POST", "/languages"), ("POST", "/health"), ("POST", "/spec"), ("GET", "/translate")],
)
def test_another_method_is_refused(spanish, method, path):
    answer = spanish.request(method, path)
    assert answer.status_code == 405
    assert answer.json()["error"]


def test_any_page_may_call_it_where_origins_are_open(spanish):
    asks = {
        "Origin": "https://example.org",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    allowed = spanish.options("/translate", headers=asks)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "*"
    assert {"authorization", "content-type"} <= set(allowed.headers["access-control-allow-headers"].lower().split(", "))
    for answer in (spanish.post("/translate", data=HELLO, headers=asks), spanish.post("/translate", headers=asks)):
        assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("variants", [("EN", "ES"), ("en_US", "es-MX"), ("en-GB", "es-419"), ("eng", "spa")])
def test_variants_of_a_language_find_its_model(spanish, variants):
    source, target = variants
    expected = spanish.post("/translate", data=HELLO).json()
    assert spanish.post("/translate", data=HELLO | {"source": source, "target": target}).json() == expected
    assert spanish.post("/translate", data=HELLO | {"source": "auto", "target": target}).status_code == 200


def test_any_number_of_alternatives_may_be_requested(spanish):
    few = spanish.post("/translate", json=HELLO | {"alternatives": 4}).json()
    assert 0 < len(few["alternatives"]) <= 4
    for more in ({"alternatives": 100}, {"alternatives": 5, "beam_size": 2}):
        answer = spanish.post("/translate", json=HELLO | more)
        assert (answer.status_code, answer.json()["alternatives"]) == (200, few["alternatives"])
