"""The stack as processes: start in dependency order, run commands in services, stop."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from seq2seq.errors import ServiceError, UsageError
from tests.stack import images, network, sandbox
from tests.stack.compose import Service, Stack, read
from tests.stack.network import Host
from tests.stack.processes import Process, started
from tests.stack.sandbox import ROOT, Places

PLACES = Places(ROOT / ".stack")
_TOOLS = {"ip": "iproute2", "bwrap": "bubblewrap", "nsenter": "util-linux", "setpriv": "util-linux", "socat": "socat"}
_PACKAGES = {"postgres": "postgresql", "prometheus": "prometheus"}  # Debian packages of services without our code


class Running(BaseModel):
    """One instance of a service, and the relays of the ports that it publishes."""

    model_config = ConfigDict(frozen=True)

    host: Host
    process: Process
    relays: tuple[Process, ...] = ()


class State(BaseModel):
    """Started instances, in order."""

    model_config = ConfigDict(frozen=True)

    running: tuple[Running, ...] = ()


def up(profile: str | None, only: tuple[str, ...] = ()) -> None:
    """Start a profile's services that are not running, or some services and their dependencies.

    Raises UsageError if a program is missing on this machine, ServiceError for a service that does not become healthy.
    """
    _check_machine()
    subprocess.run([ROOT / "docker" / "secrets.sh", PLACES.secrets], check=True)
    compose, state = stack(), _state()
    hosts = _hosts(compose)
    if not state.running:
        network.lay(hosts, PLACES.hosts)
    left_out: set[str] = set()
    for name, service in compose.in_order(profile, only):
        if missing := _missing(service):
            left_out.add(name)
            package = _PACKAGES.get(Path(missing).name)
            how = f"apt-get install {package}" if package else f"its image's {missing} is in no Debian package"
            _say(f"{name} is left out: {how}")
            continue
        if without := left_out.intersection(service.depends_on):
            raise UsageError(
                "stack-up", f"{name} needs {', '.join(without)}, which is left out", "install what is named"
            )
        begun = time.monotonic()
        mine = [host for host in hosts if host.service == name]
        fresh = [host for host in mine if not any(host == one.host and one.process.alive() for one in state.running)]
        for host in fresh:
            kept = tuple(one for one in state.running if one.host != host)
            for ended in set(state.running).difference(kept):
                _end(service, ended)
            state = State(running=(*kept, _start(compose, service, host)))
            PLACES.state.write_text(state.model_dump_json(indent=1), encoding="utf-8")
        for running in state.running:
            if running.host in fresh:
                _wait_until_healthy(service, running)
        if fresh:
            ports = "".join(f", http://{port.host}:{port.published}" for port in service.ports)
            _say(f"{name} x {len(fresh)} is up after {time.monotonic() - begun:.0f} s{ports}")


def down(volumes: bool) -> None:
    """Stop every process, the last one first, and remove the network; with `volumes` also all data."""
    state, compose = _state(), stack()
    for running in reversed(state.running):
        service = compose.services[running.host.service]
        _end(service, running)
        PLACES.state.write_text(State(running=state.running[: state.running.index(running)]).model_dump_json())
    network.clear()
    PLACES.state.unlink(missing_ok=True)
    if volumes and PLACES.folder.exists():
        shutil.rmtree(PLACES.folder)
    _say("down" + (", and nothing is kept" if volumes else f"; volumes and secrets stay in {PLACES.folder.name}"))


def inside(name: str, command: tuple[str, ...]) -> list[str]:
    """The command line that runs a command in a service. Raises ServiceError if it is not running."""
    for running in _state().running:
        if running.host.service == name and (pid := running.process.command()):
            return sandbox.enter(stack().services[name], pid, command)
    raise ServiceError(name, "no such service is up", "say make stack-up, or look into .stack/logs")


def beside(name: str, command: tuple[str, ...]) -> list[str]:
    """The command line that runs a command like a service's first instance, whether or not that is running."""
    compose = stack()
    if name not in compose.services or not PLACES.hosts.exists():
        raise ServiceError(name, "there is no such service, or no stack", "say make stack-up")
    _prepare(compose, compose.services[name])
    first = next(host for host in _hosts(compose) if host.service == name)
    return sandbox.start(compose, compose.services[name], first, PLACES, command)


def stop(name: str) -> None:
    """Stop the processes of one service. Raises ServiceError if there is none."""
    state = _state()
    mine = [running for running in state.running if running.host.service == name]
    if not mine:
        raise ServiceError(name, "no such service is up", "see python -m tests.stack status")
    service = stack().services[name]
    for running in mine:
        _end(service, running)
    rest = State(running=tuple(running for running in state.running if running not in mine))
    PLACES.state.write_text(rest.model_dump_json(indent=1), encoding="utf-8")


def status() -> list[tuple[Host, bool]]:
    """Every started instance, and whether it is running."""
    return [(running.host, running.process.alive()) for running in _state().running]


def _start(stack: Stack, service: Service, host: Host) -> Running:
    kept = _prepare(stack, service)
    log = PLACES.log(host)
    log.parent.mkdir(parents=True, exist_ok=True)
    if first := images.first_start(service, kept[0] if kept else None):
        with log.open("ab") as said:
            words = sandbox.start(stack, service, host, PLACES, first)
            if subprocess.run(words, check=False, stdout=said, stderr=said).returncode:
                raise ServiceError(host.service, "its first start failed", f"see {log}")
    words = sandbox.start(stack, service, host, PLACES, (*service.entrypoint, *service.command))
    process = started(words, log)
    relays = []
    for port in service.ports:
        listen = f"TCP-LISTEN:{port.published},bind={port.host},fork,reuseaddr"
        relays.append(started(["socat", listen, f"TCP:{host.address}:{port.inside}"], log))
    return Running(host=host, process=process, relays=tuple(relays))


def _hosts(stack: Stack) -> list[Host]:
    return network.planned([name for name, service in stack.services.items() for _ in range(service.deploy.replicas)])


def _prepare(stack: Stack, service: Service) -> list[Path]:
    """Create the folders of a service's volumes, writable by its user."""
    uid, _, gid = service.user.partition(":")
    kept = [PLACES.volume(volume.source) for volume in service.volumes if volume.source in stack.volumes]
    for folder in kept:
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, int(uid), int(gid))
    return kept


def _end(service: Service, running: Running) -> None:
    for relay in running.relays:
        relay.end("SIGTERM", 0)
    running.process.end(service.stop_signal, service.stop_grace_period)


def _wait_until_healthy(service: Service, running: Running) -> None:
    kind, *test = service.healthcheck.test
    if kind != "CMD":
        raise UsageError(running.host.service, f"a health check of kind {kind}", "write it as [CMD, program, ...]")
    end = time.monotonic() + service.healthcheck.patience
    log = PLACES.log(running.host)
    while time.monotonic() < end:
        if not running.process.alive():
            raise ServiceError(running.host.service, "it ended while it started", f"see {log}")
        if dead := [relay for relay in running.relays if not relay.alive()]:
            raise ServiceError(running.host.service, f"{len(dead)} of its ports cannot be published", f"see {log}")
        if pid := running.process.command():
            try:
                words = sandbox.enter(service, pid, tuple(test))
                asked = subprocess.run(words, check=False, capture_output=True, timeout=service.healthcheck.timeout)
                if asked.returncode == 0:
                    return
            except subprocess.TimeoutExpired:
                pass
        time.sleep(service.healthcheck.interval)
    raise ServiceError(running.host.service, f"not healthy within {service.healthcheck.patience:.0f} s", f"see {log}")


def _missing(service: Service) -> str | None:
    """The program of a service that is missing on this machine."""
    program = (*service.entrypoint, *service.command)[0]
    return None if shutil.which(program, path=images.search_path()) else program


def _check_machine() -> None:
    if os.geteuid() != 0:
        raise UsageError("stack-up", "namespaces and other users' processes need root", "say it as root")
    wanted = {package for tool, package in _TOOLS.items() if not shutil.which(tool)}
    if wanted:
        raise UsageError(
            "stack-up", "programs are missing here", f"install them: apt-get install {' '.join(sorted(wanted))}"
        )


def stack() -> Stack:
    """docker-compose.yml, with the secrets of the stack's folder."""
    return read(ROOT / "docker-compose.yml", {**os.environ, "SECRETS": str(PLACES.secrets)})


def _state() -> State:
    if not PLACES.state.exists():
        return State()
    return State.model_validate_json(PLACES.state.read_text(encoding="utf-8"))


def _say(line: str) -> None:
    print(f"stack: {line}", file=sys.stderr, flush=True)
