"""Hosts without a shared disk: data, states and the bundle pass through a storage; any host may be lost."""

import time
from pathlib import Path

import pytest

import interlinear
from tests.cluster.command import Training
from tests.cluster.conftest import Cluster, check_recovery, nodes_of_workers
from tests.cluster.hosts import Host
from tests.s3 import S3Server
from tests.training.toy import write_corpus
from training.storage.storage import Storage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]


def kept(host: Host, name: str) -> list[Path]:
    """Files in a folder of the host's own disk."""
    return [path for path in host.seen(host.folder.parent / name).rglob("*") if path.is_file()]


def states_of(host: Host) -> list[Path]:
    """The files of states in the host's cache; the host of rank 0, which writes them, has some."""
    return [path for path in kept(host, "cache/runs") if path.parent.name.startswith("state-")]


def test_the_host_that_writes_is_lost_with_its_disk(
    separate_hosts: Cluster, undisturbed_weights: str, s3: S3Server
) -> None:
    nodes = separate_hosts.has(3)
    disks = {host.seen(host.folder.parent).stat().st_dev for host in (separate_hosts.head, *nodes)}
    assert len(disks) == 4, "every host has a disk of its own"
    with separate_hosts.train("apart", "--workers", "2", storage=Storage(s3.uri("apart"))) as training:
        training.until_states()
        for node in nodes_of_workers(nodes):
            assert not any(
                node.seen(separate_hosts.hosts.folder / name).exists() for name in ("runs", "prepared", "toy.yaml")
            )
            assert kept(node, "cache/fetched/prepared")
        assert not kept(separate_hosts.head, "cache") and not (separate_hosts.hosts.folder / "runs/apart").exists()
        (writer,) = (node for node in nodes_of_workers(nodes) if states_of(node))
        fault = time.monotonic()
        writer.link("down")
        writer.kill()
        check_recovery(
            training,
            undisturbed_weights,
            fault,
            "the node that writes states loses its power and its disk (`--storage`)",
            "Ray misses it; the group starts again on another, from the storage",
        )
        assert interlinear.load(training.folder / "bundle").card.weights_sha256 == undisturbed_weights
    left = [node for node in nodes if node is not writer]
    assert all(kept(node, "cache/fetched/prepared") for node in left)
    assert not any(states_of(node) for node in left), "what the storage has is not kept twice"


def test_the_host_of_the_command_is_lost_with_its_disk(
    separate_hosts: Cluster, undisturbed_weights: str, s3: S3Server
) -> None:
    ours = separate_hosts.has(3)[-1]
    write_corpus(ours.seen(ours.folder.parent), 2400)
    storage = Storage(s3.uri("commanded"))
    with Training(
        ours, "commanded", "--workers", "2", address=separate_hosts.head.address, storage=storage
    ) as training:
        training.until_states()
        fault = time.monotonic()
        ours.link("down")
        ours.kill()
        assert training.ended(30) != 0
    separate_hosts.has(2)
    assert not kept(separate_hosts.head, "runs/commanded")  # files of the lost host do not exist here
    with separate_hosts.train("commanded", "--workers", "2", "--resume", storage=storage) as resumed:
        resumed.said = [*training.said, *resumed.said]
        check_recovery(
            resumed,
            undisturbed_weights,
            fault,
            "the command's node loses its power and its disk (`--storage`)",
            "the same command with `--resume` goes on, on another host",
        )
