"""Around every request, in plain ASGI: its id, security headers, limits on its headers and body, what is counted."""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.gate import Gate
from service.logs import place_of
from service.metrics import Metrics
from service.problems import CLIENT_GONE, Problem, response
from service.settings import Settings

log = logging.getLogger("interlinear.service")
access = logging.getLogger("interlinear.access")

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

NOT_DONE = frozenset({429, 503})  # answers that ask to come again: such a request is not counted to a quota
LAST = {"Connection": "close"}

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
    The access log has a request's route, not its path, and its key's name, not the key.
    """

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics, gate: Gate) -> None:
        self.app = app
        self.header_fields = settings.header_fields
        self.header_bytes = settings.header_bytes
        self.metrics = metrics
        self.gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        started, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers.setdefault("Cache-Control", "no-store")
                for name, value in (SECURITY | state.get("limits", {})).items():
                    headers[name] = value
            await send(message)

        try:
            if problem := self.too_large(scope):
                self.metrics.rejected.labels("headers").inc()
                await response(problem, request_id)(scope, receive, answer)
            else:
                await self.app(scope, receive, answer)
        except Exception as error:
            problem = failed(error, request_id)
            if status:
                raise  # the answer has begun: all that is left is to break it off
            await response(problem, request_id)(scope, receive, answer)
        finally:
            if status in NOT_DONE:
                self.gate.give_back(state)
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in METHODS else "other"
            seconds = time.perf_counter() - started
            self.metrics.requests.labels(route, method, str(status)).inc()
            self.metrics.request_seconds.labels(route).observe(seconds)
            if access.isEnabledFor(logging.INFO):
                fields = {"method": method, "route": route, "status": status, "seconds": round(seconds, 4)}
                fields |= {"key": state.get("key_name"), "request_id": request_id}
                access.info("%s %s %s", method, route, status, extra=fields)

    def too_large(self, scope: Scope) -> Problem | None:
        """A 431 for what the server lets through: many short headers, and long ones that arrive all at once."""
        if len(scope["headers"]) > self.header_fields:
            return Problem(431, f"there are more than {self.header_fields} headers", headers=LAST)
        length = len(scope["path"]) + len(scope["query_string"]) + sum(len(n) + len(v) for n, v in scope["headers"])
        if length > self.header_bytes:
            return Problem(431, f"the headers are longer than {self.header_bytes} bytes", headers=LAST)
        return None


def failed(error: BaseException, request_id: str) -> Problem:
    """A 500 for what nobody expected, of which the log has the place."""
    log.error("request %s failed: %s", request_id, place_of(error), extra={"request_id": request_id})
    return Problem(500, "the service made a mistake; its log has this request's id")


class BodyLimit:
    """Refuses a body over its route's limit while it arrives, whether its length was declared or not, and one that is
    too slow.

    The routes that take large ones share a room: a body is refused for which there is none beside the others that are
    held.

    The rest of a long one is read and dropped, up to a bound: a client that still writes would otherwise not read the
    answer.
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
        limit, length, arrived, complete = self.limit, 0, 0, False
        full: Problem | None = None
        if scope["path"] in self.large:
            limit = self.large[scope["path"]]
            declared = Headers(scope=scope).get("content-length", "")
            length = min(int(declared), limit) if declared.isdecimal() else limit
            if self.held and self.held + length > self.room:  # one that is alone is always taken
                self.metrics.rejected.labels("room_bytes").inc()
                full = Problem.busy(f"no room for {length} bytes more; come again in {self.WAIT} s", self.WAIT)
                full.headers |= LAST
                length = 0
        until = asyncio.get_running_loop().time() + self.seconds

        async def bounded() -> Message:
            nonlocal arrived, complete
            try:
                async with asyncio.timeout_at(None if complete else until):
                    message = await receive()
            except TimeoutError:
                self.metrics.rejected.labels("slow_body").inc()
                raise Problem(408, f"the body did not arrive within {self.seconds:g} s", headers=LAST) from None
            if message["type"] == "http.disconnect" and not complete:
                raise Problem(CLIENT_GONE, "the caller has gone before the body was complete")
            complete = not message.get("more_body")
            arrived += len(message.get("body", b""))
            if full or arrived > limit:
                if not complete:
                    await self.drop(receive)
                if full:
                    raise full
                self.metrics.rejected.labels("body").inc()
                raise Problem(413, f"the body is longer than {limit} bytes", headers=LAST)
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
