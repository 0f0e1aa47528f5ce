"""Result tables: each run is trained once, stored as a file, and compared with the paper's numbers; other commits are
marked."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interlinear.cli import run as interlinear
from research.__main__ import run as research
from research.papers import load_paper, paper_names, plan_runs
from research.runs import setting, training_stages
from seq2seq.errors import DataError
from tests.training.toy import SETTINGS, write_corpus, write_edited

pytestmark = pytest.mark.slow

TABLE = """\
about: "A paper of two systems"
figures: [toy.curves, toy.gates]
groups:
  toy:
    about: words and their capitals
    core: true
    data: {data}
    tests: {{test: "bleu,exact-match"}}
    published: bleu
    systems: {{rnnsearch_star: 20.0, interactive_attention: 21.5}}
    starts_from: {{interactive_attention: rnnsearch_star}}
    small: {{settings: {{{settings}, training.epochs: 2}}}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with its own table and the toy corpus, and the results of one command."""
    folder = tmp_path_factory.mktemp("reproduce")
    settings = ", ".join(setting.replace("=", ": ", 1) for setting in SETTINGS if "epochs" not in setting)
    (folder / "paper.yaml").write_text(TABLE.format(data=write_corpus(folder), settings=settings))
    assert research([*command(folder), "--only", "rnnsearch_star"]) == 0
    return folder


@pytest.fixture(scope="module")
def completed(folder: Path) -> Path:
    """The same folder, with the results of all systems."""
    assert research(command(folder)) == 0
    return folder


def command(folder: Path) -> list[str]:
    return [
        "reproduce", str(folder / "paper.yaml"), "--no-ray", "--tracking", f"sqlite:///{folder}/mlflow.db",
        "--output", str(folder / "out"), "--runs", str(folder / "runs"), "--prepared", str(folder / "prepared"),
    ]  # fmt: skip


def test_a_table_is_completed_run_by_run_without_repeated_training(folder: Path, capsys: pytest.CaptureFixture[str]):
    first = folder / "out/runs/paper.toy.rnnsearch_star.small.1.json"
    before = first.read_bytes()
    assert research([*command(folder), "--dry-run"]) == 0
    (planned,) = capsys.readouterr().out.splitlines()
    assert f"training.init_from={folder}/runs/paper.toy.rnnsearch_star.small.1/bundle" in planned
    assert research(command(folder)) == 0
    assert first.read_bytes() == before
    page = (folder / "out/paper/table.md").read_text()
    assert "    python -m research reproduce paper.yaml --scale small\n" in page
    assert "| rnnsearch_star | 1 |" in page and "| interactive_attention | 1 |" in page and "| +1.50 |" in page
    (bleu, exact) = json.loads((folder / "out/paper/table.json").read_text())
    assert [row["system"] for row in bleu["rows"]] == ["rnnsearch_star", "interactive_attention"]
    assert bleu["rows"][1]["published_gain"] == 1.5 and exact["rows"][1]["published_gain"] is None
    result = json.loads(first.read_text())
    assert bleu["rows"][0]["ours"] == pytest.approx(result["tests"]["test"]["scores"]["bleu"]["score"])
    assert "statistics" not in result["tests"]["test"] and len(result["curve"]) == 2
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", page)
    assert pictures == ["toy.curves.png"]
    assert (folder / "out/paper/toy.curves.png").read_bytes()[1:4] == b"PNG"


LATER = """\
  later:
    about: trained for longer
    data: {data}
    tests: {{test: bleu}}
    published: gain
    systems: {{rnnsearch_star: 0.0, rnnsearch_star-longer: 1.0}}
    taken_from: {{rnnsearch_star: toy}}
    starts_from: {{rnnsearch_star-longer: rnnsearch_star}}
    variants: {{rnnsearch_star-longer: {{of: rnnsearch_star}}}}
    small: {{settings: {{{settings}, training.epochs: 1}}}}
"""


def with_later_group(folder: Path, tmp_path: Path, later: str = LATER) -> list[str]:
    """The command for a table with a further group, which starts from runs of the first one; with copied results."""
    settings = ", ".join(setting.replace("=", ": ", 1) for setting in SETTINGS if "epochs" not in setting)
    table = (folder / "paper.yaml").read_text()
    data = re.findall(r"^    data: (.*)$", table, re.MULTILINE)[0]
    (tmp_path / "paper.yaml").write_text(table + later.format(data=data, settings=settings))
    shutil.copytree(folder / "out", tmp_path / "out")
    words = ["--only", "later", "--output", str(tmp_path / "out")]
    return ["reproduce", str(tmp_path / "paper.yaml"), *command(folder)[2:], *words]


def test_a_group_takes_runs_from_another_one_and_does_not_train_them_again(folder: Path, tmp_path: Path):
    first = tmp_path / "out/runs/paper.toy.rnnsearch_star.small.1.json"
    assert research(with_later_group(folder, tmp_path)) == 0
    assert first.read_bytes() == (folder / "out/runs" / first.name).read_bytes()
    assert [path.name for path in (tmp_path / "out/runs").glob("paper.later.*")] == [
        "paper.later.rnnsearch_star-longer.small.1.json"
    ]
    tables = json.loads((tmp_path / "out/paper/table.json").read_text())
    (later,) = [one for one in tables if one["group"] == "later"]  # exact-match is the other group's
    kept = json.loads(first.read_text())["tests"]["test"]["scores"]["bleu"]["score"]
    assert [row["system"] for row in later["rows"]] == ["rnnsearch_star", "rnnsearch_star-longer"]
    assert later["rows"][0]["ours"] == kept and later["metric"] == "bleu"
    assert later["rows"][1]["gain"] == pytest.approx(later["rows"][1]["ours"] - kept)


def test_weights_that_a_run_starts_from_and_that_are_not_there_are_named_first(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = [*with_later_group(folder, tmp_path), "--runs", str(tmp_path / "runs")]
    assert research(words) == 1
    error = capsys.readouterr().err
    assert f"{tmp_path}/runs/paper.toy.rnnsearch_star.small.1/bundle" in error and "--runs" in error
    assert f"{tmp_path}/out/runs/paper.toy.rnnsearch_star.small.1.json" in error and not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("rnnsearch_star: toy", "rnnsearch_star: tye"), "later.taken_from: rnnsearch_star of tye: .* are toy"),
        (("rnnsearch_star: toy", "rnnsearch: toy"), "taken_from: rnnsearch is none of the group's systems"),
        (("{{test: bleu}}", "{{dev: bleu}}"), "that group is not tested on dev"),
        (("data: {data}", "data: demo"), "that group has other data"),
        (("starts_from: {{", "starts_from: {{rnnsearch_star: rnnsearch_star-longer, "), "starts from"),
    ],
)
def test_runs_that_cannot_be_taken_are_refused(folder: Path, tmp_path: Path, change: tuple[str, str], problem: str):
    with_later_group(folder, tmp_path, LATER.replace(*change))
    with pytest.raises(DataError, match=problem):
        load_paper(str(tmp_path / "paper.yaml"))


def test_runs_are_in_mlflow_with_their_table_cell_and_scores(folder: Path):
    from registry.store import MlflowStore

    client = MlflowStore(f"sqlite:///{folder}/mlflow.db").client
    paper = client.get_experiment_by_name("paper").experiment_id
    (run, *_) = client.search_runs([paper], "attributes.run_name = 'paper.toy.rnnsearch_star.small.1'")
    assert run.data.tags["table"] == "paper" and run.data.tags["scale"] == "small"
    assert 0 <= run.data.metrics["test/bleu"] <= 100
    assert run.data.tags["test_bleu"] == f"{run.data.metrics['test/bleu']:.2f}"
    assert run.data.tags["test_bleu_signature"].startswith("nrefs:1|case:mixed")
    assert [one.tags[0].value for one in run.inputs.dataset_inputs].count("test") == 1
    (whole,) = client.search_runs([run.info.experiment_id], "tags.family = 'paper.small'")
    files = {file.path for file in client.list_artifacts(whole.info.run_id)}
    assert {"table.md", "table.json", "toy.curves.png"} <= files
    above = client.get_run(run.data.tags["mlflow.parentRunId"])
    assert above.info.run_name == f"{run.data.tags['group']}.{run.data.tags['system']}.small"
    assert "mlflow.parentRunId" not in above.data.tags and above.info.status == "FINISHED"


def test_a_registered_model_s_version_and_card_have_its_test_scores(folder: Path):
    from registry.resolve import fetch_bundle
    from registry.store import MlflowStore

    client = MlflowStore(f"sqlite:///{folder}/mlflow.db").client
    version = client.get_model_version("paper.toy.rnnsearch_star", "1")
    bleu, signature = version.tags["test_bleu"], version.tags["test_bleu_signature"]
    result = json.loads((folder / "out/runs/paper.toy.rnnsearch_star.small.1.json").read_text())
    judged = result["tests"]["test"]["scores"]["bleu"]
    assert (bleu, signature) == (f"{judged['score']:.2f}", judged["signature"])
    (model,) = client.search_logged_models(
        [client.get_experiment_by_name("paper").experiment_id], f"source_run_id = '{version.run_id}'"
    )
    assert model.tags["test_bleu"] == bleu and "test/bleu" in {metric.key for metric in model.metrics}

    own = folder / "runs/paper.toy.rnnsearch_star.small.1/bundle"
    logged = fetch_bundle("models:/paper.toy.rnnsearch_star/1", f"sqlite:///{folder}/mlflow.db").folder
    for text in (version.description, (own / "README.md").read_text(), (logged / "README.md").read_text()):
        assert "| dev BLEU (40 sentences, beam 1) |" in text
        assert f"test: BLEU (40 sentences, beam 5) | {bleu} | `nrefs:1\\|" in text


def test_the_list_of_models_names_the_metric_of_the_dev_score(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert interlinear(["models", "--tracking", f"sqlite:///{folder}/mlflow.db"]) == 0
    assert "(40 sentences, beam 1)" in capsys.readouterr().out


def test_runs_of_another_commit_and_scores_of_another_signature_are_marked(completed: Path):
    folder = completed
    path = folder / "out/runs/paper.toy.rnnsearch_star.small.1.json"
    kept = path.read_text()
    result = {**json.loads(kept), "commit": "0123abcdef99"}
    exact = result["tests"]["test"]["scores"]["exact-match"]
    ways = [exact["signature"], "another-way"]
    exact["signature"] = ways[1]
    path.write_text(json.dumps(result))
    try:
        assert research([*command(folder), "--only", "rnnsearch_star"]) == 0
        page = (folder / "out/paper/table.md").read_text()
        assert "0123abcdef |" in page
        assert f"`{ways[1]} and {ways[0]}`" in page or f"`{ways[0]} and {ways[1]}`" in page
    finally:
        path.write_text(kept)


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda text: text[:100], "it is no result of a run"),
        (lambda text: text.replace('"training.epochs": 2', '"training.epochs": 7'), "the run was trained otherwise"),
    ],
)
def test_an_invalid_or_foreign_result_is_named(folder: Path, capsys: pytest.CaptureFixture[str], harm, says: str):
    path = folder / "out/runs/paper.toy.rnnsearch_star.small.1.json"
    kept = path.read_text()
    path.write_text(harm(kept))
    try:
        assert research(command(folder)) == 1
        error = capsys.readouterr().err
        assert says in error and str(path) in error and "emove it" in error
    finally:
        path.write_text(kept)


def test_a_copy_of_a_result_does_not_count_as_a_seed(folder: Path, capsys: pytest.CaptureFixture[str]):
    first = folder / "out/runs/paper.toy.rnnsearch_star.small.1.json"
    copy = folder / "out/runs/paper.toy.rnnsearch_star.small.2.json"
    named = first.read_text()
    for text, says in (
        (named, "it is the result of another run, paper.toy.rnnsearch_star.small.1. Remove it"),
        (named.replace('"seed": 1', '"seed": 2'), "seed 2 has the weights of seed 1: one is a copy of the other"),
    ):
        copy.write_text(text)
        try:
            assert research(command(folder)) == 1
            assert f"{copy}: {says}" in capsys.readouterr().err
        finally:
            copy.unlink()


def test_a_stopped_command_stops_its_training_which_resumes_later(folder: Path, capsys: pytest.CaptureFixture[str]):
    """SIGTERM to the command only: the training in its own process saves its state and ends."""
    paper = folder / "long.yaml"
    paper.write_text(
        (folder / "paper.yaml")
        .read_text()
        .replace("training.epochs: 2", "training.epochs: 5000, training.patience: 5000")
    )
    words = [word.replace("paper.yaml", "long.yaml") for word in command(folder)]
    started = subprocess.Popen(
        [sys.executable, "-m", "research", *words, "--only", "rnnsearch_star"],
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, text=True,
    )  # fmt: skip
    assert started.stderr
    for line in started.stderr:
        if "epoch 2 " in line:
            started.terminate()
            break
    _, said = started.communicate(timeout=120)
    assert started.returncode == 143 and "--resume" in said
    assert research([*words, "--only", "rnnsearch_star", "--dry-run"]) == 0
    assert "--resume" in capsys.readouterr().out


VARIANTS = """\
about: "A paper of variants"
groups:
  edits:
    about: words that are missing
    core: true
    data: {data}
    tests: {{test: "bleu,hter"}}
    published: bleu
    systems: {{concat: 62.3, flat-shared: 62.4}}
    also: {{hter: {{concat: 24.4, flat-shared: 24.5}}}}
    variants:
      concat: {{of: postedit_concat}}
      flat-shared: {{of: postedit_flat, settings: {{model.share_projections: true}}}}
    small: {{settings: {{{settings}, sources.mt.units: words, training.epochs: 1}}}}
"""


def test_variants_are_shown_beside_the_unedited_output_and_the_papers_other_scores(tmp_path: Path):
    settings = ", ".join(setting.replace("=", ": ", 1) for setting in SETTINGS if "epochs" not in setting)
    (tmp_path / "paper.yaml").write_text(VARIANTS.format(data=write_edited(tmp_path), settings=settings))
    assert research(command(tmp_path)) == 0
    bleu, hter = json.loads((tmp_path / "out/paper/table.json").read_text())
    assert [row["published"] for row in bleu["rows"]] == [62.3, 62.4]
    assert [row["published"] for row in hter["rows"]] == [24.4, 24.5] and hter["rows"][1]["published_gain"]
    assert bleu["unedited"] > 30 and hter["unedited"] > 10
    page = (tmp_path / "out/paper/table.md").read_text()
    assert f"| *unedited* | | {bleu['unedited']:.2f} |" in page and "| flat-shared | 1 |" in page
    kept = json.loads((tmp_path / "out/runs/paper.edits.flat-shared.small.1.json").read_text())
    assert kept["training"]["recipe"] == "postedit_flat" and kept["training"]["settings"]["model.share_projections"]


def test_an_unknown_paper_group_or_system_is_named(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert research(["reproduce", "attention-is-all"]) == 2
    assert "here are interactive-attention, multi-source, multi30k, uam, word-attention" in capsys.readouterr().err
    assert research([*command(folder), "--only", "transformer"]) == 2
    assert "roups are toy; systems of the core rnnsearch_star, interactive_attention" in capsys.readouterr().err
    assert research([*command(folder), "--at-once", "2"]) == 2
    assert "--address" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted({*paper_names()} - {"multi30k"}))  # which is no paper's
def test_minimum_risk_starts_from_the_first_stage_and_is_compared_with_it(name: str):
    """`--only minimum-risk` trains both, the first stage first; gains are over the group's first system."""
    table = load_paper(name)
    for key in (key for key in table.groups if "minimum-risk" in key):
        group = table.groups[key]
        first, second, *_ = group.systems
        source = group.taken_from[first]
        assert second == f"{first}-mrt" and group.starts_from[second] == first
        runs = plan_runs(name, table, "small", 2, [key])
        assert plan_runs(name, table, "small", 2, [f"{key}/{second}"]) == runs
        stages = [[(run.group, run.system) for run in stage] for stage in training_stages(runs, table)]
        assert stages[-2:] == [[(source, first)] * 2, [(key, second)] * 2]
        settings = group.training(second, "small").settings
        assert settings["training.objective"] == "risk"
        assert settings.items() >= {"training.epochs": 5, "training.epoch_updates": 100}.items()
        assert "training.objective" not in table.groups[source].training(first, "small").settings
    assert any("minimum-risk" in key for key in table.groups)


@pytest.mark.parametrize(
    ("starts", "problem"),
    [
        ("{interactive_attention: rnnsearch}", "starts_from: rnnsearch is none of the group's systems: "),
        ("{interactive_attention: rnnsearch_star, rnnsearch_star: interactive_attention}", "which starts from itself"),
        (
            "{}\n    paper: {systems: {uam: {training.epochs: 1}}}",
            "paper.systems: uam is none of the group's systems: ",
        ),
    ],
)
def test_a_table_whose_systems_start_from_nowhere_is_refused(tmp_path: Path, starts: str, problem: str):
    text = TABLE.format(data="demo", settings="training.epochs: 1")
    (tmp_path / "paper.yaml").write_text(
        text.replace("starts_from: {interactive_attention: rnnsearch_star}", f"starts_from: {starts}")
    )
    with pytest.raises(DataError, match=problem):
        load_paper(str(tmp_path / "paper.yaml"))


@pytest.mark.parametrize("name", paper_names())
def test_the_papers_tables_use_existing_recipes_and_metrics(name: str):
    from seq2seq.metrics.catalogue import GROUPS, METRICS
    from training.data.dataset import dataset_names
    from training.recipe import load_recipe

    table = load_paper(name)
    assert plan_runs(name, table, "small", 1)
    for key, group in table.groups.items():
        for scale in ("small", "paper"):
            for place in plan_runs(name, table, scale, 2, [key]):
                own = table.groups[place.group].training(place.system, scale)
                assert own.data in dataset_names()
                settings = own.settings | ({"training.init_from": "a"} if table.start_of(place) else {})
                load_recipe(own.recipe, [setting(name, value) for name, value in settings.items()])
                if scale == "paper" and "training.learning_rate" in settings:  # a rate is of an optimizer
                    assert "training.optimizer" in settings
        for metrics in group.tests.values():
            assert all(metric in METRICS or metric in GROUPS for metric in metrics.split(","))
