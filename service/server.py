"""How the service listens: uvicorn with bounds on what arrives before there is a request.

uvicorn itself waits for ever for the headers of a request, and for the end of a body that nobody reads. h11 is chosen
over httptools because it bounds what it keeps of an unfinished request.
"""

import asyncio
import sys
import uuid

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.metrics import Metrics
from service.problems import Problem, response
from service.settings import Settings

ENDING = 5  # seconds beyond the grace time until answers that nobody takes are given up


def server_config(app: FastAPI) -> uvicorn.Config:
    """How uvicorn runs an app of `create_app`."""
    settings: Settings = app.state.service.settings
    return uvicorn.Config(
        app,
        http=protocol(settings, app.state.service.metrics),
        ws="none",
        h11_max_incomplete_event_size=settings.header_bytes,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_graceful_shutdown=int(settings.grace_seconds) + ENDING,
        log_config=None,
        access_log=False,
        server_header=False,
    )


def protocol(settings: Settings, metrics: Metrics) -> type[H11Protocol]:
    """uvicorn's protocol for one connection, with these limits."""

    class Bounded(H11Protocol):
        """Closes a connection over the limit, and one whose next bytes are awaited by nobody with a deadline."""

        overdue: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > settings.connections:
                self.refuse(Problem.away("there are too many connections"), "connections")
            else:
                self.watch(waiting=True)

        def connection_lost(self, exc: Exception | None) -> None:
            self.watch(waiting=False)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            self.watch(self.unfinished())

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self.watch(self.unfinished())

        def unfinished(self) -> bool:
            """Whether the client has begun what it should end: headers, or a body whose answer it already has."""
            if self.transport.is_closing():
                return False
            if self.conn.their_state is h11.IDLE:
                return self.cycle is None or bool(self.conn.trailing_data[0])
            return self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete

        def watch(self, waiting: bool) -> None:
            """Start the clock with what is waited for, and stop it with its end; bytes between do not wind it back."""
            if waiting and self.overdue is None:
                self.overdue = self.loop.call_later(settings.header_seconds, self.give_up)
            elif not waiting and self.overdue is not None:
                self.overdue.cancel()
                self.overdue = None

        def give_up(self) -> None:
            self.overdue = None
            if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
                self.refuse(Problem(408, f"the headers did not arrive within {settings.header_seconds:g} s"), "slow")
            else:
                self.transport.close()

        def send_400_response(self, msg: str) -> None:
            hint = getattr(sys.exception(), "error_status_hint", 400)
            if hint == 431:
                self.refuse(Problem(431, f"the headers are longer than {settings.header_bytes} bytes"), "headers")
            else:
                self.refuse(Problem(400, "this is not HTTP/1.1 as it should be"), "http")

        def refuse(self, problem: Problem, reason: str) -> None:
            """Answer what is no request, and close."""
            metrics.rejected.labels(reason).inc()
            if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
                answer = response(problem, uuid.uuid4().hex)
                head = [f"HTTP/1.1 {problem.status} ".encode(), b"\r\nconnection: close\r\n"]
                head += [name + b": " + value + b"\r\n" for name, value in answer.raw_headers]
                self.transport.write(b"".join([*head, b"\r\n", bytes(answer.body)]))
            self.transport.close()

    return Bounded
