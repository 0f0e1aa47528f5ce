"""A network of namespaces: every instance of a service has its own address, like containers on a bridge."""

import subprocess
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

import psutil

BRIDGE = "interlinear0"
BRIDGE_FOLDER = Path("/sys/class/net", BRIDGE)  # there while the network is
SUBNET = IPv4Network("10.213.77.0/24")
_PREFIX = "interlinear-"  # of the namespaces' names


@dataclass(frozen=True)
class Host:
    """One instance of a service, and its address."""

    service: str
    number: int
    address: str

    @property
    def namespace(self) -> str:
        """The network namespace's name."""
        return f"{_PREFIX}{self.service}-{self.number}"

    def processes(self) -> list[psutil.Process]:
        """The processes in its namespace, the oldest first, which is bubblewrap."""
        listed = subprocess.run(["ip", "netns", "pids", self.namespace], capture_output=True, text=True, check=False)
        found = []
        for pid in map(int, listed.stdout.split()):
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
        return sorted(found, key=psutil.Process.create_time)

    def command(self) -> psutil.Process | None:
        """The service's own process: the child of its process namespace's first one, which is bubblewrap's child."""
        with suppress(psutil.NoSuchProcess, IndexError):
            return self.processes()[0].children()[0].children()[0]
        return None


def plan(names: list[str]) -> list[Host]:
    """Assign an address to every instance; a service's name occurs once per instance."""
    return [Host(name, names[:place].count(name) + 1, str(SUBNET[place + 2])) for place, name in enumerate(names)]


def create(hosts: list[Host], hosts_file: Path) -> None:
    """Create the bridge, the namespaces and the hosts file."""
    _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("address", "add", f"{SUBNET[1]}/{SUBNET.prefixlen}", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")
    for place, host in enumerate(hosts):
        _ip("netns", "add", host.namespace)
        _ip("link", "add", f"il{place}", "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
        _ip("link", "set", f"il{place}", "master", BRIDGE, "up")
        _ip("-n", host.namespace, "address", "add", f"{host.address}/{SUBNET.prefixlen}", "dev", "eth0")
        _ip("-n", host.namespace, "link", "set", "eth0", "up")
        _ip("-n", host.namespace, "link", "set", "lo", "up")
        _ip("-n", host.namespace, "route", "add", "default", "via", str(SUBNET[1]))
    names = "".join(f"{host.address} {host.service} {host.service}-{host.number}\n" for host in hosts)
    hosts_file.write_text("127.0.0.1 localhost\n" + names, encoding="utf-8")


def remove() -> None:
    """Remove what `create` created, as far as it exists."""
    for path in Path("/run/netns").glob(f"{_PREFIX}*"):
        _ip("netns", "del", path.name)
    if BRIDGE_FOLDER.exists():
        _ip("link", "del", BRIDGE)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
