"""Several hosts, each with its Ray node: the same command, workers spread over them, sums over the network."""

import pytest

from tests.cluster.conftest import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def test_workers_of_two_nodes_make_the_weights_of_one_host(cluster: Cluster, whole: str) -> None:
    first, second = cluster.has(2)
    with cluster.train("spread", "--workers", "2") as training:
        training.until_states(1)
        assert [len(node.processes("ray::RayTrainWorker")) for node in (first, second)] == [1, 1]
        assert training.weights() == whole
