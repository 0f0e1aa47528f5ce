"""Model versions that change under load: moved aliases, bad versions, registry outages, and start from the cache."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from starlette.testclient import TestClient

from interlinear.registry.store import LoggedBundle
from service.app import create_app
from service.settings import ServedModelConfig
from tests.service.conftest import ALIAS, sentences, until

DOG = {"q": "Ein Hund läuft im Park.", "source": "de", "target": "en"}


def model(client: TestClient | httpx.Client) -> dict:
    (described,) = client.get("/models").json()
    return described


def why(client: TestClient) -> str:
    """The reason in the log and in the response for a key of scope `admin`; other callers see the status only."""
    model_manager = client.app.state.service.model_manager
    reasons: list[str] = []

    def told() -> bool:
        """Between two attempts there is no reason."""
        reasons[:] = (
            model(client).get("error", ""),
            model_manager.sync_status(model_manager.models.served[0]).error or "",
        )
        return all(reasons)

    until(told)
    assert reasons[0].endswith("The service's log says why.")
    return reasons[1]


@contextmanager
def load(client: httpx.Client, texts: list[str]) -> Iterator[list[dict]]:
    """Three callers translate lists of texts without pause; returns the responses."""
    answers, ended = [], threading.Event()

    def ask() -> None:
        while not ended.is_set():
            answer = client.post("/translate", json=DOG | {"q": texts})
            answers.append(answer.json() | {"status": answer.status_code})

    callers = [threading.Thread(target=ask) for _ in range(3)]
    for caller in callers:
        caller.start()
    try:
        yield answers
    finally:
        ended.set()
        for caller in callers:
            caller.join(30)


def test_under_load_every_answer_is_of_one_version_and_none_fails(registered, serving):
    texts = [de for de, _ in sentences()[:12]]
    with serving(registered.settings(slots=4)) as address, httpx.Client(base_url=address, timeout=60) as client:
        with load(client, texts) as answers:
            until(lambda: len(answers) > 3)
            for version in (2, 1, 2):
                registered.promote(version)
                until(lambda version=version: model(client)["version"] == str(version))
                seen = len(answers)
                until(lambda seen=seen: len(answers) > seen + 6)
        assert {answer["status"] for answer in answers} == {200}
        for answer in answers:
            short = [not text.endswith(".") for text in answer["translatedText"]]
            assert short == [answer["model"]["version"] == "2"] * len(texts)
        versions = [answer["model"]["version"] for answer in answers]
        assert set(versions) == {"1", "2"}
        page = client.get("/metrics").text
        assert 'interlinear_swaps_total{model="mt",outcome="done"} 3.0' in page
        assert 'interlinear_model{model="mt",version="2"} 1.0' in page
        assert 'version="1"' not in page


def test_a_request_may_name_the_served_version(registered):
    with TestClient(create_app(registered.settings())) as client:
        for reference in ("mt", "mt@champion", "mt@1"):
            answer = client.post("/translate", json=DOG | {"model": reference}).json()
            assert answer["model"] == {"name": "mt", "version": "1"}
        unknown = client.post("/translate", json=DOG | {"model": "mt@2"})
        assert unknown.status_code == 400
        assert unknown.json()["errors"][0]["field"] == "model"


@pytest.mark.parametrize("poll_seconds", [0.05, 3.0])  # after the first look at the registry, and before it
def test_a_model_that_is_registered_anew_with_the_same_number_is_served(registered, poll_seconds):
    client, versions = registered.store.client, registered.store.client.search_model_versions("name = 'mt'")
    first, short = (
        next(
            LoggedBundle(v.source.removeprefix("models:/"), v.run_id, "") for v in versions if str(v.version) == number
        )
        for number in "12"
    )
    registered.store.register(first, "again")
    models = (ServedModelConfig(name="mt", uri="models:/again@champion"),)
    settings = registered.settings(models=models, poll_seconds=poll_seconds)
    try:
        with TestClient(create_app(settings)) as caller:
            assert caller.post("/translate", json=DOG).json()["translatedText"].endswith(".")
            client.delete_registered_model("again")
            registered.store.register(short, "again")
            until(lambda: not caller.post("/translate", json=DOG).json()["translatedText"].endswith("."))
            assert (model(caller)["version"], model(caller)["status"]) == ("1", "current")
    finally:
        client.delete_registered_model("again")


def test_a_bad_version_is_not_loaded_and_the_reason_reported(registered, monkeypatch):
    app = create_app(registered.settings())
    with TestClient(app) as client:
        registered.promote(3)
        until(lambda: model(client)["status"] == "failed")
        said = model(client)
        assert (said["version"], said["newer"]) == ("1", "3")
        assert "its languages are en to de, and mt@1's de to en" in why(client)

        weights = registered.artifacts(2) / "model.safetensors"
        whole = weights.read_bytes()
        weights.write_bytes(whole[:-4] + b"\0\0\0\1")
        try:
            registered.promote(2)
            until(lambda: model(client).get("newer") == "2" and model(client)["status"] == "failed")
            assert "damaged" in why(client)
            assert client.post("/translate", json=DOG).json()["translatedText"] == "A dog is running in the park."
            assert client.get("/health/ready").status_code == 200
        finally:
            weights.write_bytes(whole)
        until(lambda: model(client)["version"] == "2")
        assert model(client)["status"] == "current"
        page = client.get("/metrics").text
        assert 'interlinear_swaps_total{model="mt",outcome="failed"}' in page
        assert 'interlinear_swaps_total{model="mt",outcome="done"} 1.0' in page


def test_without_memory_for_a_new_version_the_old_one_stays(registered):
    with TestClient(create_app(registered.settings())) as client:
        cache = registered.folder / "cache"
        cache.rename(registered.folder / "full")
        cache.write_text("a file where the folder should be: nothing can be written")
        try:
            registered.promote(2)
            until(lambda: model(client)["status"] == "failed")
            assert "cannot be kept in" in why(client)
            assert client.post("/translate", json=DOG).status_code == 200
        finally:
            cache.unlink()
            (registered.folder / "full").rename(cache)
        until(lambda: model(client)["version"] == "2")


def test_a_registry_outage(registered, caplog):
    database, away = registered.folder / "mlflow.db", registered.folder / "away.db"
    with TestClient(create_app(registered.settings())) as client:
        database.rename(away)
        try:
            until(lambda: model(client)["status"] == "unchecked")
            assert "there is no such store" in why(client)
            assert client.post("/translate", json=DOG).status_code == 200
        finally:
            away.rename(database)
        until(lambda: model(client)["status"] == "current")
        registered.promote(2)
        until(lambda: model(client)["version"] == "2")


def test_a_version_that_has_failed_for_a_week_is_retried_and_the_alias_followed(registered):
    app = create_app(registered.settings())
    with TestClient(app) as client:
        (slot,) = app.state.service.model_manager.model_slots
        registered.promote(3)
        until(lambda: slot.failures == 1)
        slot.failures, slot.retry_at = 1024, 0.0
        until(lambda: slot.failures == 1025)
        registered.promote(2)
        until(lambda: model(client)["version"] == "2")


def test_the_service_starts_from_its_cache_and_then_follows_the_registry(registered):
    with TestClient(create_app(registered.settings())):
        pass
    store, away = registered.folder / "mlflow.db", registered.folder / "away.db"
    files, gone = registered.folder / "mlartifacts", registered.folder / "gone"
    store.rename(away)
    files.rename(gone)
    try:
        app = create_app(registered.settings())
    finally:
        away.rename(store)
        gone.rename(files)
    with TestClient(app) as client:
        said = app.state.service.model_manager.sync_status(app.state.service.models.served[0])
        assert said.status == "unchecked"
        assert "Served is version 1, which models:/mt@champion meant at" in said.error
        assert client.post("/translate", json=DOG).json()["translatedText"] == "A dog is running in the park."
        until(lambda: model(client)["status"] == "current")
        registered.promote(2)
        until(lambda: model(client)["version"] == "2")


@pytest.mark.slow
def test_an_alias_moved_repeatedly_ends_at_its_last_version(registered, serving):
    with serving(registered.settings()) as address, httpx.Client(base_url=address, timeout=60) as client:
        with load(client, [DOG["q"]]) as answers:
            for i in range(20):
                registered.promote(1 + i % 2)
            until(lambda: model(client)["version"] == "2" and model(client)["status"] == "current")
        assert {answer["status"] for answer in answers} == {200}
        assert client.get("/metrics").text.count("interlinear_model{") == 1


def test_the_old_version_is_unloaded(registered):
    app = create_app(registered.settings())
    engine = app.state.service.engine
    with TestClient(app) as client:
        registered.promote(2)
        until(lambda: model(client)["version"] == "2")
        (handle,) = engine.pool
        until(lambda: len(handle.worker.schedulers) == len(handle.models) == len(engine._models) == 1)


def test_the_alias_of_a_reverse_model_is_followed(registered, bundles, caplog):
    """The model itself is a folder's; the version of its reverse model is that of the alias, which may move."""
    config = ServedModelConfig(name="back", uri=str(bundles.en_de), reverse=ALIAS)
    with TestClient(create_app(registered.settings(models=(config,)))) as client:
        assert model(client)["reverse"] == {"name": "mt", "version": "1"}
        registered.promote(2)
        until(lambda: model(client)["reverse"]["version"] == "2")
        registered.promote(3)  # not of the opposite direction: the log says why, and the served one stays
        until(lambda: "its reverse model mt@2 stays" in caplog.text)
        assert "goes from en to de" in caplog.text
        assert model(client)["reverse"]["version"] == "2" and model(client)["status"] == "current"
        request = {"q": "A dog is running.", "source": "en", "target": "de", "explain": True}
        (explanation,) = client.post("/translate", json=request).json()["explanations"]
        assert explanation["symmetrized"] is True
