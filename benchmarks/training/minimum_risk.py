"""Cost of an update of minimum risk training compared with one of maximum likelihood, and of its parts.

    python -m benchmarks.training.minimum_risk [--candidates 20] [--rounds 3] [--threads 1] [--precision bf16] [--save]

Everything runs in this process, interleaved. The weights are untrained, and make the end symbol so unlikely that all
candidates are as long as their references.
"""

import argparse
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor

from benchmarks.reporting import Report, alone, median, say
from benchmarks.training.systems import SENTENCES, SOURCE, TARGET, VOCABULARY, batch_of, interleaved, model_of
from seq2seq.batch import Batch
from seq2seq.losses.cross_entropy import Loss
from seq2seq.memory_allocator import keep_freed_memory
from seq2seq.minimum_risk.minimum_risk import RiskOptions, draw, generate_candidates, minimum_risk_loss
from seq2seq.model.model import Model
from seq2seq.text import END

NOTES = (
    f"An update: {SENTENCES} sentences of {SOURCE} words a side, {VOCABULARY:,} words a vocabulary, E = H = 256, one "
    "layer a side, no dropout, forward, backward and Adam; with risk, the reference and so many candidates of each, "
    "all of the reference's length. *Ratio* is to the likelihood's update of the same system, of medians; *proposing* "
    "is the share of an update in which the candidates are found.",
)


def updater(model: Model, precision: str, loss: Callable[[], Loss]) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def update() -> None:
        optimizer.zero_grad(set_to_none=True)
        with context(precision):
            objective = loss().objective
        (objective / SENTENCES).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return update


def proposer(model: Model, batch: Batch, options: RiskOptions, precision: str) -> Callable[[], None]:
    def run() -> None:
        with context(precision):
            generate_candidates(model, batch, options)

    return run


def context(precision: str) -> torch.autocast | nullcontext[None]:
    return torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else nullcontext()


def multinomial(logits_NV: Tensor) -> Tensor:
    """The torch function that `draw` replaces."""
    return torch.multinomial(torch.softmax(logits_NV, 1, dtype=torch.float32), 1).squeeze(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    keep_freed_memory()  # as the command does
    torch.set_num_threads(asked.threads)
    models = {system: model_of(system) for system in ("rnnsearch", "interactive_attention")}
    batch = batch_of(models["rnnsearch"])
    work: dict[str, Callable[[], None]] = {}
    for system, model in models.items():
        with torch.no_grad():
            model.output.bias[END] = -50
        work[system, "likelihood"] = updater(model, asked.precision, lambda model=model: model.loss(batch))
        for kind in ("samples", "beam"):
            options = RiskOptions(candidates=asked.candidates, draw=kind, max_length=TARGET - 1)
            work[system, kind] = updater(
                model, asked.precision, lambda model=model, options=options: minimum_risk_loss(model, batch, options)
            )
            work[system, f"proposing {kind}"] = proposer(model, batch, options, asked.precision)
    logits = torch.randn(SENTENCES * asked.candidates, VOCABULARY, dtype=torch.bfloat16)
    work["draw"] = lambda: draw(logits)
    work["multinomial"] = lambda: multinomial(logits)
    with alone():
        seconds = interleaved(work, asked.rounds, 1)
    times = {name: median(runs) for name, runs in seconds.items()}
    rows = []
    for (system, kind), taken in ((name, t) for name, t in times.items() if isinstance(name, tuple)):
        if kind.startswith("proposing"):
            continue
        share = times[system, f"proposing {kind}"] / taken if kind != "likelihood" else 0.0
        ratio = taken / times[system, "likelihood"]
        say(f"{system}, {kind}: {1000 * taken:.0f} ms")
        rows.append([system, kind, f"{1000 * taken:.0f}", f"{ratio:.1f}", f"{share:.0%}" if share else ""])
    faster = times["multinomial"] / times["draw"]
    Report(
        "risk",
        f"Minimum risk training with {asked.candidates} candidates, {asked.precision}, {asked.threads} thread(s)",
        ["system", "update", "ms", "ratio", "proposing"],
        rows,
        [*NOTES, f"Words are drawn {faster:.1f} times as fast as by torch.multinomial."],
        {", ".join(name) if isinstance(name, tuple) else name: runs for name, runs in seconds.items()},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
