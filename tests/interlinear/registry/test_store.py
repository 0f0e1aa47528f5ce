"""A real MLflow store: logging, registering, aliases, MLflow's own tools, and unreachable stores."""

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import mlflow
import pandas as pd
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from mlflow.entities import LoggedModelStatus
from mlflow.exceptions import MlflowException

from interlinear.bundle import load
from interlinear.cli import run as interlinear
from interlinear.errors import RegistryError, RegistryUnavailableError, UsageError
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from interlinear.registry.address import sqlite_file
from interlinear.registry.cache import LOCK
from interlinear.registry.names import parse_model_name
from interlinear.registry.relocation import relocate
from interlinear.registry.resolve import fetch_bundle
from interlinear.registry.store import MlflowStore
from tests.interlinear.registry.conftest import log_version
from tests.interlinear.registry.servers import free_port, listening


def test_mlflow_prints_no_addresses_among_the_results(store: MlflowStore):
    from mlflow.environment_variables import MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT

    assert store.uri and MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT.get()


def test_the_first_version_becomes_champion_and_later_ones_by_promote(
    make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str]
):
    log(make_bundle("a", seed=1))
    log(make_bundle("b", seed=2))
    assert [(record.version, record.aliases) for record in store.list_models()] == [("2", ()), ("1", ("champion",))]

    store.promote("de-en", "2")
    store.promote("de-en", "2", alias="candidate")
    assert [(record.version, record.aliases) for record in store.list_models()] == [
        ("2", ("candidate", "champion")),
        ("1", ()),
    ]
    assert fetch_bundle("models:/de-en@champion", store.uri).version == "2"
    for name, version, sentence in (("de-en", "3", "no version 3"), ("en-de", "1", "registered as 'en-de'")):
        with pytest.raises(RegistryError, match=sentence):
            store.promote(name, version)
    for name, version, alias in (("de-en", "x", "champion"), ("de/en", "1", "champion"), ("de-en", "1", "a/b")):
        with pytest.raises(UsageError):
            store.promote(name, version, alias)


@pytest.mark.parametrize("alias", ["latest", "Latest", "v2", "V10", "best.one"])
def test_an_alias_that_mlflow_does_not_take_is_refused_before_anything_is_recorded(
    make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str], alias: str
):
    log(make_bundle())
    before = store.client.get_model_version("de-en", "1").tags
    for call in (store.alias_target, store.promote):
        with pytest.raises(UsageError, match=f"'{alias}': cannot be an alias"):
            call("de-en", "1", alias)
    assert store.client.get_model_version("de-en", "1").tags == before


def test_a_promotion_that_fails_leaves_no_record(
    make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str], monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: str) -> None:
        raise MlflowException("the server has an error")

    log(make_bundle("a", seed=1))
    log(make_bundle("b", seed=2))
    monkeypatch.setattr(store.client, "set_registered_model_alias", fail)
    with pytest.raises(RegistryError, match="the server has an error"):
        store.promote("de-en", "2")
    assert not [tag for tag in store.client.get_model_version("de-en", "2").tags if tag.startswith("champion.")]


def test_a_version_describes_itself(make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str]):
    run_id = log(make_bundle())
    (record,) = store.list_models()
    assert (record.task, record.languages, record.recipe, record.dataset, record.dev_bleu, record.run_id) == (
        "translation",
        "de-en",
        "rnnsearch",
        "demo",
        41.147,  # rounded once, where it is shown
        run_id,
    )
    made = store.client.get_model_version("de-en", "1")
    assert made.tags["git_commit"] == "0123abc"
    assert "# rnnsearch: de, en" in made.description and "| dev BLEU | 41.15 |" in made.description
    assert f"    interlinear translate models:/de-en/1 --tracking {store.uri} < text" in made.description
    about = store.client.get_registered_model("de-en").description
    assert "Translation, de-en." in about and f"models:/de-en@champion --tracking {store.uri}" in about
    experiment = store.client.get_experiment(store.client.get_run(run_id).info.experiment_id)
    assert experiment.tags["mlflow.note.content"].startswith("Trainings: ")


def test_a_logged_model_has_its_run_s_name_and_says_where_it_is_registered(
    make_bundle: Callable[..., Path], store: MlflowStore
):
    run = store.client.create_run(store.experiment("named"), run_name="small.demo")
    logged = store.log_model(make_bundle(), run.info.run_id)
    for name in ("de-en", "other", "de-en"):
        store.register(logged, name)
    model = store.client.get_logged_model(logged.model_id)
    assert model.name == "small_demo"
    registered = json.loads(model.tags["mlflow.modelVersions"])
    assert [(one["name"], int(one["version"])) for one in registered] == [("de-en", 1), ("other", 1)]
    for name in ("model", "small_demo"):
        stored = store.find(parse_model_name(f"runs:/{run.info.run_id}/{name}"))
        assert stored.location == model.artifact_location


@contextmanager
def mlflow_at(store: MlflowStore) -> Iterator[None]:
    """MLflow's global functions use a store, as `MLFLOW_TRACKING_URI` lets them; then none."""
    mlflow.set_tracking_uri(store.uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(None)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_same_relative_address_in_another_folder_is_another_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        store = MlflowStore("sqlite:///mlflow.db", create=True)
        assert store.list_models() == []
        store.client.create_registered_model("toy")
        shutil.rmtree(tmp_path / name)


def test_an_interrupted_logging_of_a_model_is_completed(make_bundle: Callable[..., Path], store: MlflowStore):
    experiment = store.experiment("cut off")
    run_id = store.client.create_run(experiment).info.run_id
    bundle = make_bundle()
    logged = store.log_model(bundle, run_id)
    kept = store.find(parse_model_name(f"runs:/{run_id}/model"))
    assert kept.folder is not None
    (kept.folder / "MLmodel").unlink()
    store.client.finalize_logged_model(logged.model_id, LoggedModelStatus.PENDING)
    assert store.log_model(bundle, run_id) == logged
    (made,) = store.client.search_logged_models([experiment])
    assert made.status == LoggedModelStatus.READY and (kept.folder / "MLmodel").is_file()
    assert [output.model_id for output in store.client.get_run(run_id).outputs.model_outputs] == [logged.model_id]


def test_logging_a_model_does_not_change_mlflow_s_global_store(
    make_bundle: Callable[..., Path], log: Callable[[Path], str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    log(make_bundle())
    assert "MLFLOW_TRACKING_URI" not in os.environ


def test_mlflow_loads_the_model_with_the_same_outputs_as_the_bundle(
    make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str]
):
    bundle = make_bundle()
    log(bundle)
    texts = ["ein Hund läuft .", "eine Katze schläft ."]
    loaded = load(bundle)

    def ours(beam: int) -> list[str]:
        options = loaded.card.search.model_copy(update={"beam": beam})
        answers = SequenceGenerator(loaded).generate(Request({"source": text}, options) for text in texts)
        return [answer.candidates[0].text for answer in answers]

    with mlflow_at(store):
        model = mlflow.pyfunc.load_model("models:/de-en@champion")
    assert list(model.predict(pd.DataFrame({"source": texts}))) == ours(5)
    assert list(model.predict(texts)) == ours(5)
    assert list(model.predict({"source": texts[0]})) == ours(5)[:1]
    assert list(model.predict(texts, params={"beam_size": 1})) == ours(1)
    assert model.metadata.signature.params.to_dict()[0]["name"] == "beam_size"
    assert list(model.input_example.columns) == ["source"]
    for wrong, params in (
        ([""], None),
        (texts, {"beam_size": 0}),
        (pd.DataFrame({"id": ["7"], "source": texts[:1]}), None),
    ):
        with pytest.raises(MlflowException):
            model.predict(wrong, params=params)


def test_models_and_promote_at_the_command_line(
    make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str], capsys: pytest.CaptureFixture[str]
):
    log(make_bundle("a", seed=1))
    log(make_bundle("b", seed=2))
    assert interlinear(["promote", "de-en", "2", "--tracking", store.uri]) == 0
    assert interlinear(["models", "--tracking", store.uri]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "VERSION", "ALIASES", "LANGUAGES", "DEV", "BLEU", "RECIPE", "DATA", "CREATED"]
    assert [line.split()[:5] for line in lines[1:]] == [
        ["de-en", "2", "champion", "de-en", "41.15"],
        ["de-en", "1", "-", "de-en", "41.15"],
    ]
    assert interlinear(["promote", "de-en", "9", "--tracking", store.uri]) == 1
    assert "has no version 9. It has 1, 2." in capsys.readouterr().err


def test_names_that_cannot_be_registered(store: MlflowStore, make_bundle: Callable[..., Path]):
    run_id = store.client.create_run(store.experiment("demo")).info.run_id
    logged = store.log_model(make_bundle(), run_id)
    for name in ("a/b", "a:b", "..", "", "a@b", "a,b"):
        with pytest.raises(UsageError, match="cannot be a registered model's name"):
            store.register(logged, name)
    assert store.list_models() == []


@pytest.mark.timeout(60)
def test_what_another_training_creates_at_the_same_time_is_used(
    make_bundle: Callable[..., Path], store: MlflowStore, monkeypatch: pytest.MonkeyPatch
):
    """Trainings that begin together look an experiment up before one of them has created it; models as well."""
    other = MlflowStore(store.uri)
    look_up, search = store.client.get_experiment_by_name, store.client.search_registered_models
    created: list[str] = []

    def look_up_just_before(name: str) -> object:
        found = look_up(name)
        if found is None:
            created.append(other.client.create_experiment(name))
        return found

    def search_just_before(**options: Any) -> object:
        found = search(**options)
        if not found:
            other.client.create_registered_model("de-en")
        return found

    monkeypatch.setattr(store.client, "get_experiment_by_name", look_up_just_before)
    monkeypatch.setattr(store.client, "search_registered_models", search_just_before)
    experiment = store.experiment("data-1")
    assert [experiment] == created and store.experiment("data-1") == experiment
    run = store.client.create_run(experiment)
    assert store.register(store.log_model(make_bundle(), run.info.run_id), "de-en") == "1"


def test_an_unreachable_server(tmp_path: Path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    for uri in (f"http://127.0.0.1:{port}", f"postgresql://user:secret@127.0.0.1:{port}/mlflow"):
        with pytest.raises(RegistryError, match=f"127.0.0.1:{port}: the tracking store does not answer") as raised:
            MlflowStore(uri, create=True)
        assert "secret" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_server_that_never_responds_times_out_within_seconds():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(RegistryError, match="does not answer"):
        MlflowStore(f"http://127.0.0.1:{silent.getsockname()[1]}")


@pytest.mark.timeout(60)
def test_errors_of_an_object_store_are_the_registrys(store: MlflowStore):
    refused = ClientError({"Error": {"Code": "AccessDenied", "Message": "Access Denied"}}, "GetObject")
    silent = EndpointConnectionError(endpoint_url="http://bucket")
    for error, kind in (
        (refused, RegistryError),
        (silent, RegistryUnavailableError),
        (KeyError("a mistake"), KeyError),
    ):
        with pytest.raises(kind) as caught, store.errors():
            raise error
        assert type(caught.value) is kind


def test_files_that_are_not_a_store(tmp_path: Path):
    (tmp_path / "text.db").write_text("this is not a database, but it is long enough to have a header\n" * 40)
    for uri, sentence in {
        f"sqlite:///{tmp_path}/none.db": "there is no such store",
        f"sqlite:///{tmp_path}/text.db": "cannot be opened: file is not a database",
        f"sqlite:///{tmp_path}": "cannot be opened",
    }.items():
        with pytest.raises(RegistryError, match=sentence):
            MlflowStore(uri)
    with pytest.raises(RegistryError, match="there is no folder"):
        MlflowStore(f"sqlite:///{tmp_path}/missing/mlflow.db", create=True)
    assert not (tmp_path / "none.db").exists()


def test_a_locked_store_and_one_of_another_mlflow_have_the_right_remedy(
    store: MlflowStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shutil.copy(sqlite_file(store.uri), tmp_path / "my.db")
    uri = f"sqlite:///{tmp_path}/my.db"
    monkeypatch.setattr("interlinear.registry.address.SQLITE_TIMEOUT", 0.01)
    with closing(sqlite3.connect(tmp_path / "my.db", isolation_level=None)) as other:
        other.execute("begin exclusive")
        with pytest.raises(
            RegistryUnavailableError, match=r"another process has locked it .* Wait until that has ended"
        ):
            MlflowStore(uri)
        other.execute("rollback")
        other.execute("update alembic_version set version_num = 'c48cb773bb87'")
        with pytest.raises(
            RegistryError, match=rf"it is of another version of MLflow\..*run: mlflow db upgrade {uri}\."
        ):
            MlflowStore(uri).list_models()


def test_a_folder_with_a_percent_sign_has_a_store(
    make_bundle: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "feature%2Fx #1?"
    folder.mkdir()
    monkeypatch.chdir(folder)
    store = MlflowStore(create=True)
    artifacts = store.client.get_experiment(store.experiment("some")).artifact_location
    assert artifacts == (folder / "mlartifacts/some").as_uri()
    log_version(store, make_bundle(f"{folder.name}/bundle"))
    assert fetch_bundle("models:/de-en@champion").folder.is_relative_to(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["bundle", "mlartifacts", "mlflow.db"]
    monkeypatch.chdir(tmp_path)
    given = MlflowStore(f"sqlite:///{quote(str(folder))}/mlflow.db")
    assert [model.name for model in given.list_models()] == ["de-en"]


def test_a_copied_store_reads_its_own_files_and_is_written_after_its_addresses_are_changed(
    make_bundle: Callable[..., Path],
    store: MlflowStore,
    log: Callable[[Path], str],
    tmp_path_factory: pytest.TempPathFactory,
):
    log(make_bundle())
    name, original = parse_model_name("models:/de-en/1"), sqlite_file(store.uri).parent
    folder = tmp_path_factory.mktemp("moved") / "copy"
    shutil.copytree(original, folder)
    copy = MlflowStore(f"sqlite:///{folder}/mlflow.db")
    before = store.find(name)
    assert before.folder is not None and before.folder.is_relative_to(original)
    for _ in range(2):
        found = copy.find(name)
        assert found.folder is not None and found.folder.is_relative_to(folder)
        (experiment,) = [each for each in copy.client.search_experiments() if each.name != "Default"]
        if experiment.artifact_location.startswith(original.as_uri()):
            with pytest.raises(RegistryError, match=r"it was copied or moved.* interlinear models --moved --tracking"):
                copy.experiment(experiment.name)
        changed = relocate(folder / "mlflow.db")
    assert changed == 0 and copy.experiment(experiment.name)
    assert experiment.artifact_location.startswith(folder.as_uri())
    assert store.find(name) == before


@pytest.mark.parametrize(
    "uri",
    [
        "ftp://host/x", "mlflow.db", "http:///x", "http://host:50000000", "http://host:5000x", "http://[::1",
        "postgresql://user:secret@host:abc/db", "ftp://user:secret@host/x",
    ],
)  # fmt: skip
def test_invalid_addresses_of_a_store(uri: str):
    with pytest.raises(UsageError, match="not a tracking store's address") as raised:
        MlflowStore(uri)
    assert "secret" not in str(raised.value)


def test_a_store_whose_creation_was_killed_is_created_again(tmp_path: Path):
    file, draft = tmp_path / "mlflow.db", tmp_path / ".mlflow.db.draft/mlflow.db"
    program = f"from interlinear.registry.store import MlflowStore; MlflowStore('sqlite:///{file}', create=True)"
    maker = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    deadline = time.monotonic() + 60
    while not (draft.exists() and draft.stat().st_size > 200_000):  # some of the tables
        assert maker.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    maker.kill()
    maker.wait()
    assert not file.stat().st_size, "it was killed too late to show anything"
    assert MlflowStore(f"sqlite:///{file}", create=True).list_models() == []
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]


@pytest.mark.slow
def test_mlflow_serves_the_model(make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str]):
    bundle = make_bundle()
    log(bundle)
    (answer,) = SequenceGenerator(loaded := load(bundle)).generate(
        [Request({"source": "ein Hund"}, loaded.card.search)]
    )
    folder = fetch_bundle("models:/de-en/1", store.uri).folder.parents[1]
    port = free_port()
    serve = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(folder), "--env-manager", "local"]
    with listening([*serve, "-p", str(port)], bundle.parent, f"http://127.0.0.1:{port}/ping"):
        for body in ({"dataframe_records": [{"source": "ein Hund"}]}, {"inputs": ["ein Hund"]}):
            response = httpx.post(f"http://127.0.0.1:{port}/invocations", json=body, timeout=30)
            assert response.json() == {"predictions": [answer.candidates[0].text]}
        refused = httpx.post(f"http://127.0.0.1:{port}/invocations", json={"inputs": [""]}, timeout=30)
        assert refused.status_code == 400 and "the text is empty" in refused.text


@pytest.mark.slow
def test_models_of_a_server_are_downloaded_once_and_verified(
    make_bundle: Callable[..., Path], empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "mlflow.db").write_bytes(empty_store.read_bytes())
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    place = [
        "--backend-store-uri",
        f"sqlite:///{tmp_path}/mlflow.db",
        "--artifacts-destination",
        str(tmp_path / "kept"),
    ]
    server = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", str(port), *place]
    with listening(server, tmp_path, f"{uri}/health"):
        store = MlflowStore(uri)
        run_id = store.client.create_run(store.experiment("demo")).info.run_id
        bundle = make_bundle()
        store.register(store.log_model(bundle, run_id), "de-en")

        folder = fetch_bundle("models:/de-en@champion", uri).folder
        assert folder.is_relative_to(tmp_path / "cache")
        weights = folder / "model.safetensors"
        assert weights.read_bytes() == (bundle / "model.safetensors").read_bytes()
        made = weights.stat().st_mtime_ns
        assert fetch_bundle("models:/de-en/1", uri).folder == folder and weights.stat().st_mtime_ns == made

        weights.write_bytes(b"half a file")
        assert fetch_bundle("models:/de-en/1", uri).folder == folder
        assert weights.read_bytes() == (bundle / "model.safetensors").read_bytes()
        left = {path.name for path in folder.parents[2].iterdir()} - {LOCK}  # for which downloads wait
        assert left == {folder.parents[1].name}, "no incomplete download"
    with pytest.raises(RegistryError, match="does not answer"):
        fetch_bundle("models:/de-en/1", uri)
