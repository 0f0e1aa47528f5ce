"""Around every request, in plain ASGI: its id, security headers, limits on its headers and body, what is counted."""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.auth.auth import NO_KEY, Gate, bearer
from service.http.body_budget import BodyBudget, HeldBody
from service.logging import place_of
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
            if problem := ambiguous(scope):
                self.metrics.rejected.labels("http").inc()
                await response(problem, request_id)(scope, receive, answer)
            elif problem := self.too_large(scope):
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


def ambiguous(scope: Scope) -> Problem | None:
    """A 400 for a body whose end is said in two ways (RFC 9112, 6.1 and 6.3), so that another server in between may
    have seen another request behind it than this one does; the connection is closed, and nothing behind it is read."""
    named = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" not in named:
        return None
    if b"content-length" in named:
        return Problem(400, "a request has Content-Length or Transfer-Encoding, not both", headers=LAST)
    if scope["http_version"] == "1.0":
        return Problem(400, "a request of HTTP/1.0 has no Transfer-Encoding", headers=LAST)
    return None


def failed(error: BaseException, request_id: str) -> Problem:
    """A 500 for what nobody expected, of which the log has the place."""
    log.error("request %s failed: %s", request_id, place_of(error), extra={"request_id": request_id})
    return Problem(500, "the service made a mistake; its log has this request's id")


class BodyLimit:
    """Bounds request bodies while they arrive: one over its route's limit is refused, one that is too slow, and one for
    which there is no room beside the others that are held (`BodyBudget`).

    Where a key is required, a caller who has sent none in a header may send no more than a text's body, and those share
    a small budget of their own until their key is found in the body.

    The rest of a long one is read and dropped, up to a bound: a client that still writes would otherwise not read the
    answer.
    """

    DROPPED = 64 * 2**20
    DROPPING_SECONDS = 10.0
    WAIT = 2  # seconds, after which an answer to a picture is mostly there
    UNKNOWN_SHARE = 8  # of the room, for callers who may turn out to have no key

    def __init__(
        self,
        app: ASGIApp,
        limit: int,
        large: Mapping[str, int],
        room: int,
        seconds: float,
        key_required: bool,
        metrics: Metrics,
    ) -> None:
        """`large`: the limits of routes that take more; `room`: bytes that all hold together."""
        self.app = app
        self.limit = limit
        self.large = large
        self.seconds = seconds
        self.key_required = key_required
        self.metrics = metrics
        self.known = BodyBudget(room, metrics)
        self.unknown = BodyBudget(room // self.UNKNOWN_SHARE, metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        clock = asyncio.get_running_loop().time
        until = clock() + self.seconds
        unknown = self.key_required and bearer(Headers(scope=scope)) is None
        limit = self.limit if unknown else self.large.get(scope["path"], self.limit)
        budget = self.unknown if unknown else self.known
        body = scope["state"]["body"] = HeldBody(budget, self.known, limit / self.seconds, clock())
        arrived, complete, dropping = 0, False, False

        async def bounded() -> Message:
            nonlocal arrived, complete, dropping
            try:
                async with asyncio.timeout_at(None if complete else until) as body.timeout:
                    message = await receive()
            except TimeoutError:
                raise self.late(body) from None
            finally:
                body.timeout = None
            if body.ended:
                raise self.late(body)
            if message["type"] == "http.disconnect" and not complete:
                raise Problem(CLIENT_GONE, "the caller has gone before the body was complete")
            arrived += len(message.get("body", b""))
            problem = None
            if arrived > limit:
                problem = self.too_long(scope["path"], limit)
            elif not complete and not body.grow(len(message.get("body", b"")), clock()):
                self.metrics.rejected.labels("room_bytes").inc()
                problem = Problem.busy(f"no room for more of the body; come again in {self.WAIT} s", self.WAIT)
                problem.headers |= LAST
            if problem:
                body.keep(0)
                dropping = bool(message.get("more_body"))
                raise problem
            complete = not message.get("more_body")
            if complete:
                body.complete()
            return message

        async def answer(message: Message) -> None:
            nonlocal dropping
            if dropping:
                dropping = False
                await self.drop(receive)
            await send(message)

        try:
            await self.app(scope, bounded, answer)
        finally:
            body.keep(0)

    def late(self, body: HeldBody) -> Problem:
        self.metrics.rejected.labels("slow_body").inc()
        said = f"the body did not arrive within {self.seconds:g} s"
        if body.ended:
            said = "the body came too slowly while others waited for its room; send it again"
        return Problem(408, said, headers=LAST)

    def too_long(self, path: str, limit: int) -> Problem:
        if limit < self.large.get(path, limit):
            self.metrics.rejected.labels("no_key").inc()
            said = f"with a body longer than {limit} bytes the key is needed in Authorization: Bearer"
            return Problem(401, said, headers=LAST | {"WWW-Authenticate": NO_KEY})
        self.metrics.rejected.labels("body").inc()
        return Problem(413, f"the body is longer than {limit} bytes", headers=LAST)

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
