"""Latency while new versions of a model are loaded, warmed up and swapped in, compared with latency without changes.

    python -m benchmarks.serving.swaps --model BUNDLE --texts FILE [--share 0.5] [--seconds 60] [--every 6] [--rounds 3]
        [--threads 1] [--requests 300] [--save]

BUNDLE is a folder; FILE has one text a line in its source language.
"""

import argparse
import itertools
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from benchmarks.runner import Benchmark, Column, Contestant, Figures, Labels, run
from benchmarks.serving.servers import Server, ServerConfig, ServingOptions, languages_of, read_texts, started
from interlinear.registry.store import MlflowStore

MODEL = "swapped"
POLL_SECONDS = 0.5

NOTES = (
    "One service, one model by its alias in a registry on this machine, which is asked twice a second. *Still*: the "
    "alias stays. *Swapping*: it is moved to and fro between two versions, of the same weights, so that each swap "
    "fetches, loads and warms a version beside the one that answers, flips, and lets the old one go.",
    "Open loop, Poisson, at a share of the capacity, latency from when a request was due; a failed request would be "
    "in *failed*. Figures are medians over the rounds, *over still* those of a round's ratios. With one thread for the "
    "mathematics, what loads has a core of its own where there are two, and shares it with the load.",
)


def register(bundle: Path, tracking: str) -> MlflowStore:
    """A registry with two versions of one bundle."""
    store = MlflowStore(tracking, create=True)
    for _ in range(2):
        run = store.client.create_run(store.experiment("swaps")).info.run_id
        store.register(store.log_model(bundle, run), MODEL)
    store.promote(MODEL, "1")
    return store


@contextmanager
def swapping(store: MlflowStore, every: float) -> Iterator[None]:
    """Move the alias back and forth during the load."""
    over = threading.Event()

    def move() -> None:
        for version in itertools.cycle("21"):
            if over.wait(every):
                return
            store.promote(MODEL, version)

    mover = threading.Thread(target=move)
    mover.start()
    try:
        yield
    finally:
        over.set()
        mover.join()
        store.promote(MODEL, "1")


def swaps(server: Server) -> int:
    """Number of swaps so far."""
    lines = server.get("/metrics").splitlines()
    done = [line for line in lines if line.startswith("interlinear_swaps_total{") and 'outcome="done"' in line]
    return sum(int(float(line.split()[-1])) for line in done)


def measure(store: MlflowStore, config: ServerConfig, asked: argparse.Namespace) -> dict[Labels, Figures]:
    """The load without swaps, then with swaps."""
    rows: dict[Labels, Figures] = {}
    with started(config) as server:
        bodies = [server.body(text, languages_of(asked.model)) for text in read_texts(asked.texts)]
        server.warm_up(bodies)
        rate = asked.share * server.closed_load(bodies, 2 * asked.slots, asked.requests).rate
        for name in ("still", "swapping"):
            before = swaps(server)
            with swapping(store, asked.every) if name == "swapping" else nullcontext():
                found = server.open_load(bodies, rate, asked.seconds)
            still = rows.get(("still",), {"p50": found.p50, "p99": found.p99})
            rows[name,] = {
                "rate": rate, "p50": found.p50, "p99": found.p99, "longest": found.longest, "failed": found.failed,
                "swaps": swaps(server) - before,
                "p50_ratio": found.p50 / float(still["p50"]), "p99_ratio": found.p99 / float(still["p99"]),
            }  # fmt: skip
    return rows


def main() -> None:
    options = ServingOptions(__doc__)
    options.add_argument("--share", type=float, default=0.5, help="of the capacity that is asked for")
    options.size("--seconds", 60.0, 5.0, "of each")
    options.size("--every", 6.0, 1.0, "seconds between two swaps")
    options.size("--requests", 300, 40, "by which the capacity is measured")
    asked = options.parse()
    benchmark = Benchmark(
        "serving_swaps",
        f"Latency in a swap of versions, {asked.threads} thread(s)",
        {
            "rate": Column("requests/s"),
            "p50": Column("p50, ms"),
            "p99": Column("p99, ms"),
            "longest": Column("longest, ms"),
            "p50_ratio": Column("p50 over still"),
            "p99_ratio": Column("p99 over still"),
            "failed": Column("failed", ".0f", sum),
            "swaps": Column("swaps", ".0f", sum),
        },
        NOTES,
        ("",),
    )
    with tempfile.TemporaryDirectory() as folder:
        tracking = f"sqlite:///{folder}/mlflow.db"
        store = register(asked.model, tracking)
        settings = {"TRACKING": tracking, "CACHE": f"{folder}/cache", "POLL_SECONDS": str(POLL_SECONDS)}
        model = f"models:/{MODEL}@champion"
        config = ServerConfig("interlinear", model, asked.threads, asked.slots, settings=settings)
        run(benchmark, [Contestant("", lambda: measure(store, config, asked))], asked)


if __name__ == "__main__":
    main()
