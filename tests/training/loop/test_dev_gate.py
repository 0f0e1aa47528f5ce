"""The mean of the contextual gates over the words of the dev set, after every epoch."""

from pathlib import Path

import pytest
import torch

import interlinear
from interlinear.batch import collate
from tests.training.observers import RecordingObserver
from tests.training.toy import toy_job
from training.data.prepare.prepared import PreparedData
from training.loop.trainer import train


def test_the_gate_of_an_epoch_is_the_mean_over_all_words_of_the_dev_set(tmp_path: Path) -> None:
    """END counted, each word alike however long its sentence."""
    notes = RecordingObserver()
    settings = ["training.epochs=1", "training.average=1"]
    job = toy_job(tmp_path, recipe="contextual_gates", settings=settings)
    outcome = train(job, observers=[notes])
    assert outcome.bundle
    model = interlinear.load(outcome.bundle).model
    dev = PreparedData.load(job.prepared).split("dev")
    gates = []
    with torch.inference_mode():
        for row in range(dev.rows):
            source, target = ([dev.ids(field, row).tolist()] for field in ("source", "target"))
            batch = collate({"source": source}, target)
            assert batch.target_BL is not None
            steps = model.unroll(model.encode(batch), batch.target_BL[:, None])[1]
            gates += steps.gates[0].mean(-1).flatten().tolist()
    assert len(gates) == sum(len(dev.ids("target", row)) + 1 for row in range(dev.rows))
    assert 0.1 < notes.epochs[0].dev_gate < 0.9
    assert notes.epochs[0].dev_gate == pytest.approx(sum(gates) / len(gates), abs=1e-3)  # the loop computes in bf16


def test_a_system_without_gates_reports_none(tmp_path: Path) -> None:
    notes = RecordingObserver()
    train(toy_job(tmp_path, recipe="word_attention", settings=["training.epochs=1"]), observers=[notes])
    assert notes.epochs[0].dev_gate is None
