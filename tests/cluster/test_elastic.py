"""`--workers 1:3`: a worker group grows and shrinks with the cluster, over the batches that one worker would have."""

import time

import pytest
import torch

import interlinear
from interlinear.bundle import Bundle
from interlinear.models.model import Model
from tests.cluster.command import Training
from tests.cluster.conftest import Cluster, add_table_row
from tests.cluster.hosts import Hosts
from tests.s3 import S3Server
from training.storage.storage import Storage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

# Dropout's random numbers depend on the rank; without it any number of workers computes the same, up to rounding.
SAME = ("model.dropout=0",)
SECONDS = 90.0  # long enough for a node to join and to be lost


@pytest.fixture(scope="module")
def alone(hosts: Hosts) -> tuple[str, Bundle[Model]]:
    """The last state and the bundle of a training with one worker."""
    host = hosts.add()
    try:
        with Training(host, "alone", "--no-ray", settings=SAME, seconds=SECONDS) as training:
            training.weights(900)
            return training.states()[-1], interlinear.load(training.folder / "bundle")
    finally:
        host.kill()


def grow_and_shrink(cluster: Cluster, alone: tuple[str, Bundle[Model]], storage: Storage | None = None) -> None:
    """A node joins a group of one worker, and is lost again; the updates equal those of one worker."""
    cluster.has(1)
    kept = ", `--storage`" if storage else ""
    settings = {"settings": SAME, "seconds": SECONDS, "storage": storage, "INTERLINEAR_RESIZE_SECONDS": "5"}
    with cluster.train("elastic", "--workers", "1:3", **settings) as training:
        training.until_states(1)
        began = time.monotonic()
        cluster.has(2)
        training.until(lambda: "2 workers go on" in training.text, 240, "it grows")
        told = len(training.steps())
        training.until(lambda: len(training.steps()) > told + 2, 120, "it goes on")
        grown = training.setback(began)
        add_table_row(f"a node joins (`--workers 1:3`{kept})", "a state is saved; the group grows", grown, None)
        fault = time.monotonic()
        cluster.nodes[1].kill()
        training.until(lambda: "1 worker goes on" in training.text, 240, "it shrinks")
        training.weights(900)
        add_table_row(f"a node is killed (`--workers 1:3`{kept})", "the group shrinks", training.setback(fault), None)
        done, bundle = training.states()[-1], interlinear.load(training.folder / "bundle")
    assert grown.updates <= 3, "a state is saved before the group grows"
    assert done.endswith("-done") and done == alone[0]
    for (name, one), (_, two) in zip(bundle.model.named_parameters(), alone[1].model.named_parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=5e-3, msg=lambda said, name=name: f"{name}: {said}")


def test_a_group_grows_with_the_cluster_and_shrinks_with_it(cluster: Cluster, alone: tuple[str, Bundle[Model]]) -> None:
    grow_and_shrink(cluster, alone)


def test_the_same_with_states_on_a_storage(
    separate_hosts: Cluster, alone: tuple[str, Bundle[Model]], s3: S3Server
) -> None:
    """Nodes share no files: new and remaining workers read the state from the storage."""
    grow_and_shrink(separate_hosts, alone, Storage(s3.uri("elastic")))
