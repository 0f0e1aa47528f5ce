"""`promote`, with and without `--if-better`, in a real store."""

import getpass
from pathlib import Path

import pytest

from interlinear import cli
from interlinear.cli.evaluation.test_sets import parse_dataset_split
from interlinear.errors import RegistryError
from interlinear.registry.store import MlflowStore, Promotion
from tests.interlinear.cli.conftest import TEST, describe


@pytest.fixture(scope="module")
def registry(toy: Path, other_toy: Path, tmp_path_factory: pytest.TempPathFactory) -> MlflowStore:
    """Two versions of one name."""
    store = MlflowStore(f"sqlite:///{tmp_path_factory.mktemp('registry')}/mlflow.db", create=True)
    for bundle in (toy, other_toy):
        run = store.client.create_run(store.experiment("demo")).info.run_id
        store.register(store.log_model(bundle, run), "de-en")
    return store


@pytest.fixture
def store(registry: MlflowStore, monkeypatch: pytest.MonkeyPatch) -> MlflowStore:
    """The first version is the champion, and no promotion is recorded. MLFLOW_TRACKING_URI names the store."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", registry.uri)
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME", raising=False)
    registry.client.set_registered_model_alias("de-en", "champion", "1")
    for version in ("1", "2"):
        for key in registry.client.get_model_version("de-en", version).tags:
            if "." in key:
                registry.client.delete_model_version_tag("de-en", version, key)
    return registry


def champion(store: MlflowStore) -> str | None:
    return store.alias_target("de-en", "1")


def tags(store: MlflowStore, version: str) -> dict[str, str]:
    found = store.client.get_model_version("de-en", version).tags
    return {key.removeprefix("champion."): value for key, value in found.items() if key.startswith("champion.")}


def test_a_version_is_promoted_only_if_it_is_better(store, other_toy, parallel, tmp_path, run, capsys):
    source, _ = parallel
    (tmp_path / "as-other.en").write_text(run("translate", other_toy, source))  # version 2 has all of them right
    described = describe(tmp_path, test=TEST, other=TEST | {"target": "as-other.en"})
    promote = ["promote", "de-en", "2", "--if-better-on"]
    said = run.err(1, *promote, described).splitlines()[-1]
    assert said.startswith("interlinear: models:/de-en/2: it is not better than champion, version 1: BLEU ")
    assert " on mine, test (p bootstrap " in said and "Champion stays" in said
    assert champion(store) == "1" and tags(store, "2") == {}

    said = run.err(0, *promote, f"{described}:other", "--why", "it reads gardens")
    assert "it is better: BLEU 100.00 against " in said and "models:/de-en@champion is version 2." in said
    assert champion(store) == "2"
    kept = tags(store, "2")
    assert kept["by"] == getpass.getuser() and kept["why"] == "it reads gardens" and kept["instead_of"] == "1"
    assert kept["at"].startswith("20") and kept["figures"].startswith("BLEU 100.00 against ")
    assert "on mine, other (p bootstrap 0.0" in kept["figures"] and "nrefs:1" in kept["figures"]

    # In reverse the same numbers refuse it; another metric may be chosen, with lower or higher as better.
    back = ["promote", "de-en", "1", "--if-better-on", f"{described}:other"]
    assert cli.run(back) == 1 and cli.run([*back, "--metric", "ter"]) == 1
    assert "TER " in capsys.readouterr().err and champion(store) == "2"
    assert cli.run(back[:3]) == 0  # without the comparison
    assert tags(store, "1")["figures"] == "-" and tags(store, "1")["instead_of"] == "2"


def test_without_a_champion_to_compare_with(store, run):
    said = run.err(0, "promote", "de-en", "2", "--alias", "candidate", "--if-better-on", "demo")
    assert "there is nothing to beat: de-en has no other version as candidate." in said
    assert "there is nothing to beat" in run.err(0, "promote", "de-en", "1", "--if-better-on", "demo")


def test_usage_errors(store, dataset_of_nothing, run):
    for words, code, sentence in (
        (["9", "--if-better-on", "demo"], 1, "has no version 9"),
        (["2", "--metric", "bleu"], 2, "--metric: nothing is scored"),
        (["2", "--data-root", "."], 2, "--data-root: nothing is scored"),
        (["2", "--if-better-on", "no-such"], 2, "no-such"),
        (["2", "--if-better-on", "no-such", "--alias", "latest"], 2, "'latest': cannot be an alias"),
        (["2", "--if-better-on", f"{dataset_of_nothing}:exam"], 1, "exam"),
        (["2", "--if-better-on", str(dataset_of_nothing), "--metric", "rouge"], 2, "one score decides"),
        (["2", "--if-better-on", str(dataset_of_nothing), "--metric", "aer"], 2, "cannot be computed here"),
    ):
        assert sentence in run.err(code, "promote", "de-en", *words)
    assert champion(store) == "1"


@pytest.fixture
def dataset_of_nothing(tmp_path: Path, parallel: tuple[Path, Path]) -> Path:
    return describe(tmp_path, "plain", test=TEST)


def test_a_concurrent_promotion_is_not_overwritten(store: MlflowStore):
    store.promote("de-en", "2")  # during the comparison with version 1
    with pytest.raises(RegistryError, match="somebody has let it point to version 2 in the meantime"):
        store.promote("de-en", "1", promotion=Promotion("1"))


def test_the_split_of_a_data_set():
    assert parse_dataset_split("demo") == ("demo", "test") and parse_dataset_split("demo:dev") == ("demo", "dev")
    assert parse_dataset_split("a/b.yaml:dev") == ("a/b.yaml", "dev") and parse_dataset_split("c:/b.yaml") == (
        "c:/b.yaml",
        "test",
    )
