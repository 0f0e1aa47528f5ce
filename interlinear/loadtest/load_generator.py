"""An open-loop load: requests leave at random moments, whether or not those before them are answered.

A latency counts from the moment at which a request was due, not from when it could be sent: a service that stands
still for a second makes every request of that second late, and a generator that waited for answers would not see it
(coordinated omission).
"""

import asyncio
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import aiohttp

REQUEST_TIMEOUT = 60.0  # seconds from when a request was due to when its answer is given up
PROGRESS_SECONDS = 0.5  # seconds between two looks at how it goes
KEEP_ALIVE_SECONDS = (
    2.0  # seconds that a connection may rest: less than uvicorn's 5, or it closes one that is about to be used
)


@dataclass(frozen=True)
class Load:
    """What is sent: `bodies` in random order to one address, at `rate` a second, for `seconds` after a warm-up.

    `answer` is the field that a right answer has; `limit`: requests in flight at most, over which those that are due
    wait here. The same seed has the same moments and the same order.
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
    """One request. `due`: seconds after the measured time began, negative in the warm-up; `late`: seconds from then to
    when it was sent, `latency` to when its answer was there or its failure was known."""

    due: float
    late: float
    latency: float
    held_back: bool = False
    problem: str = ""  # a status and its name, or what broke; empty where it was answered rightly
    detail: str = ""
    model: str = ""  # that answered: name@version


ProgressCallback = Callable[[Load, Sequence[RequestRecord], int], None]
"""Told now and then: the load, the requests that are over, and how many are in flight."""


def poisson_arrivals(rate: float, seconds: float, draw: random.Random) -> Iterator[float]:
    """The moments of a Poisson process: gaps between them are exponential, of 1 / rate on average."""
    at = draw.expovariate(rate)
    while at < seconds:
        yield at
        at += draw.expovariate(rate)


async def run_load(load: Load, on_progress: ProgressCallback) -> list[RequestRecord]:
    """Send all of it, and wait for every answer; the requests in the order of their answers."""
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
        draw, which = random.Random(self.load.seed), random.Random(self.load.seed + 1)
        try:
            for at in poisson_arrivals(self.load.rate, self.load.warm_up + self.load.seconds, draw):
                due = self.start + at
                await asyncio.sleep(max(0.0, due - self.loop.time()))
                await self._send_when_free(due, which.choice(self.load.bodies))
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
    """What is wrong with an answer that says 200, and which model gave it."""
    try:
        answer = json.loads(content)
        model = answer["model"]
        answer[field]
        return "", f"{model['name']}@{model['version']}"
    except (ValueError, KeyError, TypeError):
        return f"an answer without {field} or model", ""


def error_detail(content: bytes) -> str:
    """The sentence of a problem's answer, where there is one."""
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return ""


def connection_error(error: Exception) -> str:
    """Why a connection gave no answer, in the same words for the same cause."""
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.errno or 0  # of a name that is not known it is negative, and of another kind
        return f"cannot connect: {os.strerror(number) if number > 0 else error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed without an answer"
    return f"the connection broke: {error or type(error).__name__}"
