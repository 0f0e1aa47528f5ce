"""The command line that runs a service's process like its container: with its own root, network and user.

Bubblewrap makes a root that is read-only except for volumes and folders in memory, as `read_only: true` and `tmpfs:`
do; a service that writes elsewhere fails here as in a container. The programs are this machine's.
"""

import os
import shlex
import sys
from pathlib import Path

from tests.stack.compose import ComposeFile, Service
from tests.stack.network import Host

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".stack"  # of all that a stack writes
HOSTS, SECRETS, VOLUMES, LOGS = (FOLDER / name for name in ("hosts", "secrets", "volumes", "logs"))
_CODE = ("interlinear", "training", "service", "recipes", "corpora")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "nsswitch.conf", "localtime", "ssl", "mime.types", "alternatives")


def start(file: ComposeFile, service: Service, host: Host, command: tuple[str, ...]) -> list[str]:
    """The command line that starts a command as this instance of a service."""
    return [
        *("ip", "netns", "exec", host.namespace),
        *("bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", f"{host.service}-{host.number}"),
        *("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--clearenv"),
        *_system(service),
        *_mounts(file, service),
        *("--remount-ro", "/", "--chdir", service.working_dir, "--"),
        *_as_user(service, command),
    ]


def enter(service: Service, pid: int, command: tuple[str, ...]) -> list[str]:
    """The command line that runs another command beside a service's process, like `docker compose exec`."""
    where = ["nsenter", "--target", str(pid), "--mount", "--net", "--pid", "--ipc", "--uts"]
    return [*where, "env", "--chdir", service.working_dir, *_as_user(service, command)]


def environment(service: Service) -> dict[str, str]:
    """The environment of a service's process: the image's, then the compose file's."""
    base = {"LANG": "C.UTF-8"}
    if service.image.startswith("interlinear-"):
        base |= _runtime_environment() | {"PYTHONPATH": "/opt/interlinear/src"}
    elif service.image.startswith("postgres:"):
        base["PGDATA"] = "/var/lib/postgresql/data"
    return base | {"PATH": search_path()} | service.environment


def search_path() -> str:
    """PATH: this Python's programs, Debian's PostgreSQL, the system's."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    system = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin")
    return os.pathsep.join(map(str, [Path(sys.prefix) / "bin", *debian, *system]))


def _runtime_environment() -> dict[str, str]:
    """The ENV of the Dockerfile's stage `runtime`, in which all three of our images run."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    stage = text.partition(" AS runtime\n")[2].partition("\nFROM ")[0]
    written = [line.removeprefix("ENV ") for line in stage.splitlines() if line.startswith("ENV ")]
    return dict(part.split("=", 1) for line in written for part in shlex.split(line))


def _as_user(service: Service, command: tuple[str, ...]) -> list[str]:
    uid, _, gid = service.user.partition(":")
    variables = [f"{name}={value}" for name, value in environment(service).items()]
    user = ["/usr/bin/setpriv", "--reuid", uid, "--regid", gid, "--clear-groups", "--no-new-privs"]
    return [*user, "/usr/bin/env", "-i", *variables, *command]


def _system(service: Service) -> list[str]:
    """Mount the machine's programs and our code, read-only; of /home, /root, /var and /etc only what is listed here."""
    words = ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    words += ["--perms", "1777", "--size", str(int(service.shm_size.removesuffix("mb")) << 20), "--tmpfs", "/dev/shm"]
    for path in map(Path, ("/bin", "/lib", "/lib64", "/sbin")):
        if path.is_symlink():
            words += ["--symlink", f"usr{path}", str(path)]
    for name in _ETC:
        if (Path("/etc") / name).exists():
            words += _bind(Path("/etc") / name, f"/etc/{name}")
    words += _bind(HOSTS, "/etc/hosts")
    uid, _, gid = service.user.partition(":")
    accounts = FOLDER / f"passwd-{uid}"
    accounts.write_text(f"root:x:0:0::/root:/bin/sh\nservice:x:{uid}:{gid}::/home/interlinear:/bin/sh\n")
    words += _bind(accounts, "/etc/passwd")
    for tmpfs in service.tmpfs:
        target, _, mode = tmpfs.partition(":mode=")
        words += ["--perms", mode, "--tmpfs", target]
    for prefix in dict.fromkeys([sys.base_prefix, sys.prefix]):
        if not prefix.startswith("/usr"):
            words += _bind(Path(prefix), prefix)
    for name in _CODE:
        words += _bind(ROOT / name, f"/opt/interlinear/src/{name}")
    return [*words, "--dir", "/home/interlinear", "--dir", service.working_dir]


def _mounts(file: ComposeFile, service: Service) -> list[str]:
    words: list[str] = []
    for volume in service.volumes:
        source, target, *mode = volume.split(":")
        path = VOLUMES / source if source in file.volumes else ROOT / source
        words += _bind(path, target, "--ro-bind" if mode == ["ro"] else "--bind")
    files = {**file.secrets, **file.configs}
    for one in (*service.secrets, *service.configs):
        words += _bind(ROOT / files[one.source]["file"], one.target)
    return words


def _bind(source: Path, target: str, how: str = "--ro-bind") -> list[str]:
    """Mount a path of this machine; its parent folders are created first, readable by all."""
    return ["--dir", str(Path(target).parent), how, str(source), target]
