"""Models of docker-compose.yml, as far as processes on one machine support it.

Unknown keys are rejected, so that an addition to the file is never silently ignored. Keys that processes cannot
implement (limits, capabilities, restarts) are listed in `Service` under a comment.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from seq2seq.errors import UsageError

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?:(?P<kind>:?-)(?P<default>[^}]*))?\})")
_SECONDS = {"s": 1, "m": 60}


def _seconds(written: object) -> float:
    """`90s` or `2m` as seconds."""
    text = str(written)
    return float(text[:-1]) * _SECONDS[text[-1]]


def _pair(written: object, name: str) -> object:
    """A secret or config: its name only, or source and target."""
    return {"source": written, "target": f"/run/{name}/{written}"} if isinstance(written, str) else written


def _volume(written: object) -> object:
    """`NAME:/path` or `./path:/path:ro`."""
    source, target, *mode = str(written).split(":")
    return {"source": source, "target": target, "read_only": mode == ["ro"]}


def _tmpfs(written: object) -> object:
    """`/path:mode=1777`."""
    path, _, options = str(written).partition(":")
    return {"path": path, "mode": dict(part.split("=") for part in options.split(",") if part).get("mode", "1777")}


def _port(written: object) -> object:
    """`ADDRESS:PORT:PORT`."""
    host, published, inside = str(written).split(":")
    return {"host": host, "published": published, "inside": inside}


Seconds = Annotated[float, BeforeValidator(_seconds)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class File(_Part):
    """A secret or a config: a file on this machine, mounted in a service at its target."""

    source: str
    target: str


class Volume(_Part):
    """A volume: a named folder of the stack, or a path beside the compose file."""

    source: str
    target: str
    read_only: bool


class Tmpfs(_Part):
    """A folder in memory (tmpfs)."""

    path: str
    mode: str


class Port(_Part):
    """A service's port, published on this machine."""

    host: str
    published: int
    inside: int


class Healthcheck(_Part):
    """The health check that decides when dependent services may start."""

    test: tuple[str, ...]
    interval: Seconds
    timeout: Seconds
    retries: int
    start_period: Seconds = 0

    @property
    def patience(self) -> float:
        """Seconds after which an unhealthy service counts as failed."""
        return self.start_period + self.retries * (self.interval + self.timeout)


class Dependency(_Part):
    """The required state of another service."""

    condition: Literal["service_healthy"]


class Deploy(_Part):
    """The number of instances; limits are ignored here."""

    replicas: int = 1
    resources: dict[str, Any] = {}


class Service(_Part):
    """One service."""

    image: str
    build: dict[str, Any] | None = None
    profiles: tuple[str, ...] = ()
    user: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...]
    working_dir: str = "/"
    environment: dict[str, str] = {}
    secrets: tuple[Annotated[File, BeforeValidator(lambda written: _pair(written, "secrets"))], ...] = ()
    configs: tuple[File, ...] = ()
    volumes: tuple[Annotated[Volume, BeforeValidator(_volume)], ...] = ()
    tmpfs: tuple[Annotated[Tmpfs, BeforeValidator(_tmpfs)], ...] = ()
    ports: tuple[Annotated[Port, BeforeValidator(_port)], ...] = ()
    depends_on: dict[str, Dependency] = {}
    healthcheck: Healthcheck
    deploy: Deploy = Deploy()
    stop_signal: str = "SIGTERM"
    stop_grace_period: Seconds = 10.0
    # Always true here: the root is read-only, there are no capabilities and no new privileges.
    read_only: Literal[True]
    cap_drop: tuple[Literal["ALL"]]
    security_opt: tuple[Literal["no-new-privileges:true"]]
    init: Literal[True]
    # Not supported: a process that ends is not restarted; `status` reports it.
    restart: str
    pids_limit: int
    shm_size: str = "64mb"
    logging: dict[str, Any]


class FileSource(_Part):
    """The path of a secret's or config's file."""

    file: Path


class Stack(BaseModel):
    """A compose file; its `x-...` blocks are only YAML anchors."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    services: dict[str, Service]
    volumes: dict[str, Any]
    configs: dict[str, FileSource]
    secrets: dict[str, FileSource]

    def in_order(self, profile: str | None, only: tuple[str, ...] = ()) -> Iterator[tuple[str, Service]]:
        """Services without a profile or of this one, or the named ones, each after its dependencies."""
        done: set[str] = set()

        def visit(name: str) -> Iterator[tuple[str, Service]]:
            if name in done:
                return
            done.add(name)
            for other in self.services[name].depends_on:
                yield from visit(other)
            yield name, self.services[name]

        wanted = [name for name, one in self.services.items() if not one.profiles or profile in one.profiles]
        for name in only or wanted:
            if name not in self.services:
                raise UsageError(name, "there is no such service", f"there are {', '.join(self.services)}")
            yield from visit(name)


def read(path: Path, environment: dict[str, str] | None = None) -> Stack:
    """Read a compose file, with variables from the environment. Raises UsageError."""
    known = dict(os.environ) if environment is None else environment

    def fill(found: re.Match[str]) -> str:
        name, kind, default = found["name"], found["kind"], found["default"]
        if name is None:
            return "$"
        value = known.get(name)
        if value is None or (not value and kind == ":-"):
            value = default
        if value is None:
            raise UsageError(str(path), f"the variable {name} is not set", f"say {name}=... before the command")
        return value

    def filled(node: Any) -> Any:
        if isinstance(node, str):
            return _VARIABLE.sub(fill, node)
        if isinstance(node, dict):
            return {key: filled(value) for key, value in node.items()}
        return [filled(value) for value in node] if isinstance(node, list) else node

    try:
        return Stack.model_validate(filled(yaml.safe_load(path.read_text(encoding="utf-8"))))
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise UsageError(
            str(path),
            f"{where}: {wrong['msg'].lower()}",
            "the local stack cannot follow it: see tests/stack/compose.py",
        ) from None
