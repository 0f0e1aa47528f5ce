"""`evaluate --log`: scores are logged as child runs of the training run, in a real store."""

import json
from pathlib import Path

import pytest
from mlflow.entities import Run

from interlinear import cli
from interlinear.registry.curves import RUN_RECORD, RunRecord
from interlinear.registry.store import MlflowStore
from tests.interlinear.cli.conftest import TEST, describe


@pytest.fixture
def store(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowStore:
    """A training run that has logged and registered the toy; `runs/toy` is its local folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    store = MlflowStore(create=True)
    run_id = store.client.create_run(store.experiment("mine"), run_name="toy").info.run_id
    store.register(store.log_model(toy, run_id), "de-en")
    store.client.set_terminated(run_id)
    folder = tmp_path / "runs" / "toy"
    folder.mkdir(parents=True)
    (folder / "bundle").symlink_to(toy)
    (folder / RUN_RECORD).write_text(RunRecord(tracking=store.display_uri, run_id=run_id).model_dump_json())
    describe(tmp_path, test=TEST)
    return store


def runs(store: MlflowStore) -> dict[str, Run]:
    found = store.client.search_runs([store.experiment("mine")])
    return {run.info.run_id: store.client.get_run(run.info.run_id) for run in found}


def test_scores_are_child_runs_and_shown_on_the_model_s_page(store, parallel, run, capsys):
    (trained,) = runs(store)
    (model,) = store.client.search_logged_models([store.experiment("mine")])
    asked = ["--data", "mine.yaml", "--metrics", "bleu,ter", "--set", "search.beam=2", "--json"]
    assert cli.run(["evaluate", "models:/de-en@champion", *asked]) == 0
    assert len(runs(store)) == 1, "nothing is logged that was not asked for"
    capsys.readouterr()

    for name in ("models:/de-en@champion", "models:/de-en/1", f"runs:/{trained}/model", "runs/toy"):
        before = set(runs(store))
        out, said = run.both("evaluate", name, *asked, "--log")
        (made,) = set(runs(store)) - before
        assert f"the scores are logged at {store.run_url(store.experiment('mine'), made)}" in said
        logged, scores = runs(store)[made], json.loads(out)
        assert (logged.info.status, logged.info.run_name) == ("FINISHED", "evaluate mine, test")
        assert logged.data.tags["mlflow.parentRunId"] == trained and logged.data.tags["model"] == name
        assert logged.data.metrics == {f"test/{metric}": scores[metric]["score"] for metric in ("bleu", "ter")}
        assert logged.data.tags["bleu_signature"] == scores["bleu"]["signature"]
        assert logged.data.params["search.beam"] == "2" and logged.data.params["search.max_length"] == "8"
        (given,) = logged.inputs.dataset_inputs
        assert (given.dataset.name, given.tags[0].value) == ("mine, test", "test")
        assert json.loads(given.dataset.profile)["rows"] == 10
        assert [one.model_id for one in logged.inputs.model_inputs] == [model.model_id]
        metrics = [one for one in store.client.get_logged_model(model.model_id).metrics if one.run_id == made]
        assert {one.key: one.value for one in metrics} == logged.data.metrics
        assert {(one.dataset_name, one.dataset_digest) for one in metrics} == {("mine, test", given.dataset.digest)}

    # Another text with the same name is another test set.
    digests = {one.inputs.dataset_inputs[0].dataset.digest for key, one in runs(store).items() if key != trained}
    parallel[1].write_text(parallel[1].read_text().upper())
    assert cli.run(["evaluate", "runs/toy", *asked, "--log"]) == 0
    later = {one.inputs.dataset_inputs[0].dataset.digest for key, one in runs(store).items() if key != trained}
    assert len(digests) == 1 and len(later) == 2


@pytest.mark.slow
def test_a_model_without_a_training_run_is_refused_before_searching(store, toy, other_toy, parallel, run):
    source, target = parallel
    files = ["--source", str(source), "--reference", str(target), "--log"]
    for model, code, sentence in (
        (f"{toy},{other_toy}", 2, "is not a model that one run has trained. Leave it out."),
        (
            str(other_toy),
            1,
            f"{other_toy}: {store.display_uri} has no run that trained it. Name the store by --tracking",
        ),
        ("models:/de-en/7", 1, "has no version 7"),
    ):
        out, said = run.both("evaluate", model, *files, code=code)
        assert sentence in said and out == ""
    assert len(runs(store)) == 1


@pytest.mark.slow
def test_a_deleted_training_run_is_reported(store, parallel, run):
    (trained,) = runs(store)
    store.client.delete_run(trained)
    assert "has no run that trained it" in run.err(1, "evaluate", "runs/toy", "--data", "mine.yaml", "--log")
