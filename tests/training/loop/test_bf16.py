"""Recipes with bf16 on processors that may not support it."""

import torch

from interlinear.devices import computes_bf16
from tests.training.observers import RecordingObserver
from tests.training.toy import toy_job
from training.loop.trainer import train


def test_a_recipe_in_bf16_trains_on_any_processor(tmp_path):
    """With one worker; in fp32, with a warning, if the processor lacks bf16."""
    notes = RecordingObserver()
    settings = ["training.epochs=1", "training.average=1"]
    outcome = train(toy_job(tmp_path, settings=[*settings, "training.precision=bf16"]), observers=[notes])
    assert outcome.weights_sha256
    warned = [message for message in notes.warnings if "training.precision is fp32 here" in message]
    assert len(warned) == (0 if computes_bf16(torch.device("cpu")) else 1)
    exact = train(toy_job(tmp_path, run="exact", settings=settings))
    assert (exact.weights_sha256 == outcome.weights_sha256) == bool(warned)
