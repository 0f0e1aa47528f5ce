"""The cache: how often the registry is asked, and what gives way where there is no room."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from werkzeug.serving import make_server

from registry.cache import ModelCache
from registry.local_bundle import LocalBundle
from registry.names import AliasName, VersionName, parse_model_name
from registry.store import MlflowStore
from seq2seq.bundle import load
from seq2seq.errors import RegistryError, UnknownModelError

CHAMPION = AliasName("de-en", "champion")


@contextmanager
def counted(store: MlflowStore) -> Iterator[tuple[str, list[str]]]:
    """MLflow's own server over that store, its address, and the requests that it was sent."""
    from mlflow.server import app, handlers

    asked: list[str] = []

    def counting(environ: dict, start: Callable) -> object:
        asked.append(environ["PATH_INFO"].removeprefix("/api/2.0/mlflow/"))
        return app(environ, start)

    artifacts = str(store.artifacts)
    with pytest.MonkeyPatch.context() as patch:
        # What the server sets for its whole process is undone with it.
        for one in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
            patch.setenv(one, store.uri)
        patch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
        patch.setattr("mlflow.tracking._model_registry.utils._registry_uri", None)
        patch.setenv("_MLFLOW_SERVER_SERVE_ARTIFACTS", "true")
        patch.setenv("_MLFLOW_SERVER_ARTIFACT_DESTINATION", artifacts)
        for one in ("_tracking_store", "_model_registry_store", "_artifact_repo"):  # of another test's server
            patch.setattr(handlers, one, None)
        handlers.initialize_backend_stores(store.uri, store.uri, artifacts)
        server = make_server("127.0.0.1", 0, counting, threaded=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join(10)


def test_an_alias_is_one_request_however_many_models_there_are(
    make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str], tmp_path: Path
):
    log(make_bundle())
    for i in range(30):
        store.client.create_registered_model(f"other-{i}")
        store.client.create_model_version(f"other-{i}", str(tmp_path))
    with counted(store) as (address, asked):
        there = MlflowStore(address)
        asked.clear()
        assert there.alias_version(CHAMPION) == "1"
        assert asked == ["registered-models/alias"]
        asked.clear()
        there.find(CHAMPION)
        there.find(VersionName("de-en", "1"))
        assert not [path for path in asked if "search" in path]
        with pytest.raises(UnknownModelError, match=r"no model is registered as 'de-em'. There are de-en"):
            there.find(AliasName("de-em", "champion"))
        with pytest.raises(UnknownModelError, match=r"no alias 'best'. Its aliases are champion"):
            there.alias_version(AliasName("de-en", "best"))
        with pytest.raises(UnknownModelError, match=r"no version 7. It has 1"):
            there.find(VersionName("de-en", "7"))


@pytest.mark.parametrize("name", ["models:/de-en@latest", "models:/de-en@v1", f"models:/de-en/{10**30}"])
def test_what_mlflow_has_no_such_name_for_is_unknown(
    make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str], name: str
):
    log(make_bundle())
    with pytest.raises(UnknownModelError, match=r"It has 1|Its aliases are champion"):
        store.find(parse_model_name(name))


class Shelf:
    """A cache with a store whose files are on no disk of its own, so that what is kept takes room."""

    def __init__(self, store: MlflowStore, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.evicted: list[str] = []

    def cache(self, limit: int | None = None) -> ModelCache:
        return ModelCache(self.folder, limit, lambda name, _size: self.evicted.append(name))

    def download_and_record(self, version: int, limit: int | None = None) -> LocalBundle:
        name = VersionName("de-en", str(version))
        return self.cache(limit).download_and_record(name, self.store.find(name), self.store)

    def kept(self) -> int:
        return len([path for path in self.folder.iterdir() if len(path.name) == 32])


@pytest.fixture
def shelf(
    make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str], tmp_path: Path
) -> Iterator[Shelf]:
    for seed in range(1, 5):
        log(make_bundle(f"bundle-{seed}", seed))
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database, database:  # as a server would have logged them
        folder = f"{store.artifacts.as_uri()}/"
        database.execute(
            "UPDATE logged_models SET artifact_location = replace(artifact_location, ?, ?)",
            (folder, "mlflow-artifacts:/"),
        )
    with counted(store) as (address, _):
        yield Shelf(MlflowStore(address), tmp_path / "cache")


def test_what_was_used_longest_ago_gives_way_and_never_what_is_used(shelf: Shelf):
    first = shelf.download_and_record(1)
    size = shelf.cache().size()
    room = size * 5 // 2  # for two
    second = shelf.download_and_record(2, room)
    del second
    time.sleep(0.01)
    third = shelf.download_and_record(3, room)
    assert shelf.evicted == ["models:/de-en/2"] and shelf.kept() == 2  # the first is older, and used
    assert load(first.folder) and load(third.folder)
    del first
    time.sleep(0.01)
    again = shelf.download_and_record(3, room)  # used later than the first, though fetched before
    del third, again
    fourth = shelf.download_and_record(4, room)
    assert shelf.evicted[1:] == ["models:/de-en/1"]
    assert load(fourth.folder) and load(shelf.download_and_record(3, room).folder)
    assert shelf.cache().size() <= room


def test_a_model_that_does_not_fit_beside_what_is_used_is_refused_and_nothing_is_lost(shelf: Shelf):
    first = shelf.download_and_record(1)
    size = shelf.cache().size()
    with pytest.raises(RegistryError, match=r"models:/de-en/2: it has [\d,]+ bytes, and [\d,]+ of the .* are in use"):
        shelf.download_and_record(2, size * 3 // 2)
    assert shelf.evicted == [] and load(first.folder)
    del first
    shelf.download_and_record(2, size * 3 // 2)
    assert shelf.evicted == ["models:/de-en/1"]


def test_another_process_s_models_are_used_until_it_ends(shelf: Shelf):
    first = shelf.download_and_record(1)
    room = shelf.cache().size() * 3 // 2
    del first
    program = "import sys, pathlib, registry.lease as l; use = l.Lease(pathlib.Path(sys.argv[1])); print(); input()"
    folder = next(path for path in shelf.folder.iterdir() if len(path.name) == 32)
    child = subprocess.Popen([sys.executable, "-c", program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline()
    with pytest.raises(RegistryError, match="are in use"):
        shelf.download_and_record(2, room)
    child.kill()
    child.communicate()
    shelf.download_and_record(2, room)
    assert shelf.evicted == ["models:/de-en/1"]


def test_a_download_that_was_killed_is_removed(shelf: Shelf):
    left = shelf.folder / ".download-x"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(bytes(1000))
    os.utime(left, (0, 0))
    shelf.download_and_record(1, 10**9)
    assert not left.exists()
