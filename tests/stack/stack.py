"""The stack as processes: start in dependency order, run commands in services, stop.

Nothing is recorded: what runs is what is in the network's namespaces, so any later process can stop it.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil

from interlinear.errors import ServiceError, UsageError
from tests.stack import network, sandbox
from tests.stack.compose import read
from tests.stack.network import Host
from tests.stack.sandbox import FOLDER, HOSTS, LOGS, ROOT, SECRETS, VOLUMES

# The Debian packages of the programs that a stack needs.
PACKAGES = {"ip": "iproute2", "bwrap": "bubblewrap", "postgres": "postgresql", "prometheus": "prometheus"}
# As the postgres image's entrypoint: creates the data directory and the database named by the environment, once.
_POSTGRES = """
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    umask 077
    initdb --username "$POSTGRES_USER" --pwfile "$POSTGRES_PASSWORD_FILE" $POSTGRES_INITDB_ARGS
    echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
    echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D "$PGDATA" postgres
fi
exec "$@"
"""


def missing_packages() -> list[str]:
    """The Debian packages whose programs are not on this machine."""
    return sorted({name for tool, name in PACKAGES.items() if not shutil.which(tool, path=sandbox.search_path())})


class Stack:
    """The services of docker-compose.yml; `variables` are set as in the environment of `docker compose`."""

    def __init__(self, **variables: str) -> None:
        self.file = read(ROOT / "docker-compose.yml", {**os.environ, "SECRETS": str(SECRETS), **variables})
        self.services = self.file.services
        self.hosts = network.plan([name for name, one in self.services.items() for _ in range(one.deploy.replicas)])

    def up(self, profile: str | None = None) -> list[str]:
        """Start the services without a profile or of this one, each when its dependencies are healthy.

        Services that are running are not started again; returns the names of those that were started. Raises UsageError
        if a program is missing on this machine, ServiceError for a service that does not become healthy.
        """
        if os.geteuid() != 0:
            raise UsageError("stack-up", "namespaces and other users' processes need root", "say it as root")
        if missing := missing_packages():
            raise UsageError("stack-up", "programs are missing here", f"apt-get install {' '.join(missing)}")
        subprocess.run([ROOT / "docker" / "secrets.sh", SECRETS], check=True)
        if not network.BRIDGE_FOLDER.exists():
            network.create(self.hosts, HOSTS)
        started = []
        for name in self.file.in_order():
            service, begun = self.services[name], time.monotonic()
            if service.profiles and profile not in service.profiles:
                continue
            if not shutil.which(service.words[0], path=sandbox.search_path()):
                print(f"stack: {name} is left out: {service.words[0]} is in no Debian package", file=sys.stderr)
                continue
            fresh = [host for host in self._hosts(name) if not host.processes()]
            for host in fresh:
                self._start(host)
            for host in fresh:
                self._wait_until_healthy(host)
            if fresh:
                started.append(name)
                addresses = ", ".join(host.address for host in fresh)
                print(f"stack: {name} is up after {time.monotonic() - begun:.0f} s: {addresses}", file=sys.stderr)
        return started

    def down(self) -> None:
        """Stop every process, the last service first, and remove the network and all data."""
        for name in reversed(list(self.file.in_order())):
            for host in self._hosts(name):
                self._end(host)
        network.remove()
        shutil.rmtree(FOLDER, ignore_errors=True)

    def address(self, name: str) -> str:
        """The address of a service's first instance."""
        return self._hosts(name)[0].address

    def inside(self, name: str, *command: str) -> list[str]:
        """The command line that runs a command in a service. Raises ServiceError if it is not running."""
        for host in self._hosts(name):
            if own := host.command():
                return sandbox.enter(self.services[name], own.pid, command)
        raise ServiceError(name, "no such service is up", f"say make stack-up, or look into {LOGS}")

    def beside(self, name: str, *command: str) -> list[str]:
        """The command line that runs a command like a service's first instance, whether or not that is running."""
        return self._command(self._hosts(name)[0], command)

    def _hosts(self, name: str) -> list[Host]:
        return [host for host in self.hosts if host.service == name]

    def _start(self, host: Host) -> None:
        """Start an instance, in a process that outlives this one."""
        service = self.services[host.service]
        entrypoint = ("sh", "-ec", _POSTGRES, "sh") if service.image.startswith("postgres:") else ()
        words = ["setsid", "--fork", *self._command(host, (*entrypoint, *service.words))]
        LOGS.mkdir(exist_ok=True)
        with (LOGS / f"{host.namespace}.log").open("ab") as output:
            subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def _command(self, host: Host, command: tuple[str, ...]) -> list[str]:
        """The command line that runs a command as this instance; the folders of its volumes belong to its user."""
        service = self.services[host.service]
        uid, _, gid = service.user.partition(":")
        for name in self.file.volumes.keys() & {volume.partition(":")[0] for volume in service.volumes}:
            (VOLUMES / name).mkdir(parents=True, exist_ok=True)
            os.chown(VOLUMES / name, int(uid), int(gid))
        return sandbox.start(self.file, service, host, command)

    def _wait_until_healthy(self, host: Host) -> None:
        service, see_log = self.services[host.service], f"see {LOGS / host.namespace}.log"
        check = service.healthcheck
        end, seen = time.monotonic() + check.start_period + check.retries * (check.interval + check.timeout), False
        while time.monotonic() < end:
            if own := host.command():
                words = ["timeout", str(check.timeout), *sandbox.enter(service, own.pid, check.test[1:])]
                if subprocess.run(words, check=False, capture_output=True).returncode == 0:
                    return
            running = bool(host.processes())
            if seen and not running:
                raise ServiceError(host.service, "it ended while it started", see_log)
            seen = running
            time.sleep(check.interval)
        raise ServiceError(host.service, "it does not become healthy", see_log)

    def _end(self, host: Host) -> None:
        """Send a service its stop signal; after its grace period kill all processes in its namespace."""
        service, processes = self.services[host.service], host.processes()
        with suppress(psutil.NoSuchProcess):
            if own := host.command():
                own.send_signal(signal.Signals[service.stop_signal])
                psutil.wait_procs(processes[:1], timeout=service.stop_grace_period)
        for process in host.processes():
            with suppress(psutil.NoSuchProcess):  # it ends with the first process of its namespace
                process.kill()
        psutil.wait_procs(processes, timeout=10)
