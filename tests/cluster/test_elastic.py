"""`--workers 1:3`: a group grows with the cluster and shrinks with it, over the batches that one worker would have."""

import re
import time
from pathlib import Path

import pytest
import torch

import seq2seq
from tests.cluster.command import LONG, Training
from tests.cluster.conftest import Cluster, note
from tests.cluster.hosts import Hosts

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

# Dropout's random numbers depend on the rank; without it any number of workers computes the same, but for rounding.
SAME = (*LONG, "model.dropout=0", "training.epochs=20")


@pytest.fixture(scope="module")
def alone(hosts: Hosts) -> Path:
    """The run of one worker whom nobody joined."""
    host = hosts.add()
    try:
        with Training(host, "alone", "--no-ray", settings=SAME) as training:
            training.weights(900)
            return training.folder
    finally:
        host.kill()


def test_a_group_grows_with_the_cluster_and_shrinks_with_it(cluster: Cluster, alone: Path) -> None:
    cluster.has(1)
    with cluster.train("elastic", "--workers", "1:3", settings=SAME, INTERLINEAR_RESIZE_SECONDS="5") as training:
        training.until_states(1)
        began = time.monotonic()
        cluster.has(2)
        training.until(lambda: "2 workers go on" in training.text, 240, "it grows")
        told = len(training.steps())
        training.until(lambda: len(training.steps()) > told + 2, 120, "it goes on")
        grown = training.setback(began)
        note("a node joins (`--workers 1:3`)", "a state is saved; the group grows", grown, None)
        fault = time.monotonic()
        cluster.nodes[1].kill()
        training.until(lambda: "1 worker goes on" in training.text, 240, "it shrinks")
        training.weights(900)
        note("a node is killed (`--workers 1:3`)", "the group shrinks", training.setback(fault), None)
    assert grown.updates <= 3, "a state is saved before the group grows"
    assert updates(training) == updates(training, alone)
    ours, theirs = (seq2seq.load(folder / "bundle").model for folder in (training.folder, alone))
    for (name, one), (_, two) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=5e-3, msg=lambda said, name=name: f"{name}: {said}")


def updates(training: Training, folder: Path | None = None) -> int:
    """After how many the training ended."""
    (done,) = ((folder or training.folder) / "checkpoints").glob("state-*-done")
    return int(re.findall(r"\d+", done.name)[0])
