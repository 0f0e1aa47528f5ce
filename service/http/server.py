"""uvicorn's setup, and the limits that a service without a proxy needs and no ASGI middleware can set.

A `Connection` stands between the socket and uvicorn's protocol, and uses only the interface of `asyncio.Protocol`. It
answers these attacks:

- slow headers (Slowloris): uvicorn waits for them indefinitely, as for a body that no route reads;
- connections that fill the limit and stay idle: probes are answered above it, so that no orchestrator restarts the
  service;
- bodies of tiny chunks, whose framing takes much longer to parse than a body's bytes.

Slow bodies are the task of `BodyLimitMiddleware`. h11 is used instead of httptools because it bounds the memory of an
unfinished request.
"""

import asyncio
import socket
import uuid
from collections.abc import Callable
from typing import Any, cast

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.middleware import CLOSE_CONNECTION, too_many_connections
from service.metrics import Metrics
from service.problems import Problem, problem_response
from service.settings import Settings

SHUTDOWN_MARGIN = 5  # seconds after the grace period before answers that clients do not read are abandoned
READ_BYTES = 16 * 1024  # read, and parsed, at once
MAX_FRAMING_BYTES = 8 * 1024  # bytes of a body's chunks that are not its content, beside an eighth of the content
FIRST_CHECK_SECONDS, MAX_CHECK_SECONDS = 0.05, 1.0  # seconds between checks of a half-closed connection
MAX_PROBES = 64  # connections above the limit, of which the oldest makes room for the next one
PROBE_SECONDS = 1.0  # time for the headers of a connection above the limit
STATUS_LINE_PREFIX = b"HTTP/1.1 "

CONNECTION = "connection"  # in the state of a request's ASGI scope


def server_config(app: FastAPI) -> uvicorn.Config:
    """uvicorn's configuration for an app of `create_app`."""
    settings: Settings = app.state.service.settings
    connections = Connections(settings, app.state.service.metrics)

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await scope["state"].pop(CONNECTION).run(app, scope, receive, send)
        else:
            await app(scope, receive, send)

    class Config(uvicorn.Config):
        def load(self) -> None:
            super().load()
            protocol: Callable[..., asyncio.Protocol] = self.http_protocol_class
            self.http_protocol_class = lambda **named: Connection(protocol, named, connections)  # type: ignore[assignment]

    return Config(
        run,
        http="h11",
        ws="none",
        h11_max_incomplete_event_size=settings.header_bytes,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_graceful_shutdown=int(settings.grace_seconds) + SHUTDOWN_MARGIN,
        log_config=None,
        access_log=False,
        server_header=False,
    )


class Connections:
    """The connections of a server; `above`: connections above the limit, the oldest first."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self.within: set[Connection] = set()
        self.above: dict[Connection, None] = {}
        self.buffer = memoryview(bytearray(READ_BYTES))  # received bytes are parsed at once: one buffer is enough

    def add(self, connection: "Connection") -> None:
        if len(self.within) < self.settings.connections:
            self.within.add(connection)
            return
        self.above[connection] = None
        if len(self.above) > MAX_PROBES:
            oldest = next((one for one in self.above if not one.requests), connection)
            oldest.reject(too_many_connections(), "connections")

    def remove(self, connection: "Connection") -> None:
        self.within.discard(connection)
        self.above.pop(connection, None)


class Connection(asyncio.BufferedProtocol):
    """Passes received bytes to uvicorn's protocol, and closes the connection if its limits are exceeded."""

    transport: asyncio.Transport
    deadline: asyncio.TimerHandle | None = None  # for the headers of the next request
    paused = False  # whether uvicorn reads no more now
    requests = 0  # complete headers of requests that are not answered yet
    received = 0  # bytes since the last request's headers, or since its answer
    content = 0  # bytes of the body among them
    whole = True  # whether the body of the last request was read to its end
    reading = False  # whether the app waits for more of the body
    responding = False  # whether a part of the response has been sent
    sending = False  # whether the app, and not uvicorn itself, is writing
    half_closed = False  # whether the client stopped sending
    prewritten = 0  # bytes of the next response that have been written already

    def __init__(
        self, protocol: Callable[..., asyncio.Protocol], named: dict[str, Any], connections: Connections
    ) -> None:
        """`named`: the arguments of uvicorn's protocol; `app_state` becomes the state of each request's scope."""
        self.protocol = protocol(**named | {"app_state": named["app_state"] | {CONNECTION: self}})
        self.connections = connections
        self.settings = connections.settings
        self.loop = asyncio.get_running_loop()

    # The protocol of the socket.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.protocol.connection_made(cast(asyncio.Transport, Writing(self)))
        self.connections.add(self)
        self.wait_for_headers(True)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.connections.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.transport.is_closing():
            return
        self.received += nbytes
        if not self.requests:
            self.wait_for_headers(True)
        self.protocol.data_received(bytes(self.connections.buffer[:nbytes]))
        if nbytes == READ_BYTES:  # more bytes wait: first the app handles these, and other connections have their turn
            self.transport.pause_reading()
            self.loop.call_soon(self.read_on)

    def read_on(self) -> None:
        if not self.paused:
            self.transport.resume_reading()

    def eof_received(self) -> bool:
        """The client stopped sending: answer its complete requests, then close the connection."""
        self.half_closed = True
        self.loop.call_soon(self.settle)
        self.loop.call_later(FIRST_CHECK_SECONDS, self.check_client, FIRST_CHECK_SECONDS)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.wait_for_headers(False)
        self.connections.remove(self)
        self.protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        self.protocol.resume_writing()

    # The transport of uvicorn's protocol.

    def write(self, data: bytes) -> None:
        """Write what uvicorn or the app sends; instead of uvicorn's own refusal of invalid HTTP a problem."""
        if self.transport.is_closing():
            return
        if self.sending or not data.startswith(b"HTTP/1.1 400 "):
            self.transport.write(data[self.prewritten :])
            self.prewritten = 0
        elif not self.requests and self.received >= self.settings.header_bytes:
            self.reject(Problem(431, f"the headers are longer than {self.settings.header_bytes} bytes"), "headers")
        else:
            self.reject(Problem(400, "this is not HTTP/1.1 as it should be"), "http")

    def pause_reading(self) -> None:
        self.paused = True
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        self.paused = False
        self.transport.resume_reading()

    # The requests.

    async def run(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app for one request. Its `receive` raises Problem for a body of tiny chunks."""
        self.wait_for_headers(False)
        self.requests += 1
        self.received = self.content = 0
        self.whole = not any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
        scope["state"]["above_limit"] = self in self.connections.above

        async def read() -> Message:
            if self.half_closed:
                self.loop.call_soon(self.settle)
            self.reading = not self.whole
            try:
                message = await receive()
            finally:
                self.reading = False
            self.content += len(message.get("body", b""))
            self.whole = self.whole or not message.get("more_body")
            if not self.whole and self.received > self.content + self.content // 8 + MAX_FRAMING_BYTES:
                self.connections.metrics.rejected.labels("http").inc()
                raise Problem(400, "the chunks of the body are too small", headers=CLOSE_CONNECTION)
            return message

        async def answer(message: Message) -> None:
            self.sending = self.responding = True
            try:
                await send(message)
            finally:
                self.sending = False

        try:
            await app(scope, read, answer)
        finally:
            self.requests -= 1
            self.responding = False
            self.received = 0
            if not self.requests:
                self.wait_for_headers(True)  # of which a part may have arrived already
            self.loop.call_soon(self.settle)

    def wait_for_headers(self, waiting: bool) -> None:
        """Set the deadline for the next request's headers, which further bytes do not postpone; or end it."""
        if waiting and self.deadline is None:
            seconds = PROBE_SECONDS if self in self.connections.above else self.settings.header_seconds
            self.deadline = self.loop.call_later(seconds, self.on_deadline)
        elif not waiting and self.deadline:
            self.deadline.cancel()
            self.deadline = None

    def on_deadline(self) -> None:
        if self in self.connections.above:
            self.reject(too_many_connections(), "connections")
        elif self.received and self.whole:
            seconds = self.settings.header_seconds
            self.reject(Problem(408, f"the headers did not arrive within {seconds:g} s"), "slow")
        else:
            self.transport.close()

    def settle(self) -> None:
        """Close a half-closed connection if no complete request is left on it. Otherwise write the first bytes of the
        response, equal for all responses: only a write tells a closed connection, which rejects it, from a client that
        merely stopped sending. This is called once the event loop has started the tasks of all complete requests, and
        the app has read the received part of a body."""
        if not self.half_closed or self.transport.is_closing():
            return
        if not self.requests or self.reading:
            self.transport.close()
        elif not self.responding and not self.prewritten:
            self.prewritten = len(STATUS_LINE_PREFIX)
            self.transport.write(STATUS_LINE_PREFIX)

    def check_client(self, seconds: float) -> None:
        """Close a half-closed connection if the client is gone: only the socket's error shows that, because nothing is
        read."""
        if self.transport.is_closing():
            return
        if self.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
        else:
            seconds = min(2 * seconds, MAX_CHECK_SECONDS)
            self.loop.call_later(seconds, self.check_client, seconds)

    def reject(self, problem: Problem, reason: str) -> None:
        """Send an error for input that is not a valid request, and close the connection."""
        self.connections.metrics.rejected.labels(reason).inc()
        if not self.responding:
            answer = problem_response(problem, uuid.uuid4().hex)
            head = [f"HTTP/1.1 {problem.status} ".encode(), b"\r\nconnection: close\r\n"]
            head += [name + b": " + value + b"\r\n" for name, value in answer.raw_headers]
            self.transport.write(b"".join([*head, b"\r\n", bytes(answer.body)])[self.prewritten :])
        self.transport.close()


class Writing:
    """The transport of uvicorn's protocol: the connection's, except that the connection itself writes."""

    def __init__(self, connection: Connection) -> None:
        self.write = connection.write
        self.pause_reading, self.resume_reading = connection.pause_reading, connection.resume_reading
        self._transport = connection.transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
