"""Glossaries that callers keep in the service, with DeepL's fields, and translations that use them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.auth.key_store import KeyStore
from service.settings import Settings
from tests.service.conftest import busy, until

DOGS = {"name": "Dogs", "source_lang": "DE", "target_lang": "en-GB", "entries": "Hund\tgreyhound\nKatze\tpuma"}
SENTENCE = {"q": "Ein Hund läuft im Park.", "source": "de", "target": "en"}


@pytest.fixture
def keeping(one_model, tmp_path) -> tuple[Settings, dict[str, str], dict[str, str]]:
    """A service of one model with two keys, and their headers."""
    store = KeyStore(tmp_path / "keys.db")
    headers = [{"Authorization": f"Bearer {store.add(name)}"} for name in ("app", "other")]
    keeping = one_model.model_copy(update={"keys": str(tmp_path / "keys.db"), "glossary_entries": 5})
    return keeping, headers[0], headers[1]


def test_a_glossary_is_kept_used_and_deleted(keeping, serving):
    settings, app, other = keeping
    with serving(settings) as address, httpx.Client(base_url=address, headers=app) as client:
        made = client.post("/glossaries", data=DOGS | {"entries_format": "tsv"})
        assert made.status_code == 201, made.text
        information = made.json()
        assert {name: information[name] for name in ("name", "ready", "source_lang", "target_lang", "entry_count")} == {
            "name": "Dogs", "ready": True, "source_lang": "DE", "target_lang": "en-GB", "entry_count": 2,
        }  # fmt: skip
        path = f"/glossaries/{information['glossary_id']}"
        assert client.get("/glossaries").json() == {"glossaries": [information]}
        assert client.get(path).json() == information
        entries = client.get(f"{path}/entries")
        assert entries.headers["content-type"] == "text/tab-separated-values; charset=utf-8"
        assert entries.text == DOGS["entries"]

        named = SENTENCE | {"glossary_id": information["glossary_id"]}
        assert client.post("/translate", json=named).json()["translatedText"].count("greyhound") == 1
        own = client.post("/translate", json=named | {"glossary": [{"source": "HUND", "target": "hound"}]}).json()
        assert own["translatedText"].count("hound") == 1 and "greyhound" not in own["translatedText"]
        assert "greyhound" not in client.post("/translate", json=SENTENCE).json()["translatedText"]

        for method, url in (("GET", path), ("GET", f"{path}/entries"), ("DELETE", path)):
            assert httpx.request(method, address + url, headers=other).status_code == 404, "another caller's"
        assert httpx.get(f"{address}/glossaries", headers=other).json() == {"glossaries": []}
        refused = httpx.post(f"{address}/translate", json=named, headers=other)
        assert refused.status_code == 400 and refused.json()["errors"][0]["field"] == "glossary_id"

        assert client.delete(path).status_code == 204
        assert client.get(path).status_code == client.delete(path).status_code == 404
        assert client.get("/glossaries").json() == {"glossaries": []}


def test_wrong_glossaries_are_named_and_not_kept(keeping, serving):
    settings, app, _ = keeping
    wrong = {
        "name": {"name": " "},
        "source_lang": {"source_lang": None},
        "entries_format": {"entries_format": "xml"},
        "entries": {"entries": "Hund\tdog\nHUND\thound"},
    }
    texts = ["Hund", "Hund\t", "\n", "a\t" + "b" * 201, "".join(f"{i}\tx\n" for i in range(6)), "a\tb\0"]
    with serving(settings) as address, httpx.Client(base_url=address, headers=app) as client:
        for field, change in [*wrong.items(), *(("entries", {"entries": text}) for text in texts)]:
            body = {name: value for name, value in (DOGS | change).items() if value is not None}
            answer = client.post("/glossaries", json=body)
            assert answer.status_code == 400, (change, answer.text)
            assert field in [error["field"] for error in answer.json()["errors"]], answer.text
        for text in ('a,b\n"New\tYork",NY', 'a,b\n"New York","N\nY"', 'a,b\n"New\u2028York",NY'):
            answer = client.post("/glossaries", json=DOGS | {"entries": text, "entries_format": "csv"})
            assert answer.status_code == 400, (text, answer.text)
            assert "a text has a tab or a line break" in answer.json()["detail"], answer.text
        assert client.get("/glossaries").json() == {"glossaries": []}
        csv = client.post("/glossaries", json=DOGS | {"entries": '"a, b",c\n', "entries_format": "csv"}).json()
        assert client.get(f"/glossaries/{csv['glossary_id']}/entries").text == "a, b\tc"
        turned = client.post("/glossaries", json=DOGS | {"source_lang": "en", "target_lang": "de"}).json()
        answer = client.post("/translate", json=SENTENCE | {"glossary_id": turned["glossary_id"]})
        assert answer.status_code == 400 and "en to de" in answer.json()["error"]


def test_a_key_has_a_limited_number(keeping, serving):
    settings, app, other = keeping
    with serving(settings.model_copy(update={"glossaries_per_key": 1})) as address:
        statuses = [
            httpx.post(f"{address}/glossaries", json=DOGS, headers=headers).status_code for headers in (app, app, other)
        ]
    assert statuses == [201, 403, 201]


def test_only_the_entries_of_a_glossary_are_charged(keeping, serving):
    settings, _, _ = keeping
    few = {"Authorization": f"Bearer {KeyStore(settings.keys).add('few', quota=2)}"}
    required = settings.model_copy(update={"require_key": True})
    with serving(required) as address, httpx.Client(base_url=address) as client:
        made = client.post("/glossaries", json=DOGS, headers=few)
        assert made.status_code == 201, made.text
        path = f"/glossaries/{made.json()['glossary_id']}"
        requests = [("GET", url) for url in (f"{path}/entries", "/glossaries", path)] + [("DELETE", path)]
        for method, url in requests:
            assert client.request(method, url).status_code == 401
            key = few["Authorization"].partition(" ")[2]
            refused = client.request(method, url, params={"api_key": key}, headers=few)
            assert refused.status_code == 400 and key not in refused.text
            assert client.request(method, url, headers=few).is_success
        assert client.get(f"{path}/entries", headers=few).status_code == 429
        assert client.post("/glossaries", json=DOGS, headers=few).status_code == 429


def test_a_large_glossary_counts_as_several_texts(keeping, serving):
    """Its entries, of 200,000 characters and more, are read and indexed for the translation."""
    settings, _, _ = keeping
    key = KeyStore(settings.keys).add("large", quota=10)
    entries = "\n".join(f"{i:0>190}\tx" for i in range(1100))
    with (
        serving(settings.model_copy(update={"glossary_entries": 2000})) as address,
        httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}) as client,
    ):
        made = client.post("/glossaries", json=DOGS | {"entries": entries}).json()
        answers = [client.post("/translate", json=SENTENCE | {"glossary_id": made["glossary_id"]}) for _ in "123"]
        assert [answer.headers["ratelimit"].partition(";t")[0] for answer in answers[:2]] == ['"day";r=6', '"day";r=3']
        assert answers[2].is_success, answers[2].text
        assert client.post("/translate", json=SENTENCE).status_code == 429, "the key has no text left"


def test_the_entries_of_a_glossary_are_read_off_the_event_loop(keeping):
    """It waits for a thread while all are busy."""
    settings, app, _ = keeping
    with TestClient(create_app(settings), headers=app) as client, ThreadPoolExecutor(1) as caller:
        preparation = client.app.state.service.engine.preparation
        with busy(preparation):
            asking = caller.submit(client.post, "/glossaries", json=DOGS)
            until(lambda: preparation.waiting == 3)
        assert asking.result().status_code == 201


def test_a_service_without_a_store_of_keys_keeps_none(client):
    assert client.get("/glossaries").status_code == client.post("/glossaries", json=DOGS).status_code == 403
    answer = client.post("/translate", json=SENTENCE | {"glossary_id": "x"})
    assert answer.status_code == 403 and "keeps no glossaries" in answer.json()["error"]


def test_every_method_of_a_path_is_allowed(client):
    answer = client.request("PATCH", "/glossaries/x")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET")


def test_a_store_that_cannot_be_read_is_not_a_missing_glossary(keeping, serving, caplog):
    """Why is for the log: it has the store's host and path, and what the database says."""
    settings, app, _ = keeping
    with serving(settings) as address, httpx.Client(base_url=address, headers=app) as client:
        made = client.post("/glossaries", json=DOGS).json()
        named = SENTENCE | {"glossary_id": made["glossary_id"]}
        assert client.post("/translate", json=named).status_code == 200
        Path(settings.keys).write_bytes(b"no database" * 1000)
        for refused in (client.post("/translate", json=named), client.get("/glossaries")):
            assert refused.status_code == 503
            assert refused.json()["detail"] == "the glossaries cannot be used now; the service's log says why"
    assert settings.keys in caplog.text and "file is not a database" in caplog.text
