"""What explanations cost: the time of texts with and without, by their length.

    python -m benchmarks.search.explanations --model BUNDLE --texts FILE [--rounds 3] [--save]

BUNDLE is a folder; FILE has one sentence a line in the model's source language. Longer texts are neighbours that are
joined: models are served with texts of up to their `source_length`, and a long sentence is one of them.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import torch

import seq2seq
from benchmarks.reporting import Report, median, say
from seq2seq.generate import SequenceGenerator
from seq2seq.generation_request import GenerationResult, Request
from seq2seq.memory_allocator import keep_freed_memory

SLOTS = 16  # texts that are searched together
JOINED = (1, 2, 4, 8)  # sentences of a text

NOTES = (
    f"From text to text with the options of the model's card, {SLOTS} slots, one thread; the two kinds in turns, "
    "medians over the rounds. *ratio*: explained by plain.",
)


def seconds_of(generator: SequenceGenerator, texts: Sequence[str], explain: bool) -> tuple[float, int]:
    """The seconds that texts take, and the tokens of their outputs."""
    card = generator.bundle.card
    requests = [Request({card.model.first_text: text}, card.search, explain) for text in texts]
    began, tokens = time.perf_counter(), 0
    for result in generator.generate(requests):
        assert isinstance(result, GenerationResult)
        tokens += len(result.candidates[0].ids)
    return time.perf_counter() - began, tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, metavar="BUNDLE")
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results")
    asked = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    lines = asked.texts.read_text("utf-8").splitlines()
    generator = SequenceGenerator(seq2seq.load(asked.model), slots=SLOTS)
    rows, kept = [], {}
    for joined in JOINED:
        count = max(2, SLOTS * 2 // joined)
        texts = [" ".join(lines[i * joined : (i + 1) * joined]) for i in range(count)]
        seconds: dict[bool, list[float]] = {False: [], True: []}
        seconds_of(generator, texts[:1], explain=True)  # warm-up
        for _ in range(asked.rounds):
            for explain, taken in seconds.items():
                duration, tokens = seconds_of(generator, texts, explain)
                taken.append(duration)
        plain, explained = (1000 * median(taken) / count for taken in seconds.values())
        say(f"{joined} sentences: {plain:.0f} ms, explained {explained:.0f} ms")
        rows.append([f"{tokens / count:.0f}", f"{plain:.1f}", f"{explained:.1f}", f"{explained / plain:.1f}"])
        kept[str(joined)] = {"plain": seconds[False], "explained": seconds[True], "texts": count}
    columns = ["tokens of an output", "ms", "ms, explained", "ratio"]
    Report("explanations", "What explanations cost", columns, rows, NOTES, kept).publish(asked.save)


if __name__ == "__main__":
    main()
