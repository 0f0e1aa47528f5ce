"""One bundle behind other servers: requests a second and latency at one concurrency.

    python -m benchmarks.serving.alternatives --model BUNDLE --texts FILE [--callers 32] [--requests 600] [--rounds 3]
        [--threads 1] [--only NAME ...] [--save]

BUNDLE is a folder; FILE has one text a line in its source language. Each server is a separate process (Ray and MLflow
use several), and they are interleaved.
"""

import argparse
import http.client
import tempfile
from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.reporting import Report, alone, median, say, table_number
from benchmarks.serving.servers import Contestant, Load, Server, agree, ask, languages_of, load, read_texts, started
from registry.store import MlflowStore

OURS = "Interlinear"
BEST = "Interlinear, auto, compiled"
TWO = "two engines of it"
KINDS = {
    OURS: "interlinear",
    BEST: "interlinear",
    TWO: "interlinear",
    "MLflow": "mlflow",
    "a lock": "lock",
    "Ray Serve": "ray",
}
SETTINGS: dict[str, dict[str, Any]] = {
    BEST: {"precision": "auto", "compiled": True},
    TWO: {"precision": "auto", "compiled": True, "device": "cpu,cpu"},
}
COMPARED = 20  # texts whose translations are compared

NOTES = (
    "Closed loop: every caller sends its next text, one a request, when it has its answer. *MLflow* is `mlflow models "
    "serve --env-manager local` of the logged model; *a lock* a FastAPI handler that searches a text at a time; *Ray "
    "Serve* one replica with `@serve.batch` of as many texts as we have slots, 10 ms to collect them, searched "
    "together. *Auto, compiled* is `--precision auto --compile on`, and *two engines of it* that with `--device "
    "cpu,cpu`: two threads search, one in each of the others. The same beam everywhere; where answers differ it was "
    "said.",
    "Figures are medians over the rounds; *ours* and *auto, compiled* are how many times as many requests a second we "
    "answer, in fp32 and so. *Others*: the share of the processor that other programs used in the worst round.",
)


def logged(bundle: Path, folder: Path) -> str:
    """The bundle logged in MLflow; returns the address of the logged model."""
    store = MlflowStore(f"sqlite:///{folder}/mlflow.db", create=True)
    run = store.client.create_run(store.experiment("serving")).info.run_id
    model = store.client.get_logged_model(store.log_model(bundle, run).model_id)
    return str(model.artifact_location)


def measure(
    server: Server, texts: list[str], languages: dict[str, str], asked: argparse.Namespace
) -> tuple[Load, list[str]]:
    """The measurements of the callers, and the first texts' translations."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    bodies = [server.body(text, languages) for text in texts]
    said = [server.text(ask(connection, server, body)[1]) for body in bodies[:COMPARED]]
    load(server, bodies, asked.callers, asked.requests // 4 + 1)  # warms up
    return load(server, bodies, asked.callers, asked.requests), said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE")
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--requests", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    texts, languages = read_texts(asked.texts), languages_of(asked.model)
    loads: dict[str, list[Load]] = defaultdict(list)
    others: dict[str, list[float]] = defaultdict(list)
    said: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="alternatives-") as scratch:
        contestants = [
            Contestant(name, KINDS[name], str(asked.model), asked.threads, **SETTINGS.get(name, {}))
            for name in asked.only
        ]
        contestants = [
            replace(one, model=logged(asked.model, Path(scratch))) if one.kind == "mlflow" else one
            for one in contestants
        ]
        for turn in range(asked.rounds):
            first = turn % len(contestants)
            for contestant in [*contestants[first:], *contestants[:first]]:
                with alone() as disturbance, started(contestant) as server:
                    one, said[contestant.name] = measure(server, texts, languages, asked)
                say(f"{contestant.name}: {one.rate:.1f} requests/s, p50 {one.p50:.0f} ms, p99 {one.p99:.0f} ms")
                loads[contestant.name].append(one)
                others[contestant.name].append(disturbance.share)
    agree(said)
    rates = {name: median([one.rate for one in all_]) for name, all_ in loads.items()}
    rows = [
        [
            name,
            table_number(rates[name]),
            f"{median([one.p50 for one in loads[name]]):.0f}",
            f"{median([one.p99 for one in loads[name]]):.0f}",
            f"x {rates[OURS] / rates[name]:.2f}" if OURS in rates else "",
            f"x {rates[BEST] / rates[name]:.2f}" if BEST in rates else "",
            f"{max(others[name]):.0%}",
        ]
        for name in asked.only
    ]
    Report(
        "serving_alternatives",
        f"One bundle behind several servers, {asked.callers} callers, {asked.threads} thread(s)",
        ["", "requests/s", "p50, ms", "p99, ms", "ours", "auto, compiled", "others"],
        rows,
        NOTES,
        {name: [asdict(one) for one in all_] for name, all_ in loads.items()},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
