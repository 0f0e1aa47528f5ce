"""Around every request, in plain ASGI: its id, security headers, the limit on its body, and what is counted."""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.metrics import Metrics
from service.problems import Problem, response

log = logging.getLogger("interlinear.service")

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Envelope:
    """Gives a request its id, its answer the security headers, and the metrics their figures.

    An exception that nobody expected becomes a 500 with the request's id; the log has its place, never a user's text.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        started, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers.setdefault("Cache-Control", "no-store")
                for name, value in SECURITY.items():
                    headers[name] = value
            await send(message)

        try:
            await self.app(scope, receive, answer)
        except Exception as error:
            problem = failed(error, request_id)
            if status:
                raise  # the answer has begun: all that is left is to break it off
            await response(problem, request_id)(scope, receive, answer)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in METHODS else "other"
            self.metrics.requests.labels(route, method, str(status)).inc()
            self.metrics.request_seconds.labels(route).observe(time.perf_counter() - started)


def failed(error: BaseException, request_id: str) -> Problem:
    """A 500 for what nobody expected, of which the log has the place."""
    log.error("request %s failed: %s", request_id, place_of(error))
    return Problem(500, "the service made a mistake; its log has this request's id")


def place_of(error: BaseException) -> str:
    """Where an exception came from, without its message: that may hold a user's text."""
    frames, trace = [], error.__traceback__
    while trace:
        frames.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__} at {' > '.join(frames[-4:])}"


class BodyLimit:
    """Refuses a body over its route's limit while it arrives, whether its length was declared or not.

    The routes that take large ones share a room: a body is refused for which there is none beside the others that are
    held, and one that does not arrive in time.

    The rest is read and dropped, up to a bound: a client that still writes would otherwise not read the answer.
    """

    DROPPED = 64 * 2**20
    DROPPING_SECONDS = 10.0
    WAIT = 2  # seconds, after which an answer to a picture is mostly there

    def __init__(
        self, app: ASGIApp, limit: int, large: Mapping[str, int], room: int, seconds: float, metrics: Metrics
    ) -> None:
        """`large`: the limits of routes that take more; `room`: bytes that these hold together."""
        self.app = app
        self.limit = limit
        self.large = large
        self.room = room
        self.seconds = seconds
        self.metrics = metrics
        self.held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit, length, arrived, arriving = self.limit, 0, 0, True
        full: Problem | None = None
        if scope["path"] in self.large:
            limit = self.large[scope["path"]]
            declared = Headers(scope=scope).get("content-length", "")
            length = min(int(declared), limit) if declared.isdecimal() else limit
            if self.held and self.held + length > self.room:  # one that is alone is always taken
                self.metrics.rejected.labels("room_bytes").inc()
                full = Problem.busy(f"no room for {length} bytes more; come again in {self.WAIT} s", self.WAIT)
                length = 0
        until = asyncio.get_running_loop().time() + self.seconds

        async def bounded() -> Message:
            nonlocal arrived, arriving
            try:
                async with asyncio.timeout_at(until if arriving else None):
                    message = await receive()
            except TimeoutError:
                late = f"the body did not arrive within {self.seconds:g} s"
                raise Problem(408, late, headers={"Connection": "close"}) from None
            arriving = arriving and bool(message.get("more_body"))
            arrived += len(message.get("body", b""))
            problem = full or Problem(413, f"the body is longer than {limit} bytes")
            if full or arrived > limit:
                if message.get("more_body"):
                    await self.drop(receive)
                problem.headers["Connection"] = "close"
                raise problem
            return message

        self.hold(length)
        try:
            await self.app(scope, bounded, send)
        finally:
            self.hold(-length)

    def hold(self, length: int) -> None:
        self.held += length
        self.metrics.held.set(self.held)

    async def drop(self, receive: Receive) -> None:
        dropped = 0
        try:
            async with asyncio.timeout(self.DROPPING_SECONDS):
                while dropped <= self.DROPPED:
                    message = await receive()
                    dropped += len(message.get("body", b""))
                    if message["type"] == "http.disconnect" or not message.get("more_body"):
                        return
        except TimeoutError:
            return
