"""Model names and their resolution, in a real store."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import interlinear
from interlinear.errors import BundleError, RegistryError, UsageError
from interlinear.registry.names import AliasName, FolderName, RunName, VersionName, parse_model_name
from interlinear.registry.resolve import fetch_bundle
from interlinear.registry.store import MlflowStore


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("models:/de-en/3", VersionName("de-en", "3")),
        ("models:/de-en@champion", AliasName("de-en", "champion")),
        ("models:/de-en", AliasName("de-en", "champion")),
        ("models:/Wörter mit Raum/12", VersionName("Wörter mit Raum", "12")),
        ("runs:/0123abcd/model", RunName("0123abcd", "model")),
        ("runs/demo/bundle", FolderName(Path("runs/demo/bundle"))),
        ("../models", FolderName(Path("../models"))),
    ],
)
def test_the_four_forms_of_a_name(text: str, expected: object):
    assert parse_model_name(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "models:/",
        "models:/..",
        "models:/de-en/",
        "models:/de-en/0",
        "models:/de-en/latest",
        "models:/de-en/3/../4",
        "models:/../etc/3",
        "models:/..@champion",
        "models:/a/b@champion",
        "models:/de-en@",
        "models:/de-en@../x",
        "models:/de\nen/1",
        "models:/de,en/1",
        "models:de-en/3",
        "runs:/../../model",
        "runs:/0123/../model",
        "runs:/0123/model/../..",
        "runs:/0123",
        "https://example.org/bundle",
        "file:///tmp/bundle",
        "",
        " ",
        "a\0b",
    ],
)
def test_other_forms_are_usage_errors(text: str):
    with pytest.raises(UsageError, match="models:/NAME@champion"):
        parse_model_name(text)


def test_every_form_resolves_to_the_same_weights(
    make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str]
):
    bundle = make_bundle()
    run_id = log(bundle)
    weights = interlinear.load(bundle).card.weights_sha256

    for name in (str(bundle), str(bundle.parent), "models:/de-en@champion", "models:/de-en/1", f"runs:/{run_id}/model"):
        assert interlinear.load(fetch_bundle(name, store.uri).folder).card.weights_sha256 == weights, name
    located = fetch_bundle("models:/de-en@champion", store.uri)
    assert (located.name, located.version) == ("de-en", "1")


def test_an_unknown_name_is_reported_with_the_known_ones(
    make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str]
):
    log(make_bundle())
    for name, sentence in {
        "models:/de-em@champion": r"no model is registered as 'de-em'\. There are de-en\.",
        "models:/xyz/1": r"no model is registered as 'xyz'\. There are de-en\.",
        "models:/de-en/7": r"'de-en' has no version 7\. It has 1\.",
        "models:/de-en@best": r"no alias 'best'\. Its aliases are champion\.",
        "runs:/0123abcd/model": "there is no run '0123abcd'",
    }.items():
        with pytest.raises(RegistryError, match=sentence):
            fetch_bundle(name, store.uri)


def test_a_similar_registered_name_is_suggested(
    make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str]
):
    log(make_bundle())
    with pytest.raises(UsageError, match=r"de-en: there is no such folder. Did you mean models:/de-en@champion\?"):
        fetch_bundle("de-en", store.uri)
    with pytest.raises(UsageError, match=r"de-em: there is no such folder. A model is a bundle folder"):
        fetch_bundle("de-em", store.uri)
    assert fetch_bundle("models:/de-en", store.uri) == fetch_bundle("models:/de-en@champion", store.uri)


def test_an_empty_registry_is_reported(store: MlflowStore):
    with pytest.raises(RegistryError, match=r"no model is registered as 'de-en'\. There are none yet\."):
        fetch_bundle("models:/de-en@champion", store.uri)


def test_folders_without_a_bundle(tmp_path: Path):
    with pytest.raises(UsageError, match="there is no such folder"):
        fetch_bundle(str(tmp_path / "nothing"))
    with pytest.raises(RegistryError, match="no model bundle in"):
        fetch_bundle(str(tmp_path))


def test_a_registered_model_with_missing_or_damaged_files(
    make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str]
):
    log(make_bundle())
    folder = fetch_bundle("models:/de-en/1", store.uri).folder
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\1")
    with pytest.raises(BundleError, match=r"model\.safetensors"):
        interlinear.load(fetch_bundle("models:/de-en/1", store.uri).folder)

    (folder / "model.json").unlink()
    with pytest.raises(RegistryError, match="no model bundle in"):
        fetch_bundle("models:/de-en/1", store.uri)

    shutil.rmtree(folder.parents[1])
    with pytest.raises(RegistryError, match="its files are not at"):
        fetch_bundle("models:/de-en/1", store.uri)


def test_loading_executes_no_code_and_reads_no_pickle(
    make_bundle: Callable[..., Path], store: MlflowStore, log: Callable[[Path], str]
):
    log(make_bundle())
    kept = store.find(parse_model_name("models:/de-en/1")).folder
    assert kept is not None
    files = [path for path in kept.rglob("*") if path.is_file()]
    assert "model.safetensors" in {path.name for path in files}
    assert {path.suffix for path in files} <= {".json", ".safetensors", ".py", ".txt", ".yaml", ".md", ""}
    assert not [
        path for path in files if path.read_bytes()[:1] == b"\x80" or torch.serialization._is_zipfile(path.open("rb"))
    ]
