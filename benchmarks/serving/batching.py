"""Continuous batching compared with collecting batches, at mixed lengths: latency at shares of each server's capacity,
padding, and the goodput under one p99 limit.

    python -m benchmarks.serving.batching --model BUNDLE --texts FILE [--slo-p99-ms 1000] [--seconds 60] [--rounds 3]
        [--threads 1] [--slots 32] [--wait-ms 10] [--requests 600] [--save]

BUNDLE is a folder; FILE has one text a line in its source language, of all lengths to be mixed.
"""

import argparse
from collections.abc import Sequence
from functools import partial

from benchmarks.runner import Benchmark, Column, Contestant, Figures, Labels, run
from benchmarks.serving.servers import Server, ServerConfig, ServingOptions, languages_of, read_texts, started

KINDS = {"collected": "collect", "continuous": "interlinear"}
SHARES = (0.2, 0.5, 0.8, 0.95)  # of a server's own capacity
HALVINGS = 5  # width of the interval for the highest rate within the limit, as a share

NOTES = (
    "*Collected*: texts that come within the waiting time are searched together, as a batching decorator does it, and "
    "answered when the last one is done; with less around it than our service has. *Continuous*: a text enters at the "
    "next step, and is answered when it is done. The same search, slots and threads; mixed lengths.",
    "Open loop, Poisson, latency from when a request was due. Shares are of the server's own *capacity*, which is what "
    "it answers to twice as many callers as it has slots. Figures are medians over the rounds.",
    "*Padding*: share of the source positions stepped that hold no text.",
)


def measure(kind: str, asked: argparse.Namespace) -> dict[Labels, Figures]:
    """Latency at each share of the capacity, the capacity, and the goodput."""
    languages = languages_of(asked.model)
    with started(ServerConfig(kind, str(asked.model), asked.threads, asked.slots, asked.wait_ms)) as server:
        bodies = [server.body(text, languages) for text in read_texts(asked.texts)]
        server.warm_up(bodies)
        capacity = server.closed_load(bodies, 2 * asked.slots, asked.requests).rate
        rows: dict[Labels, Figures] = {
            (f"{share:.0%}",): at_rate(server, bodies, share * capacity, asked.seconds) for share in SHARES
        }
        rows["capacity",] = {"rate": capacity}
        rows[f"goodput, p99 within {asked.slo_p99_ms:g} ms",] = {"rate": best_goodput(server, bodies, capacity, asked)}
    return rows


def at_rate(server: Server, bodies: Sequence[bytes], rate: float, seconds: float) -> Figures:
    read, room = server.positions()
    found = server.open_load(bodies, rate, seconds)
    read_after, room_after = server.positions()
    padding = 1 - (read_after - read) / max(1.0, room_after - room)
    return {"rate": rate, "p50": found.p50, "p99": found.p99, "failed": found.failed, "padding": padding}


def best_goodput(server: Server, bodies: Sequence[bytes], capacity: float, asked: argparse.Namespace) -> float:
    """Responses a second within the limit, at the highest rate that holds it, found by halving; 0 if there is none."""
    low, high, best = 0.0, 1.1 * capacity, 0.0
    for _ in range(1 if asked.quick else HALVINGS):
        rate = (low + high) / 2
        found = server.open_load(bodies, rate, asked.seconds, asked.slo_p99_ms)
        if found.holds(asked.slo_p99_ms):
            low, best = rate, max(best, found.goodput)
        else:
            high = rate
    return best


def main() -> None:
    options = ServingOptions(__doc__)
    options.add_argument("--slo-p99-ms", type=float, default=1000.0)
    options.add_argument("--wait-ms", type=float, default=10.0)
    options.size("--seconds", 60.0, 2.0, "at each rate")
    options.size("--requests", 600, 40, "by which the capacity is measured")
    asked = options.parse()
    benchmark = Benchmark(
        "serving_batching",
        f"Continuous batching against collect-then-search, {asked.threads} thread(s)",
        {
            "rate": Column("requests/s"),
            "p50": Column("p50, ms"),
            "p99": Column("p99, ms"),
            "failed": Column("failed", ".0f", sum),
            "padding": Column("padding", ".0%"),
        },
        NOTES,
        ("load",),
        "rate",
        {"x collected": "collected"},
    )
    run(benchmark, [Contestant(name, partial(measure, kind, asked)) for name, kind in KINDS.items()], asked)


if __name__ == "__main__":
    main()
