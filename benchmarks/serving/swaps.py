"""Latency while new versions of a model are loaded, warmed up and swapped in, compared with latency without changes.

    python -m benchmarks.serving.swaps --model BUNDLE --texts FILE [--share 0.5] [--seconds 60] [--every 6] [--rounds 3]
        [--threads 1] [--requests 300] [--save]

BUNDLE is a folder; FILE has one text a line in its source language.
"""

import argparse
import itertools
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reporting import Report, alone, median, say, table_number
from benchmarks.serving.servers import Contestant, Server, languages_of, load, open_load, read_texts, started
from interlinear.loadtest.load_report import RateResult
from registry.store import MlflowStore

MODEL = "swapped"
POLL_SECONDS = 0.5

NOTES = (
    "One service, one model by its alias in a registry on this machine, which is asked twice a second. *Still*: the "
    "alias stays. *Swapping*: it is moved to and fro between two versions, of the same weights, so that each swap "
    "fetches, loads and warms a version beside the one that answers, flips, and lets the old one go.",
    "Open loop, Poisson, at a share of the capacity, latency from when a request was due; a failed request would be "
    "in *failed*. Figures are medians over the rounds. With one thread for the mathematics, what loads has a core of "
    "its own where there are two, and shares it with the load. *Others*: the share of the processor that other "
    "programs used in the worst round.",
)


@dataclass(frozen=True)
class Period:
    """One period of load: its measurements, and the swaps in it."""

    found: RateResult
    swaps: int


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


def measure(
    server: Server, store: MlflowStore, bodies: Sequence[bytes], rate: float, asked: argparse.Namespace
) -> list[Period]:
    """Without swaps, then with swaps."""
    ran = []
    for swap in (False, True):
        before = swaps(server)
        with swapping(store, asked.every) if swap else nullcontext():
            found = open_load(server, bodies, rate, asked.seconds, None)
        ran.append(Period(found, swaps(server) - before))
    return ran


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE")
    parser.add_argument("--share", type=float, default=0.5, help="of the capacity that is asked for")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each")
    parser.add_argument("--every", type=float, default=6.0, help="seconds between two swaps")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--requests", type=int, default=300, help="by which the capacity is measured")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    texts, languages = read_texts(asked.texts), languages_of(asked.model)
    rounds: list[list[Period]] = []
    others: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        tracking = f"sqlite:///{folder}/mlflow.db"
        os.environ |= {
            "MLFLOW_TRACKING_URI": tracking,
            "INTERLINEAR_SERVE_CACHE": f"{folder}/cache",
            "INTERLINEAR_SERVE_POLL_SECONDS": str(POLL_SECONDS),
        }
        store = register(asked.model, tracking)
        contestant = Contestant("service", "interlinear", f"models:/{MODEL}@champion", asked.threads)
        for _ in range(asked.rounds):
            with alone() as disturbance, started(contestant) as server:
                bodies = [server.body(text, languages) for text in texts]
                load(server, bodies, 2 * contestant.slots, asked.requests // 4 + 1)  # warms up
                rate = asked.share * load(server, bodies, 2 * contestant.slots, asked.requests).rate
                rounds.append(measure(server, store, bodies, rate, asked))
            others.append(disturbance.share)
            for name, one in zip(("still", "swapping"), rounds[-1], strict=True):
                say(f"{name}: {one.found.latency_ms}, {one.swaps} swaps, {one.found.failed} failed")
    rows = []
    for name, ran in zip(("still", "swapping"), zip(*rounds, strict=True), strict=True):
        latencies = [one.found.latency_ms for one in ran if one.found.latency_ms]
        rows.append(
            [
                name,
                table_number(median([one.found.rate for one in ran])),
                *(table_number(median([getattr(one, what) for one in latencies])) for what in ("p50", "p99", "max")),
                str(sum(one.found.failed for one in ran)),
                str(sum(one.swaps for one in ran)),
                f"{max(others):.0%}",
            ]
        )
    ratios = {
        what: median([getattr(b.found.latency_ms, what) / getattr(a.found.latency_ms, what) for a, b in rounds])
        for what in ("p50", "p99")
    }
    summary = f"Swapping against still: p50 x {ratios['p50']:.2f}, p99 x {ratios['p99']:.2f}."
    Report(
        "serving_swaps",
        f"Latency in a swap of versions, {asked.threads} thread(s)",
        ["", "requests/s", "p50, ms", "p99, ms", "longest, ms", "failed", "swaps", "others"],
        rows,
        (summary, *NOTES),
        {"rounds": [[{"found": one.found.model_dump(), "swaps": one.swaps} for one in ran] for ran in rounds]},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
