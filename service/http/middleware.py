"""Around every request, in plain ASGI: its id, security headers, limits on its headers and body, what is counted."""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.auth.auth import CHALLENGE, Auth, bearer_token
from service.http.body_budget import BodyBudget, BodyReservation
from service.logging import exception_location
from service.metrics import Metrics
from service.problems import CLIENT_CLOSED_REQUEST, Problem, problem_response
from service.settings import Settings

log = logging.getLogger("interlinear.service")
access_log = logging.getLogger("interlinear.access")

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

RETRYABLE_STATUSES = frozenset({429, 503})  # answers that ask to come again: such a request is not counted to a quota
CLOSE_CONNECTION = {"Connection": "close"}

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
    """Gives a request its id, its answer the security headers, and the metrics their figures.

    An exception that nobody expected becomes a 500 with the request's id; the log has its place, never a user's text.
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
        value = Headers(scope=scope).get("x-request-id", "")
        request_id = value if REQUEST_ID.fullmatch(value) else uuid.uuid4().hex
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
                for name, value in (SECURITY_HEADERS | state.get("limits", {})).items():
                    headers[name] = value
            await send(message)

        try:
            if problem := ambiguous_framing(scope):
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
                raise  # the answer has begun: all that is left is to break it off
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
        """A 431 for what the server lets through: many short headers, and long ones that arrive all at once."""
        if len(scope["headers"]) > self.header_fields:
            return Problem(431, f"there are more than {self.header_fields} headers", headers=CLOSE_CONNECTION)
        length = len(scope["path"]) + len(scope["query_string"]) + sum(len(n) + len(v) for n, v in scope["headers"])
        if length > self.header_bytes:
            return Problem(431, f"the headers are longer than {self.header_bytes} bytes", headers=CLOSE_CONNECTION)
        return None


def ambiguous_framing(scope: Scope) -> Problem | None:
    """A 400 for a body whose end is said in two ways (RFC 9112, 6.1 and 6.3), so that another server in between may
    have seen another request behind it than this one does; the connection is closed, and nothing behind it is read."""
    named = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" not in named:
        return None
    if b"content-length" in named:
        return Problem(400, "a request has Content-Length or Transfer-Encoding, not both", headers=CLOSE_CONNECTION)
    if scope["http_version"] == "1.0":
        return Problem(400, "a request of HTTP/1.0 has no Transfer-Encoding", headers=CLOSE_CONNECTION)
    return None


def internal_error(error: BaseException, request_id: str) -> Problem:
    """A 500 for what nobody expected, of which the log has the place."""
    log.error("request %s failed: %s", request_id, exception_location(error), extra={"request_id": request_id})
    return Problem(500, "the service made a mistake; its log has this request's id")


class BodyLimitMiddleware:
    """Bounds request bodies while they arrive: one over its route's limit is refused, one that is too slow, and one for
    which there is no room beside the others that are held (`BodyBudget`).

    Where a key is required, a caller who has sent none in a header may send no more than a text's body, and those share
    a small budget of their own until their key is found in the body.

    The rest of a long one is read and dropped, up to a bound: a client that still writes would otherwise not read the
    answer.
    """

    MAX_DRAINED_BYTES = 64 * 2**20
    DRAIN_TIMEOUT = 10.0
    RETRY_AFTER = 2  # seconds, after which an answer to a picture is mostly there
    UNAUTHENTICATED_DIVISOR = 8  # of the room, for callers who may turn out to have no key

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
        """`larger_limits`: the limits of routes that take more; `budget_bytes`: bytes that all hold together."""
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
            if draining:
                draining = False
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
