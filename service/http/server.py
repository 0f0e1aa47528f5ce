"""uvicorn's setup, with limits on connections, headers and unfinished requests.

uvicorn itself waits indefinitely for the headers of a request and for the end of a body that no handler reads. h11 is
used instead of httptools because it bounds the memory of an unfinished request.

The classes extended here are internal to uvicorn. Its version is therefore bounded in pyproject.toml, and a test
compares the source of uvicorn's module with the version that this code was written for.
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

SHUTDOWN_MARGIN = 5  # seconds after the grace period before answers that clients do not read are abandoned
MAX_SMALL_CHUNKS = 1000  # chunks of a body that may have any length
MIN_MEAN_CHUNK_BYTES = 64  # required of a body of more chunks, because a chunk takes as long as thousands of bytes
FIRST_PROBE_SECONDS, MAX_PROBE_SECONDS = 0.05, 1.0  # seconds between checks of a half-closed connection


def server_config(app: FastAPI) -> uvicorn.Config:
    """uvicorn's configuration for an app of `create_app`."""
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
    """h11's connection, refusing bodies of tiny chunks: a megabyte in chunks of one byte would block the event loop for
    many seconds."""

    chunks = 0  # complete chunks of the body
    received = 0  # bytes of the body received

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.chunks = self.received = 0
        elif isinstance(event, h11.Data):
            self.chunks += event.chunk_end
            self.received += len(event.data)
            if self.chunks > MAX_SMALL_CHUNKS and self.received < MIN_MEAN_CHUNK_BYTES * self.chunks:
                raise h11.RemoteProtocolError("the chunks of the body are too small")
        return event


class PrewrittenTransport:
    """A transport on which the first bytes of the answer, equal for all answers, have already been written.

    A client that closed the connection and one that only stopped sending cannot be told apart until something is
    written: the closed side rejects it.
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
    """uvicorn's protocol for one connection, with the limits of the settings."""

    class BoundedProtocol(H11Protocol):
        """Closes connections over the limit, and connections that are idle while no other deadline applies."""

        deadline_timer: asyncio.TimerHandle | None = None
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
            """The client stopped sending: answer its complete requests, then close the connection."""
            if not self.answering():
                return False  # asyncio closes the transport
            self.half_closed = True
            if not self.cycle.response_started:
                self.cycle.transport = PrewrittenTransport(self.transport)  # type: ignore[assignment]
            self.probe_client(FIRST_PROBE_SECONDS)
            return True

        def answering(self) -> bool:
            """Whether a complete request has arrived that is not answered yet."""
            return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete

        def probe_client(self, seconds: float) -> None:
            """Close a half-closed connection if the client is gone. Its side has then rejected what was written, which
            only the socket's error shows, because nothing is read."""
            if self.transport.is_closing():
                return
            if self.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self.transport.abort()
            else:
                self.loop.call_later(seconds, self.probe_client, min(2 * seconds, MAX_PROBE_SECONDS))

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
            """Whether the client has yet to finish something: headers, or a body that has already been answered."""
            if self.transport.is_closing():
                return False
            if self.conn.their_state is h11.IDLE:
                return self.cycle is None or bool(self.conn.trailing_data[0])
            return self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete

        def set_deadline(self, waiting: bool) -> None:
            """Start the timer when waiting begins and stop it when waiting ends. Bytes received in between do not
            restart it."""
            if waiting and self.deadline_timer is None:
                self.deadline_timer = self.loop.call_later(settings.header_seconds, self.on_deadline)
            elif not waiting and self.deadline_timer is not None:
                self.deadline_timer.cancel()
                self.deadline_timer = None

        def on_deadline(self) -> None:
            self.deadline_timer = None
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
            """Send an error for input that is not a valid request, and close the connection."""
            metrics.rejected.labels(reason).inc()
            if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
                answer = problem_response(problem, uuid.uuid4().hex)
                head = [f"HTTP/1.1 {problem.status} ".encode(), b"\r\nconnection: close\r\n"]
                head += [name + b": " + value + b"\r\n" for name, value in answer.raw_headers]
                self.transport.write(b"".join([*head, b"\r\n", bytes(answer.body)]))
            self.transport.close()

    return BoundedProtocol
