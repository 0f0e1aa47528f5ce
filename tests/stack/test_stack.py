"""The services of docker-compose.yml as local processes: start, train a model and translate with it, stop."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.stack import images, network

ROOT = Path(__file__).parents[2]
PROGRAMS = {
    "ip": "iproute2",
    "bwrap": "bubblewrap",
    "socat": "socat",
    "postgres": "postgresql",
    "prometheus": "prometheus",
}


def free_ports(count: int) -> list[int]:
    """Unused ports."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def stack(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of the local stack."""
    command = [sys.executable, "-m", "tests.stack", *words]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def left() -> list[str]:
    """Processes of a stack."""
    marks = (network.BRIDGE, "interlinear-postgres-1", "/run/secrets/", "TCP-LISTEN:")
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if process.pid != os.getpid() and any(mark in words for mark in marks):
            found.append(words[:200])
    return found


def test_every_instance_has_an_address():
    hosts = network.planned(["postgres", "ray-worker", "ray-worker"])
    assert [(host.service, host.number) for host in hosts] == [("postgres", 1), ("ray-worker", 1), ("ray-worker", 2)]
    assert len({host.address for host in hosts}) == len({host.namespace for host in hosts}) == 3


def test_a_stack_that_is_not_up_cannot_be_entered(tmp_path):
    if (ROOT / ".stack").exists():
        pytest.skip("a stack is up here")
    done = stack("exec", "mlflow", "true")
    assert done.returncode == 1
    assert "mlflow: no such service is up. Say make stack-up" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_up_train_promote_translate_down():
    missing = [package for name, package in PROGRAMS.items() if not shutil.which(name, path=images.search_path())]
    if missing:
        pytest.skip(f"the stack's programs are not here: apt-get install {' '.join(missing)}")
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    if (ROOT / ".stack").exists():
        pytest.skip("a stack is up here")
    names = ("MLFLOW_PORT", "RAY_PORT", "SERVICE_PORT", "PROMETHEUS_PORT")
    ports = {name: str(port) for name, port in zip(names, free_ports(4), strict=True)}
    before = left()
    try:
        up = stack("up", RAY_WORKERS="1", **ports)
        assert up.returncode == 0, up.stderr
        assert "grafana is left out" in up.stderr
        twice = stack("up", RAY_WORKERS="1", **ports)
        assert twice.returncode == 0 and " is up after " not in twice.stderr, "nothing is started twice"

        tested = stack("test", RAY_WORKERS="1", **ports)
        assert tested.returncode == 0, tested.stderr
        assert "trained, registered, promoted, served, swapped, watched" in tested.stderr

        written = stack("exec", "service", "touch", "/opt/here", **ports)
        assert written.returncode != 0 and "Read-only file system" in written.stderr
        assert stack("exec", "service", "id", "--user", **ports).stdout.strip() == "10001"
    finally:
        down = stack("down", "--volumes", **ports)
    assert down.returncode == 0, down.stderr
    assert left() == before
    assert not (ROOT / ".stack").exists() and not (Path("/sys/class/net") / network.BRIDGE).exists()
    assert "interlinear-" not in subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
