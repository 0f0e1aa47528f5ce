"""Hosts on one machine: each has a network namespace with an interface on one bridge and numbers its own processes; it
may run a Ray node.

The hosts share the machine's disk, but for those with a disk of their own: there the folder in which all is written is
another one, empty and in memory, that no other host has.

Everything of a host is below its first process, which ends with this one: whatever happens to the tests, the kernel
ends the rest. Namespaces and bridge that a killed run has left are cleared, by name, before the next one begins.
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

NETWORK = "198.18.7"  # of the range that RFC 2544 keeps for tests
BRIDGE = "il-bridge"
OUTSIDE = f"{NETWORK}.254"  # where the hosts reach what runs on the machine itself
PORT = 6379
OBJECT_STORE = 80_000_000  # bytes
PROJECT = Path(__file__).parents[2]
TOOLS = ("ip", "nsenter", "setpriv", "unshare")


def missing() -> str | None:
    """Why there can be no hosts here, or None."""
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
    """Run a command that has to succeed."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"


def wait_until(what: Callable[[], object], seconds: float, why: str) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {why}"
        time.sleep(0.1)


@dataclass
class Host:
    """One of the hosts. `folder` has its Ray node's files; with a disk of its own, that is beside its token.

    `epoch_seconds` is what an epoch of the toy training takes one worker here.
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
        """Bring it up, without Ray."""
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
        """A path of the host's, as one here."""
        return Path(f"/proc/{self.inner}/root{path}") if self.own_disk else path

    def kill(self) -> None:
        """As if its power went: every process ends at once, and nobody is told."""
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
        """`down`: it is cut off from the others; `up`: it is back."""
        call("ip", "link", "set", self.name, state)

    def run(self, *command: str, output: int | IO[bytes] = subprocess.PIPE, **more: str) -> "subprocess.Popen[bytes]":
        """Start a command there; its two outputs go to one place."""
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
        enter += ["env", f"--chdir={self.folder.parent}"]  # where that is the host's own, only what is inside sees it
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
        """Its processes whose command line has the word, oldest first."""
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
    """The bridge and what is on it."""

    folder: Path
    epoch_seconds: float = 1.0
    hosts: list[Host] = field(default_factory=list)

    def add(self, own_disk: bool = False) -> Host:
        """One more host."""
        number = len(self.hosts) + 1
        host = Host(number, self.folder / f"h{number}", self.folder / "token", self.epoch_seconds, own_disk)
        self.hosts.append(host)
        host.start()
        return host

    def again(self, host: Host) -> None:
        """A host that was killed starts, with the same name and address, without Ray."""
        host.remove()
        host.start()


@contextmanager
def network() -> Iterator[Hosts]:
    """A bridge without hosts. One at a time on a machine; another run is waited for."""
    with Path("/tmp/interlinear-hosts.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        clear()
        folder = Path(tempfile.mkdtemp(prefix="il-", dir="/tmp"))  # Ray's sockets want a short path
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
    """Remove what an earlier run has left: its processes ended with it."""
    listed = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    for name in (line.split()[0] for line in listed.splitlines() if line.startswith("il-")):
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
    subprocess.run(["ip", "link", "delete", BRIDGE], check=False, capture_output=True)
