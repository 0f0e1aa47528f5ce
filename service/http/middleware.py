"""ASGI middleware around every request: request id, security headers, header and body limits, metrics, access log."""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Mapping
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.auth.auth import CHALLENGE, Auth, bearer_token
from service.http.body_budget import BodyBudget, BodyReservation
from service.logging import exception_location
from service.metrics import Metrics
from service.problems import CLIENT_CLOSED_REQUEST, RETRYABLE_STATUSES, Problem, problem_response
from service.settings import Settings

log = logging.getLogger("interlinear.service")
access_log = logging.getLogger("interlinear.access")

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
ABSOLUTE = re.compile(rb"https?://([^/]*)", re.IGNORECASE)  # what precedes the path of a target in absolute form
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

CLOSE_CONNECTION = {"Connection": "close"}
PROBES = ("/health", "/health/live", "/health/ready")  # answered above the limit of connections, too

SECURITY_HEADERS = {
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


class RequestMiddleware:
    """Assigns each request an id, adds security headers to its answer, and records metrics and the access log.

    An unexpected exception becomes a 500 with the request's id. The log names the code location, never a user's text.
    The access log has a request's route, not its path, and its key's name, not the key.
    """

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics, auth: Auth) -> None:
        self.app = app
        self.header_fields = settings.header_fields
        self.header_bytes = settings.header_bytes
        self.metrics = metrics
        self.auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        to_origin_form(scope)
        value = Headers(scope=scope).get("x-request-id", "")
        request_id = value if REQUEST_ID.fullmatch(value) else uuid.uuid4().hex
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        above_limit = state.get("above_limit", False)  # set by `service.http.server`
        started, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers.setdefault("Cache-Control", "no-store")
                closing = CLOSE_CONNECTION if above_limit else {}
                for name, value in (SECURITY_HEADERS | state.get("limits", {}) | closing).items():
                    headers[name] = value
            await send(message)

        try:
            if above_limit and scope["path"] not in PROBES:
                self.metrics.rejected.labels("connections").inc()
                await problem_response(too_many_connections(), request_id)(scope, receive, answer)
            elif problem := ambiguous_framing(scope):
                self.metrics.rejected.labels("http").inc()
                await problem_response(problem, request_id)(scope, receive, answer)
            elif problem := self.too_large(scope):
                self.metrics.rejected.labels("headers").inc()
                await problem_response(problem, request_id)(scope, receive, answer)
            else:
                await self.app(scope, receive, answer)
        except Exception as error:
            problem = internal_error(error, request_id)
            if status:
                raise  # part of the answer has been sent, so the connection can only be aborted
            await problem_response(problem, request_id)(scope, receive, answer)
        finally:
            if status in RETRYABLE_STATUSES:
                self.auth.refund(state)
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in METHODS else "other"
            seconds = time.perf_counter() - started
            self.metrics.requests.labels(route, method, str(status)).inc()
            self.metrics.request_seconds.labels(route).observe(seconds)
            if access_log.isEnabledFor(logging.INFO):
                fields = {"method": method, "route": route, "status": status, "seconds": round(seconds, 4)}
                fields |= {"key": state.get("key_name"), "request_id": request_id}
                access_log.info("%s %s %s", method, route, status, extra=fields)

    def too_large(self, scope: Scope) -> Problem | None:
        """A 431 for headers that the server accepts: too many short ones, or long ones that arrive at once."""
        if len(scope["headers"]) > self.header_fields:
            return Problem(431, f"there are more than {self.header_fields} headers", headers=CLOSE_CONNECTION)
        length = len(scope["path"]) + len(scope["query_string"]) + sum(len(n) + len(v) for n, v in scope["headers"])
        if length > self.header_bytes:
            return Problem(431, f"the headers are longer than {self.header_bytes} bytes", headers=CLOSE_CONNECTION)
        return None


def too_many_connections() -> Problem:
    """The error of a connection above the limit."""
    return Problem.unavailable("there are too many connections")


def to_origin_form(scope: Scope) -> None:
    """Serve `GET http://host/path` as `GET /path` of that host, which every server has to accept (RFC 9112, 3.2.2)."""
    if found := ABSOLUTE.match(scope.get("raw_path") or b""):
        headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
        scope["headers"] = [(b"host", found[1]), *headers]
        scope["raw_path"] = scope["raw_path"][found.end() :] or b"/"
        scope["path"] = unquote(scope["raw_path"].decode("ascii"))


def ambiguous_framing(scope: Scope) -> Problem | None:
    """A 400 for a body whose length is stated in two ways (RFC 9112, 6.1 and 6.3), which allows request smuggling: a
    server in between may split the bytes into other requests. The connection is closed, and nothing after the request
    is read."""
    names = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" not in names:
        return None
    if b"content-length" in names:
        return Problem(400, "a request has Content-Length or Transfer-Encoding, not both", headers=CLOSE_CONNECTION)
    if scope["http_version"] == "1.0":
        return Problem(400, "a request of HTTP/1.0 has no Transfer-Encoding", headers=CLOSE_CONNECTION)
    return None


def internal_error(error: BaseException, request_id: str) -> Problem:
    """A 500 for an unexpected exception; logs the code location."""
    log.error("request %s failed: %s", request_id, exception_location(error), extra={"request_id": request_id})
    return Problem(500, "the service made a mistake; its log has this request's id")


class BodyLimitMiddleware:
    """Limits request bodies while they arrive. Refused are a body over its route's limit, one that is too slow, and one
    that does not fit in the memory budget (`BodyBudget`).

    If a key is required, a caller without one in a header may send no more than a text's body. These bodies have a
    small budget of their own until the key is found in the body.

    The rest of a long body is read and discarded, up to a bound: a client that is still writing would otherwise not
    read the answer.
    """

    MAX_DRAINED_BYTES = 64 * 2**20
    DRAIN_TIMEOUT = 10.0
    RETRY_AFTER = 2  # seconds within which most requests with a picture are answered
    UNAUTHENTICATED_DIVISOR = 8  # this fraction of the budget is for callers whose key is not known yet

    def __init__(
        self,
        app: ASGIApp,
        limit: int,
        larger_limits: Mapping[str, int],
        budget_bytes: int,
        seconds: float,
        key_required: bool,
        metrics: Metrics,
    ) -> None:
        """`larger_limits`: limits in bytes of the routes that accept more than `limit`. `budget_bytes`: bytes that all
        bodies may hold together."""
        self.app = app
        self.limit = limit
        self.larger_limits = larger_limits
        self.seconds = seconds
        self.key_required = key_required
        self.metrics = metrics
        self.authenticated = BodyBudget(budget_bytes, metrics)
        self.unauthenticated = BodyBudget(budget_bytes // self.UNAUTHENTICATED_DIVISOR, metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        clock = asyncio.get_running_loop().time
        until = clock() + self.seconds
        unauthenticated = self.key_required and bearer_token(Headers(scope=scope)) is None
        limit = self.limit if unauthenticated else self.larger_limits.get(scope["path"], self.limit)
        budget = self.unauthenticated if unauthenticated else self.authenticated
        body = scope["state"]["body"] = BodyReservation(budget, self.authenticated, limit / self.seconds, clock())
        arrived, complete, draining = 0, False, False

        async def bounded_receive() -> Message:
            nonlocal arrived, complete, draining
            try:
                async with asyncio.timeout_at(None if complete else until) as body.timeout:
                    message = await receive()
            except TimeoutError:
                raise self.timeout_problem(body) from None
            finally:
                body.timeout = None
            if body.evicted:
                raise self.timeout_problem(body)
            if message["type"] == "http.disconnect" and not complete:
                raise Problem(CLIENT_CLOSED_REQUEST, "the caller has gone before the body was complete")
            arrived += len(message.get("body", b""))
            problem = None
            if arrived > limit:
                problem = self.too_long(scope["path"], limit)
            elif not complete and not body.reserve(len(message.get("body", b"")), clock()):
                self.metrics.rejected.labels("room_bytes").inc()
                problem = Problem.too_many_requests(
                    f"no room for more of the body; come again in {self.RETRY_AFTER} s", self.RETRY_AFTER
                )
                problem.headers |= CLOSE_CONNECTION
            if problem:
                body.shrink_to(0)
                draining = bool(message.get("more_body"))
                raise problem
            complete = not message.get("more_body")
            if complete:
                body.complete()
            return message

        async def answer(message: Message) -> None:
            nonlocal draining
            if draining or (body.refused and not complete):
                draining = body.refused = False
                await self.drain(receive)
            await send(message)

        try:
            await self.app(scope, bounded_receive, answer)
        finally:
            body.shrink_to(0)

    def timeout_problem(self, body: BodyReservation) -> Problem:
        self.metrics.rejected.labels("slow_body").inc()
        detail = f"the body did not arrive within {self.seconds:g} s"
        if body.evicted:
            detail = "the body came too slowly while others waited for its room; send it again"
        return Problem(408, detail, headers=CLOSE_CONNECTION)

    def too_long(self, path: str, limit: int) -> Problem:
        if limit < self.larger_limits.get(path, limit):
            self.metrics.rejected.labels("no_key").inc()
            detail = f"with a body longer than {limit} bytes the key is needed in Authorization: Bearer"
            return Problem(401, detail, headers=CLOSE_CONNECTION | {"WWW-Authenticate": CHALLENGE})
        self.metrics.rejected.labels("body").inc()
        return Problem(413, f"the body is longer than {limit} bytes", headers=CLOSE_CONNECTION)

    async def drain(self, receive: Receive) -> None:
        drained = 0
        try:
            async with asyncio.timeout(self.DRAIN_TIMEOUT):
                while drained <= self.MAX_DRAINED_BYTES:
                    message = await receive()
                    drained += len(message.get("body", b""))
                    if message["type"] == "http.disconnect" or not message.get("more_body"):
                        return
        except TimeoutError:
            return
