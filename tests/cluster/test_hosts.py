"""Several hosts, each with its Ray node: the same command, workers on different nodes, all-reduce over the network."""

import pytest

from tests.cluster.conftest import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def test_workers_on_two_nodes_give_the_weights_of_one_host(cluster: Cluster, undisturbed_weights: str) -> None:
    first, second = cluster.has(2)
    with cluster.train("spread", "--workers", "2") as training:
        training.until_states(1)
        assert [len(node.processes("ray::RayTrainWorker")) for node in (first, second)] == [1, 1]
        assert training.weights() == undisturbed_weights


def test_more_workers_than_cpus_are_refused_at_once(cluster: Cluster) -> None:
    first, second = cluster.has(2)
    with cluster.train("many", "--workers", "3") as training:
        assert training.ended(120) == 1
    room = ", ".join(sorted([f"{cluster.head.address}: 0", f"{first.address}: 1", f"{second.address}: 1"]))
    assert f"3 workers need 3 CPUs, and the cluster has 2 ({room}). Ask for fewer" in training.text
    with cluster.train("gpus", "--workers", "1:2", "--gpu") as training:
        assert training.ended(120) == 1
    assert "1 worker needs a GPU, and the cluster has 0" in training.text


def test_a_cluster_refuses_another_token(cluster: Cluster) -> None:
    other = cluster.hosts.folder / "other-token"
    other.write_text("another-token-than-that-of-the-hosts-9876543210")
    other.chmod(0o600)
    with cluster.train("stranger", RAY_AUTH_TOKEN_PATH=str(other)) as training:
        assert training.ended(120) == 1
    assert "Traceback" not in training.text and "token" in training.said[-1].text, training.text
