"""Latency of a caller of single texts while others send many: slots shared fairly, and first in, first out.

    python -m benchmarks.serving.fairness --model BUNDLE --texts FILE [--rate 5] [--seconds 20] [--rounds 3] [--save]

BUNDLE is a folder; FILE has one text a line in its source language. Each server is a separate process; the callers are
threads here, distinguished by their forwarded addresses.
"""

import argparse
import http.client
import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.reporting import Report, alone, median, say
from benchmarks.serving.servers import JSON, Contestant, Server, languages_of, read_texts, started
from interlinear.loadtest.load_report import percentile

MANY = (100, 10)  # texts in a request of the other callers, and sentences of each
CALLERS = (0, 1, 2)
FAIR = "fair"
WARM_UP = 2.0  # seconds of load by the other callers before anything is measured

NOTES = (
    "Single texts, at random moments (Poisson), whether answers come or not; latency counts from the moment at which "
    f"one was due. Beside them callers of {MANY[0]} texts of {MANY[1]} sentences each, one request after the other. "
    "*Fair*: as it comes. *First in, first out*: `INTERLINEAR_SERVE_FAIR=false`, where all are one caller. *x alone*: "
    "p99 over that with nobody beside, of the same server in the same round. Medians over the rounds.",
)


class ServiceWithLimits(Contestant):
    """A service with its default limits that trusts forwarded addresses."""

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "INTERLINEAR_SERVE_FAIR": "true" if self.name == FAIR else "false",
            "INTERLINEAR_SERVE_TRUSTED_PROXIES": '["127.0.0.1"]',
        }
        limits = ("INTERLINEAR_SERVE_QUEUE_TEXTS", "INTERLINEAR_SERVE_QUEUE_TOKENS")
        return {name: value for name, value in super().environment.items() if name not in limits} | own


@dataclass(frozen=True)
class Measurement:
    """Measurements of the caller of single texts: milliseconds, and the refused share; and the others' sentences/s."""

    p50: float
    p99: float
    refused: float
    beside: float


def post(connection: http.client.HTTPConnection, server: Server, body: bytes, caller: str) -> int:
    connection.request("POST", server.path, body, JSON | {"X-Forwarded-For": caller})
    answer = connection.getresponse()
    answer.read()
    return answer.status


@contextmanager
def send_many_texts(server: Server, bodies: list[bytes], callers: int) -> Iterator[list[float]]:
    """So many callers of many texts; returns the times at which their requests were answered."""
    over, answered = threading.Event(), list[float]()

    def ask(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        for i in range(10**6):
            if over.is_set():
                return
            if post(connection, server, bodies[(number + i) % len(bodies)], f"192.0.2.{100 + number}") == 200:
                answered.append(time.perf_counter())
            else:
                time.sleep(0.2)

    threads = [threading.Thread(target=ask, args=[number], daemon=True) for number in range(callers)]
    for thread in threads:
        thread.start()
    try:
        yield answered
    finally:
        over.set()
        for thread in threads:
            thread.join(120)


def measure(
    server: Server, single: list[bytes], many: list[bytes], beside: int, rate: float, seconds: float
) -> Measurement:
    draw, latencies, statuses = random.Random(1), list[float](), list[int]()
    with send_many_texts(server, many, beside) as answered:
        time.sleep(WARM_UP)
        begun = due = time.perf_counter()
        threads = []

        def ask(body: bytes, due: float) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
            statuses.append(post(connection, server, body, "192.0.2.1"))
            if statuses[-1] == 200:
                latencies.append(1000 * (time.perf_counter() - due))

        while (due := due + draw.expovariate(rate)) < begun + seconds:
            time.sleep(max(0.0, due - time.perf_counter()))
            threads.append(threading.Thread(target=ask, args=[draw.choice(single), due]))
            threads[-1].start()
        for thread in threads:
            thread.join()
        done = sum(begun <= moment for moment in answered) * MANY[0] * MANY[1]
        took = time.perf_counter() - begun
    ranked = sorted(latencies)
    refused = sum(status == 429 for status in statuses) / len(statuses)
    return Measurement(percentile(ranked, 0.5), percentile(ranked, 0.99), refused, done / took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, metavar="BUNDLE")
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE")
    parser.add_argument("--rate", type=float, default=5.0, help="single texts a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    lines, draw = read_texts(asked.texts), random.Random(2)
    languages = languages_of(asked.model)
    single = [json.dumps({"q": text} | languages).encode() for text in lines]
    texts, sentences = MANY
    many = [
        json.dumps({"q": ["\n".join(draw.choices(lines, k=sentences)) for _ in range(texts)]} | languages).encode()
        for _ in range(8)
    ]
    seen: dict[tuple[str, int], list[Measurement]] = defaultdict(list)
    ratios: dict[tuple[str, int], list[float]] = defaultdict(list)
    with alone() as disturbance:
        for _ in range(asked.rounds):
            for name in (FAIR, "first in, first out"):
                with started(ServiceWithLimits(name, "interlinear", str(asked.model), asked.threads)) as server:
                    for callers in CALLERS:
                        found = measure(server, single, many, callers, asked.rate, asked.seconds)
                        seen[name, callers].append(found)
                        ratios[name, callers].append(found.p99 / seen[name, 0][-1].p99)
                        say(f"{name}, {callers} beside: p99 {found.p99:.0f} ms, {found.refused:.0%} refused")
    rows = [
        [
            name,
            str(callers),
            *(f"{median([getattr(one, what) for one in several]):.0f}" for what in ("p50", "p99")),
            f"{median(ratios[name, callers]):.1f}",
            f"{median([one.refused for one in several]):.0%}",
            f"{median([one.beside for one in several]):.0f}",
        ]
        for (name, callers), several in seen.items()
    ]
    columns = ["", "callers beside", "p50, ms", "p99, ms", "x alone", "refused", "sentences a second of the others"]
    kept = {f"{name}, {callers}": [asdict(one) for one in several] for (name, callers), several in seen.items()}
    notes = (*NOTES, f"Other programs used {disturbance.share:.0%} of the processor.")
    title = f"Single texts at {asked.rate:g} a second beside callers of many"
    Report("serving_fairness", title, columns, rows, notes, kept).publish(asked.save)


if __name__ == "__main__":
    main()
