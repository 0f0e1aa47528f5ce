"""The load generator of the serving benchmarks: callers who wait for their answers, and requests at random times.

Latency in an open loop is measured from the time at which a request was due, not from when it was sent. If a service
stalls for a second, all requests of that second are late; a generator that waited for answers would miss this
(coordinated omission).
"""

import asyncio
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

import aiohttp

REQUEST_TIMEOUT = 60.0  # seconds from a request's due time until it counts as failed
KEEP_ALIVE_SECONDS = 2.0  # less than uvicorn's 5, else the server may close a connection that is just being reused
IN_FLIGHT = 500  # requests; others wait in the generator, which counts as latency
LATE = 0.01  # p99 of the seconds from due to sent, from which on a warning is printed
MAX_GROWTH_SHARE = 0.05  # growth of requests in flight, as a share of all requests, up to which a service keeps up
MAX_GROWTH = 5  # growth that is always allowed, in requests


@dataclass(frozen=True)
class Target:
    """Where the load goes: `bodies` are posted to the URL."""

    url: str
    bodies: Sequence[bytes]
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request. `due`: seconds since the start of the measured time, negative in the warm-up; `late`: seconds from
    due to sent; `latency`: seconds from due to the complete answer or the failure."""

    due: float
    late: float
    latency: float
    problem: str = ""  # HTTP status and its name, or the error; empty for an answer of status 200


@dataclass(frozen=True)
class LoadResult:
    """Results over the requests that were due in the measured time; latencies in milliseconds, of the right answers.

    `rate`: right answers a second; `goodput`: those within the limit; `keeps_up`: whether requests in flight did not
    grow much from beginning to end.
    """

    requests: int
    failures: Mapping[str, int]
    rate: float
    goodput: float
    p50: float
    p99: float
    longest: float
    keeps_up: bool

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

    def holds(self, limit_ms: float) -> bool:
        """Whether nothing failed, p99 is within the limit, and the service kept up."""
        return self.keeps_up and not self.failed and self.p99 <= limit_ms


def percentile(ranked: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the smallest value that is not less than this share of the sorted values; NaN if
    there are none."""
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)] if ranked else math.nan


def summarize(records: Sequence[RequestRecord], seconds: float, limit_ms: float = math.inf) -> LoadResult:
    """The results of a load that was measured for so many seconds. `records` includes the warm-up."""
    measured = [record for record in records if record.due >= 0]
    right = sorted(1000 * record.latency for record in measured if not record.problem)
    growth = in_flight(records, seconds) - in_flight(records, 0.0)
    return LoadResult(
        requests=len(measured),
        failures=Counter(record.problem for record in measured if record.problem),
        rate=len(right) / seconds,
        goodput=sum(latency <= limit_ms for latency in right) / seconds,
        p50=percentile(right, 0.5),
        p99=percentile(right, 0.99),
        longest=percentile(right, 1.0),
        keeps_up=growth <= max(MAX_GROWTH, MAX_GROWTH_SHARE * len(measured)),
    )


def in_flight(records: Sequence[RequestRecord], time: float) -> int:
    """Number of requests that were due and unanswered at this time, in seconds of the measured time."""
    return sum(record.due <= time < record.due + record.latency for record in records)


def lateness(records: Sequence[RequestRecord]) -> str:
    """A warning if the generator itself was late, else an empty string."""
    late = percentile(sorted(record.late for record in records), 0.99)
    return f"requests were sent late, p99 {1000 * late:.0f} ms: that is in the latencies" if late > LATE else ""


def poisson_arrivals(rate: float, seconds: float, draw: random.Random) -> Iterator[float]:
    """Arrival times of a Poisson process: exponentially distributed gaps with a mean of 1 / rate."""
    time = draw.expovariate(rate)
    while time < seconds:
        yield time
        time += draw.expovariate(rate)


def open_loop(target: Target, rate: float, seconds: float, warm_up: float = 0.0, seed: int = 1) -> list[RequestRecord]:
    """Send bodies in random order at random times, `rate` a second, and wait for every answer. The same seed gives the
    same times and order. Returns the requests in the order of their answers."""

    async def send(client: "_Client") -> None:
        draw, order = random.Random(seed), random.Random(seed + 1)
        async with asyncio.TaskGroup() as requests:
            for arrival in poisson_arrivals(rate, warm_up + seconds, draw):
                due = client.start + arrival
                await asyncio.sleep(max(0.0, due - client.loop.time()))
                requests.create_task(client.post(order.choice(target.bodies), due))

    return asyncio.run(_with_client(target, IN_FLIGHT, warm_up, send))


def closed_loop(target: Target, callers: int, requests: int) -> list[RequestRecord]:
    """Send bodies in turn from so many callers, each of whom sends the next one when the answer is there."""
    waiting = islice(cycle(target.bodies), requests)

    async def send(client: "_Client") -> None:
        async def call() -> None:
            for body in waiting:
                await client.post(body, client.loop.time())

        await asyncio.gather(*(call() for _ in range(callers)))

    return asyncio.run(_with_client(target, callers, 0.0, send))


async def _with_client(
    target: Target, connections: int, warm_up: float, send: Callable[["_Client"], Awaitable[None]]
) -> list[RequestRecord]:
    connector = aiohttp.TCPConnector(limit=connections, keepalive_timeout=KEEP_ALIVE_SECONDS)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=target.headers) as session:
        client = _Client(target.url, session, warm_up)
        await send(client)
        return client.records


class _Client:
    """Posts bodies, and records what became of them."""

    def __init__(self, url: str, session: aiohttp.ClientSession, warm_up: float) -> None:
        self.url, self.session, self.warm_up = url, session, warm_up
        self.loop = asyncio.get_running_loop()
        self.start = self.loop.time()
        self.records: list[RequestRecord] = []

    async def post(self, body: bytes, due: float) -> None:
        sent, problem = self.loop.time(), ""
        try:
            async with asyncio.timeout_at(due + REQUEST_TIMEOUT):
                async with self.session.post(self.url, data=body, allow_redirects=False) as response:
                    await response.read()
            if response.status != 200:
                problem = f"{response.status} {response.reason or ''}".strip()
        except TimeoutError:
            problem = f"no answer within {REQUEST_TIMEOUT:g} s"
        except (aiohttp.ClientError, OSError) as error:
            problem = f"the connection broke: {error or type(error).__name__}"
        latency = self.loop.time() - due
        self.records.append(RequestRecord(due - self.start - self.warm_up, sent - due, latency, problem))
