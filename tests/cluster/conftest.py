"""One cluster for all multi-host tests, and the table of the cost of each fault."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.cluster.command import SAVED, FaultCost, Training
from tests.cluster.hosts import OUTSIDE, PORT, Host, Hosts, missing, network, wait_until
from tests.s3 import S3Server, s3_server
from tests.training.toy import write_corpus

ROWS: list[str] = []
WORKER = "ray::RayTrainWorker"
SLACK = 5.0  # seconds that reporting and saving may take beyond the configured intervals

# Ray's command `drain-node` does the same, but takes seconds to start.
NOTICE = """
import pathlib, time, ray
from ray.core.generated import autoscaler_pb2
ray.init(address="{head}", logging_level="ERROR")
nodes = {{node["NodeManagerAddress"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}}
letter = pathlib.Path("{letter}")
letter.with_suffix(".ready").touch()
while not letter.exists():
    time.sleep(0.05)
reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
deadline = int((time.time() + {seconds}) * 1000)
accepted, why = ray._raylet.GcsClient(address="{head}").drain_node(nodes[letter.read_text()], reason, "test", deadline)
assert accepted, why
"""


def add_table_row(fault: str, happened: str, setback: FaultCost, equal: bool | None) -> None:
    """Add a row to the table that is printed at the end. Weights cannot be `equal` if the number of workers changed."""
    weights = "equal but for rounding" if equal is None else "equal" if equal else "NOT equal"
    ROWS.append(f"| {fault} | {happened} | {setback.updates} | {setback.seconds:.0f} | {weights} |")


def nodes_of_workers(nodes: list[Host]) -> list[Host]:
    """The nodes that workers run on."""
    return [node for node in nodes if node.processes(WORKER)]


def check_recovery(training: Training, undisturbed_weights: str, fault: float, name: str, happened: str) -> None:
    """Check the end of a disturbed training - the same weights, at most the updates since a state repeated - and add a
    row."""
    weights = training.weights()
    setback = training.setback(fault)
    add_table_row(name, happened, setback, weights == undisturbed_weights)
    assert weights == undisturbed_weights, training.text
    assert setback.worth <= SAVED + SLACK, training.text


@dataclass
class Cluster:
    """A head without CPUs for workers, where the command runs, and nodes with one CPU each; its hosts share the
    machine's disk, or each has its own."""

    hosts: Hosts
    head: Host
    own_disks: bool = False
    nodes: list[Host] = field(default_factory=list)

    def train(self, run: str, *more: str, **settings: object) -> Training:
        return Training(self.head, run, *more, address=self.head.address, **settings)

    def has(self, number: int) -> list[Host]:
        """Start or stop nodes until exactly this many run and Ray knows them; returns them."""
        while len(self.nodes) < number:
            self.nodes.append(self.hosts.add(self.own_disks))
        for node in self.nodes[number:]:
            node.kill()
        for node in self.nodes[:number]:
            if not node.processes("raylet/raylet"):
                self.hosts.again(node)
                node.ray(self.head)
        wanted = sorted(node.address for node in [self.head, *self.nodes[:number]])
        self.ask(
            f"while sorted(n['NodeManagerAddress'] for n in ray.nodes() if n['Alive']) != {wanted}: time.sleep(0.5)"
        )
        return self.nodes[:number]

    @contextmanager
    def notices(self, seconds: int) -> Iterator[Callable[[Host], None]]:
        """A function that notifies Ray that a node will be drained after that many seconds."""
        letter = self.hosts.folder / "notice"
        program = NOTICE.format(head=f"{self.head.address}:{PORT}", letter=letter, seconds=seconds)
        giver = self.head.run(sys.executable, "-c", program)
        assert giver.stdout is not None
        try:
            wait_until(lambda: letter.with_suffix(".ready").exists() or giver.poll() is not None, 120, "it connects")

            def give(node: Host) -> None:
                draft = letter.with_suffix(".draft")
                draft.write_text(node.address)
                draft.rename(letter)

            yield give
            said, _ = giver.communicate(timeout=30)
            assert giver.returncode == 0, said.decode()
        finally:
            giver.kill()
            for path in (letter, letter.with_suffix(".ready")):
                path.unlink(missing_ok=True)

    def ask(self, program: str) -> str:
        """The output of a few lines of Python that are connected to the cluster."""
        connect = f"import ray, time\nray.init(address='{self.head.address}:{PORT}', logging_level='ERROR')\n"
        asked = self.head.run(sys.executable, "-c", connect + program)
        said, _ = asked.communicate(timeout=150)
        assert asked.returncode == 0, said.decode()
        return said.decode().strip().rpartition("\n")[2]


@pytest.fixture(scope="session")
def hosts() -> Iterator[Hosts]:
    if why := missing():
        pytest.skip(why)
    with network() as hosts:
        write_corpus(hosts.folder, 2400)
        host = hosts.add()
        with Training(host, "pace", "--no-ray", seconds=4.0) as training:
            training.weights()
            hosts.epoch_seconds = training.epoch_seconds()
        host.kill()
        yield hosts


@pytest.fixture(scope="session")
def cluster(hosts: Hosts) -> Cluster:
    head = hosts.add()
    head.ray(cpus=0)
    return Cluster(hosts, head)


@pytest.fixture(scope="session")
def s3(hosts: Hosts) -> Iterator[S3Server]:
    """A storage that the hosts reach; all processes started later have its credentials."""
    with s3_server(OUTSIDE) as server:
        yield server


@pytest.fixture(scope="session")
def separate_hosts(hosts: Hosts, s3: S3Server) -> Cluster:
    """Hosts without a shared disk. The corpus is on the head, where the command runs."""
    head = hosts.add(own_disk=True)
    write_corpus(head.seen(hosts.folder), 2400)
    head.ray(cpus=0)
    return Cluster(hosts, head, own_disks=True)


@pytest.fixture(scope="session")
def undisturbed_weights(hosts: Hosts) -> str:
    """The weights of an undisturbed training with two workers on one host."""
    host = hosts.add()
    try:
        with Training(host, "whole", "--workers", "2") as training:
            return training.weights()
    finally:
        host.kill()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table of docs/reliability.md, as measured by this run."""
    if ROWS:
        terminalreporter.write_line("")
        terminalreporter.write_line(
            "| fault | what happened | updates done again | seconds to recover | final weights |"
        )
        terminalreporter.write_line("|---|---|---|---|---|")
        for row in ROWS:
            terminalreporter.write_line(row)
