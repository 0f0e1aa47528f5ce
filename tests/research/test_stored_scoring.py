"""Stored outputs: further scores of kept runs, and systems of other toolkits, by the same code as ours."""

import gzip
import json
from pathlib import Path

import pytest
import yaml

from interlinear import cli
from interlinear.evaluation.scoring import load_system
from interlinear.reproduction.result_pages import write_tables
from interlinear.reproduction.run_training import ReproduceConfig
from interlinear.reproduction.split_scoring import SplitScorer
from seq2seq.errors import DataError
from training.reproduce.papers import PaperTables, load_paper
from training.reproduce.results import DevPoint, Result, RunKey, read_results, write_result
from training.reproduce.stored_outputs import outputs_file, write_outputs

TOOLKIT = {"about": "the same outputs", "toolkit": "Other-NMT", "version": "1.2", "parameters": 1_500_000}
PUBLISHED = {
    "name": "Somebody 2017",
    "citation": "Somebody et al. 2017, table 3",
    "settings": "lower case",
    "scores": {"test": {"chrf": 40.5}},
}


@pytest.fixture
def folder(tmp_path: Path, parallel: tuple[Path, Path], toy: Path, other_toy: Path) -> Path:
    """A data set, and the results of one run of each of two systems, which were scored by TER only."""
    content = {
        "task": "translation",
        "about": "ten lines",
        "licence": "none",
        "languages": {"source": "de", "target": "en"},
        "splits": {"test": {"source": "test.de", "target": "test.en"}},
    }
    (tmp_path / "data.yaml").write_text(yaml.safe_dump(content))
    group = tables(tmp_path, "ter").groups["toys"]
    for name, model in (("one", toy), ("other", other_toy)):
        place = RunKey(table="paper", group="toys", system=name, scale="small", seed=1)
        scored = SplitScorer(group.data, "test", "ter", None).score(load_system(str(model), None, "cpu"))
        sha256 = write_outputs(outputs_file(tmp_path, place, "test"), scored.outputs)
        result = Result(
            place=place,
            training=group.training(name, "small"),
            commit="0123456789abcdef",
            machine="a machine",
            date="2026-01-01",
            seconds=90,
            parameters=1000,
            weights_sha256=name,
            curve=[DevPoint(epoch=1, perplexity=3, bleu=4)],
            tests={"test": scored.result.model_copy(update={"outputs_sha256": sha256})},
        )
        write_result(tmp_path, result)
    return tmp_path


def tables(folder: Path, metrics: str, **keys: object) -> PaperTables:
    group = {
        "about": "two toys",
        "core": True,
        "data": str(folder / "data.yaml"),
        "tests": {"test": metrics},
        "published": "gain",
        "systems": {"one": 0.0, "other": 1.0},
    }
    path = folder / "paper.yaml"
    path.write_text(yaml.safe_dump({"about": "Two toys", "groups": {"toys": group | keys}}))
    return load_paper(str(path))


def write_page(folder: Path, paper: PaperTables) -> str:
    config = ReproduceConfig(folder, folder, folder, None, None, 1, False, None, True)
    return write_tables("paper", paper, "small", config).read_text()


def evaluated(capsys: pytest.CaptureFixture[str], folder: Path, system: str, metric: str) -> float:
    """The score that `evaluate` prints for the stored outputs of a system."""
    outputs = folder / f"outputs/paper.toys.{system}.small.1.test.gz"
    capsys.readouterr()
    assert cli.run(["evaluate", str(outputs), "--data", str(folder / "data.yaml"), "--metrics", metric, "--json"]) == 0
    return json.loads(capsys.readouterr().out)[metric]["score"]


def test_a_score_that_a_table_names_later_comes_from_the_stored_outputs(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    before = {result.place.system: result.tests["test"].scores["ter"] for result in read_results(folder, "paper")}
    page = write_page(folder, tables(folder, "ter,chrf"))
    results = {result.place.system: result.tests["test"] for result in read_results(folder, "paper")}
    for system, test in results.items():
        assert test.scores["ter"] == before[system] and set(test.statistics) == {"ter", "chrf"}
        assert test.scores["chrf"].score == pytest.approx(evaluated(capsys, folder, system, "chrf"))
        assert f"| {system} | 1 | {test.scores['chrf'].score:.2f} |" in page
    assert "test: ter (lower is better: a negative gain is an improvement)" in page and "test: chrf\n" in page
    assert "the trainings took 3 minutes together (2 runs)" in page


def test_outputs_that_were_not_scored_are_an_error(folder: Path):
    path = folder / "outputs/paper.toys.other.small.1.test.gz"
    path.write_bytes(gzip.compress(b"a dog\n" * 10))
    with pytest.raises(DataError, match="these are not the outputs that were scored"):
        write_page(folder, tables(folder, "ter,chrf"))
    assert all(set(result.tests["test"].scores) == {"ter"} for result in read_results(folder, "paper"))


def test_outputs_of_another_toolkit_and_published_figures_stand_beside_ours(folder: Path):
    """The other toolkit's outputs are those of the baseline, so its scores are the baseline's, and no gain."""
    ours = folder / "outputs/paper.toys.one.small.1.test.gz"
    (folder / "outputs/paper.toys.theirs.1.test.gz").write_bytes(ours.read_bytes())
    paper = tables(folder, "chrf,ter", toolkit_systems={"theirs": TOOLKIT}, also_published=[PUBLISHED])
    page = write_page(folder, paper)
    chrf, _ = json.loads((folder / "paper/table.json").read_text())
    rows = {row["system"]: row for row in chrf["rows"]}
    assert list(rows) == ["one", "other", "theirs"]
    assert (
        rows["theirs"]["ours"] == rows["one"]["ours"] and rows["theirs"]["p_value"] == 1 and rows["theirs"]["gain"] == 0
    )
    assert rows["theirs"]["versions"] == ["Other-NMT 1.2"] and rows["theirs"]["minutes"] == []
    assert "| *Somebody 2017* | | | | | | 40.50 |" in page
    assert "- *Somebody 2017*: Somebody et al. 2017, table 3; lower case" in page

    (folder / "outputs/paper.toys.theirs.1.test.gz").write_bytes(
        (folder / "outputs/paper.toys.other.small.1.test.gz").read_bytes()
    )
    write_page(folder, paper)
    chrf, _ = json.loads((folder / "paper/table.json").read_text())
    scores = {row["system"]: row["ours"] for row in chrf["rows"]}
    assert scores["theirs"] == scores["other"] != scores["one"]


def test_a_toolkit_without_outputs_is_named(folder: Path):
    page = write_page(folder, tables(folder, "ter", toolkit_systems={"theirs": TOOLKIT}))
    assert "No outputs are stored of theirs." in page
    (folder / "outputs/paper.toys.theirs.1.test.gz").write_bytes(gzip.compress(b"a dog\n" * 9))
    with pytest.raises(DataError, match=r"it has 9 lines, and .* has 10"):
        write_page(folder, tables(folder, "ter", toolkit_systems={"theirs": TOOLKIT}))


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"shuffle_images": ["test_2017"]}, "shuffle_images names test_2017, which is not among the test sets: test"),
        ({"also_published": [PUBLISHED | {"scores": {"dev": {"bleu": 1.0}}}]}, "also_published names dev"),
        ({"toolkit_systems": {"one": TOOLKIT}}, "one is among systems and toolkit_systems"),
    ],
)
def test_a_table_that_contradicts_itself_is_an_error(tmp_path: Path, keys: dict[str, object], says: str):
    with pytest.raises(DataError, match=says):
        tables(tmp_path, "bleu", **keys)
