"""What the service costs over the search alone: at saturation, for one text at a time, and until it is ready.

    python -m benchmarks.serving_overhead --model BUNDLE --texts FILE [--requests 600] [--single 100] [--rounds 3]
        [--threads 1] [--slots 32] [--save]

BUNDLE is a folder; FILE has one text a line in its source language. The search runs in this process, the service in one
of its own, in turns.
"""

import argparse
import http.client
import statistics
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TypeVar

import torch

import seq2seq
from benchmarks.reporting import Report, alone, median, say, table_number
from benchmarks.servers import Contestant, ask, languages_of, load, read_texts, started
from seq2seq.bundle import Bundle
from seq2seq.generation import Generation, Request
from seq2seq.heap import keep_freed_memory
from seq2seq.model import Model
from service.settings import Settings

T = TypeVar("T")

PAUSE = 0.01  # seconds before each text that is sent alone

NOTES = (
    "*Search alone*: the same table of slots, fed with the texts in their order as slots come free; no HTTP, no "
    "validation, no queue. *Service*: closed loop, twice as many callers as slots, one text a request. Explained: "
    "every answer with what each word looked at, in both.",
    "*One at a time*: milliseconds a text; the difference is the median over the texts, each compared with itself. "
    "Both sides come to each text after a pause: a processor that has waited is slower at first, whoever asks it.",
    "With one thread for the mathematics the callers have a core of their own where there are two; with as many "
    "threads as cores they take from the service what they need, and that counts as overhead. Figures are medians over "
    "the rounds. *Others*: the share of the processor that other programs used in the worst round.",
)


@dataclass(frozen=True)
class Side:
    """One side, once: texts a second at saturation, plain and explained, and milliseconds for each text alone."""

    plain: float
    explained: float
    single: list[float]
    others: float
    ready: float = 0.0  # seconds from its start until it was ready


def searched(generation: Generation, texts: Sequence[str], explain: bool) -> float:
    """Seconds to search all texts, in their order, as slots come free."""
    card = generation.bundle.card
    source = next(iter(card.model.sources))
    waiting = deque(enumerate(texts))
    begun = time.perf_counter()
    while waiting or generation.live:
        fresh = [waiting.popleft() for _ in range(min(generation.free, len(waiting)))]
        requests = [(i, Request({source: text}, card.search, explain)) for i, text in fresh]
        generation.admit([(i, generation.encode(request)) for i, request in requests])
        generation.advance()
    return time.perf_counter() - begun


def paused(items: Sequence[T]) -> Iterator[T]:
    """Each after a pause."""
    for item in items:
        time.sleep(PAUSE)
        yield item


def alone_in_process(bundle: Bundle[Model], texts: Sequence[str], asked: argparse.Namespace) -> Side:
    width = max(bundle.card.search.beam, Settings().beam)  # the service's table is as wide
    generation = Generation(bundle, slots=asked.slots, width=width)
    many = list(islice(cycle(texts), asked.requests))
    with alone() as disturbance:
        searched(generation, many[: asked.slots], explain=True)  # warms up
        plain, explained = (len(many) / searched(generation, many, explain) for explain in (False, True))
        single = [1000 * searched(generation, [text], explain=False) for text in paused(texts[: asked.single])]
    return Side(plain, explained, single, disturbance.share)


def behind_http(texts: Sequence[str], asked: argparse.Namespace) -> Side:
    contestant = Contestant("service", "interlinear", str(asked.model), asked.threads, asked.slots)
    languages = languages_of(asked.model)
    with alone() as disturbance, started(contestant) as server:
        bodies = [server.body(text, languages) for text in texts]
        explaining = [server.body(text, languages, explain=True) for text in texts]
        load(server, explaining, 2 * asked.slots, asked.requests // 4 + 1)  # warms up
        plain, explained = (load(server, sent, 2 * asked.slots, asked.requests).rate for sent in (bodies, explaining))
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        single = [1000 * ask(connection, server, body)[0] for body in paused(bodies[: asked.single])]
    return Side(plain, explained, single, disturbance.share, server.start_seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE")
    parser.add_argument("--requests", type=int, default=600, help="at saturation")
    parser.add_argument("--single", type=int, default=100, help="texts that are sent alone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    keep_freed_memory()  # as the service does
    torch.set_num_threads(asked.threads)
    texts, bundle = read_texts(asked.texts), seq2seq.load(asked.model)
    sides: dict[str, list[Side]] = {"search alone": [], "service": []}
    for _ in range(asked.rounds):
        sides["search alone"].append(alone_in_process(bundle, texts, asked))
        sides["service"].append(behind_http(texts, asked))
        for name, ran in sides.items():
            one = ran[-1]
            say(f"{name}: {one.plain:.1f} texts/s, explained {one.explained:.1f}; one {median(one.single):.1f} ms")
    rows = [
        [
            name,
            table_number(median([one.plain for one in ran])),
            table_number(median([one.explained for one in ran])),
            f"{median([median(one.single) for one in ran]):.1f}",
            f"{max(one.others for one in ran):.0%}",
        ]
        for name, ran in sides.items()
    ]

    def cost(what: str) -> str:
        ratios = [
            getattr(s, what) / getattr(a, what) for a, s in zip(sides["search alone"], sides["service"], strict=True)
        ]
        return f"{1 - median(ratios):.1%}"

    added = [
        statistics.median(s - a for a, s in zip(one.single, other.single, strict=True))
        for one, other in zip(sides["search alone"], sides["service"], strict=True)
    ]
    rows.append(["cost", cost("plain"), cost("explained"), f"+{median(added):.2f}", ""])
    ready = f"From its start until it was ready: {median([one.ready for one in sides['service']]):.1f} s."
    Report(
        "serving_overhead",
        f"The service over the search alone, {asked.threads} thread(s)",
        ["", "texts/s", "texts/s, explained", "one at a time, ms", "others"],
        rows,
        (ready, *NOTES),
        {name: [asdict(one) for one in ran] for name, ran in sides.items()},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
