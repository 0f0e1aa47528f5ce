"""How the service listens: uvicorn with bounds on what arrives before there is a request.

uvicorn itself waits for ever for the headers of a request, and for the end of a body that nobody reads. h11 is chosen
over httptools because it bounds what it keeps of an unfinished request.

What is extended here is internal to uvicorn, so its version is bounded in pyproject.toml, and a test compares the
source of that module with the one that this was written for.
"""

import asyncio
import socket
import sys
import uuid
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.metrics import Metrics
from service.problems import Problem, problem_response
from service.settings import Settings

SHUTDOWN_MARGIN = 5  # seconds beyond the grace time until answers that nobody takes are given up
FEW_CHUNKS = 1000  # of a body in chunks, which may be of any length
CHUNK = 64  # bytes that a chunk has on average in a body of more: each takes as long to read as thousands of bytes
FIRST_PROBE, MAX_PROBE = 0.05, 1.0  # seconds between looks for a client that sends no more


def server_config(app: FastAPI) -> uvicorn.Config:
    """How uvicorn runs an app of `create_app`."""
    settings: Settings = app.state.service.settings
    return uvicorn.Config(
        app,
        http=bounded_protocol(settings, app.state.service.metrics),
        ws="none",
        h11_max_incomplete_event_size=settings.header_bytes,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_graceful_shutdown=int(settings.grace_seconds) + SHUTDOWN_MARGIN,
        log_config=None,
        access_log=False,
        server_header=False,
    )


class Connection(h11.Connection):
    """h11's connection, which refuses a body of tiny chunks: a megabyte in chunks of one byte would keep the event loop
    from everybody else for many seconds."""

    chunks = 0  # of the body, that came whole
    received = 0  # bytes of the body

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.chunks = self.received = 0
        elif isinstance(event, h11.Data):
            self.chunks += event.chunk_end
            self.received += len(event.data)
            if self.chunks > FEW_CHUNKS and self.received < CHUNK * self.chunks:
                raise h11.RemoteProtocolError("the chunks of the body are too small")
        return event


class PrewrittenTransport:
    """The transport of an answer whose first bytes are written already, which are the same for every answer.

    Whoever has closed a connection and whoever only sends no more look the same, until something is written: the
    former's side refuses it.
    """

    STATUS_LINE_PREFIX = b"HTTP/1.1 "

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._prewritten = len(self.STATUS_LINE_PREFIX)
        transport.write(self.STATUS_LINE_PREFIX)

    def write(self, data: bytes) -> None:
        self._transport.write(data[self._prewritten :])
        self._prewritten = 0

    def close(self) -> None:
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()


def bounded_protocol(settings: Settings, metrics: Metrics) -> type[H11Protocol]:
    """uvicorn's protocol for one connection, with these limits."""

    class BoundedProtocol(H11Protocol):
        """Closes a connection over the limit, and one whose next bytes are awaited by nobody with a deadline."""

        overdue: asyncio.TimerHandle | None = None
        half_closed = False

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.conn = Connection(h11.SERVER, settings.header_bytes)

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > settings.connections:
                self.reject(Problem.unavailable("there are too many connections"), "connections")
            else:
                self.set_deadline(waiting=True)

        def connection_lost(self, exc: Exception | None) -> None:
            self.set_deadline(waiting=False)
            super().connection_lost(exc)

        def eof_received(self) -> bool:  # type: ignore[override]
            """The client sends no more: what it has sent whole is answered, and then the connection closed."""
            if not self.answering():
                return False  # which closes it
            self.half_closed = True
            if not self.cycle.response_started:
                self.cycle.transport = PrewrittenTransport(self.transport)  # type: ignore[assignment]
            self.probe_client(FIRST_PROBE)
            return True

        def answering(self) -> bool:
            """Whether a request has arrived whole and is not answered yet."""
            return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete

        def probe_client(self, seconds: float) -> None:
            """Close where the client of a half-closed connection is gone: its side has refused what was written, which
            nobody is told of who does not read."""
            if self.transport.is_closing():
                return
            if self.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self.transport.abort()
            else:
                self.loop.call_later(seconds, self.probe_client, min(2 * seconds, MAX_PROBE))

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            self.set_deadline(self.unfinished())

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.half_closed and not self.answering():
                self.transport.close()
            self.set_deadline(self.unfinished())

        def unfinished(self) -> bool:
            """Whether the client has begun what it should end: headers, or a body whose answer it already has."""
            if self.transport.is_closing():
                return False
            if self.conn.their_state is h11.IDLE:
                return self.cycle is None or bool(self.conn.trailing_data[0])
            return self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete

        def set_deadline(self, waiting: bool) -> None:
            """Start the clock with what is waited for, and stop it with its end; bytes between do not wind it back."""
            if waiting and self.overdue is None:
                self.overdue = self.loop.call_later(settings.header_seconds, self.close_overdue)
            elif not waiting and self.overdue is not None:
                self.overdue.cancel()
                self.overdue = None

        def close_overdue(self) -> None:
            self.overdue = None
            if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
                self.reject(Problem(408, f"the headers did not arrive within {settings.header_seconds:g} s"), "slow")
            else:
                self.transport.close()

        def send_400_response(self, msg: str) -> None:
            hint = getattr(sys.exception(), "error_status_hint", 400)
            if hint == 431:
                self.reject(Problem(431, f"the headers are longer than {settings.header_bytes} bytes"), "headers")
            else:
                self.reject(Problem(400, "this is not HTTP/1.1 as it should be"), "http")

        def reject(self, problem: Problem, reason: str) -> None:
            """Answer what is no request, and close."""
            metrics.rejected.labels(reason).inc()
            if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
                answer = problem_response(problem, uuid.uuid4().hex)
                head = [f"HTTP/1.1 {problem.status} ".encode(), b"\r\nconnection: close\r\n"]
                head += [name + b": " + value + b"\r\n" for name, value in answer.raw_headers]
                self.transport.write(b"".join([*head, b"\r\n", bytes(answer.body)]))
            self.transport.close()

    return BoundedProtocol
