"""Target tokens a second in training, compared with JoeyNMT and OpenNMT-py, interleaved on one machine.

    python -m benchmarks.training.throughput --peers FOLDER [--rounds 3] [--updates 120] [--threads 2] [--save]

FOLDER was set up by benchmarks/peers/set_up.sh. Loading the data is included in the time.
"""

import argparse
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from benchmarks.contestants import Arena, Contestant, Interlinear, JoeyNMT, OpenNMT, Result, interleaved
from benchmarks.peers.stopwatch import WARM_UP, WINDOW
from benchmarks.reporting import Report, median, say, table_number

BATCH = 32  # sentences a step, for each contestant

NOTES = (
    "A figure is target tokens, end symbols counted, a second of wall time: the mean batch of 32 sentences over "
    "seconds a step, in windows of ten steps, loading the data included. Every contestant is a process of its own, "
    "and they take turns; *median* and *best* are over all windows of all rounds, and ratios are of medians.",
    "The reference model: 8,000 words a side, embedding 256, encoder LSTM of 2 layers and 256 a direction, decoder "
    "LSTM of 2 layers and 256, additive attention, Adam, no dropout. OpenNMT-py splits its encoder's 256 between the "
    "directions; our architecture has one size for both sides, so that we are measured with the whole encoder, twice "
    "OpenNMT-py's. Ours has the context in every decoder layer and in the output where the peers feed the last output "
    "back, and by default each direction of the encoder is a stack of its own; *interleaved* joins them after every "
    "layer, as the peers do.",
    "*Workers* are processes of one thread each, which share every update's 32 sentences, as `train` does by default "
    "on a CPU; the others are one process with all threads.",
    "The peers compute in fp32. *Others* is the share of the processor that other programs used in a contestant's "
    "worst run.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=120)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    if asked.updates <= WARM_UP + WINDOW:
        parser.error(f"--updates: at least {WARM_UP + WINDOW + 1}, to have a window of {WINDOW} after the warm-up")
    arena = Arena(asked.peers.resolve(), asked.threads)
    joeynmt, opennmt = JoeyNMT(arena), OpenNMT(arena)
    stacked = ("model.encoder_stacks=interleaved",)
    workers = f"{asked.threads} workers"
    contestants: list[Contestant] = [
        joeynmt,
        opennmt,
        Interlinear(arena, "fp32"),
        Interlinear(arena, "bf16"),
        Interlinear(arena, "bf16", stacked, "interleaved"),
        Interlinear(arena, "fp32", called=workers, workers=asked.threads),
        Interlinear(arena, "bf16", called=workers, workers=asked.threads),
    ]
    tokens = tokens_a_batch(arena.folder)
    results: dict[str, list[Result]] = defaultdict(list)
    for contestant in interleaved(contestants, asked.rounds):
        result = contestant.train(asked.updates)
        results[contestant.name].append(result)
        rate = tokens / median(result.seconds)
        say(f"{contestant.name}: {table_number(rate)} tokens/s (others: {result.others:.0%} of the processor)")

    rates = {name: [tokens / s for run in runs for s in run.seconds] for name, runs in results.items()}
    rows = [
        [
            name,
            f"{results[name][0].parameters / 1e6:.2f} M",
            table_number(median(all_)),
            table_number(max(all_)),
            " / ".join(table_number(tokens / median(run.seconds)) for run in results[name]),
            f"{median(all_) / median(rates[opennmt.name]):.2f}",
            f"{median(all_) / median(rates[joeynmt.name]):.2f}",
            f"{max(run.others for run in results[name]):.0%}",
        ]
        for name, all_ in rates.items()
    ]
    columns = ["", "parameters", "tokens/s, median", "best", "each run", "x OpenNMT-py", "x JoeyNMT", "others"]
    Report(
        "training_throughput",
        f"Training throughput at the reference model, {asked.threads} thread(s)",
        columns,
        sorted(rows, key=lambda row: [one.name for one in contestants].index(row[0])),
        NOTES,
        {"tokens_a_batch": tokens, "runs": {name: [asdict(run) for run in runs] for name, runs in results.items()}},
    ).publish(asked.save)


def tokens_a_batch(folder: Path) -> float:
    """Target tokens in the mean batch, including end symbols."""
    lengths = [len(line.split()) + 1 for line in (folder / "data" / "train.target").read_text().splitlines()]
    return BATCH * sum(lengths) / len(lengths)


if __name__ == "__main__":
    main()
