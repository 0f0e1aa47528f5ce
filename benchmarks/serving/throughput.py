"""Requests a second and latency of the service: one text at a time, batched, and batched in half precision.

    python -m benchmarks.serving.throughput --model MODEL [--texts FILE] [--requests 300] [--rounds 3] [--threads 2]
        [--save]

MODEL is a bundle's folder or a registered name; FILE has one text a line in its source language. Each server is a
separate process, and they are interleaved; the callers are threads here, each with a keep-alive connection.
"""

import argparse
import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from benchmarks.reporting import Report, alone, median, say, table_number
from benchmarks.serving.servers import Contestant, Load, load, read_texts, started

CONCURRENCY = (1, 8, 32)
SERVERS = {"one at a time": (1, "fp32"), "together": (32, "fp32"), "together, bf16": (32, "bf16")}  # slots, precision

NOTES = (
    "*One at a time* is the same service with one slot: a text is searched when the one before it is answered. Closed "
    "loop: every caller sends its next text when it has its answer. Latency is what a caller sees, HTTP and waiting "
    "included. Figures are medians over the rounds; ratios are of requests a second, at the same concurrency.",
    "*bf16* is the service with `--precision bf16`; what it gains depends on what the processor has, named above.",
    "*Others* is the share of the processor that other programs used in the worst round.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE")
    parser.add_argument("--requests", type=int, default=300, help="at each concurrency")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    texts = read_texts(asked.texts)
    measured: dict[tuple[str, int], list[Load]] = defaultdict(list)
    disturbances: dict[str, list[float]] = defaultdict(list)
    for _ in range(asked.rounds):
        for name, (slots, precision) in SERVERS.items():
            contestant = Contestant(name, "interlinear", asked.model, asked.threads, slots, precision=precision)
            with alone() as disturbance, started(contestant) as server:
                languages = json.loads(server.get("/models"))[0]["languages"]
                bodies = [server.body(text, languages) for text in texts]
                load(server, bodies, 8, 32)  # warms up
                for callers in CONCURRENCY:
                    one = load(server, bodies, callers, asked.requests)
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
