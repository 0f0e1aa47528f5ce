"""Loss of a cluster's head: with Redis the training is not affected; without it, the command can be resumed."""

import shutil
import time
from collections.abc import Iterator

import pytest

from tests.cluster.command import Training
from tests.cluster.conftest import add_table_row
from tests.cluster.hosts import PORT, Host, Hosts, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

REDIS = 6380
PASSWORD = "of-a-test"


@pytest.fixture
def three(hosts: Hosts) -> Iterator[tuple[Host, Host, Host]]:
    """Hosts for a head and two nodes, without Ray."""
    added = hosts.add(), hosts.add(), hosts.add()
    yield added
    for host in added:
        host.kill()


def test_with_redis_the_head_restarts_and_nothing_is_lost(
    three: tuple[Host, Host, Host], undisturbed_weights: str
) -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed (Debian: redis-server)")
    head, ours, other = three
    backed, password = {"RAY_REDIS_ADDRESS": f"{ours.address}:{REDIS}"}, f"--redis-password={PASSWORD}"
    ours.run(
        "redis-server", "--bind", ours.address, "--port", str(REDIS), "--requirepass", PASSWORD,
        "--save", "", "--daemonize", "yes",
    ).wait(10)  # fmt: skip
    wait_until(lambda: ours.processes("redis-server"), 10, "Redis starts")
    head.ray(None, 0, password, **backed)
    for node in (ours, other):
        node.ray(head)
    with Training(ours, "backed", "--workers", "2", address=head.address) as training:
        training.until_states()
        fault = time.monotonic()
        head.kill()
        time.sleep(5)
        head.remove()
        head.start()
        head.ray(None, 0, password, **backed)
        assert training.weights() == undisturbed_weights
    assert "restart" not in training.text and "does not answer" in training.text, training.text
    add_table_row(
        "the head is killed, Redis has its state", "the training does not notice", training.pause(fault), True
    )


def test_without_redis_the_same_command_resumes_on_a_new_head(
    three: tuple[Host, Host, Host], undisturbed_weights: str
) -> None:
    head, ours, other = three
    head.ray(cpus=0)
    for node in (ours, other):
        node.ray(head)
    with Training(ours, "beheaded", "--workers", "2", address=head.address) as training:
        training.until_states()
        fault = time.monotonic()
        head.kill()
        assert training.ended(300) == 1  # ended by Ray, a minute later
    assert f"head at {head.address}:{PORT} does not answer" in training.text, training.text
    for host in three:
        host.remove()
        host.start()
    head.ray(cpus=0)
    for node in (ours, other):
        node.ray(head)
    with Training(ours, "beheaded", "--workers", "2", "--resume", address=head.address) as resumed:
        resumed.said = [*training.said, *resumed.said]
        assert resumed.weights() == undisturbed_weights
        setback = resumed.setback(fault)
    add_table_row("the head is killed, without Redis", "a sentence; `--resume` on a new head goes on", setback, True)
