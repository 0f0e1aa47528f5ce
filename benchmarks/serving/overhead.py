"""Overhead of the service over search alone: at saturation, for one text at a time, and at start-up.

    python -m benchmarks.serving.overhead --model BUNDLE --texts FILE [--requests 600] [--single 100] [--rounds 3]
        [--threads 1] [--slots 32] [--save]

BUNDLE is a folder; FILE has one text a line in its source language. The search runs in this process, the service in a
separate one, interleaved.
"""

import argparse
import http.client
import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path

import torch

import seq2seq
from benchmarks.reporting import Report, alone, median, say, table_number
from benchmarks.serving.servers import Contestant, ask, languages_of, load, read_texts, started
from seq2seq.bundle import Bundle
from seq2seq.generate import SequenceGenerator
from seq2seq.generation_request import Request
from seq2seq.memory_allocator import keep_freed_memory
from seq2seq.model.model import Model
from service.settings import Settings

ALONE, SERVICE = "search alone", "service"
PAUSE = 0.01  # seconds before each text that is searched or sent alone

NOTES = (
    "*Search alone*: the same table of slots, fed with the texts in their order as slots come free; no HTTP, no "
    "validation, no queue. *Service*: closed loop, twice as many callers as slots, one text a request. Explained: "
    "every answer with what each word looked at, in both.",
    "*One at a time*: milliseconds a text, which is searched alone, then sent; the difference is the median over the "
    "texts. Both come to it after a pause: a processor that has waited is slower at first, whoever asks it.",
    "With one thread for the mathematics the callers have a core of their own where there are two; with as many "
    "threads as cores they take from the service what they need, and that counts as overhead. Figures are medians over "
    "the rounds.",
)


@dataclass(frozen=True)
class Round:
    """Texts a second at saturation, plain and explained; milliseconds for each text alone; processor share of other
    programs."""

    plain: dict[str, float]
    explained: dict[str, float]
    single: dict[str, list[float]]
    others: float
    ready: float  # seconds from the service's start until it was ready

    def cost(self, what: str) -> float:
        """The share of the rate that the service costs, for "plain" or "explained"."""
        rates: dict[str, float] = getattr(self, what)
        return 1 - rates[SERVICE] / rates[ALONE]

    def added(self) -> float:
        """Median milliseconds that the service adds to a single text."""
        return statistics.median(s - a for a, s in zip(self.single[ALONE], self.single[SERVICE], strict=True))


def searched(generation: SequenceGenerator, texts: Sequence[str], explain: bool) -> float:
    """Seconds to search all texts, in order, as slots become free."""
    card = generation.bundle.card
    source = next(iter(card.model.sources))
    waiting = deque(enumerate(texts))
    begun = time.perf_counter()
    while waiting or generation.active:
        fresh = [waiting.popleft() for _ in range(min(generation.free, len(waiting)))]
        requests = [(i, Request({source: text}, card.search, explain)) for i, text in fresh]
        generation.admit([(i, generation.encode(request)) for i, request in requests])
        generation.step()
    return time.perf_counter() - begun


def one_round(bundle: Bundle[Model], texts: Sequence[str], asked: argparse.Namespace) -> Round:
    width = max(bundle.card.search.beam, Settings().beam)  # the service has as many slots
    generation = SequenceGenerator(bundle, slots=asked.slots, width=width)
    contestant = Contestant("service", "interlinear", str(asked.model), asked.threads, asked.slots)
    languages = languages_of(asked.model)
    many = list(islice(cycle(texts), asked.requests))
    single: dict[str, list[float]] = {ALONE: [], SERVICE: []}
    with alone() as disturbance, started(contestant) as server:
        searched(generation, many[: asked.slots], explain=True)  # warms up
        plain, explained = ({ALONE: len(many) / searched(generation, many, explain)} for explain in (False, True))
        bodies = [server.body(text, languages) for text in texts]
        explaining = [server.body(text, languages, explain=True) for text in texts]
        load(server, explaining, 2 * asked.slots, asked.requests // 4 + 1)  # warms up
        plain[SERVICE] = load(server, bodies, 2 * asked.slots, asked.requests).rate
        explained[SERVICE] = load(server, explaining, 2 * asked.slots, asked.requests).rate
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        for text, body in islice(zip(texts, bodies, strict=True), asked.single):
            time.sleep(PAUSE)
            single[ALONE].append(1000 * searched(generation, [text], explain=False))
            time.sleep(PAUSE)
            single[SERVICE].append(1000 * ask(connection, server, body)[0])
    return Round(plain, explained, single, disturbance.share, server.start_seconds)


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
    rounds = []
    for _ in range(asked.rounds):
        rounds.append(one := one_round(bundle, texts, asked))
        say(
            f"cost {one.cost('plain'):.1%}, explained {one.cost('explained'):.1%}; "
            f"a text alone {median(one.single[ALONE]):.1f} ms, +{one.added():.2f}"
        )
    rows = [
        [
            name,
            table_number(median([one.plain[name] for one in rounds])),
            table_number(median([one.explained[name] for one in rounds])),
            f"{median([median(one.single[name]) for one in rounds]):.1f}",
        ]
        for name in (ALONE, SERVICE)
    ]
    costs = [f"{median([one.cost(what) for one in rounds]):.1%}" for what in ("plain", "explained")]
    rows.append(["cost", *costs, f"+{median([one.added() for one in rounds]):.2f}"])
    ready = f"From its start until it was ready: {median([one.ready for one in rounds]):.1f} s."
    others = f"Other programs used at most {max(one.others for one in rounds):.0%} of the processor in a round."
    Report(
        "serving_overhead",
        f"The service over the search alone, {asked.threads} thread(s)",
        ["", "texts/s", "texts/s, explained", "one at a time, ms"],
        rows,
        (ready, *NOTES, others),
        {"rounds": [asdict(one) for one in rounds]},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
