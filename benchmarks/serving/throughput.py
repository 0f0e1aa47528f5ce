"""Requests a second and latency of the service beside the search alone and beside other servers of the same bundle.

    python -m benchmarks.serving.throughput --model BUNDLE --texts FILE [--only TEXT] [--requests 600] [--rounds 3]
        [--threads 1] [--slots 32] [--save]

BUNDLE is a folder; FILE has one text a line in its source language. Each server is a process of its own (Ray and MLflow
use several); the search alone runs in this one.
"""

import argparse
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch

import interlinear
from benchmarks.reporting import say
from benchmarks.runner import Benchmark, Column, Contestant, Figures, Labels, run
from benchmarks.serving.servers import ServerConfig, ServingOptions, languages_of, read_texts, started
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from interlinear.memory_allocator import keep_freed_memory
from service.settings import Settings

OURS, ALONE, LOCK = "service, fp32", "service, one at a time", "a lock"
CALLERS = (1, 8, 32)
COMPARED = 20  # texts whose translations are compared
AUTO = {"PRECISION": "auto", "COMPILE": "on"}
SERVERS: Mapping[str, tuple[str, Mapping[str, str]]] = {  # kind, and settings of the service
    OURS: ("interlinear", {}),
    "service, bf16": ("interlinear", {"PRECISION": "bf16"}),
    "service, auto, compiled": ("interlinear", AUTO),
    "two engines of it": ("interlinear", {**AUTO, "DEVICE": "cpu,cpu"}),
    "service, explained": ("interlinear", {}),
    ALONE: ("interlinear", {}),
    "MLflow": ("mlflow", {}),
    LOCK: ("collect", {}),
    "Ray Serve": ("ray", {}),
}

NOTES = (
    "Closed loop: every caller sends its next text, one a request, when it has its answer. Latency is what a caller "
    "sees, HTTP and waiting included. *Search alone*: the same table of slots in one process, fed with the texts as "
    "slots come free; no HTTP, no validation, no queue. *Explained*: every answer with what each word looked at. *One "
    "at a time*: the service with one slot. *Auto, compiled*: `--precision auto --compile on`; *two engines of it*: "
    "that with `--device cpu,cpu`.",
    "*MLflow* is `mlflow models serve --env-manager local` of the logged model; *a lock* a FastAPI handler that "
    "searches a text at a time; *Ray Serve* one replica with `@serve.batch` of as many texts as we have slots, 10 ms "
    "to collect them, searched together. The same beam everywhere; where answers differ it was said.",
    "Medians over the rounds; ratios are of requests a second, to the service in fp32 and to the search alone, with as "
    "many callers. With one thread for the mathematics the callers have a core of their own where there are two.",
)


def logged(bundle: Path, folder: Path) -> str:
    """The bundle logged in MLflow; returns the address of the logged model."""
    from interlinear.registry.store import MlflowStore

    store = MlflowStore(f"sqlite:///{folder}/mlflow.db", create=True)
    run = store.client.create_run(store.experiment("serving")).info.run_id
    model = store.client.get_logged_model(store.log_model(bundle, run).model_id)
    return str(model.artifact_location)


def measure(name: str, model: str, asked: argparse.Namespace, said: dict[str, list[str]]) -> dict[Labels, Figures]:
    """A server at each number of callers. `said`: the first texts' translations by contestant; its are added."""
    kind, settings = SERVERS[name]
    texts, languages = read_texts(asked.texts), languages_of(asked.model)
    rows: dict[Labels, Figures] = {}
    slots = 1 if name in (LOCK, ALONE) else asked.slots
    with started(ServerConfig(kind, model, asked.threads, slots, settings=settings)) as server:
        bodies = [server.body(text, languages, explain="explained" in name) for text in texts]
        said[name] = [server.text(server.post(body)[1]) for body in bodies[:COMPARED]]
        different = sum(one != other for one, other in zip(said[name], next(iter(said.values())), strict=True))
        if different:
            say(f"{name} answered {different} of {len(said[name])} texts otherwise than {next(iter(said))}")
        server.warm_up(bodies)
        for callers in CALLERS:
            load = server.closed_load(bodies, callers, asked.requests)
            rows[str(callers),] = {"rate": load.rate, "p50": load.p50, "p99": load.p99}
        rows["ready",] = {"ready": server.start_seconds}
    return rows


def search_alone(asked: argparse.Namespace, explain: bool) -> dict[Labels, Figures]:
    """The search of the same texts in this process, in order, as slots become free."""
    keep_freed_memory()  # as the service does
    torch.set_num_threads(asked.threads)
    bundle = interlinear.load(asked.model)
    width = max(bundle.card.search.beam, Settings().beam)  # the service has as many
    rows: dict[Labels, Figures] = {}
    for callers in CALLERS:
        generation = SequenceGenerator(bundle, slots=min(callers, asked.slots), width=width)
        searched(generation, read_texts(asked.texts, asked.slots), explain)  # warms up
        rows[str(callers),] = {
            "rate": asked.requests / searched(generation, read_texts(asked.texts, asked.requests), explain)
        }
    return rows


def searched(generation: SequenceGenerator, texts: list[str], explain: bool) -> float:
    """Seconds to search all texts."""
    card, waiting = generation.bundle.card, deque(enumerate(texts))
    source = next(iter(card.model.sources))
    begun = time.perf_counter()
    while waiting or generation.active:
        fresh = [waiting.popleft() for _ in range(min(generation.free, len(waiting)))]
        requests = [(i, Request({source: text}, card.search, explain)) for i, text in fresh]
        generation.admit([(i, generation.encode(request)) for i, request in requests])
        generation.step()
    return time.perf_counter() - begun


def main() -> None:
    options = ServingOptions(__doc__)
    options.size("--requests", 600, 40, "requests at each number of callers")
    options.add_argument("--only", default="", metavar="TEXT", help="contestants whose names contain it")
    asked = options.parse()
    with tempfile.TemporaryDirectory(prefix="throughput-") as scratch:
        said: dict[str, list[str]] = {}
        contestants = [
            Contestant("search alone", lambda: search_alone(asked, explain=False)),
            Contestant("search alone, explained", lambda: search_alone(asked, explain=True)),
        ]
        for name in SERVERS:
            if asked.only in name:
                model = logged(asked.model, Path(scratch)) if name == "MLflow" else str(asked.model)
                contestants.append(Contestant(name, partial(measure, name, model, asked, said)))
        benchmark = Benchmark(
            "serving_throughput",
            f"The service beside the search alone and other servers, {asked.threads} thread(s)",
            {
                "rate": Column("requests/s"),
                "p50": Column("p50, ms", ".0f"),
                "p99": Column("p99, ms", ".0f"),
                "ready": Column("ready after, s"),
            },
            NOTES,
            ("callers",),
            "rate",
            {f"x {OURS}": OURS, "x search alone": "search alone"},
        )
        run(benchmark, [one for one in contestants if asked.only in one.name], asked)


if __name__ == "__main__":
    main()
