"""Authentication and rate limiting, applied before a request does any work."""

import ipaddress
import math
import time
from datetime import UTC, datetime
from typing import NoReturn

from fastapi import Request
from starlette.datastructures import Headers

from service.auth.key_cache import KeyCache
from service.auth.key_store import ApiKey, KeyStore
from service.auth.rate_limits import RateLimit, RateLimiter, RateLimitResult
from service.auth.scopes import Scope
from service.metrics import Metrics
from service.problems import Problem
from service.settings import Settings

DAY_SECONDS = 86_400
CHALLENGE = 'Bearer realm="interlinear"'
INVALID_KEY_CHALLENGE = f'{CHALLENGE}, error="invalid_token"'
# LibreTranslate's sentences, for its clients.
KEY_NEEDED = "Please contact the server operator to get an API key"
INVALID_KEY = "Invalid API key"
KEY_IN_ADDRESS = "must not be in the address, which proxies log: send it in the body, or as Authorization: Bearer"
MAX_RETRY_AFTER = 3600  # upper bound of Retry-After for a rate, in seconds


class Auth:
    """Admits a request, or rejects it with a Problem: 401 or 403 for its key, 429 for its quota or rate."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        """Read the keys if a key store is configured. Raises KeyFileError."""
        self.settings = settings
        self.metrics = metrics
        shared = settings.key_store is not None
        self._key_limiter, self._address_limiter = RateLimiter(shared=shared), RateLimiter(shared=shared)
        self.keys: KeyCache | None = None
        if settings.key_store:
            self.keys = KeyCache(
                KeyStore(settings.key_store), {"key": self._key_limiter, "address": self._address_limiter}
            )

    def start(self) -> None:
        if self.keys:
            self.keys.start()

    def stop(self) -> None:
        if self.keys:
            self.keys.stop()

    def authenticate_headers(self, request: Request) -> bool:
        """Authenticate a request for work before its body is read: by the key in its headers or, if the service has
        no keys, by its address.

        Returns False if the key may still come in the body; then only the rate of its address is checked.
        """
        token = bearer_token(request.headers)
        if token or self.keys is None or has_key_in_address(request):
            self.authenticate(request, token)
            return True
        headers = request.state.limits = {}
        if rate := self._rate(None):
            self._apply_rate(self._address_limiter.peek(client_address(request), rate, time.monotonic()), rate, headers)
        return False

    def authenticate(self, request: Request, token: str | None, cost: int = 1) -> None:
        """Authenticate a request for work with this key, or with none; the response reports the remaining limits.

        `cost`: units charged to the caller's rate and quota.
        """
        headers = request.state.limits = {}
        key = self._authenticated_key(request, token, self.settings.require_key, cost)
        request.state.caller = key.id if key else client_address(request)  # its share of slots and queue
        request.state.key, request.state.charged = key, cost
        if key is None:
            self._take_from_address(request, cost)
            return
        request.state.key_name = key.name
        self._check_scope(key, Scope.TRANSLATE)
        self._take(self._key_limiter, key.id, self._rate(key), headers, cost)
        self._count(request, key, headers, cost)

    def charge(self, request: Request, texts: int) -> None:
        """Charge a request, which was admitted as one text, for `texts` texts.

        Raises Problem 429 if the rest of its key's quota is too small. Units beyond the rate are taken all the same,
        and delay the caller's next requests.
        """
        state = request.state
        more, key = texts - state.charged, state.key
        if more <= 0:
            return
        state.charged, state.limits = texts, {}
        if rate := self._rate(key):
            limiter, caller = (self._key_limiter, key.id) if key else (self._address_limiter, client_address(request))
            result = limiter.take(caller, rate, time.monotonic(), more, needed=0)
            self._apply_rate(result, rate, state.limits)
        if key:
            self._count(request, key, state.limits, more)

    def charge_rejected(self, request: Request, problem: Problem) -> None:
        """Charge a request to its address if its headers did not authenticate it and its body could not be read.

        A caller who needs a key and sent none gets the error about the key, not the one about the body.
        """
        if problem.status in (400, 415):
            self.authenticate(request, None)
        elif problem.status != 429:
            self._take_from_address(request)

    def require_scope(self, request: Request, scope: Scope) -> None:
        """Authorize an administrative request, which does no work: only its key is checked."""
        request.state.limits = {}
        if key := self._authenticated_key(request, bearer_token(request.headers), required=True):
            request.state.key_name = key.name
            self._check_scope(key, scope)

    def identify(self, request: Request) -> ApiKey | None:
        """The key in the headers of a request for the results of earlier work; None without one. Nothing is charged.
        Raises Problem."""
        request.state.limits = {}
        key = self._authenticated_key(request, bearer_token(request.headers), self.settings.require_key)
        if key:
            request.state.key_name = key.name
            self._check_scope(key, Scope.TRANSLATE)
        return key

    def has_scope(self, request: Request, scope: Scope) -> bool:
        """Whether a request that needs no key came with one that has this scope. An invalid key is rejected."""
        request.state.limits = {}
        key = self._authenticated_key(request, bearer_token(request.headers), required=False)
        if key:
            request.state.key_name = key.name
        return key is not None and scope in key.scopes

    def refund(self, request_state: dict[str, object]) -> None:
        """Undo the charge of a request that was admitted but could not be served."""
        match request_state.pop("counted", None):
            case (ApiKey() as key, int(cost)) if self.keys:
                self.keys.refund(key, cost)

    def _authenticated_key(self, request: Request, token: str | None, required: bool, cost: int = 1) -> ApiKey | None:
        """The record of the key. An invalid key, or one in the URL, is charged to the address, which limits guessing
        too."""
        try:
            if has_key_in_address(request):
                raise Problem.in_field("api_key", KEY_IN_ADDRESS)
            return self._find_key(token, required)
        except Problem:
            self._take_from_address(request, cost)
            raise

    def _find_key(self, token: str | None, required: bool) -> ApiKey | None:
        """The record of the key. A service without keys ignores any key, because LibreTranslate's clients may send
        one."""
        if self.keys is None:
            return None
        if not token:
            if required:
                self._reject(
                    "no_key", 401, "a key is needed, in api_key or Authorization: Bearer", CHALLENGE, KEY_NEEDED
                )
            return None
        key = self.keys.find(token)
        if key is None:
            self._reject("bad_key", 401, "there is no such key", INVALID_KEY_CHALLENGE, INVALID_KEY)
        match key.state(datetime.now(UTC)):
            case "expired":
                self._reject("expired", 401, "the key has expired", INVALID_KEY_CHALLENGE)
            case "revoked":
                self._reject("revoked", 403, "the key has been revoked")
        return key

    def _check_scope(self, key: ApiKey, scope: Scope) -> None:
        if scope not in key.scopes:
            key_scopes = ", ".join(key_scope for key_scope in Scope if key_scope in key.scopes) or "nothing"
            self._reject("scope", 403, f"the key is for {key_scopes}, and this needs one with the scope {scope}")

    def _rate(self, key: ApiKey | None) -> RateLimit | None:
        per_second = key.rate if key and key.rate else self.settings.rate
        return RateLimit.of(per_second, self.settings.burst) if per_second else None

    def _take(
        self, limiter: RateLimiter, caller: str, rate: RateLimit | None, headers: dict[str, str], cost: int = 1
    ) -> None:
        if rate:
            self._apply_rate(limiter.take(caller, rate, time.monotonic(), cost), rate, headers)

    def _take_from_address(self, request: Request, cost: int = 1) -> None:
        """Charge a request to the rate of its address."""
        self._take(self._address_limiter, client_address(request), self._rate(None), request.state.limits, cost)

    def _apply_rate(self, result: RateLimitResult, rate: RateLimit, headers: dict[str, str]) -> None:
        """Report the remaining units of a rate; raises Problem if it is exhausted."""
        seconds = math.ceil(result.seconds)
        _add_rate_limit_headers(headers, rate.policy, f'"rate";r={result.left};t={seconds}')
        if not result.allowed:
            self.metrics.rejected.labels("rate").inc()
            wait = min(max(seconds, 1), MAX_RETRY_AFTER)
            raise Problem.too_many_requests(
                f"more than {rate.per_second:g} texts a second; come again in {wait} s", wait
            )

    def _count(self, request: Request, key: ApiKey, headers: dict[str, str], cost: int) -> None:
        assert self.keys
        counted = self.keys.count(key, cost)
        if counted:
            _, counted_before = request.scope["state"].get("counted", (key, 0))
            request.scope["state"]["counted"] = (key, counted_before + cost)
        if key.quota is None:
            return
        midnight = DAY_SECONDS - int(time.time()) % DAY_SECONDS  # seconds until the next UTC day
        _add_rate_limit_headers(
            headers, f'"day";q={key.quota};w={DAY_SECONDS}', f'"day";r={self.keys.left(key)};t={midnight}'
        )
        if not counted:
            self.metrics.rejected.labels("quota").inc()
            raise Problem.too_many_requests(
                f"the key's {key.quota} texts of this day are used up, or too few are left", midnight
            )

    def _reject(
        self, reason: str, status: int, detail: str, challenge: str | None = None, error: str | None = None
    ) -> NoReturn:
        self.metrics.rejected.labels(reason).inc()
        raise Problem(status, detail, headers={"WWW-Authenticate": challenge} if challenge else None, error=error)


def bearer_token(headers: Headers) -> str | None:
    """The key in `Authorization: Bearer`; other schemes are ignored."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else None


def has_key_in_address(request: Request) -> bool:
    return "api_key" in request.query_params


def client_address(request: Request) -> str:
    """The owner of a rate without a key: an IPv4 address, or an IPv6 /64 network, which one person has.

    Peers without an address, or with an invalid one from a proxy, share one entry.
    """
    try:
        peer = ipaddress.ip_address(request.client.host if request.client else "")
    except ValueError:
        return "none"
    if isinstance(peer, ipaddress.IPv6Address):
        return str(peer.ipv4_mapped or ipaddress.ip_network((int(peer), 64), strict=False))
    return str(peer)


def _add_rate_limit_headers(headers: dict[str, str], policy: str, state: str) -> None:
    """Add a limit and its remainder to the headers of draft-ietf-httpapi-ratelimit-headers."""
    for name, value in (("RateLimit-Policy", policy), ("RateLimit", state)):
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
