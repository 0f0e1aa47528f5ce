"""The model cache: the number of registry requests, and eviction when space is short."""

import os
import shutil
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

from interlinear.bundle import load
from interlinear.errors import RegistryError, UnknownModelError
from interlinear.registry.bundle_folder import LocalBundle, require_bundle
from interlinear.registry.cache import ModelCache
from interlinear.registry.lease import remove_unused
from interlinear.registry.names import AliasName, VersionName, parse_model_name
from interlinear.registry.store import MlflowStore, StoredModel
from tests.interlinear.registry.conftest import log_version, write_small

CHAMPION = AliasName("de-en", "champion")


@contextmanager
def counting_server(store: MlflowStore) -> Iterator[tuple[str, list[str]]]:
    """MLflow's own server over that store: its address, and the requests that it received."""
    from mlflow.server import app, handlers

    asked: list[str] = []

    def counting(environ: dict, start: Callable) -> object:
        asked.append(environ["PATH_INFO"].removeprefix("/api/2.0/mlflow/"))
        return app(environ, start)

    artifacts = str(store.artifacts)
    with pytest.MonkeyPatch.context() as patch:
        # The server's global settings are undone at the end.
        for one in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
            patch.setenv(one, store.uri)
        patch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
        patch.setattr("mlflow.tracking._model_registry.utils._registry_uri", None)
        patch.setenv("_MLFLOW_SERVER_SERVE_ARTIFACTS", "true")
        patch.setenv("_MLFLOW_SERVER_ARTIFACT_DESTINATION", artifacts)
        for one in ("_tracking_store", "_model_registry_store", "_artifact_repo"):  # set by another test's server
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
    with counting_server(store) as (address, asked):
        there = MlflowStore(address)
        asked.clear()
        assert there.alias_version(CHAMPION).version == "1"
        assert asked == ["registered-models/alias"]
        asked.clear()
        there.find(CHAMPION)
        there.find(VersionName("de-en", "1"))
        assert asked and not [path for path in asked if "search" in path]
        with pytest.raises(UnknownModelError, match=r"no model is registered as 'de-em'. There are de-en"):
            there.find(AliasName("de-em", "champion"))
        with pytest.raises(UnknownModelError, match=r"no alias 'best'. Its aliases are champion"):
            there.alias_version(AliasName("de-en", "best"))
        with pytest.raises(UnknownModelError, match=r"no version 7. It has 1"):
            there.find(VersionName("de-en", "7"))


@pytest.mark.parametrize("name", ["models:/de-en@latest", "models:/de-en@v1", f"models:/de-en/{10**30}"])
def test_an_unknown_name_or_alias(
    make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str], name: str
):
    log(make_bundle())
    with pytest.raises(UnknownModelError, match=r"It has 1|Its aliases are champion"):
        store.find(parse_model_name(name))


class SmallCache:
    """A cache with a fake store that downloads files of a given size, so that cached models use space."""

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


@pytest.fixture(scope="module")
def four_versions(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with four versions of one model."""
    place = tmp_path_factory.mktemp("served")
    shutil.copy(empty_store, place / "mlflow.db")
    store = MlflowStore(f"sqlite:///{place}/mlflow.db")
    for seed in range(1, 5):
        log_version(store, write_small(place / f"bundle-{seed}", seed))
    with closing(sqlite3.connect(place / "mlflow.db")) as database, database:  # as if a server had logged them
        folder = f"{store.artifacts.as_uri()}/"
        database.execute(
            "UPDATE logged_models SET artifact_location = replace(artifact_location, ?, ?)",
            (folder, "mlflow-artifacts:/"),
        )
    with counting_server(store) as (address, _):
        yield address


@pytest.fixture
def small_cache(four_versions: str, tmp_path: Path) -> SmallCache:
    return SmallCache(MlflowStore(four_versions), tmp_path / "cache")


def test_the_least_recently_used_model_is_evicted_and_never_one_in_use(small_cache: SmallCache):
    first = small_cache.download_and_record(1)
    size = small_cache.cache().size()
    room = size * 5 // 2  # space for two
    second = small_cache.download_and_record(2, room)
    del second
    time.sleep(0.01)
    third = small_cache.download_and_record(3, room)
    assert small_cache.evicted == ["models:/de-en/2"] and small_cache.kept() == 2  # the first is older, and in use
    assert load(first.folder) and load(third.folder)
    del first
    time.sleep(0.01)
    again = small_cache.download_and_record(3, room)  # used later than the first, though downloaded before
    del third, again
    fourth = small_cache.download_and_record(4, room)
    assert small_cache.evicted[1:] == ["models:/de-en/1"]
    assert load(fourth.folder) and load(small_cache.download_and_record(3, room).folder)
    assert small_cache.cache().size() <= room


def test_a_model_that_does_not_fit_beside_those_in_use_is_refused_and_nothing_is_evicted(small_cache: SmallCache):
    first = small_cache.download_and_record(1)
    size = small_cache.cache().size()
    with pytest.raises(RegistryError, match=r"models:/de-en/2: it has [\d,]+ bytes, and [\d,]+ of the .* are in use"):
        small_cache.download_and_record(2, size * 3 // 2)
    assert small_cache.evicted == [] and load(first.folder)
    del first
    small_cache.download_and_record(2, size * 3 // 2)
    assert small_cache.evicted == ["models:/de-en/1"]


def test_models_in_use_by_another_process_are_kept_until_it_ends(small_cache: SmallCache):
    first = small_cache.download_and_record(1)
    room = small_cache.cache().size() * 3 // 2
    del first
    program = "import sys; from interlinear.registry.lease import *; use = Lease(Path(sys.argv[1])); print(); input()"
    folder = next(path for path in small_cache.folder.iterdir() if len(path.name) == 32)
    child = subprocess.Popen([sys.executable, "-c", program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline()
    with pytest.raises(RegistryError, match="are in use"):
        small_cache.download_and_record(2, room)
    child.kill()
    child.communicate()
    small_cache.download_and_record(2, room)
    assert small_cache.evicted == ["models:/de-en/1"]


def test_only_a_bundle_is_copied_from_a_folder_and_no_link_is_followed(empty_store: Path, tmp_path: Path):
    """A registry may name any folder of this machine."""
    store = MlflowStore(f"sqlite:///{empty_store}")
    cache, bundle, secret = (
        ModelCache(tmp_path / "cache", 10**9),
        write_small(tmp_path / "model", 1),
        tmp_path / "secret",
    )
    secret.write_text("secret")
    (bundle / "private").mkdir()
    (bundle / "notes").symlink_to(secret)
    lease = cache.download(StoredModel("de-en", "1", bundle.as_uri(), bundle), store)
    assert {path.name for path in lease.folder.iterdir()} == {
        path.name for path in bundle.iterdir() if path.name not in ("private", "notes")
    }
    (bundle / "model.safetensors").rename(tmp_path / "weights")
    (bundle / "model.safetensors").symlink_to(tmp_path / "weights")
    for folder, says in ((bundle, "the bundle is damaged"), (tmp_path, "no model bundle in")):
        with pytest.raises(RegistryError, match=says):
            cache.download(StoredModel("de-en", "2", f"{folder.as_uri()}/", folder), store)
    assert len([path for path in cache.folder.iterdir() if path.is_dir()]) == 1


def test_a_model_that_another_process_downloads_in_the_meantime_is_used(small_cache: SmallCache):
    class SlowStore(MlflowStore):
        """A store whose download takes so long that another process completes its own of the same model."""

        def download(self, stored: StoredModel, folder: Path) -> Path:
            downloaded = super().download(stored, folder)
            self.other = small_cache.cache().download(stored, MlflowStore(self.uri))
            return downloaded

    store = SlowStore(small_cache.store.uri)
    lease = small_cache.cache().download(store.find(VersionName("de-en", "1")), store)
    assert lease.folder == store.other.folder and load(require_bundle(lease.folder, "de-en"))
    lease.release()
    assert not remove_unused(store.other.folder)  # the files of the other process are still those in the cache
    store.other.release()
    assert remove_unused(lease.folder) and small_cache.kept() == 0


def test_a_damaged_copy_is_downloaded_again(small_cache: SmallCache):
    folder = small_cache.download_and_record(1).folder
    (folder / "model.safetensors").write_bytes(b"damaged")
    assert load(small_cache.download_and_record(1).folder)


def test_a_killed_download_is_removed(small_cache: SmallCache):
    left = small_cache.folder / ".download-x"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(bytes(1000))
    os.utime(left, (0, 0))
    small_cache.download_and_record(1, 10**9)
    assert not left.exists()
