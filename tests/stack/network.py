"""A network of namespaces: every instance of a service has its own address, like containers on a bridge."""

import subprocess
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from seq2seq.errors import UsageError

BRIDGE = "interlinear0"
_SUBNET = IPv4Network("10.213.77.0/24")
_PREFIX = "interlinear-"  # of the namespaces' names


@dataclass(frozen=True)
class Host:
    """One instance of a service: its name and address."""

    service: str
    number: int
    address: str

    @property
    def namespace(self) -> str:
        """The network namespace's name."""
        return f"{_PREFIX}{self.service}-{self.number}"


def planned(instances: list[str]) -> list[Host]:
    """Assign an address to every instance; a service's name occurs once per instance."""
    seen: dict[str, int] = {}
    hosts = []
    for place, service in enumerate(instances):
        seen[service] = seen.get(service, 0) + 1
        hosts.append(Host(service, seen[service], str(_SUBNET[place + 2])))
    return hosts


def lay(hosts: list[Host], hosts_file: Path) -> None:
    """Create the bridge, the namespaces and the hosts file. Raises UsageError if they exist."""
    if (Path("/sys/class/net") / BRIDGE).exists():
        raise UsageError("stack-up", f"the network {BRIDGE} exists: a stack is up", "say make stack-down first")
    gateway = f"{_SUBNET[1]}/{_SUBNET.prefixlen}"
    _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("address", "add", gateway, "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")
    for place, host in enumerate(hosts):
        outside = f"il{place}"
        _ip("netns", "add", host.namespace)
        _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
        _ip("link", "set", outside, "master", BRIDGE, "up")
        _ip("-n", host.namespace, "address", "add", f"{host.address}/{_SUBNET.prefixlen}", "dev", "eth0")
        _ip("-n", host.namespace, "link", "set", "eth0", "up")
        _ip("-n", host.namespace, "link", "set", "lo", "up")
        _ip("-n", host.namespace, "route", "add", "default", "via", str(_SUBNET[1]))
    names = "".join(f"{host.address} {host.service} {host.service}-{host.number}\n" for host in hosts)
    hosts_file.write_text("127.0.0.1 localhost\n" + names, encoding="utf-8")


def clear() -> None:
    """Remove what `lay` created, as far as it exists."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        if line.startswith(_PREFIX):
            _ip("netns", "del", line.split()[0])
    if (Path("/sys/class/net") / BRIDGE).exists():
        _ip("link", "del", BRIDGE)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
