"""Pages from stored outputs: statistics, further scores of kept runs, and systems of other toolkits."""

import json
import lzma
from pathlib import Path

import pytest

from interlinear import cli
from interlinear.errors import DataError
from research.__main__ import RESULTS, run
from research.comparisons import build_results_tables
from research.outputs import add_outputs, archive_file, outputs_sha256, read_outputs
from research.pages import read_tables, score_kept_runs
from research.papers import load_paper, paper_names
from research.records import read_results
from research.stored_scores import read_test_set
from tests.research.conftest import ONE, OTHER, SYSTEMS, group_of, keep_run, reproduce, write_paper

TOOLKIT = {"about": "the same outputs", "toolkit": "Other-NMT", "version": "1.2", "parameters": 1_500_000}
PUBLISHED = {
    "name": "Somebody 2017",
    "citation": "Somebody et al. 2017, table 3",
    "settings": "lower case",
    "scores": {"test": {"chrf": 40.5}},
}


def test_a_page_is_made_of_kept_runs_and_its_figures_are_drawn(kept: Path, capsys: pytest.CaptureFixture[str]):
    """The scores that the table names later come from the stored outputs; no file of a run changes."""
    write_paper(kept, "ter,chrf")
    before = {path: path.read_bytes() for path in (*kept.glob("runs/*"), *kept.glob("outputs/*.xz"))}
    assert reproduce(kept) == 0
    assert capsys.readouterr().out == f"{kept}/paper/table.md\n"
    page = (kept / "paper/table.md").read_text()
    assert "    python -m research reproduce paper.yaml --scale small\n" in page
    assert "test: ter (lower is better: a negative gain is an improvement)" in page and "test: chrf\n" in page
    assert "the trainings took 3 minutes together (2 runs)" in page
    assert "![table](table.png)" in page and (kept / "paper/table.png").read_bytes()[1:4] == b"PNG"
    ter, chrf = read_tables(kept / "paper")
    results = read_results(kept, "paper")
    assert [row.ours for row in ter.rows] == [one.tests["test"].scores["ter"].score for one in results]
    assert f"| other | 1 | {chrf.rows[1].ours:.2f} |" in page and chrf.rows[1].ours > chrf.rows[0].ours
    assert all(path.read_bytes() == content for path, content in before.items())


@pytest.mark.slow
def test_all_figures_are_drawn_from_a_page(kept: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["figures", str(kept / "paper.yaml"), "--output", str(kept)]) == 1
    assert "rite the page first" in capsys.readouterr().err
    write_paper(kept, "ter,bleu")
    assert reproduce(kept) == 0
    assert run(["figures", str(kept / "paper.yaml"), "--output", str(kept), "--to", str(kept / "drawn")]) == 0
    drawn = {path.name: path.read_text() for path in (kept / "drawn/paper").iterdir()}
    assert set(drawn) == {
        "table.svg",
        "toys.test.ter.svg",
        "toys.test.bleu.svg",
        "toys.test.lengths.svg",
        "toys.curves.svg",
    }
    words = ("TWO SYSTEMS, SMALL SCALE", "toys: TER, ", "other", "paper: +1.00")
    assert all(word in drawn["table.svg"] for word in words) and "BLEU" not in drawn["table.svg"]


def test_statistics_are_computed_once(kept: Path):
    paper = load_paper(str(kept / "paper.yaml"))
    one, other = score_kept_runs("paper", paper, "small", kept, None)
    assert list(one.tests["test"].lengths) == [6] * 10
    files = sorted((kept / "cache/statistics").iterdir())
    times = [file.stat().st_mtime_ns for file in files]
    again = score_kept_runs("paper", paper, "small", kept, None)
    for before, after in zip((one, other), again, strict=True):
        assert (before.tests["test"].statistics["ter"] == after.tests["test"].statistics["ter"]).all()
    files = sorted((kept / "cache/statistics").iterdir())
    assert len(files) == 2 and [file.stat().st_mtime_ns for file in files] == times


def test_other_outputs_another_corpus_and_a_damaged_archive_are_errors(kept: Path, capsys: pytest.CaptureFixture[str]):
    def said() -> str:
        assert reproduce(kept) == 1
        return capsys.readouterr().err

    archive = archive_file(kept, "paper")
    content = archive.read_bytes()
    add_outputs(kept, "paper", {("paper.toys.other.small.1", "test"): ["a dog"] * 10})
    assert "these are not the outputs that were scored" in said()
    archive.write_bytes(content[:200])
    assert "is no archive of outputs" in said()
    archive.write_bytes(lzma.compress(b"text"))
    assert "is no archive of outputs" in said()
    archive.write_bytes(content)
    assert reproduce(kept) == 0
    (kept / "test.en").write_text("another line .\n" * 10)
    paper = load_paper(str(kept / "paper.yaml"))
    read_test_set.cache_clear()
    with pytest.raises(DataError, match=r"and was .*: the corpus is another one"):
        score_kept_runs("paper", paper, "small", kept, None)
    (kept / "test.en").unlink()
    read_test_set.cache_clear()
    with pytest.raises(DataError, match=r"test\.en"):
        score_kept_runs("paper", paper, "small", kept, None)
    read_test_set.cache_clear()


def test_added_outputs_leave_the_others_and_depend_on_the_texts_alone(tmp_path: Path):
    """Also lines with tabs, with characters that end a line elsewhere, and test sets of different sizes."""
    first = {("a.1", "test"): ["x\ty", "\u2028", ""], ("b.1", "test"): ["", "2", "3\r"], ("c.1", "test"): ["one"]}
    second = {("a.1", "test_2017"): ["z"], ("b.1", "test"): ["1", "2", "4"]}
    add_outputs(tmp_path / "x", "paper", first)
    add_outputs(tmp_path / "x", "paper", second)
    assert read_outputs(tmp_path / "x", "paper") == first | second
    add_outputs(tmp_path / "y", "paper", dict(reversed((first | second).items())))
    assert archive_file(tmp_path / "x", "paper").read_bytes() == archive_file(tmp_path / "y", "paper").read_bytes()
    assert read_outputs(tmp_path / "x", "other") == {}


@pytest.mark.slow
def test_unpacked_outputs_have_the_score_of_the_table(kept: Path, capsys: pytest.CaptureFixture[str]):
    assert reproduce(kept) == 0
    assert run(["unpack", str(kept / "paper.yaml"), str(kept / "unpacked"), "--output", str(kept)]) == 0
    (table,) = read_tables(kept / "paper")
    for row in table.rows:
        outputs = kept / f"unpacked/paper.toys.{row.system}.small.1.test"
        assert outputs.read_text().splitlines() == SYSTEMS[row.system]
        capsys.readouterr()
        words = ["--data", str(kept / "data.yaml"), "--metrics", "ter", "--json"]
        assert cli.run(["evaluate-outputs", str(outputs), *words]) == 0
        assert json.loads(capsys.readouterr().out)["ter"]["score"] == pytest.approx(row.ours)


@pytest.mark.slow
def test_outputs_of_another_toolkit_and_published_figures_stand_beside_ours(
    kept: Path, capsys: pytest.CaptureFixture[str]
):
    """The other toolkit's outputs are those of the baseline, so its scores are the baseline's, and no gain."""

    def add(lines: list[str], name: str = "paper.toys.theirs.1.test") -> int:
        (kept / name).write_text("".join(f"{line}\n" for line in lines))
        return run(["add", str(kept / "paper.yaml"), str(kept / name), "--output", str(kept)])

    write_paper(kept, "chrf,ter", toolkit_systems={"theirs": TOOLKIT}, also_published=[PUBLISHED])
    assert reproduce(kept) == 0
    assert "No outputs are stored of theirs." in (kept / "paper/table.md").read_text()
    assert add(ONE, "paper.toys.one.1.test") == 2
    assert "ame it like paper.toys.theirs.1.test.gz" in capsys.readouterr().err
    assert add(ONE) == 0 and reproduce(kept) == 0
    page = (kept / "paper/table.md").read_text()
    one, other, theirs = read_tables(kept / "paper")[1].rows
    assert theirs.ours == one.ours and theirs.p_value == 1 and theirs.gain == 0
    assert (theirs.versions, theirs.minutes) == (("Other-NMT 1.2",), ())
    assert "| *Somebody 2017* | | | | | | 40.50 |" in page
    assert "- *Somebody 2017*: Somebody et al. 2017, table 3; lower case" in page
    assert add(OTHER) == 0 and reproduce(kept) == 0
    assert read_tables(kept / "paper")[1].rows[2].ours == other.ours != one.ours
    assert add(["a dog"] * 9) == 0 and reproduce(kept) == 1
    assert "has 9 lines, and " in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "change", "says"),
    [
        (1, lambda text: text[:100], "it is no result of a run"),
        (1, lambda text: text.replace('"recipe":"one"', '"recipe":"two"'), "the run was trained otherwise"),
        (2, lambda text: text, "it is the result of another run, paper.toys.one.small.1. Remove it"),
        (2, lambda text: text.replace('"seed":1', '"seed":2'), "seed 2 has the weights of seed 1: one is a copy of "),
    ],
)
def test_a_result_that_is_not_of_its_run_is_named(kept: Path, capsys, seed: int, change, says: str):
    first, path = (kept / f"runs/paper.toys.one.small.{number}.json" for number in (1, seed))
    path.write_text(change(first.read_text()))
    assert reproduce(kept) == 1
    assert f"{path}: {says}" in capsys.readouterr().err


@pytest.mark.slow
def test_runs_of_another_commit_and_scores_of_another_signature_are_marked(kept: Path):
    path = kept / "runs/paper.toys.one.small.1.json"
    result = json.loads(path.read_text()) | {"commit": "0123abcdef99"}
    score = result["tests"]["test"]["scores"]["ter"]
    score["signature"], usual = "another-way", score["signature"]
    path.write_text(json.dumps(result))
    assert reproduce(kept) == 0
    page = (kept / "paper/table.md").read_text()
    assert "0123abcdef |" in page and f"`another-way and {usual}`" in page


@pytest.mark.slow
def test_a_group_takes_runs_from_another_one_and_starts_from_their_weights(kept: Path, capsys):
    """They are not trained again: what a run of the group starts from must be there."""
    systems = {"systems": {"one": 0.0, "longer": 1.0}, "taken_from": {"one": "toys"}, "starts_from": {"longer": "one"}}
    paper = write_paper(kept, "ter", {"later": group_of(kept, "ter", core=False, **systems)})
    assert reproduce(kept, "--only", "later", "--dry-run") == 0
    (planned,) = capsys.readouterr().out.splitlines()
    weights = kept / "trained/paper.toys.one.small.1/bundle"
    assert "--run paper.later.longer.small.1 " in planned and f"training.init_from={weights} " in planned
    assert reproduce(kept, "--only", "later") == 1
    error = capsys.readouterr().err
    assert f"{weights}: the weights " in error and "--runs" in error
    assert f"{kept}/runs/paper.toys.one.small.1.json" in error and not (kept / "trained").exists()
    keep_run(kept, paper, "longer", OTHER, "later")
    assert reproduce(kept, "--only", "later") == 0
    toys, later = read_tables(kept / "paper")
    assert [row.system for row in later.rows] == ["one", "longer"] and later.rows[0].ours == toys.rows[0].ours


@pytest.mark.slow
def test_the_unedited_output_and_the_papers_other_scores_stand_beside_ours(kept: Path):
    write_paper(kept, "ter,chrf", published="ter", also={"chrf": {"one": 24.4, "other": 24.5}})
    for path in kept.glob("runs/*.json"):
        result = json.loads(path.read_text())
        result["tests"]["test"]["unedited"] = {"ter": 62.5}
        path.write_text(json.dumps(result))
    assert reproduce(kept) == 0
    ter, chrf = read_tables(kept / "paper")
    assert [row.published for row in ter.rows] == [0.0, 1.0] and [row.published for row in chrf.rows] == [24.4, 24.5]
    assert chrf.rows[1].published_gain == pytest.approx(0.1) and (ter.unedited, chrf.unedited) == (62.5, None)
    assert "| *unedited* | | 62.50 |" in (kept / "paper/table.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", paper_names())
def test_all_kept_outputs_are_there(name: str):
    stored = read_outputs(RESULTS, name)
    for result in read_results(RESULTS, name):
        for test, one in result.tests.items():
            assert one.joined_from is None or one.joined_from in result.tests
            if one.outputs_sha256 is not None:
                assert outputs_sha256(stored.pop((str(result.place), test))) == one.outputs_sha256
    groups = load_paper(name).groups.items()
    toolkits = {f"{name}.{key}.{system}" for key, group in groups for system in group.toolkit_systems}
    assert {run.rpartition(".")[0] for run, _ in stored} <= toolkits, "no outputs of runs without a result"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_kept_tables_are_those_of_the_kept_outputs(corpora: Path):
    """The first table of the papers, from outputs and corpora to significance."""
    paper = load_paper("word-attention")
    paper = paper.model_copy(update={"groups": {"de-en": paper.groups["de-en"]}})
    runs = score_kept_runs("word-attention", paper, "small", RESULTS, corpora)
    kept = [table for table in read_tables(RESULTS / "word-attention") if table.group == "de-en"]
    assert build_results_tables(paper, runs, "small") == kept and len(kept) == 3
