"""Hosts on one machine: each has a network namespace with an interface on one bridge, and a PID namespace; it may run a
Ray node.

The hosts share the machine's disk, except hosts with a disk of their own: there the folder for all files is a separate,
initially empty one in memory, which no other host sees.

All processes of a host are children of its first process, which ends with this one: however the tests end, the kernel
ends the rest. Namespaces and the bridge of a killed run are removed, by name, before the next one starts.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

NETWORK = "198.18.7"  # from the range that RFC 2544 reserves for tests
BRIDGE = "il-bridge"
OUTSIDE = f"{NETWORK}.254"  # the hosts reach services of the machine itself at this address
PORT = 6379
OBJECT_STORE = 80_000_000  # bytes
PROJECT = Path(__file__).parents[2]
TOOLS = ("ip", "nsenter", "setpriv", "unshare")


def missing() -> str | None:
    """The reason why no hosts can be created here, or None."""
    if os.geteuid() != 0:
        return "hosts in network namespaces are made by root only"
    if absent := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"hosts in network namespaces need {' and '.join(absent)} (Debian: iproute2, util-linux)"
    made = subprocess.run(["ip", "netns", "add", "il-asked"], check=False, capture_output=True, text=True)
    if made.returncode:
        return f"no network namespace can be made here ({made.stderr.strip()})"
    call("ip", "netns", "delete", "il-asked")
    return None


def call(*command: str) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"


def wait_until(what: Callable[[], object], seconds: float, why: str) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {why}"
        time.sleep(0.1)


@dataclass
class Host:
    """One of the hosts. `folder` contains its Ray node's files; with a disk of its own, that is beside its token.

    `epoch_seconds` is the duration of an epoch of the toy training with one worker on this machine.
    """

    number: int
    folder: Path
    token: Path
    epoch_seconds: float
    own_disk: bool = False
    first: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"il-{self.number}"

    @property
    def address(self) -> str:
        return f"{NETWORK}.{self.number + 1}"

    def start(self) -> None:
        """Start it, without Ray."""
        call("ip", "netns", "add", self.name)
        call("ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        call("ip", "link", "set", self.name, "master", BRIDGE, "up")
        call("ip", "-n", self.name, "link", "set", "lo", "up")
        call("ip", "-n", self.name, "address", "add", f"{self.address}/24", "dev", "eth0")
        call("ip", "-n", self.name, "link", "set", "eth0", "up")
        self.first = subprocess.Popen(
            [
                "setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", self.name,
                "unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "bash", "-c", "sleep infinity & wait",
            ],
            stderr=subprocess.DEVNULL,  # unshare's, of a signal mask
        )  # fmt: skip
        wait_until(lambda: psutil.Process(self.first.pid).children(), 10, f"{self.name} starts")
        if self.own_disk:
            there = f"--target={self.inner}", "--mount"
            call("nsenter", *there, "mount", "-t", "tmpfs", "-o", "size=1g", self.name, str(self.folder.parent))
            shutil.copy2(self.token, self.seen(self.token))
        self.seen(self.folder).mkdir(exist_ok=True)

    @property
    def inner(self) -> int:
        """The first process inside."""
        (first,) = psutil.Process(self.first.pid).children()
        return int(first.pid)

    def seen(self, path: Path) -> Path:
        """The path on this machine of a path inside the host."""
        return Path(f"/proc/{self.inner}/root{path}") if self.own_disk else path

    def kill(self) -> None:
        """Simulate a power failure: every process ends at once, and no other host is notified."""
        if self.first:
            for process in psutil.Process(self.first.pid).children():
                process.kill()
            self.first.wait(10)
            self.first = None

    def remove(self) -> None:
        self.kill()
        subprocess.run(["ip", "link", "delete", self.name], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "delete", self.name], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def link(self, state: str) -> None:
        """Set the interface `down`, cut off from the other hosts, or `up` again."""
        call("ip", "link", "set", self.name, state)

    def run(self, *command: str, output: int | IO[bytes] = subprocess.PIPE, **more: str) -> "subprocess.Popen[bytes]":
        """Start a command there; both of its outputs are returned together."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "eth0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            "INTERLINEAR_CACHE": str(self.folder.parent / "cache"),
            **more,
        }
        enter = ["nsenter", f"--target={self.inner}", "--net", "--pid", "--mount"]
        enter += ["env", f"--chdir={self.folder.parent}"]  # with a disk of its own, only processes inside see it
        return subprocess.Popen(
            [*enter, *command], env=environment,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def ray(self, head: "Host | None" = None, cpus: int = 1, *more: str, **environment: str) -> None:
        """Start a Ray node: the head, or one that joins a head."""
        where = (
            ["--head", f"--port={PORT}", "--include-dashboard=false"]
            if head is None
            else [f"--address={head.address}:{PORT}"]
        )
        self.ray_command(
            "start", *where, f"--node-ip-address={self.address}", f"--num-cpus={cpus}",
            f"--object-store-memory={OBJECT_STORE}", f"--temp-dir={self.folder}", "--disable-usage-stats",
            *more, **environment,
        )  # fmt: skip

    def ray_command(self, *command: str, **environment: str) -> None:
        """Ray's own command."""
        running = self.run(str(Path(sys.executable).with_name("ray")), *command, **environment)
        said, _ = running.communicate(timeout=180)
        assert running.returncode == 0, said.decode()

    def processes(self, word: str) -> list[psutil.Process]:
        """Its processes whose command line contains the word, oldest first."""
        found = []
        for process in psutil.Process(self.first.pid).children(recursive=True) if self.first else []:
            try:
                if word in " ".join(process.cmdline()):
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
        return found


@dataclass
class Hosts:
    """The bridge and its hosts."""

    folder: Path
    epoch_seconds: float = 1.0
    hosts: list[Host] = field(default_factory=list)

    def add(self, own_disk: bool = False) -> Host:
        """Add a host."""
        number = len(self.hosts) + 1
        host = Host(number, self.folder / f"h{number}", self.folder / "token", self.epoch_seconds, own_disk)
        self.hosts.append(host)
        host.start()
        return host

    def again(self, host: Host) -> None:
        """Start a killed host again, with the same name and address, without Ray."""
        host.remove()
        host.start()


@contextmanager
def network() -> Iterator[Hosts]:
    """A bridge without hosts. Only one can exist on a machine; this waits for another run to end."""
    with Path("/tmp/interlinear-hosts.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        clear()
        folder = Path(tempfile.mkdtemp(prefix="il-", dir="/tmp"))  # Ray's socket paths must be short
        hosts = Hosts(folder)
        (folder / "token").write_text("a-token-for-the-hosts-of-a-test-0123456789")
        (folder / "token").chmod(0o600)
        try:
            call("ip", "link", "add", BRIDGE, "type", "bridge")
            call("ip", "link", "set", BRIDGE, "up")
            call("ip", "address", "add", f"{OUTSIDE}/24", "dev", BRIDGE)
            yield hosts
        finally:
            for host in hosts.hosts:
                host.remove()
            clear()
            shutil.rmtree(folder, ignore_errors=True)


def clear() -> None:
    """Remove the namespaces and bridge of an earlier run; its processes have ended."""
    listed = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    for name in (line.split()[0] for line in listed.splitlines() if line.startswith("il-")):
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
    subprocess.run(["ip", "link", "delete", BRIDGE], check=False, capture_output=True)
