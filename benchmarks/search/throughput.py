"""Sentences a second in beam search, compared with JoeyNMT and OpenNMT-py, interleaved on one machine.

    python -m benchmarks.search.throughput --peers FOLDER [--rounds 3] [--threads 2] [--batch 32]
        [--without-joeynmt] [--save]

FOLDER was set up by benchmarks/peers/set_up.sh; every contestant's model is trained there once.
"""

import argparse
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from benchmarks.contestants import Arena, Contestant, Interlinear, JoeyNMT, OpenNMT, Result, interleaved
from benchmarks.reporting import Report, median, say, table_number

NOTES = (
    "640 sentences, beam 5, an output of exactly 20 words each, whatever the model would have liked: the "
    "same work for all. Every contestant is a process of its own, and they take turns; ratios are of medians.",
    "Of the peers, only the encoder and the search of each batch are timed (JoeyNMT's `search`, OpenNMT-py's "
    "`translate_batch`). Of ours, whole passes over the 640 lines, from text to text: tokenising, sorting, search, and "
    "writing the text are in it, and so is a 21st step, in which the end symbol is scored. The first pass warms up and "
    "does not count. *Compiled*: `--compile on`.",
    "*Others* is the share of the processor that other programs used in a contestant's worst run.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32, help="sentences that are searched together")
    parser.add_argument("--without-joeynmt", action="store_true")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    arena = Arena(asked.peers.resolve(), asked.threads)
    joeynmt, opennmt = JoeyNMT(arena), OpenNMT(arena)
    ours = [
        Interlinear(arena, precision, compiled=compiled)
        for precision in ("fp32", "bf16", "int8")
        for compiled in (False, True)
    ]
    contestants: list[Contestant] = [*([] if asked.without_joeynmt else [joeynmt]), opennmt, *ours]
    for contestant in contestants:
        contestant.learn()
    results: dict[str, list[Result]] = defaultdict(list)
    for contestant in interleaved(contestants, asked.rounds):
        result = contestant.search(asked.batch)
        results[contestant.name].append(result)
        rate = asked.batch / median(result.seconds)
        say(f"{contestant.name}: {table_number(rate)} sentences/s (others: {result.others:.0%} of the processor)")

    seconds = {one.name: [s for run in results[one.name] for s in run.seconds] for one in contestants}
    middle = {name: median(all_) for name, all_ in seconds.items()}
    rows = [
        [
            name,
            f"{1000 * middle[name]:.0f}",
            f"{1000 * min(all_):.0f}",
            table_number(asked.batch / middle[name]),
            " / ".join(table_number(asked.batch / median(run.seconds)) for run in results[name]),
            f"{middle[opennmt.name] / middle[name]:.2f}",
            f"{middle[joeynmt.name] / middle[name]:.2f}" if joeynmt.name in middle else "",
            f"{max(run.others for run in results[name]):.0%}",
        ]
        for name, all_ in seconds.items()
    ]
    columns = [
        "",
        f"ms for {asked.batch}, median",
        "best",
        "sentences/s",
        "each run",
        "x OpenNMT-py",
        "x JoeyNMT",
        "others",
    ]
    Report(
        "search_throughput" + ("_alone" if asked.batch == 1 else ""),
        f"Beam search at the reference model, {asked.batch} together, {asked.threads} thread(s)",
        columns,
        rows,
        NOTES,
        {name: [asdict(run) for run in runs] for name, runs in results.items()},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
