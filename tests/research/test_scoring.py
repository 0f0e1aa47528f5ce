"""A split is scored for a paper's table as `evaluate` scores it; with images of other lines, and with joined lines."""

import json
from pathlib import Path

import pytest
import yaml
from PIL import Image

from interlinear import cli
from interlinear.cli.evaluation.scoring import load_system
from research.scoring import ScoredSplit, score_split
from tests.interlinear.cli.conftest import TEST, describe

pytestmark = pytest.mark.slow


@pytest.fixture
def data(tmp_path: Path, parallel: tuple[Path, Path]) -> Path:
    """A data set of ten lines, of which eight have an image, with a split of joined lines."""
    (tmp_path / "images").mkdir()
    for line in range(8):
        Image.new("RGB", (40, 40), (30 * line, 255 - 30 * line, 128)).save(tmp_path / f"images/{line}.png")
    (tmp_path / "index.tsv").write_text("".join(f"test\t{line}\t{line}.png\n" for line in range(8)))
    fields = {**TEST, "image": {"images": "images", "index": "index.tsv"}}
    path = describe(tmp_path, task="multimodal", test=fields)
    joined = {"test_joined": {"split": "test", "over": 8, "up_to": 9, "seed": 1}}
    path.write_text(path.read_text() + yaml.safe_dump({"joined": joined}))
    return path


def score(model: Path, data: Path, split: str = "test", shuffle_images: bool = False) -> ScoredSplit:
    return score_split(load_system(str(model), None, "cpu"), str(data), split, "chrf,ter", None, shuffle_images)


def test_images_of_other_lines_are_scored_as_evaluate_scores_them(
    seeing_toy: Path, data: Path, capsys: pytest.CaptureFixture[str]
):
    scored = score(seeing_toy, data, shuffle_images=True)
    words = ["--data", str(data), "--metrics", "chrf,ter", "--shuffle-images", "--json"]
    assert cli.run(["evaluate", str(seeing_toy), *words]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert {name: one.model_dump() for name, one in scored.result.scores.items()} == {
        name: expected[name] for name in ("chrf", "ter")
    }
    shuffled, wrong = scored.result.shuffled, expected["shuffled_images"]
    assert shuffled is not None and (shuffled.seed, shuffled.lines) == (wrong["seed"], wrong["lines"]) == (1, 8)
    for name, one in wrong["scores"].items():
        assert shuffled.scores[name] == one["score"] and shuffled.awareness[name] == one["awareness"]
        assert shuffled.p_values[name] == one["p_values"]
        assert len(shuffled.statistics[name]) == 10
    values = scored.evaluation().scores
    assert values["shuffled/ter"] == shuffled.scores["ter"] and values["awareness/ter"] == shuffled.awareness["ter"]


def test_a_system_without_images_is_scored_once(toy: Path, data: Path):
    scored = score(toy, data, shuffle_images=True)
    assert scored.result.shuffled is None and len(scored.outputs) == 10


def test_joined_lines_are_scored_and_marked(toy: Path, data: Path):
    scored = score(toy, data, "test_joined")
    assert scored.result.joined_from == "test" and score(toy, data).result.joined_from is None
    assert len(scored.outputs) == 5


def test_the_unedited_machine_translations_are_scored_too(editing_toy: Path, parallel: tuple[Path, Path]):
    """Here they are the post-edits: nothing is to be edited."""
    path = describe(parallel[0].parent, task="post-edit", test={**TEST, "mt": "test.en"})
    assert score(editing_toy, path).result.unedited == {"chrf": 100, "ter": 0}
