"""Training with guided attention: better alignments, exact resumption, the same on two workers, and `from: self`."""

import re
import signal
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import interlinear
from interlinear.alignment.links import bidirectional_alignment
from interlinear.cli.commands.info import model_facts
from interlinear.errors import TrainingError
from interlinear.generation.generator import SequenceGenerator
from interlinear.losses.training_loss import training_loss
from interlinear.models.attention_reading import READINGS
from tests.interlinear.recipes import small
from tests.training.loop.test_trainer import assert_the_updates_of_one
from tests.training.loop.updates import batches_of, with_guide
from tests.training.observers import RecordingObserver, StopAfterUpdates
from tests.training.toy import toy_job, write_corpus
from training.data.guide.piece_links import RowArrays, guide_matrix
from training.data.guide.stored_guide import WordLinks
from training.data.prepare.prepared import PreparedData
from training.events import TrainingJob
from training.loop.out_of_memory import halve
from training.loop.process_group import SingleProcess
from training.loop.self_guide import align_training_pairs
from training.loop.trainer import train


def gold(words: int) -> list[tuple[int, int]]:
    """The links of a pair of the toy language, whose word order is reversed."""
    return [(words - 1 - place, place) for place in reversed(range(words))]


def write_links(folder: Path) -> Path:
    if not (folder / "toy.yaml").exists():
        write_corpus(folder)
    lines = (folder / "train.source").read_text().splitlines()
    links = (" ".join(f"{i}-{j}" for i, j in gold(len(line.split()))) for line in lines)
    (folder / "links").write_text("".join(f"{line}\n" for line in links))
    return folder / "links"


def guided_job(
    folder: Path, run: str = "toy", resume: bool = False, settings: Sequence[str] = (), recipe: str = "rnnsearch"
) -> TrainingJob:
    return toy_job(folder, run, resume, [f"training.guide.from={write_links(folder)}", *settings], recipe)


def read_pairs(folder: Path, split: str) -> list[tuple[str, str]]:
    source, target = ((folder / f"{split}.{side}").read_text().splitlines() for side in ("source", "target"))
    return list(zip(source, target, strict=True))


def alignment_error(bundle: Path | None, folder: Path) -> float:
    """1 - 2 |A & S| / (|A| + |S|) on the test set, whose words have one sure link each."""
    assert bundle is not None
    pairs = list(
        zip(*((folder / f"test.{side}").read_text().splitlines() for side in ("source", "target")), strict=True)
    )
    generator = SequenceGenerator(interlinear.load(bundle))
    right = found = sure = 0
    for explanation in generator.align(
        [({"source": source}, target) for source, target in pairs], reading=READINGS["attention"]
    ):
        links = gold(len(explanation.target))
        right += len(set(explanation.alignment) & set(links))
        found, sure = found + len(explanation.alignment), sure + len(links)
    return 1 - 2 * right / (found + sure)


@pytest.mark.parametrize("recipe", ["rnnsearch", pytest.param("luong", marks=pytest.mark.slow)])
def test_a_guided_model_aligns_better(tmp_path: Path, recipe: str) -> None:
    """With the same seed, after a few dozen updates. And its card says that it was guided."""
    plain = train(toy_job(tmp_path, "plain", recipe=recipe))
    notes = RecordingObserver()
    guided = train(guided_job(tmp_path, "guided", recipe=recipe), observers=[notes])
    before, after = (alignment_error(outcome.bundle, tmp_path) for outcome in (plain, guided))
    assert after < 0.6 and after < before - 0.1, (before, after)
    losses = [report.train_guide for report in notes.epochs]
    assert all(loss is not None for loss in losses) and losses == sorted(losses, key=lambda loss: -(loss or 0.0))
    assert guided.bundle
    card = interlinear.load(guided.bundle).card
    assert card.recipe["training"]["guide"] == {"from": str(tmp_path / "links"), "weight": 0.3}
    assert f"- attention guided by: word links, {card.guide}\n" in (guided.bundle / "README.md").read_text()
    facts = model_facts(str(guided.bundle), None)
    assert ("attention guided by", f"{tmp_path / 'links'}, weight 0.3") in facts.lines
    assert "attention guided by" not in dict(model_facts(str(plain.bundle), None).lines)


def test_the_recipe_learns_its_links_from_the_pairs_alone(tmp_path: Path) -> None:
    """Also of a language pair whose order of words is reversed."""
    ready = PreparedData.load(toy_job(tmp_path, recipe="rnnsearch_guided").prepared)
    assert isinstance(ready.guide, RowArrays)
    split = ready.split("train")
    right = found = 0
    for row in range(split.rows):
        links = {(int(i), int(j)) for j, i in ready.guide.row(row)}
        right, found = right + len(links & set(gold(len(split.ids("target", row))))), found + len(links)
    assert right / found > 0.9 and right / int(split.lengths("target").sum()) > 0.9


def test_the_guides_loss_ends_with_its_epochs(tmp_path: Path) -> None:
    """Epochs after it are trained as without; a training that is stopped within its epochs or after them resumes to
    the same weights."""
    settings = ["training.guide.epochs=1", "training.guide.weight=0.5"]
    notes = RecordingObserver()
    expected = train(guided_job(tmp_path, settings=settings), observers=[notes])
    guides = [report.train_guide for report in notes.epochs]
    assert guides[0] is not None and guides[1:] == [None, None]
    for updates in (5, notes.epochs[0].update + 3):
        name = f"stopped-{updates}"
        first = train(guided_job(tmp_path, name, settings=settings), StopAfterUpdates(updates))
        assert (first.signal, first.updates) == (signal.SIGTERM, updates)
        again = RecordingObserver()
        resumed = train(guided_job(tmp_path, name, True, settings), observers=[again])
        assert resumed.weights_sha256 == expected.weights_sha256
        assert [report.train_guide for report in again.epochs] == guides[3 - len(again.epochs) :]


@dataclass(frozen=True)
class Models:
    """A folder with the toy corpus, and bundles of both directions."""

    folder: Path
    forward: Path
    backward: Path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    folder = tmp_path_factory.mktemp("both")
    write_corpus(folder)
    opposite = tmp_path_factory.mktemp("opposite")
    for file in folder.glob("*.*"):
        (opposite / file.name).write_bytes(file.read_bytes())
    text = (opposite / "toy.yaml").read_text().replace("source: de, target: en", "source: en, target: de")
    for split in ("train", "dev", "test"):
        fields = f"source: {split}.source, target: {split}.target"
        text = text.replace(fields, f"source: {split}.target, target: {split}.source")
    (opposite / "toy.yaml").write_text(text)
    forward, backward = (train(toy_job(each, "model")).bundle for each in (folder, opposite))
    assert forward and backward
    return Models(folder, forward, backward)


def self_settings(models: Models, after: int = 1) -> list[str]:
    return ["training.guide.from=self", f"training.guide.after={after}", f"training.guide.reverse={models.backward}"]


@pytest.mark.slow
def test_alignments_are_those_of_align_in_both_directions(models: Models) -> None:
    """Of every training pair: both models, symmetrised, as `interlinear align --by attention` does it."""
    job = toy_job(models.folder, "prepared", settings=self_settings(models))
    ready = PreparedData.load(job.prepared)
    assert isinstance(ready.guide, WordLinks)
    own, opposite = (SequenceGenerator(interlinear.load(bundle)) for bundle in (models.forward, models.backward))
    split = ready.split("train")
    found = align_training_pairs(
        own.bundle.model, split, ready.guide, SingleProcess(), torch.device("cpu"), nullcontext
    )
    texts = read_pairs(models.folder, "train")
    attention = READINGS["attention"]
    forward = own.align((({"source": source}, target) for source, target in texts), reading=attention)
    backward = opposite.align((({"source": target}, source) for source, target in texts), reading=attention)
    linked = 0
    for row, (one, other) in enumerate(zip(forward, backward, strict=True)):
        expected = bidirectional_alignment(one, other, "grow-diag-final-and")
        matrix = guide_matrix(found, np.array([row]), len(one.target), len(one.source))[0]
        links = {(link.source, link.target) for link in expected.links}
        assert {(int(i), int(j)) for j, i in np.argwhere(matrix > 0)} == links, row
        linked += len(links)
    assert split.rows == 600 and linked > 1000


@pytest.mark.slow
def test_agreement_begins_after_its_epoch_and_resumes(models: Models) -> None:
    """The links are part of the training state: a resumed training goes on with the same."""
    settings = self_settings(models)
    notes = RecordingObserver()
    expected = train(toy_job(models.folder, "agreeing", settings=settings), observers=[notes])
    guides = [report.train_guide for report in notes.epochs]
    assert guides[0] is None and guides[1] is not None and guides[2] is not None
    updates = notes.epochs[0].update
    for stop in (updates - 2, updates + 4):
        name = f"stopped-{stop}"
        train(toy_job(models.folder, name, settings=settings), StopAfterUpdates(stop))
        (state, *_) = sorted((models.folder / "runs" / name / "checkpoints").glob("state-*"), reverse=True)
        assert ("guide.links" in load_file(state / "tensors.safetensors")) == (stop > updates)
        resumed = train(toy_job(models.folder, name, True, settings))
        assert resumed.weights_sha256 == expected.weights_sha256


@pytest.mark.slow
def test_two_workers_make_the_same_guided_updates_as_one(models: Models) -> None:
    """With a guide that they make together."""
    settings = [*self_settings(models), "training.epochs=2", "model.dropout=0"]
    alone, shared = (toy_job(models.folder, run, settings=settings) for run in ("alone", "shared"))
    assert_the_updates_of_one(alone, shared, 1e-4)


def test_a_model_of_the_wrong_direction_is_refused(models: Models) -> None:
    wrong = Models(models.folder, models.forward, models.forward)
    says = "it goes from de to en, and this training from de to en. Name a model from en to de"
    with pytest.raises(TrainingError, match=re.escape(says)):
        toy_job(models.folder, "wrong", settings=self_settings(wrong))
    assert not (models.folder / "runs" / "wrong").exists()


@pytest.mark.parametrize("recipe", ["rnnsearch", "postedit_concat"])
def test_halves_of_a_batch_have_the_guides_of_their_rows(recipe: str) -> None:
    """A batch that did not fit into memory: its halves have the same loss together, absent sources or not."""
    model = small(recipe)[0].double().eval()
    batch = with_guide(batches_of(model)[0])
    whole, parts = training_loss(model, batch).sums(), [training_loss(model, part).sums() for part in halve(batch)]
    assert whole[3] > 0
    torch.testing.assert_close(torch.stack(parts).sum(0), whole, rtol=1e-9, atol=0)
