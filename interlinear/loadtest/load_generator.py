"""Open-loop load generator: requests are sent at random times, regardless of unanswered earlier ones.

Latency is measured from the time at which a request was due, not from when it was sent. If a service stalls for a
second, all requests of that second are late; a generator that waited for answers would miss this (coordinated
omission).
"""

import asyncio
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import aiohttp

REQUEST_TIMEOUT = 60.0  # seconds from a request's due time until it counts as failed
PROGRESS_SECONDS = 0.5  # seconds between calls of the progress callback
KEEP_ALIVE_SECONDS = (
    2.0  # idle seconds of a connection: less than uvicorn's 5, else the server may close one just being reused
)


@dataclass(frozen=True)
class Load:
    """The load: `bodies` in random order to one URL, at `rate` a second, for `seconds` after a warm-up.

    `answer` is a field that valid answers have. `limit` is the maximum number of requests in flight; due requests
    beyond it wait in the generator. The same seed gives the same times and order.
    """

    url: str
    bodies: Sequence[bytes]
    headers: Mapping[str, str]
    answer: str
    rate: float
    warm_up: float
    seconds: float
    limit: int
    seed: int


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request. `due`: seconds since the start of the measured time, negative in the warm-up; `late`: seconds from
    due to sent; `latency`: seconds from due to the complete answer or the failure."""

    due: float
    late: float
    latency: float
    held_back: bool = False
    problem: str = ""  # HTTP status and its name, or the error; empty for a valid answer
    detail: str = ""
    model: str = ""  # name@version of the model that answered


ProgressCallback = Callable[[Load, Sequence[RequestRecord], int], None]
"""Progress callback; receives the load, the finished requests, and the number in flight."""


def poisson_arrivals(rate: float, seconds: float, draw: random.Random) -> Iterator[float]:
    """Arrival times of a Poisson process: exponentially distributed gaps with a mean of 1 / rate."""
    time = draw.expovariate(rate)
    while time < seconds:
        yield time
        time += draw.expovariate(rate)


async def run_load(load: Load, on_progress: ProgressCallback) -> list[RequestRecord]:
    """Send the whole load and wait for every answer. Returns the requests in the order of their answers."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=load.headers) as session:
        return await _LoadRun(load, session).run(on_progress)


class _LoadRun:
    def __init__(self, load: Load, session: aiohttp.ClientSession) -> None:
        self.load = load
        self.session = session
        self.in_flight_limit = asyncio.Semaphore(load.limit)
        self.loop = asyncio.get_running_loop()
        self.start = self.loop.time()
        self.records: list[RequestRecord] = []
        self.in_flight: set[asyncio.Task[None]] = set()

    async def run(self, on_progress: ProgressCallback) -> list[RequestRecord]:
        progress_task = asyncio.ensure_future(self._report_progress(on_progress))
        draw, order = random.Random(self.load.seed), random.Random(self.load.seed + 1)
        try:
            for arrival in poisson_arrivals(self.load.rate, self.load.warm_up + self.load.seconds, draw):
                due = self.start + arrival
                await asyncio.sleep(max(0.0, due - self.loop.time()))
                await self._send_when_free(due, order.choice(self.load.bodies))
            await asyncio.gather(*self.in_flight)
        finally:
            progress_task.cancel()
            for task in self.in_flight:
                task.cancel()
        return self.records

    async def _report_progress(self, on_progress: ProgressCallback) -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            on_progress(self.load, self.records, len(self.in_flight))

    async def _send_when_free(self, due: float, body: bytes) -> None:
        held_back = self.in_flight_limit.locked()
        try:
            async with asyncio.timeout_at(due + REQUEST_TIMEOUT):
                await self.in_flight_limit.acquire()
        except TimeoutError:
            now = self.loop.time()
            problem = f"not sent within {REQUEST_TIMEOUT:g} s: {self.load.limit} were in flight"
            self.records.append(RequestRecord(self._measured_time(due), now - due, now - due, True, problem))
            return
        task = asyncio.ensure_future(self._send(due, body, held_back))
        self.in_flight.add(task)
        task.add_done_callback(self.in_flight.discard)

    async def _send(self, due: float, body: bytes, held_back: bool) -> None:
        sent, problem, detail, model = self.loop.time(), "", "", ""
        try:
            async with asyncio.timeout_at(due + REQUEST_TIMEOUT):
                async with self.session.post(self.load.url, data=body, allow_redirects=False) as response:
                    content = await response.read()
            if response.status == 200:
                problem, model = read_answer(content, self.load.answer)
            else:
                problem, detail = f"{response.status} {response.reason or ''}".strip(), error_detail(content)
        except TimeoutError:
            problem = f"no answer within {REQUEST_TIMEOUT:g} s"
        except (aiohttp.ClientError, OSError) as error:
            problem = connection_error(error)
        finally:
            self.in_flight_limit.release()
        latency = self.loop.time() - due
        self.records.append(
            RequestRecord(self._measured_time(due), sent - due, latency, held_back, problem, detail, model)
        )

    def _measured_time(self, due: float) -> float:
        return due - self.start - self.load.warm_up


def read_answer(content: bytes, field: str) -> tuple[str, str]:
    """The problem of an answer with status 200 (empty if valid), and the model that gave it."""
    try:
        answer = json.loads(content)
        model = answer["model"]
        answer[field]
        return "", f"{model['name']}@{model['version']}"
    except (ValueError, KeyError, TypeError):
        return f"an answer without {field} or model", ""


def error_detail(content: bytes) -> str:
    """The error message in an answer, or an empty string."""
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return ""


def connection_error(error: Exception) -> str:
    """The reason for a failed connection, with the same wording for the same cause."""
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.errno or 0  # negative for an unknown host name, which is not an errno
        return f"cannot connect: {os.strerror(number) if number > 0 else error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed without an answer"
    return f"the connection broke: {error or type(error).__name__}"
