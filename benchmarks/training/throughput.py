"""Target tokens a second in training, compared with JoeyNMT and OpenNMT-py, interleaved on one machine.

    python -m benchmarks.training.throughput --peers FOLDER [--rounds 3] [--updates 120] [--threads 2] [--save]

FOLDER was set up by benchmarks/peers/set_up.sh. Loading the data is included in the time.
"""

from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.contestants import JOEYNMT, OPENNMT, Arena, Interlinear, Toolkit, peers
from benchmarks.peers.stopwatch import WARM_UP, WINDOW
from benchmarks.runner import Benchmark, Column, Contestant, Figures, Labels, Options, run

BATCH = 32  # sentences a step, for each contestant

NOTES = (
    "A figure is target tokens, end symbols counted, a second of wall time: the mean batch of 32 sentences over "
    "seconds a step, in windows of ten steps, loading the data included: the median and the best of a round's windows. "
    "Every contestant is a process of its own, and they take turns; ratios are of the rounds' medians.",
    "The reference model: 8,000 words a side, embedding 256, encoder LSTM of 2 layers and 256 a direction, decoder "
    "LSTM of 2 layers and 256, additive attention, Adam, no dropout. OpenNMT-py splits its encoder's 256 between the "
    "directions; our architecture has one size for both sides, so that we are measured with the whole encoder, twice "
    "OpenNMT-py's. Ours has the context in every decoder layer and in the output where the peers feed the last output "
    "back, and by default each direction of the encoder is a stack of its own; *interleaved* joins them after every "
    "layer, as the peers do.",
    "*Workers* are processes of one thread each, which share every update's 32 sentences, as `train` does by default "
    "on a CPU; the others are one process with all threads. The peers compute in fp32.",
)


def measure(toolkit: Toolkit, updates: int, tokens: float) -> dict[Labels, Figures]:
    """A training. `tokens`: in the mean batch."""
    found = toolkit.train(updates)
    rates = [tokens / seconds for seconds in found.seconds]
    return {(): {"parameters": f"{found.parameters / 1e6:.2f} M", "rate": median(rates), "best": max(rates)}}


def tokens_a_batch(folder: Path) -> float:
    """Target tokens in the mean batch, including end symbols."""
    lengths = [len(line.split()) + 1 for line in (folder / "data" / "train.target").read_text().splitlines()]
    return BATCH * sum(lengths) / len(lengths)


def main() -> None:
    options = Options(__doc__)
    options.add_argument("--peers", type=Path, required=True, metavar="FOLDER")
    options.add_argument("--threads", type=int, default=2)
    options.size("--updates", 120, WARM_UP + WINDOW + 1, "at least so many that there is a window after the warm-up")
    asked = options.parse()
    if asked.updates <= WARM_UP + WINDOW:
        options.error(f"--updates: at least {WARM_UP + WINDOW + 1}, to have a window of {WINDOW} after the warm-up")
    arena, workers = Arena(asked.peers.resolve(), asked.threads), f"{asked.threads} workers"
    toolkits: list[Toolkit] = [
        *peers(arena),
        Interlinear(arena, "fp32"),
        Interlinear(arena, "bf16"),
        Interlinear(arena, "bf16", ("model.encoder_stacks=interleaved",), "interleaved"),
        Interlinear(arena, "fp32", called=workers, workers=asked.threads),
        Interlinear(arena, "bf16", called=workers, workers=asked.threads),
    ]
    tokens = tokens_a_batch(arena.folder)
    benchmark = Benchmark(
        "training_throughput",
        f"Training throughput at the reference model, {asked.threads} thread(s)",
        {"parameters": Column("parameters"), "rate": Column("tokens/s"), "best": Column("best", of_rounds=max)},
        NOTES,
        ratio_of="rate",
        baselines={"x OpenNMT-py": OPENNMT, "x JoeyNMT": JOEYNMT},
    )
    run(benchmark, [Contestant(one.name, partial(measure, one, asked.updates, tokens)) for one in toolkits], asked)


if __name__ == "__main__":
    main()
