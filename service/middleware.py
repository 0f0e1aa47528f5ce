"""Around every request, in plain ASGI: its id, security headers, the limit on its body, and what is counted."""

import asyncio
import logging
import re
import time
import uuid

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
            log.error("request %s failed: %s", request_id, place_of(error))
            if status:
                raise  # the answer has begun: all that is left is to break it off
            problem = Problem(500, "the service made a mistake; its log has this request's id")
            await response(problem, request_id)(scope, receive, answer)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in METHODS else "other"
            self.metrics.requests.labels(route, method, str(status)).inc()
            self.metrics.request_seconds.labels(route).observe(time.perf_counter() - started)


def place_of(error: BaseException) -> str:
    """Where an exception came from, without its message: that may hold a user's text."""
    frames, trace = [], error.__traceback__
    while trace:
        frames.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__} at {' > '.join(frames[-4:])}"


class BodyLimit:
    """Refuses a body over the limit while it arrives, whether its length was declared or not.

    The rest is read and dropped, up to a bound: a client that still writes would otherwise not read the answer.
    """

    DROPPED = 64 * 2**20
    DROPPING_SECONDS = 10.0

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app = app
        self.limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        arrived = 0

        async def bounded() -> Message:
            nonlocal arrived
            message = await receive()
            arrived += len(message.get("body", b""))
            if arrived > self.limit:
                if message.get("more_body"):
                    await self.drop(receive)
                raise Problem(413, f"the body is longer than {self.limit} bytes", headers={"Connection": "close"})
            return message

        await self.app(scope, bounded, send)

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
