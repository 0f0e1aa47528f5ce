"""Sentences a second in beam search, compared with JoeyNMT and OpenNMT-py, interleaved on one machine.

    python -m benchmarks.search.throughput --peers FOLDER [--rounds 3] [--threads 2] [--batch 32] [--save]

FOLDER was set up by benchmarks/peers/set_up.sh; every contestant's model is trained there once.
"""

from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.contestants import JOEYNMT, OPENNMT, Arena, Interlinear, Toolkit, peers
from benchmarks.runner import Benchmark, Column, Contestant, Figures, Labels, Options, run

NOTES = (
    "640 sentences, beam 5, an output of exactly 20 words each, whatever the model would have liked: the "
    "same work for all. Every contestant is a process of its own, and they take turns; ratios are of medians.",
    "Of the peers, only the encoder and the search of each batch are timed (JoeyNMT's `search`, OpenNMT-py's "
    "`translate_batch`). Of ours, whole passes over the 640 lines, from text to text: tokenising, sorting, search, and "
    "writing the text are in it, and so is a 21st step, in which the end symbol is scored. The first pass warms up and "
    "does not count. *Compiled*: `--compile on`.",
)


def measure(toolkit: Toolkit, batch: int) -> dict[Labels, Figures]:
    toolkit.learn()
    seconds = toolkit.search(batch).seconds
    middle = median(seconds)
    return {(): {"milliseconds": 1000 * middle, "best": 1000 * min(seconds), "rate": batch / middle}}


def main() -> None:
    options = Options(__doc__)
    options.add_argument("--peers", type=Path, required=True, metavar="FOLDER")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--batch", type=int, default=32, help="sentences that are searched together")
    asked = options.parse()
    arena = Arena(asked.peers.resolve(), asked.threads)
    toolkits: list[Toolkit] = [
        *peers(arena),
        *(Interlinear(arena, precision, compiled=compiled) for precision in ("fp32", "bf16", "int8")
          for compiled in (False, True)),
    ]  # fmt: skip
    benchmark = Benchmark(
        "search_throughput" + ("_alone" if asked.batch == 1 else ""),
        f"Beam search at the reference model, {asked.batch} together, {asked.threads} thread(s)",
        {
            "milliseconds": Column(f"ms for {asked.batch}", ".0f"),
            "best": Column("best", ".0f", min),
            "rate": Column("sentences/s"),
        },
        NOTES,
        ratio_of="rate",
        baselines={"x OpenNMT-py": OPENNMT, "x JoeyNMT": JOEYNMT},
    )
    run(benchmark, [Contestant(one.name, partial(measure, one, asked.batch)) for one in toolkits], asked)


if __name__ == "__main__":
    main()
