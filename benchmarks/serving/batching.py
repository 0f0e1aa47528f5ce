"""Continuous batching compared with collecting batches, at mixed lengths: latency at shares of each server's capacity,
padding, and the goodput under one p99 limit.

    python -m benchmarks.serving.batching --model BUNDLE --texts FILE [--slo-p99-ms 1000] [--seconds 60] [--rounds 3]
        [--threads 1] [--slots 32] [--wait-ms 10] [--requests 600] [--save]

BUNDLE is a folder; FILE has one text a line in its source language, of all lengths to be mixed.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.reporting import Report, alone, median, say, table_number
from benchmarks.serving.servers import Contestant, Server, languages_of, load, open_load, read_texts, started

SHARES = (0.2, 0.5, 0.8, 0.95)  # of a server's own capacity
HALVINGS = 5  # width of the interval for the highest rate within the limit, as a share

NOTES = (
    "*Collected*: texts that come within the waiting time are searched together, as a batching decorator does it, and "
    "answered when the last one is done; with less around it than our service has. *Continuous*: a text enters at the "
    "next step, and is answered when it is done. The same search, slots and threads; mixed lengths.",
    "Open loop, Poisson, latency from when a request was due. Shares are of the server's own capacity, which is what "
    "it answers to twice as many callers as it has slots. Figures are medians over the rounds.",
    "*Goodput*: answers a second at the highest rate, found by halving, at which nothing failed, p99 was within the "
    "limit, and no more and more requests were in flight. *Padding*: share of the source positions stepped that hold "
    "no text. *Others*: the share of the processor that other programs used in the worst round.",
)


@dataclass(frozen=True)
class LoadResult:
    """Measurements at a share of the capacity."""

    rate: float
    p50: float
    p99: float
    padding: float


@dataclass(frozen=True)
class Round:
    """One server, once."""

    capacity: float
    goodput: float
    shares: dict[float, LoadResult]


def measure(server: Server, bodies: Sequence[bytes], asked: argparse.Namespace) -> Round:
    callers = 2 * asked.slots
    load(server, bodies, callers, asked.requests // 4 + 1)  # warms up
    capacity = load(server, bodies, callers, asked.requests).rate
    shares = {share: at_rate(server, bodies, share * capacity, asked.seconds) for share in SHARES}
    return Round(capacity, best_goodput(server, bodies, capacity, asked), shares)


def at_rate(server: Server, bodies: Sequence[bytes], rate: float, seconds: float) -> LoadResult:
    read, room = server.positions()
    found = open_load(server, bodies, rate, seconds, None)
    read_after, room_after = server.positions()
    assert found.latency_ms, f"{server.contestant.name} answered nothing: {found.failures}"
    padding = 1 - (read_after - read) / (room_after - room)
    return LoadResult(rate, found.latency_ms.p50, found.latency_ms.p99, padding)


def best_goodput(server: Server, bodies: Sequence[bytes], capacity: float, asked: argparse.Namespace) -> float:
    """Responses a second within the limit, at the highest sustained rate; 0 if there is none."""
    low, high, best = 0.0, 1.1 * capacity, 0.0
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        found = open_load(server, bodies, rate, asked.seconds, asked.slo_p99_ms)
        if found.held:
            low, best = rate, max(best, found.goodput)
        else:
            high = rate
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE")
    parser.add_argument("--slo-p99-ms", type=float, default=1000.0)
    parser.add_argument("--seconds", type=float, default=60.0, help="at each rate")
    parser.add_argument("--requests", type=int, default=600, help="by which the capacity is measured")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--wait-ms", type=float, default=10.0)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    texts, languages = read_texts(asked.texts), languages_of(Path(asked.model))
    kinds = {"collected": "collect", "continuous": "interlinear"}
    contestants = [
        Contestant(name, kind, asked.model, asked.threads, asked.slots, asked.wait_ms) for name, kind in kinds.items()
    ]
    rounds: dict[str, list[Round]] = defaultdict(list)
    others: dict[str, list[float]] = defaultdict(list)
    for number in range(asked.rounds):
        for contestant in contestants if number % 2 == 0 else contestants[::-1]:
            with alone() as disturbance, started(contestant) as server:
                one = measure(server, [server.body(text, languages) for text in texts], asked)
            say(f"{contestant.name}: {one.capacity:.1f} requests/s at most, {one.goodput:.1f} within the limit")
            rounds[contestant.name].append(one)
            others[contestant.name].append(disturbance.share)
    rows = [
        [
            f"{share:.0%}",
            name,
            table_number(median([one.shares[share].rate for one in ran])),
            table_number(median([one.shares[share].p50 for one in ran])),
            table_number(median([one.shares[share].p99 for one in ran])),
            f"{median([one.shares[share].padding for one in ran]):.0%}",
            f"{max(others[name]):.0%}",
        ]
        for share in SHARES
        for name, ran in rounds.items()
    ]
    goodput = {name: median([one.goodput for one in ran]) for name, ran in rounds.items()}
    ratio = f"{goodput['continuous'] / goodput['collected']:.2f}" if goodput["collected"] else "all"
    summary = (
        f"Goodput with p99 within {asked.slo_p99_ms:g} ms: continuous {table_number(goodput['continuous'])} a second, "
        f"collected {table_number(goodput['collected'])}; x {ratio}. Capacity: "
        + ", ".join(f"{n} {table_number(median([one.capacity for one in ran]))}" for n, ran in rounds.items())
        + "."
    )
    Report(
        "serving_batching",
        f"Continuous batching against collect-then-search, {asked.threads} thread(s)",
        ["load", "", "requests/s", "p50, ms", "p99, ms", "padding", "others"],
        rows,
        (summary, *NOTES),
        {name: [asdict(one) for one in ran] for name, ran in rounds.items()},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
