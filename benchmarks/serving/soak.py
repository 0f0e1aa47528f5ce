"""Stability of the service: ten minutes of load with faulty and cancelled requests, reported minute by minute.

    python -m benchmarks.serving.soak --model BUNDLE --texts FILE [--share 0.8] [--seconds 600] [--threads 1]
        [--requests 300] [--save]

BUNDLE is a folder; FILE has one text a line in its source language, of many lengths.
"""

import argparse
import asyncio
import http.client
import json
import math
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path

from benchmarks.reporting import Report, alone, median, say, table_number
from benchmarks.serving.servers import JSON, Contestant, Server, languages_of, load, open_loop, read_texts, started
from interlinear.loadtest.load_generator import RequestRecord, run_load
from interlinear.loadtest.load_report import percentile

MINUTE = 60.0
WARM_UP = 30.0  # seconds of the same load, not measured
EVERY = 0.5  # seconds between disturbances: a faulty request, and a cancelled one
LEAVES = 0.05  # seconds after which a caller disconnects

NOTES = (
    "Open loop, Poisson, at a share of the capacity that callers who wait for their answers reach just before; latency "
    "from when a request was due. *Failed*: of these requests, all that were not answered with 200.",
    "Beside it, twice a second each: a faulty request, of which the kinds are sent in turn (not JSON, a language that "
    "is not served, a text over the limit, a beam over the limit, a model that is not there), to be *refused* with a "
    "status of 400 to 499; and a caller who asks for a long text and *goes* after 50 ms.",
    "*Memory*: the median over the minute of what the service's process has resident. With one thread for the "
    "mathematics the load has a core of its own where there are two. *Others*: the share of the processor that other "
    "programs used.",
)


@dataclass
class Disturbances:
    """Requests sent beside the load."""

    refused: int = 0
    gone: int = 0
    taken: list[int] = field(default_factory=list)  # statuses of faulty requests that were not refused; 0: no response
    memory: list[tuple[float, float]] = field(default_factory=list)  # second of the measurement, bytes


@dataclass(frozen=True)
class Minute:
    """One row."""

    requests: int
    failed: int
    p50: float  # milliseconds
    p99: float
    memory: float  # bytes


def faulty(text: str, languages: dict[str, str]) -> list[bytes]:
    """One request of each kind."""
    right = {"q": text} | languages
    wrong = [
        right | {"source": "xx"},
        right | {"q": 50_000 * "a "},
        right | {"beam_size": 10**6},
        right | {"model": "nobody"},
    ]
    return [json.dumps(right).encode()[:-5], *(json.dumps(one).encode() for one in wrong)]


@contextmanager
def disturb(server: Server, texts: Sequence[str], languages: dict[str, str]) -> Iterator[Disturbances]:
    """Send faulty and cancelled requests during the load; memory is read at the same interval."""
    seen, over = Disturbances(), threading.Event()
    long = server.body(" ".join(sorted(texts, key=len)[-3:]), languages)
    kinds = cycle(faulty(texts[0], languages))

    def send_faulty_requests(begun: float) -> None:
        while not over.wait(EVERY):
            seen.memory.append((time.monotonic() - begun, server.memory()))
            status = answered(server, next(kinds))
            if 400 <= status < 500:
                seen.refused += 1
            else:
                seen.taken.append(status)
            send_and_disconnect(server, long)
            seen.gone += 1

    with ThreadPoolExecutor(1) as pool:
        annoying = pool.submit(send_faulty_requests, time.monotonic())
        try:
            yield seen
        finally:
            over.set()
        annoying.result()


def answered(server: Server, body: bytes) -> int:
    """The status of a response; 0 if there is none."""
    with (
        closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection,
        suppress(OSError, http.client.HTTPException),
    ):
        connection.request("POST", server.path, body, JSON)
        response = connection.getresponse()
        response.read()
        return response.status
    return 0


def send_and_disconnect(server: Server, body: bytes) -> None:
    """Send a request, and disconnect."""
    head = f"POST {server.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    with socket.create_connection(("127.0.0.1", server.port)) as caller:
        caller.sendall(head.encode() + b"\r\n\r\n" + body)
        time.sleep(LEAVES)


def by_minute(records: Sequence[RequestRecord], memory: Sequence[tuple[float, float]], seconds: float) -> list[Minute]:
    """The measured time, split into whole minutes; a shorter time is one."""
    minutes = []
    for i in range(max(1, int(seconds // MINUTE))):
        end = (i + 1) * MINUTE if seconds >= MINUTE else seconds
        here = [record for record in records if i * MINUTE <= record.due < end]
        right = sorted(1000 * record.latency for record in here if not record.problem)
        held = [size for at, size in memory if i * MINUTE <= at - WARM_UP < end]
        failed = len(here) - len(right)
        p50, p99 = (percentile(right, share) if right else math.nan for share in (0.5, 0.99))
        minutes.append(Minute(len(here), failed, p50, p99, median(held)))
    return minutes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE")
    parser.add_argument("--share", type=float, default=0.8, help="of the capacity that is asked for")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--requests", type=int, default=300, help="by which the capacity is measured")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    texts, languages = read_texts(asked.texts), languages_of(asked.model)
    contestant = Contestant("service", "interlinear", str(asked.model), asked.threads)
    with alone() as disturbance, started(contestant) as server:
        bodies = [server.body(text, languages) for text in texts]
        load(server, bodies, 2 * contestant.slots, asked.requests // 4 + 1)  # warms up
        capacity = load(server, bodies, 2 * contestant.slots, asked.requests).rate
        say(f"{capacity:.1f} requests/s at most; {asked.share:.0%} of that for {asked.seconds:g} s")
        with disturb(server, texts, languages) as seen:
            one = open_loop(server, bodies, asked.share * capacity, WARM_UP, asked.seconds)
            records = asyncio.run(run_load(one, lambda *_: None))
    minutes = by_minute(records, seen.memory, asked.seconds)
    half = minutes[len(minutes) // 2 :]
    rows = [
        [
            str(i + 1),
            f"{minute.requests:,}",
            str(minute.failed),
            table_number(minute.p50),
            table_number(minute.p99),
            f"{minute.memory / 2**20:.1f}",
        ]
        for i, minute in enumerate(minutes)
    ]
    growth = half[-1].memory / half[0].memory - 1
    summary = (
        f"{asked.share:.0%} of {capacity:.1f} requests/s. Memory grew by {growth:.2%} in the second half. "
        f"{seen.refused:,} faulty requests were refused, {len(seen.taken)} were not; {seen.gone:,} callers went. "
        f"Others: {disturbance.share:.0%}."
    )
    Report(
        "serving_soak",
        f"{asked.seconds / MINUTE:g} minutes of load, {asked.threads} thread(s)",
        ["minute", "requests", "failed", "p50, ms", "p99, ms", "memory, MiB"],
        rows,
        (summary, *NOTES),
        {"minutes": [asdict(minute) for minute in minutes], "taken": seen.taken},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
