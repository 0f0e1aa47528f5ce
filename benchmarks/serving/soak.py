"""Stability of the service: ten minutes of load with faulty and cancelled requests, reported minute by minute.

    python -m benchmarks.serving.soak --model BUNDLE --texts FILE [--share 0.8] [--seconds 600] [--threads 1]
        [--requests 300] [--save]

BUNDLE is a folder; FILE has one text a line in its source language, of many lengths.
"""

import argparse
import json
import math
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import cycle
from statistics import median

from benchmarks.reporting import say
from benchmarks.runner import Benchmark, Column, Contestant, Figures, Labels, run
from benchmarks.serving.load_generator import RequestRecord, open_loop, summarize
from benchmarks.serving.servers import Server, ServerConfig, ServingOptions, languages_of, read_texts, started

MINUTE = 60.0
WARM_UP = 30.0  # seconds of the same load, not measured
EVERY = 0.5  # seconds between disturbances: a faulty request, and a cancelled one
LEAVES = 0.05  # seconds after which a caller disconnects

NOTES = (
    "Open loop, Poisson, at a share of the capacity that callers who wait for their answers reach just before; latency "
    "from when a request was due. *Failed*: of these requests, all that were not answered with 200.",
    "Beside it, twice a second each: a *faulty* request, of which the kinds are sent in turn (not JSON, a language "
    "that is not served, a text over the limit, a beam over the limit, a model that is not there), which has failed "
    "here if it was not refused with a status of 400 to 499; and a caller who asks for a long text and *goes* after 50 "
    "ms.",
    "*Memory*: the median over the minute of what the service's process has resident. With one thread for the "
    "mathematics the load has a core of its own where there are two.",
)


@dataclass
class Disturbances:
    """Requests sent beside the load."""

    refused: int = 0
    gone: int = 0
    taken: list[int] = field(default_factory=list)  # statuses of faulty requests that were not refused; 0: no response
    memory: list[tuple[float, float]] = field(default_factory=list)  # second of the measurement, bytes


def faulty(text: str, languages: Mapping[str, str]) -> list[bytes]:
    """One request of each kind."""
    right = {"q": text} | languages
    wrong = [{"source": "xx"}, {"q": 50_000 * "a "}, {"beam_size": 10**6}, {"model": "nobody"}]
    return [json.dumps(right).encode()[:-5], *(json.dumps(right | one).encode() for one in wrong)]


@contextmanager
def disturb(server: Server, texts: Sequence[str], languages: Mapping[str, str]) -> Iterator[Disturbances]:
    """Send faulty and cancelled requests during the load; memory is read at the same interval."""
    seen, over, begun = Disturbances(), threading.Event(), time.monotonic()
    long = server.body(" ".join(sorted(texts, key=len)[-3:]), languages)
    kinds = cycle(faulty(texts[0], languages))

    def send() -> None:
        while not over.wait(EVERY):
            seen.memory.append((time.monotonic() - begun, server.memory()))
            status = 0
            with suppress(OSError, HTTPException):
                status, _ = server.post(next(kinds))
            if 400 <= status < 500:
                seen.refused += 1
            else:
                seen.taken.append(status)
            send_and_disconnect(server, long)
            seen.gone += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield seen
    finally:
        over.set()
        sender.join()


def send_and_disconnect(server: Server, body: bytes) -> None:
    """Send a request, and disconnect."""
    head = f"POST {server.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    with socket.create_connection(("127.0.0.1", server.port)) as caller:
        caller.sendall(head.encode() + b"\r\n\r\n" + body)
        time.sleep(LEAVES)


def by_minute(
    records: Sequence[RequestRecord], memory: Sequence[tuple[float, float]], seconds: float, warm_up: float
) -> dict[Labels, Figures]:
    """The measured time, split into whole minutes; a shorter time is one."""
    rows: dict[Labels, Figures] = {}
    for i in range(max(1, int(seconds // MINUTE))):
        end = (i + 1) * MINUTE if seconds >= MINUTE else seconds
        found = summarize([record for record in records if i * MINUTE <= record.due < end], end - i * MINUTE)
        held = [size / 2**20 for at, size in memory if i * MINUTE <= at - warm_up < end]
        rows[f"minute {i + 1}",] = {
            "requests": found.requests, "failed": found.failed, "p50": found.p50, "p99": found.p99,
            "memory": median(held) if held else math.nan,
        }  # fmt: skip
    return rows


def measure(asked: argparse.Namespace) -> dict[Labels, Figures]:
    texts, languages = read_texts(asked.texts), languages_of(asked.model)
    warm_up = min(WARM_UP, asked.seconds / 2)
    with started(ServerConfig("interlinear", str(asked.model), asked.threads, asked.slots)) as server:
        bodies = [server.body(text, languages) for text in texts]
        server.warm_up(bodies)
        capacity = server.closed_load(bodies, 2 * asked.slots, asked.requests).rate
        say(f"{capacity:.1f} requests/s at most; {asked.share:.0%} of that for {asked.seconds:g} s")
        with disturb(server, texts, languages) as seen:
            records = open_loop(server.target(bodies), asked.share * capacity, asked.seconds, warm_up)
    rows = by_minute(records, seen.memory, asked.seconds, warm_up)
    rows["faulty requests",] = {"requests": seen.refused + len(seen.taken), "failed": len(seen.taken)}
    rows["callers who went",] = {"requests": seen.gone}
    return rows


def main() -> None:
    options = ServingOptions(__doc__, rounds=1)
    options.add_argument("--share", type=float, default=0.8, help="of the capacity that is asked for")
    options.size("--seconds", 600.0, 6.0)
    options.size("--requests", 300, 40, "by which the capacity is measured")
    asked = options.parse()
    benchmark = Benchmark(
        "serving_soak",
        f"{asked.seconds / MINUTE:g} minutes of load at {asked.share:.0%} of the capacity, {asked.threads} thread(s)",
        {
            "requests": Column("requests", ",.0f"),
            "failed": Column("failed", ".0f", sum),
            "p50": Column("p50, ms"),
            "p99": Column("p99, ms"),
            "memory": Column("memory, MiB", ".1f"),
        },
        NOTES,
        ("",),
    )
    run(benchmark, [Contestant("", lambda: measure(asked))], asked)


if __name__ == "__main__":
    main()
