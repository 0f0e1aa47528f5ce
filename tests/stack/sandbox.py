"""The command line that runs a service's process like its container: with its own root, network and user.

Bubblewrap makes a root that is read-only except for volumes and folders in memory, as `read_only: true`
and `tmpfs:` do; a service that writes elsewhere fails here as in a container. The programs are this machine's.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from tests.stack import images
from tests.stack.compose import Service, Stack
from tests.stack.network import Host

ROOT = Path(__file__).parents[2]
_CODE = ("seq2seq", "registry", "documents", "training", "service", "interlinear", "recipes", "corpora", "tables")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "nsswitch.conf", "localtime", "ssl", "mime.types", "alternatives")
_SHARED_MEMORY = 256 << 20  # bytes


@dataclass(frozen=True)
class Places:
    """The folders of the stack: volumes, secrets, logs, the hosts file."""

    folder: Path

    @property
    def hosts(self) -> Path:
        """The file mounted as /etc/hosts in every service."""
        return self.folder / "hosts"

    @property
    def secrets(self) -> Path:
        """The folder of secrets."""
        return self.folder / "secrets"

    @property
    def state(self) -> Path:
        """The record of running processes, for later commands."""
        return self.folder / "state.json"

    def volume(self, name: str) -> Path:
        """A volume's folder."""
        return self.folder / "volumes" / name

    def log(self, host: Host) -> Path:
        """An instance's log file."""
        return self.folder / "logs" / f"{host.service}-{host.number}.log"


def start(stack: Stack, service: Service, host: Host, places: Places, command: tuple[str, ...]) -> list[str]:
    """The command line that starts a command as this instance of a service."""
    return [
        *("ip", "netns", "exec", host.namespace),
        *("bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", f"{host.service}-{host.number}"),
        *("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--clearenv"),
        *_system(service, places),
        *_mounts(stack, service, places),
        *("--remount-ro", "/", "--chdir", service.working_dir, "--"),
        *_as_user(service, command),
    ]


def enter(service: Service, pid: int, command: tuple[str, ...]) -> list[str]:
    """The command line that runs another command beside a service's process, like `docker compose exec`."""
    where = ["nsenter", "--target", str(pid), "--mount", "--net", "--pid", "--ipc", "--uts"]
    return [*where, "env", "--chdir", service.working_dir, *_as_user(service, command)]


def _as_user(service: Service, command: tuple[str, ...]) -> list[str]:
    uid, _, gid = service.user.partition(":")
    variables = [f"{name}={value}" for name, value in images.environment(service, ROOT / "Dockerfile").items()]
    user = ["/usr/bin/setpriv", "--reuid", uid, "--regid", gid, "--clear-groups", "--no-new-privs"]
    return [*user, "/usr/bin/env", "-i", *variables, *command]


def _system(service: Service, places: Places) -> list[str]:
    """Mount the machine's programs and our code, read-only; of /home, /root, /var and /etc only what is listed here."""
    words = ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    words += ["--perms", "1777", "--size", str(_SHARED_MEMORY), "--tmpfs", "/dev/shm"]
    for name in ("bin", "lib", "lib64", "sbin"):
        if (Path("/") / name).is_symlink():
            words += ["--symlink", f"usr/{name}", f"/{name}"]
        elif (Path("/") / name).exists():
            words += _bind(Path("/") / name, f"/{name}")
    for name in _ETC:
        if (Path("/etc") / name).exists():
            words += _bind(Path("/etc") / name, f"/etc/{name}")
    words += _bind(places.hosts, "/etc/hosts")
    words += _bind(_accounts(service, places), "/etc/passwd")
    for tmpfs in service.tmpfs:
        words += ["--perms", tmpfs.mode, "--tmpfs", tmpfs.path]
    for prefix in dict.fromkeys([sys.base_prefix, sys.prefix]):
        if not prefix.startswith("/usr"):
            words += _bind(Path(prefix), prefix)
    for name in _CODE:
        words += _bind(ROOT / name, f"/opt/interlinear/src/{name}")
    return [*words, "--dir", "/home/interlinear", "--dir", service.working_dir]


def _mounts(stack: Stack, service: Service, places: Places) -> list[str]:
    words: list[str] = []
    for volume in service.volumes:
        named = volume.source in stack.volumes
        source = places.volume(volume.source) if named else ROOT / volume.source
        words += _bind(source, volume.target, "--ro-bind" if volume.read_only else "--bind")
    for file in service.secrets:
        words += _bind(ROOT / stack.secrets[file.source].file, file.target)
    for file in service.configs:
        words += _bind(ROOT / stack.configs[file.source].file, file.target)
    return words


def _bind(source: Path, target: str, how: str = "--ro-bind") -> list[str]:
    """Mount a path of this machine; its parent folders are created first, readable by all."""
    return ["--dir", str(Path(target).parent), how, str(source), target]


def _accounts(service: Service, places: Places) -> Path:
    """Mount a passwd file with the service's user, as in an image."""
    uid, _, gid = service.user.partition(":")
    path = places.folder / f"passwd-{uid}"
    path.write_text(f"root:x:0:0::/root:/bin/sh\nservice:x:{uid}:{gid}::/home/interlinear:/bin/sh\n", encoding="utf-8")
    return path
