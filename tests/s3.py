"""An S3 server (moto) in a process of its own, behind a relay process. Stopping and starting the relay makes the server
unavailable for a while without losing its data."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.request import Request, urlopen

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "tester",
    "AWS_SECRET_ACCESS_KEY": "nothing-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
RELAY = """
import socket, sys, threading

def pump(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
    except OSError:
        pass
    for end in (one, other):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

door = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    caller, _ = door.accept()
    server = socket.create_connection(("127.0.0.1", int(sys.argv[3])))
    for ends in ((caller, server), (server, caller)):
        threading.Thread(target=pump, args=ends, daemon=True).start()
"""


class S3Server:
    """moto's server with a bucket named `bucket`, reached at an address of this machine."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.address = address
        self.inner, self.port = _free_port(), _free_port()
        self.server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.inner)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _wait_for(self.inner)
        urlopen(Request(f"http://127.0.0.1:{self.inner}/bucket", method="PUT"), timeout=10).close()
        self.relay: subprocess.Popen[bytes] | None = None
        self.start()

    def uri(self, prefix: str, bucket: str = "bucket") -> str:
        return f"s3://{bucket}/{prefix}?endpoint_override={self.address}:{self.port}&scheme=http"

    def start(self) -> None:
        """Start the relay, so that the server can be reached."""
        self.relay = subprocess.Popen([sys.executable, "-c", RELAY, self.address, str(self.port), str(self.inner)])
        _wait_for(self.port, self.address)

    def stop(self) -> None:
        """Close every connection; new ones are refused."""
        assert self.relay is not None
        self.relay.kill()
        self.relay.wait()

    @contextmanager
    def refusing_everybody(self) -> Iterator[None]:
        """The server requires permissions that nobody has."""
        address, kind = f"http://127.0.0.1:{self.inner}/moto-api/reset-auth", {"Content-Type": "text/plain"}
        urlopen(Request(address, data=b"0", headers=kind), timeout=10).close()
        try:
            yield
        finally:
            urlopen(Request(address, data=b"inf", headers=kind), timeout=10).close()


@contextmanager
def s3_server(address: str = "127.0.0.1") -> Iterator[S3Server]:
    """A server; its credentials are in the environment of this process and its children."""
    before = {name: os.environ.get(name) for name in CREDENTIALS}
    os.environ.update(CREDENTIALS)
    server = S3Server(address)
    try:
        yield server
    finally:
        server.stop()
        server.server.send_signal(signal.SIGKILL)
        server.server.wait()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _free_port() -> int:
    with closing(socket.socket()) as any_port:
        any_port.bind(("127.0.0.1", 0))
        return int(any_port.getsockname()[1])


def _wait_for(port: int, address: str = "127.0.0.1") -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection((address, port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
