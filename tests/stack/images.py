"""Parts of images that a compose file does not contain: our images' environment, and PostgreSQL's first start."""

import os
import shlex
import sys
from pathlib import Path

from tests.stack.compose import Service

# The postgres image's entrypoint creates the data directory and the database named by the environment, once.
_FIRST_START = """
umask 077
initdb --username "$POSTGRES_USER" --pwfile "$POSTGRES_PASSWORD_FILE" $POSTGRES_INITDB_ARGS > /dev/null
echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D "$PGDATA" postgres > /dev/null
"""


def environment(service: Service, dockerfile: Path) -> dict[str, str]:
    """The environment of a service's process: the image's, then the compose file's."""
    base = {"PATH": search_path(), "LANG": "C.UTF-8"}
    if service.image.startswith("interlinear-"):
        ours = _runtime_environment(dockerfile)
        base |= ours | {"PATH": base["PATH"], "PYTHONPATH": "/opt/interlinear/src"}
    elif service.image.startswith("postgres:"):
        base["PGDATA"] = "/var/lib/postgresql/data"
    return base | service.environment


def search_path() -> str:
    """PATH: this Python's programs, Debian's PostgreSQL, the system's."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return os.pathsep.join(
        map(str, [Path(sys.prefix) / "bin", *debian, "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"])
    )


def first_start(service: Service, volume: Path | None) -> tuple[str, ...]:
    """The command that an image's entrypoint runs before the first start, if there is one."""
    if service.image.startswith("postgres:") and volume and not any(volume.iterdir()):
        return ("sh", "-ec", _FIRST_START)
    return ()


def _runtime_environment(dockerfile: Path) -> dict[str, str]:
    """The ENV of the Dockerfile's stage `runtime`, in which all three of our images run."""
    lines = dockerfile.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("FROM ") and line.endswith(" AS runtime"))
    found: dict[str, str] = {}
    for line in lines[start + 1 :]:
        if line.startswith("FROM "):
            break
        if line.startswith("ENV "):
            found |= dict(part.split("=", 1) for part in shlex.split(line.removeprefix("ENV ")))
    return found
