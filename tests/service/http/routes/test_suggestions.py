"""Callers send better translations: LibreTranslate's `/suggest`, kept for the operator, who trains on them."""

import os
from pathlib import Path

import httpx
import pytest

from interlinear.cli import run as interlinear
from service.auth.key_store import KeyStore
from service.settings import Settings
from service.store.suggestion_store import SuggestionStore

DOG = {"q": "Ein Hund läuft.", "s": "A dog runs.", "source": "de", "target": "en"}


@pytest.fixture
def store(tmp_path) -> Path:
    return tmp_path / "keys.db"


@pytest.fixture
def accepting(one_model, store) -> Settings:
    """A service of one model that accepts suggestions and knows a key."""
    KeyStore(store).add("other")
    return one_model.model_copy(update={"suggestions": True, "keys": str(store)})


def kept(store: Path) -> list[tuple[str, ...]]:
    stored = [one.suggestion for one in SuggestionStore(store).list()]
    return [(one.text, one.translation, one.source, one.target, one.key) for one in stored]


def test_suggestions_are_disabled_by_default(client):
    assert client.get("/frontend/settings").json()["suggestions"] is False
    for body in (DOG, {}):
        answer = client.post("/suggest", data=body)
        assert (answer.status_code, answer.json()["error"]) == (403, "Suggestions are disabled on this server.")


def test_forms_and_json_are_kept_with_the_name_of_the_key(accepting, serving, store):
    key = KeyStore(store).add("app")
    with serving(accepting) as address:
        assert httpx.get(f"{address}/frontend/settings").json()["suggestions"] is True
        page = {name: (None, value) for name, value in (DOG | {"source": "auto", "api_key": ""}).items()}
        answers = [
            httpx.post(f"{address}/suggest", files=page),
            httpx.post(f"{address}/suggest", json=DOG | {"api_key": key}),
            httpx.post(f"{address}/suggest", data=DOG, headers={"Authorization": f"Bearer {key}"}),  # the same again
        ]
        assert [(answer.status_code, answer.json()) for answer in answers] == [(200, {"success": True})] * 3
        text = ("Ein Hund läuft.", "A dog runs.", "de", "en")
        assert kept(store) == [(*text, ""), (*text, "app")]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"q": None}, "q"),
        ({"s": ""}, "s"),
        ({"s": " \n"}, "s"),
        ({"s": "a\0b"}, "s"),
        ({"q": "x" * 5001}, "q"),
        ({"source": "xx"}, "source"),
        ({"target": "xx"}, "target"),
        ({"target": "auto"}, "target"),
        ({"score": "1"}, "score"),
    ],
)
def test_an_invalid_suggestion_is_refused_with_its_field(suggesting, change, field):
    body = {name: value for name, value in (DOG | change).items() if value is not None}
    answer = httpx.post(f"{suggesting}/suggest", json=body)
    assert answer.status_code == 400
    assert [problem["field"] for problem in answer.json()["errors"]] == [field]


@pytest.fixture(scope="module")
def suggesting(one_model, serving, tmp_path_factory):
    store = tmp_path_factory.mktemp("suggestions") / "keys.db"
    KeyStore(store).add("other")
    limits = {"suggestions": True, "keys": str(store), "suggestions_per_key": 2}
    with serving(one_model.model_copy(update=limits)) as address:
        yield address
    assert len(kept(store)) in (0, 2), "those of the test of the limit, and of no other test"


def test_beyond_the_limit_nothing_more_is_kept(suggesting):
    statuses = [httpx.post(f"{suggesting}/suggest", data=DOG | {"s": f"Dog {i}."}).status_code for i in range(3)]
    assert statuses == [200, 200, 403]


def test_suggestions_count_by_rate_and_need_a_key_where_translations_do(accepting, serving, store):
    key = KeyStore(store).add("slow", quota=1)
    with serving(accepting.model_copy(update={"require_key": True})) as address:
        assert httpx.post(f"{address}/suggest", data=DOG).status_code == 401
        assert httpx.post(f"{address}/suggest", data=DOG | {"api_key": key}).status_code == 200
        assert httpx.post(f"{address}/suggest", data=DOG | {"s": "A dog.", "api_key": key}).status_code == 429


def test_a_store_that_cannot_be_written_is_not_the_caller_s_fault(accepting, serving, store):
    with serving(accepting) as address:
        os.truncate(store, 0)
        store.write_bytes(b"no database")
        answer = httpx.post(f"{address}/suggest", data=DOG)
        assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
        assert str(store) not in answer.text


def test_the_operator_lists_exports_and_deletes(accepting, serving, store, tmp_path, capsys):
    with serving(accepting) as address:
        for i in range(4):
            assert (
                httpx.post(f"{address}/suggest", data=DOG | {"q": f"Hund {i}", "s": f"Dog\x1b {i}"}).status_code == 200
            )
    assert interlinear(["suggestions", "list", "--keys", str(store)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("1  ") and lines[0].endswith(r"-  de-en  Hund 0 -> Dog\x1b 0")
    assert interlinear(["suggestions", "delete", "1", "--keys", str(store)]) == 0
    assert [text for text, *_ in kept(store)] == ["Hund 1", "Hund 2", "Hund 3"]
