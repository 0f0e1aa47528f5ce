"""Minimum risk training: it raises its metric, resumes exactly, and works with every system."""

import copy
import signal
from pathlib import Path

import pytest
import torch

import interlinear
from interlinear.batch import collate
from interlinear.losses.training_loss import training_loss
from interlinear.minimum_risk.minimum_risk import RiskOptions, expected_risk, generate_candidates, minimum_risk_loss
from tests.interlinear.systems import SYSTEMS, every_system, model_of
from tests.training.loop.test_trainer import assert_the_updates_of_one
from tests.training.observers import RecordingObserver, StopAfterUpdates
from tests.training.toy import toy_job
from training.events import TrainingJob
from training.loop.process_group import SingleProcess
from training.loop.trainer import train
from training.recipe import load_recipe

SOURCES, TARGETS = [[5, 6, 7], [8, 4]], [[6, 7, 4], [5, 8]]


@pytest.fixture(scope="module")
def undertrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that was stopped early, so that most of its words are wrong."""
    folder = tmp_path_factory.mktemp("early")
    train(toy_job(folder, "early", settings=["training.epochs=5", "training.seed=1"]))
    return folder


def job(folder: Path, run: str, *settings: str, resume: bool = False) -> TrainingJob:
    stage = (
        "training.objective=risk", f"training.init_from={folder / 'runs/early/bundle'}", "training.risk.candidates=4",
        "training.learning_rate=0.003", "training.epochs=1", "training.epoch_updates=5", "training.dev_sentences=5",
    )  # fmt: skip
    return toy_job(folder, run, resume, [*stage, *settings])


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_recipe_has_a_second_stage(system: str) -> None:
    settings = [
        "training.objective=risk",
        "training.init_from=runs/x",
        "training.label_smoothing=0",
        "training.score=bleu",
    ]
    assert load_recipe(system, settings).training.objective == "risk"


@every_system
def test_every_system_has_the_gradient_of_its_risk(system: str) -> None:
    """The slope along the gradient is measured; tests/papers compare every component for rnnsearch, NMTIA and UAM."""
    model = copy.deepcopy(model_of(system))
    batch = collate({"source": SOURCES}, TARGETS)
    options = RiskOptions(alpha=0.3, candidates=4, draw="both", max_length=4)
    torch.manual_seed(2)
    candidates = generate_candidates(model, batch, options)
    parameters = list(model.parameters())
    loss = expected_risk(model, batch, candidates, options)
    gradients = torch.autograd.grad(loss.objective, parameters, allow_unused=True, materialize_grads=True)
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()

    def moved(distance: float) -> float:
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter += distance * gradient / norm
            risk = expected_risk(model, batch, candidates, options).objective.item()
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= distance * gradient / norm
        return risk

    assert 0 < loss.objective.item() < len(SOURCES) and norm > 1e-3
    assert (moved(1e-5) - moved(-1e-5)) / 2e-5 == pytest.approx(norm.item(), rel=1e-5)


@every_system
def test_gradients_under_autocast_equal_fp32_within_bf16_precision(system: str) -> None:
    """Casts that autocast cached for the candidates, without gradients, must not be used for the loss."""
    model = copy.deepcopy(model_of(system)).float().train()
    batch = collate({"source": SOURCES}, TARGETS)
    options = RiskOptions(alpha=0.3, candidates=4, draw="both", max_length=4)
    torch.manual_seed(2)
    with torch.autocast("cpu", torch.bfloat16):
        candidates = generate_candidates(model, batch, options)
        assert model.training
        half = expected_risk(model, batch, candidates, options).objective
    full = expected_risk(model, batch, candidates, options).objective
    together = []
    for risk in (half, full):
        gradients = torch.autograd.grad(risk, list(model.parameters()), allow_unused=True, materialize_grads=True)
        together.append(torch.cat([gradient.flatten() for gradient in gradients]))
    assert half.item() == pytest.approx(full.item(), rel=0.02)
    assert (together[0] - together[1]).norm() < 0.2 * together[1].norm()


def test_a_share_of_the_likelihood_may_be_added() -> None:
    model = model_of("uam")
    batch = collate({"source": SOURCES}, TARGETS)
    plain, mixed = RiskOptions(candidates=4), RiskOptions(candidates=4, likelihood=0.25)
    torch.manual_seed(5)
    risk = minimum_risk_loss(model, batch, plain)
    torch.manual_seed(5)
    both = minimum_risk_loss(model, batch, mixed, smoothing=0.1)
    likelihood = training_loss(model, batch, 0.1)
    torch.testing.assert_close(both.objective, risk.objective + 0.25 * likelihood.objective, rtol=0, atol=1e-9)
    torch.testing.assert_close(both.nats, likelihood.nats, rtol=0, atol=1e-9)
    torch.testing.assert_close(risk.nats, likelihood.nats, rtol=0, atol=1e-9)


def test_minimum_risk_raises_its_metric(undertrained: Path) -> None:
    """From its own outputs and their scores only: the references are no candidates."""
    notes = RecordingObserver()
    settings = (
        "training.risk.reference=false", "training.risk.candidates=10", "training.risk.alpha=0.05",
        "training.epochs=4", "training.epoch_updates=12", "training.dev_sentences=40", "training.seed=1",
    )  # fmt: skip
    outcome = train(job(undertrained, "raised", *settings), observers=[notes])
    before = interlinear.load(undertrained / "runs/early/bundle").card.metrics["dev_bleu"].score
    assert before < 60
    # Of a model that can do too little there is nothing to raise (12 to 11); from 20 on: 20 to 90, 31 to 89, 54 to 94.
    assert outcome.dev_bleu is not None and outcome.dev_bleu.score > before + 20, outcome.dev_bleu
    risks = [report.train_loss for report in notes.epochs]
    assert all(0 < risk < 1 for risk in risks) and risks[-1] < risks[0] - 0.1


@pytest.mark.parametrize("draw", ["samples", "both"])
def test_a_stopped_second_stage_resumes_to_the_same_weights(undertrained: Path, draw: str) -> None:
    settings = [f"training.risk.draw={draw}", "training.accumulation=2"]
    expected = train(job(undertrained, f"whole-{draw}", *settings)).weights_sha256
    first = train(job(undertrained, f"stopped-{draw}", *settings), StopAfterUpdates(3))
    assert (first.signal, first.updates) == (signal.SIGTERM, 3)
    assert (
        train(job(undertrained, f"stopped-{draw}", *settings, resume=True), SingleProcess()).weights_sha256 == expected
    )


@pytest.mark.slow
def test_two_workers_make_the_same_updates_as_one(undertrained: Path) -> None:
    """With candidates from beam search, which uses no random numbers."""
    settings = ["training.risk.draw=beam", "model.dropout=0", "training.epoch_updates=4"]
    assert_the_updates_of_one(job(undertrained, "of-1", *settings), job(undertrained, "of-2", *settings), 1e-4)
