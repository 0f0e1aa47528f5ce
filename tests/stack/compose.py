"""Models of docker-compose.yml, as far as processes on one machine support it.

Unknown keys are rejected, so that an addition to the file is never silently ignored. Keys that processes cannot
implement (limits, capabilities, restarts) are listed in `Service` under a comment.
"""

import re
from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?:(?P<kind>:?-)(?P<default>[^}]*))?\})")


def _seconds(written: object) -> float:
    """`90s` or `2m` as seconds."""
    text = str(written)
    return float(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def _named_file(written: object) -> object:
    """A secret by its name alone, which is mounted at /run/secrets."""
    return {"source": written, "target": f"/run/secrets/{written}"} if isinstance(written, str) else written


Seconds = Annotated[float, BeforeValidator(_seconds)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class File(_Part):
    """A secret or a config: a file on this machine, mounted in a service at its target."""

    source: str
    target: str


class Healthcheck(_Part):
    """The health check that decides when dependent services may start; `test` is CMD and a command."""

    test: tuple[str, ...]
    interval: Seconds
    timeout: Seconds
    retries: int
    start_period: Seconds = 0


class Deploy(_Part):
    """The number of instances; limits are ignored here."""

    replicas: int = 1
    resources: dict[str, Any] = {}


class Service(_Part):
    """One service."""

    image: str
    build: dict[str, Any] | None = None
    profiles: tuple[str, ...] = ()
    user: str  # UID:GID
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...]
    working_dir: str = "/"
    environment: dict[str, str] = {}
    secrets: tuple[Annotated[File, BeforeValidator(_named_file)], ...] = ()
    configs: tuple[File, ...] = ()
    volumes: tuple[str, ...] = ()  # NAME:/path, or ./path:/path:ro
    tmpfs: tuple[str, ...] = ()  # /path:mode=1777
    ports: tuple[str, ...] = ()  # ADDRESS:PORT:PORT, on this machine and in the service
    depends_on: dict[str, dict[Literal["condition"], Literal["service_healthy"]]] = {}
    healthcheck: Healthcheck
    deploy: Deploy = Deploy()
    stop_signal: str = "SIGTERM"
    stop_grace_period: Seconds = 10.0
    # Always true here: the root is read-only, there are no capabilities and no new privileges.
    read_only: Literal[True]
    cap_drop: tuple[Literal["ALL"]]
    security_opt: tuple[Literal["no-new-privileges:true"]]
    init: Literal[True]
    # Not supported: a process that ends is not restarted.
    restart: str
    pids_limit: int
    shm_size: str = "64mb"
    logging: dict[str, Any]

    @property
    def words(self) -> tuple[str, ...]:
        """The program that it runs, with its arguments."""
        return (*self.entrypoint, *self.command)


class ComposeFile(BaseModel):
    """A compose file; its `x-...` blocks are only YAML anchors."""

    services: dict[str, Service]
    volumes: dict[str, Any]
    configs: dict[str, dict[Literal["file"], Path]]
    secrets: dict[str, dict[Literal["file"], Path]]

    def in_order(self) -> Iterable[str]:
        """The names of the services, each after its dependencies."""
        return TopologicalSorter({name: one.depends_on for name, one in self.services.items()}).static_order()


def read(path: Path, variables: Mapping[str, str]) -> ComposeFile:
    """Read a compose file. Raises ValidationError for a key that is not supported, KeyError for an unset variable."""

    def fill(found: re.Match[str]) -> str:
        name, kind, default = found["name"], found["kind"], found["default"]
        if name is None:
            return "$"
        value = variables.get(name, default) if kind else variables[name]
        return value or default if kind == ":-" else value

    def filled(node: Any) -> Any:
        if isinstance(node, str):
            return _VARIABLE.sub(fill, node)
        if isinstance(node, dict):
            return {key: filled(value) for key, value in node.items()}
        return [filled(value) for value in node] if isinstance(node, list) else node

    return ComposeFile.model_validate(filled(yaml.safe_load(path.read_text(encoding="utf-8"))))
