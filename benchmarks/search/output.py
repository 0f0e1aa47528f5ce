"""The choice of the best words of every hypothesis, from logits of the whole vocabulary to K words with their
log-probabilities: the search's way beside others.

    python -m benchmarks.search.output [--vocabulary 8000] [--beam 5] [--rounds 100] [--save]

One thread; seconds of the thread, so that other programs only count by what they do to its cache.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.reporting import Report, alone, median
from seq2seq.search.step import best_columns

NOTES = (
    "*By blocks*: the search's way. *Without log-probabilities in memory*: the normaliser is the logarithm of a sum of "
    "exponentials, in groups of eight rows, and only the best words' logits are normalised. *torch*: `log_softmax` and "
    "`topk`. Milliseconds, medians over the rounds, in turns; in brackets torch's time divided by it.",
)


def torchs(logits_NV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    best_Nk, column_Nk = logits_NV.log_softmax(-1).topk(k, -1)
    return best_Nk, column_Nk


def by_blocks(logits_NV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    return best_columns(logits_NV.log_softmax(-1), k)


def in_one_pass(logits_NV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    best_Nk, column_Nk = best_columns(logits_NV, k)
    largest_N1 = best_Nk[:, :1]
    sums = [
        (rows - largest).exp_().sum(-1, keepdim=True)
        for rows, largest in zip(logits_NV.split(8), largest_N1.split(8), strict=True)
    ]
    return best_Nk - largest_N1 - torch.cat(sums).log_(), column_Nk


WAYS: dict[str, Callable[[Tensor, int], tuple[Tensor, Tensor]]] = {
    "torch": torchs,
    "by blocks": by_blocks,
    "without log-probabilities in memory": in_one_pass,
}


def measure(rows: int, vocabulary: int, k: int, rounds: int) -> dict[str, float]:
    """Milliseconds of each way."""
    logits_NV = 3 * torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(1))
    expected_Nk, column_Nk = torchs(logits_NV, k)
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, way in WAYS.items():
            begun = time.thread_time()
            best_Nk, found_Nk = way(logits_NV, k)
            seconds[name].append(time.thread_time() - begun)
            torch.testing.assert_close(best_Nk, expected_Nk, atol=1e-5, rtol=1e-5)
            assert torch.equal(found_Nk, column_Nk)
    return {name: 1000 * median(measured) for name, measured in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    table, kept = [], {}
    with alone() as disturbance, torch.inference_mode():
        for sentences in (32, 8, 1):
            found = measure(sentences * asked.beam, asked.vocabulary, asked.beam, asked.rounds)
            kept[f"{sentences} sentences"] = found
            cells = [f"{found[name]:.2f} ({found['torch'] / found[name]:.2f})" for name in WAYS]
            table.append([f"{sentences} x {asked.beam}", *cells])
    Report(
        "output",
        f"The best {asked.beam} of {asked.vocabulary:,} words",
        ["sentences x beam", *WAYS],
        table,
        (*NOTES, f"Other programs used {disturbance.share:.0%} of the processor meanwhile."),
        kept,
    ).publish(asked.save)


if __name__ == "__main__":
    main()
