"""Requests a second and latency of the service, searching together and answering one at a time, in one run.

    python -m benchmarks.service --model MODEL [--texts FILE] [--requests 300] [--rounds 3] [--threads 2] [--save]

MODEL is a bundle's folder or a registered name; FILE has one text a line in its source language. Each server is a
process of its own, and they take turns; the callers are threads here, each with a connection that it keeps.
"""

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.reporting import Report, alone, median, say, table_number

CONCURRENCY = (1, 8, 32)
SERVERS = {"one at a time": 1, "together": 32}  # slots

NOTES = (
    "*One at a time* is the same service with one slot: a text is searched when the one before it is answered. Closed "
    "loop: every caller sends its next text when it has its answer. Latency is what a caller sees, HTTP and waiting "
    "included. Figures are medians over the rounds; ratios are of requests a second, at the same concurrency.",
    "*Others* is the share of the processor that other programs used in the worst round.",
)


@dataclass(frozen=True)
class Load:
    """What so many callers saw."""

    rate: float  # requests a second
    p50: float  # milliseconds
    p99: float


@contextmanager
def server(model: str, slots: int, threads: int) -> Iterator[str]:
    """A service as a process of its own; gives its address."""
    environment = os.environ | {
        "INTERLINEAR_SERVE_SLOTS": str(slots),
        "INTERLINEAR_SERVE_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
    }
    command = [sys.executable, "-m", "interlinear", "serve", "--model", model, "--port", "0"]
    child = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stderr is not None
        for line in child.stderr:
            if match := re.search(r"playground (http://[^/]+)/", line):
                yield match[1]
                break
            print(line, end="", file=sys.stderr)
        else:
            sys.exit(child.wait())
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait()


def get(address: str, path: str) -> str:
    """What a route answers."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc)
    connection.request("GET", path)
    return connection.getresponse().read().decode()


def load(address: str, texts: Sequence[str], languages: dict[str, str], callers: int, requests: int) -> Load:
    """Send so many requests from so many callers at once."""
    bodies = [json.dumps({"q": text} | languages).encode() for text in islice(cycle(texts), requests)]
    latencies: list[float] = []
    lock, start = threading.Lock(), threading.Barrier(callers + 1)

    def call() -> None:
        connection = http.client.HTTPConnection(urlsplit(address).netloc)
        connection.connect()
        start.wait()
        while True:
            with lock:
                if not bodies:
                    return
                body = bodies.pop()
            sent = time.perf_counter()
            connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"the service answered with {answer.status}")
            latencies.append(time.perf_counter() - sent)

    threads = [threading.Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    start.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    if len(latencies) < requests:
        sys.exit("a request failed: the figures would mean nothing")
    ranked = sorted(1000 * latency for latency in latencies)
    return Load(requests / seconds, ranked[len(ranked) // 2], ranked[int(0.99 * (len(ranked) - 1))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE")
    parser.add_argument("--requests", type=int, default=300, help="at each concurrency")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    texts = [line for line in asked.texts.read_text(encoding="utf-8").splitlines() if line.strip()]
    measured: dict[tuple[str, int], list[Load]] = defaultdict(list)
    disturbances: dict[str, list[float]] = defaultdict(list)
    for _ in range(asked.rounds):
        for name, slots in SERVERS.items():
            with server(asked.model, slots, asked.threads) as address, alone() as disturbance:
                languages = json.loads(get(address, "/models"))[0]["languages"]
                load(address, texts, languages, 8, 32)  # warms up
                for callers in CONCURRENCY:
                    one = load(address, texts, languages, callers, asked.requests)
                    measured[name, callers].append(one)
                    latency = f"p50 {one.p50:.0f} ms, p99 {one.p99:.0f} ms"
                    say(f"{name}, {callers} callers: {one.rate:.1f} requests/s, {latency}")
            disturbances[name].append(disturbance.share)
    rates = {key: median([one.rate for one in loads]) for key, loads in measured.items()}
    rows = [
        [
            str(callers),
            name,
            table_number(rates[name, callers]),
            f"{median([one.p50 for one in measured[name, callers]]):.0f}",
            f"{median([one.p99 for one in measured[name, callers]]):.0f}",
            f"{rates[name, callers] / rates['one at a time', callers]:.2f}",
            f"{max(disturbances[name]):.0%}",
        ]
        for callers in CONCURRENCY
        for name in SERVERS
    ]
    Report(
        "service",
        f"The service at several concurrencies, {asked.threads} thread(s)",
        ["callers", "", "requests/s", "p50, ms", "p99, ms", "x one at a time", "others"],
        rows,
        NOTES,
        {f"{name}, {callers}": [asdict(one) for one in loads] for (name, callers), loads in measured.items()},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
