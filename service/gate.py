"""Who may ask, and how often: keys, quotas and rates, looked at before any work is done for a request."""

import ipaddress
import math
import time
from datetime import UTC, datetime
from typing import NoReturn

from fastapi import Request

from service.keys import Key, KeyFile, KeyRing
from service.metrics import Metrics
from service.problems import Problem
from service.rates import Buckets, Rate
from service.settings import Settings

DAY_SECONDS = 86_400
NO_KEY = 'Bearer realm="interlinear"'
BAD_KEY = f'{NO_KEY}, error="invalid_token"'
MOST_WAIT = 3600  # seconds that Retry-After says at most for a rate


class Gate:
    """Lets a request in, or refuses it with a Problem: 401 and 403 for its key, 429 for its quota or rate."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        """Read the keys, where there are any. Raises KeyFileError."""
        self.settings = settings
        self.metrics = metrics
        self.keys = KeyRing(KeyFile(settings.key_file)) if settings.key_file else None
        self._by_key, self._by_address = Buckets(), Buckets()

    def start(self) -> None:
        if self.keys:
            self.keys.start()

    def stop(self) -> None:
        if self.keys:
            self.keys.stop()

    def admit(self, request: Request, given: str | None) -> None:
        """Let a request for work in that came with this key, or with none; its answer will say what is left to it."""
        headers = request.state.limits = {}
        try:
            key = self._known(given, required=self.settings.require_key)
        except Problem:
            self._take(self._by_address, address(request), self._rate(None), headers)  # guessing is limited too
            raise
        if key is None:
            self._take(self._by_address, address(request), self._rate(None), headers)
            return
        request.state.key_name = key.name
        self._take(self._by_key, key.id, self._rate(key), headers)
        self._count(request, key, headers)

    def check(self, request: Request) -> None:
        """Let a request in that is for those who run the service, and does no work: only its key is looked at."""
        if key := self._known(bearer(request), required=True):
            request.state.key_name = key.name

    def give_back(self, request_state: dict[str, object]) -> None:
        """Undo the count of a request that was let in and could not be served."""
        key = request_state.pop("counted", None)
        if self.keys and isinstance(key, Key):
            self.keys.give_back(key)

    def _known(self, given: str | None, required: bool) -> Key | None:
        """The key's record. A service without keys takes any key for none, as LibreTranslate's clients may send one."""
        if self.keys is None:
            return None
        if not given:
            if required:
                self._refuse("no_key", 401, "a key is needed, in api_key or Authorization: Bearer", NO_KEY)
            return None
        key = self.keys.find(given)
        if key is None:
            self._refuse("bad_key", 401, "there is no such key", BAD_KEY)
        match key.state(datetime.now(UTC)):
            case "expired":
                self._refuse("expired", 401, "the key has expired", BAD_KEY)
            case "revoked":
                self._refuse("revoked", 403, "the key has been revoked")
        return key

    def _rate(self, key: Key | None) -> Rate | None:
        per_second = key.rate if key and key.rate else self.settings.rate
        return Rate.of(per_second, self.settings.burst) if per_second else None

    def _take(self, buckets: Buckets, caller: str, rate: Rate | None, headers: dict[str, str]) -> None:
        if rate is None:
            return
        taken = buckets.take(caller, rate, time.monotonic())
        seconds = math.ceil(taken.seconds)
        _say(headers, rate.policy, f'"rate";r={taken.left};t={seconds}')
        if not taken.allowed:
            self.metrics.rejected.labels("rate").inc()
            wait = min(max(seconds, 1), MOST_WAIT)
            raise Problem.busy(f"more requests than {rate.per_second:g} a second; come again in {wait} s", wait)

    def _count(self, request: Request, key: Key, headers: dict[str, str]) -> None:
        assert self.keys
        counted = self.keys.count(key)
        if counted:
            request.scope["state"]["counted"] = key
        if key.quota is None:
            return
        midnight = DAY_SECONDS - int(time.time()) % DAY_SECONDS  # seconds until the next day, by UTC
        _say(headers, f'"day";q={key.quota};w={DAY_SECONDS}', f'"day";r={self.keys.left(key)};t={midnight}')
        if not counted:
            self.metrics.rejected.labels("quota").inc()
            raise Problem.busy(f"the key's {key.quota} requests of this day are used up", midnight)

    def _refuse(self, reason: str, status: int, detail: str, challenge: str | None = None) -> NoReturn:
        self.metrics.rejected.labels(reason).inc()
        raise Problem(status, detail, headers={"WWW-Authenticate": challenge} if challenge else None)


def bearer(request: Request) -> str | None:
    """The key in `Authorization: Bearer`; other schemes are somebody else's."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else None


def address(request: Request) -> str:
    """Whom a rate without a key belongs to: an IPv4 address, or an IPv6 network of 64 bits, which one person has.

    A peer without an address, and what a proxy writes that is none, share one.
    """
    try:
        peer = ipaddress.ip_address(request.client.host if request.client else "")
    except ValueError:
        return "none"
    if isinstance(peer, ipaddress.IPv6Address):
        return str(peer.ipv4_mapped or ipaddress.ip_network((int(peer), 64), strict=False))
    return str(peer)


def _say(headers: dict[str, str], policy: str, state: str) -> None:
    """Add a limit to the headers of draft-ietf-httpapi-ratelimit-headers: what it is, and what is left of it."""
    for name, value in (("RateLimit-Policy", policy), ("RateLimit", state)):
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
