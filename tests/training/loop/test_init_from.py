"""Initialization from a trained model: matching parameters are loaded, the others named, mismatches refused."""

from pathlib import Path

import pytest
import torch

import interlinear
from interlinear.errors import BundleError, TrainingError, UsageError
from tests.training.observers import RecordingObserver
from tests.training.toy import toy_job, write_corpus
from training.events import TrainingJob
from training.loop.process_group import SingleProcess
from training.loop.trainer import Trainer, train


@pytest.fixture(scope="module")
def star(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained RNNsearch*."""
    folder = tmp_path_factory.mktemp("star")
    train(toy_job(folder, "star", recipe="rnnsearch_star"))
    return folder


def job(folder: Path, recipe: str = "interactive_attention", *settings: str) -> TrainingJob:
    start = f"training.init_from={folder / 'runs/star/bundle'}"
    return toy_job(folder, "next", recipe=recipe, settings=[start, *settings])


def test_matching_parameters_are_loaded_and_the_others_named(star: Path) -> None:
    notes = RecordingObserver()
    training = Trainer(job(star), SingleProcess(), [notes], torch.device("cpu"))
    training.initialize()
    trained = dict(interlinear.load(star / "runs/star/bundle").model.named_parameters())
    own = dict(training.model.named_parameters())
    for name, weight in trained.items():
        assert torch.equal(own[name], weight), name
    assert set(own) - set(trained) == {"decoder.writing.forget.weight", "decoder.writing.update.weight"}
    (said,) = notes.warnings
    assert f"{len(trained)} parameters loaded" in said
    assert "drawn anew: decoder.writing.forget.weight, decoder.writing.update.weight" in said


def test_initialization_is_reported_once_and_beats_random_weights(star: Path) -> None:
    notes, fresh = RecordingObserver(), RecordingObserver()
    train(job(star, "interactive_attention", "training.epochs=1"), observers=[notes])
    train(toy_job(star, "fresh", recipe="interactive_attention", settings=["training.epochs=1"]), observers=[fresh])
    assert [warning.split(":")[0] for warning in notes.warnings] == [notes.warnings[0].split(":")[0]]
    assert notes.epochs[0].train_loss < fresh.epochs[0].train_loss


@pytest.mark.parametrize(
    ("recipe", "settings", "says"),
    [
        ("luong", ["joint_vocabulary=false"], "another system: the recipe's model has no decoder.attention"),
        ("rnnsearch", ["model.cell=gru"], "another system: the recipe's model has no decoder.cells.0.bias"),
        ("interactive_attention", ["model.hidden=24"], "another size: "),
    ],
)
def test_another_system_or_size_is_refused(star: Path, recipe: str, settings: list[str], says: str) -> None:
    with pytest.raises(BundleError, match=says) as caught:
        train(job(star, recipe, *settings))
    assert "\n" not in str(caught.value)


def test_another_vocabulary_is_refused(star: Path, tmp_path: Path) -> None:
    write_corpus(tmp_path, pairs=50)
    (tmp_path / "train.source").write_text((tmp_path / "train.source").read_text().replace("ka", "ko"))
    with pytest.raises(TrainingError, match=r"vocabulary is another than this data's \(tokenizer.source.json\)"):
        toy_job(tmp_path, settings=[f"training.init_from={star / 'runs/star/bundle'}"], recipe="rnnsearch_star")


def test_the_initial_model_must_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        toy_job(tmp_path, settings=[f"training.init_from={tmp_path / 'nothing'}"])
    assert "\n\n" not in capsys.readouterr().err  # no blank line of data preparation before the error message
