"""Faults in a cluster, one per test: the training continues from the newest state to the same weights.

Every test adds a row to the table of docs/reliability.md.
"""

import re
import signal
import time

import pytest

from tests.cluster.command import SAVED
from tests.cluster.conftest import SLACK, WORKER, Cluster, add_table_row, check_recovery, nodes_of_workers
from tests.cluster.hosts import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]


def test_a_worker_is_killed(cluster: Cluster, undisturbed_weights: str) -> None:
    cluster.has(2)
    with cluster.train("worker", "--workers", "2") as training:
        training.until_states()
        (victim,) = cluster.nodes[1].processes(WORKER)
        fault = time.monotonic()
        victim.kill()
        check_recovery(training, undisturbed_weights, fault, "a worker is killed (`kill -9`)", "the group starts again")
    assert "2 workers go on from the newest checkpoint (restart 1)." in training.text
    assert re.search(r"rank \d \(process \d+ on 198.18.7.\d+\) has died", training.text), training.text


def test_a_node_fails_and_another_takes_over(cluster: Cluster, undisturbed_weights: str) -> None:
    nodes = cluster.has(3)
    with cluster.train("node", "--workers", "2") as training:
        training.until_states()
        lost = nodes_of_workers(nodes)[-1]
        fault = time.monotonic()
        lost.link("down")
        lost.kill()
        check_recovery(
            training,
            undisturbed_weights,
            fault,
            "a node loses its power",
            "Ray misses it; the group starts again on another",
        )
        assert not lost.processes(WORKER)


def test_the_command_is_killed_and_resumed(cluster: Cluster, undisturbed_weights: str) -> None:
    nodes = cluster.has(2)
    with cluster.train("driver", "--workers", "2") as training:
        training.until_states()
        fault = time.monotonic()
        training.signal(signal.SIGKILL)
        assert training.ended() != 0
        wait_until(lambda: not nodes_of_workers(nodes), 30, "Ray ends the workers of a driver that has died")
    with cluster.train("driver", "--workers", "2", "--resume") as resumed:
        resumed.said = [*training.said, *resumed.said]
        check_recovery(
            resumed,
            undisturbed_weights,
            fault,
            "the command is killed (`kill -9`)",
            "the same command with `--resume` goes on",
        )


def test_a_short_network_partition_is_not_noticed(cluster: Cluster, undisturbed_weights: str) -> None:
    nodes = cluster.has(2)
    with cluster.train("cut", "--workers", "2") as training:
        training.until_states()
        fault = time.monotonic()
        nodes[1].link("down")
        time.sleep(5)
        nodes[1].link("up")
        assert training.weights() == undisturbed_weights
    assert "restart" not in training.text, training.text
    add_table_row("a node is cut off for 5 s", "TCP sends again; nobody notices", training.pause(fault), True)


def test_a_long_network_partition_is_survived_or_is_the_loss_of_a_node(
    cluster: Cluster, undisturbed_weights: str
) -> None:
    """Ray's health checks time out at about this duration; either way the training ends with the same weights."""
    nodes = cluster.has(3)
    with cluster.train("cut-off", "--workers", "2") as training:
        training.until_states()
        cut = nodes_of_workers(nodes)[-1]
        fault = time.monotonic()
        cut.link("down")
        time.sleep(30)
        cut.link("up")
        assert training.weights() == undisturbed_weights
    if "restart" in training.text:
        happened, setback = "Ray gives it up; the group starts again on another", training.setback(fault)
    else:
        happened, setback = "TCP sends again; the training stands still meanwhile", training.pause(fault)
        assert setback.seconds > 20
    assert setback.worth <= SAVED + SLACK
    add_table_row("a node is cut off for 30 s", happened, setback, True)


def test_a_hung_rank_is_named(cluster: Cluster, undisturbed_weights: str) -> None:
    cluster.has(2)
    with cluster.train("hung", "--workers", "2", INTERLINEAR_COLLECTIVE_SECONDS="20") as training:
        training.until_states()
        (victim,) = cluster.nodes[1].processes(WORKER)
        fault = time.monotonic()
        victim.suspend()
        check_recovery(
            training,
            undisturbed_weights,
            fault,
            "a worker hangs (`SIGSTOP`; 20 s allowed)",
            "its rank is named; the group starts again",
        )
    assert re.search(r"rank \d \(process \d+ on 198.18.7.\d+\) took no part in a sum .* within 2\d s", training.text)
    assert not victim.is_running()


def test_a_node_is_drained(cluster: Cluster, undisturbed_weights: str) -> None:
    nodes = cluster.has(3)
    looks = {"RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S": "1"}
    with cluster.notices(seconds=3) as give, cluster.train("preempted", "--workers", "2", **looks) as training:
        training.until_states()
        taken = nodes_of_workers(nodes)[-1]
        fault = time.monotonic()
        give(taken)
        training.until(lambda: "restart" in training.text, 240, "the group leaves the node")
        training.until(lambda: len(nodes_of_workers(nodes)) == 2, 60, "it is on two others")
        assert taken not in nodes_of_workers(nodes)
        check_recovery(
            training,
            undisturbed_weights,
            fault,
            "a node is to be taken, 3 s notice",
            "a state is saved; the group moves",
        )
    taken.kill()


def test_a_worker_gets_sigterm(cluster: Cluster, undisturbed_weights: str) -> None:
    cluster.has(2)
    with cluster.train("told", "--workers", "2") as training:
        training.until_states()
        (victim,) = cluster.nodes[1].processes(WORKER)
        fault = time.monotonic()
        victim.send_signal(signal.SIGTERM)
        check_recovery(training, undisturbed_weights, fault, "a worker gets `SIGTERM`", "the group starts again")
