"""Does the alignment module find the tokens that a headline came from, where the attention does not?

    python -m benchmarks.headline_alignment [--data demo-headline] [--seeds 3] [--set KEY=VALUE ...] [--save]

`selective_gate` and `uam` are trained from every seed, and align the test set by forced decoding: by their attention,
and `uam` by its read-out too. Kiyono et al. 2018, table 3: 6.71 % by attention, 51.41 % by the module.
"""

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

import seq2seq
from benchmarks.reporting import Report, say
from seq2seq.alignment import Gold, read_gold
from seq2seq.generation import Generation
from seq2seq.metrics.alignment import Accuracy
from seq2seq.metrics.metric import Answers, Outputs
from training.dataset import Dataset, open_dataset, read_rows
from training.loop import train
from training.running import job_for

WAYS = {"selective_gate": ["attention"], "uam": ["attention", "uam"]}

NOTES = (
    "*Accuracy* is the share of target words that are aligned rightly, over all test words with an answer; the mean "
    "over the seeds, and its standard deviation. Right is a source word that the gold alignment links; where a set has "
    "no gold alignment, a source word that is the very same word, for the target words that their source has. A "
    "target's <null>s count neither for nor against.",
    "*Perplexity* and *BLEU* are the dev set's.",
)


def gold_of(dataset: Dataset, pairs: Sequence[tuple[str, str]]) -> list[Gold]:
    """The right links of every pair."""
    if "alignment" not in dataset.splits["test"]:
        return [
            Gold(frozenset((i, j) for j, word in enumerate(target.split()) for i in places(source.split(), word)))
            for source, target in pairs
        ]
    return [
        read_gold(row.texts[0], f"{dataset.name}, line {row.number}", len(source.split()), len(target.split()))
        for row, (source, target) in zip(read_rows(dataset, "test", ["alignment"]), pairs, strict=True)
    ]


def places(words: Sequence[str], word: str) -> list[int]:
    """Where a word stands."""
    return [i for i, other in enumerate(words) if other == word]


def accuracy(generation: Generation, pairs: Sequence[tuple[str, str]], gold: Sequence[Gold], by: str) -> float:
    """The share of target words with an answer that are aligned to one of their right source words."""
    explanations = generation.align((({"source": source}, target) for source, target in pairs), raw=False, by=by)
    targets = [target for _, target in pairs]
    outputs = Outputs.of(targets, [frozenset(explanation.alignment) for explanation in explanations])
    return Accuracy("accuracy").score(outputs, Answers.of([targets], gold=gold)).score / 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="demo-headline")
    parser.add_argument("--data-root", type=Path, default=None)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    dataset = open_dataset(asked.data, asked.data_root)
    pairs = [(row.texts[0], row.texts[1]) for row in read_rows(dataset, "test", ["source", "target"])]
    gold = gold_of(dataset, pairs)
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    dev: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="alignment-") as scratch:
        folder = Path(scratch)
        for seed in range(1, asked.seeds + 1):
            for system, ways in WAYS.items():
                settings = [*asked.settings, f"training.seed={seed}"]
                outcome = train(
                    job_for(system, asked.data, settings, asked.data_root, folder / "prepared", folder / "runs")
                )
                assert outcome.bundle and outcome.dev_bleu and outcome.dev_perplexity
                dev[system].append((outcome.dev_perplexity, outcome.dev_bleu.score))
                generation = Generation(seq2seq.load(outcome.bundle), slots=64)
                for by in ways:
                    scores[system, by].append(accuracy(generation, pairs, gold, by))
                    say(f"seed {seed}, {system} by {by}: {scores[system, by][-1]:.1%}")
    rows = []
    for (system, by), found in scores.items():
        spread = f" ± {100 * stdev(found):.1f}" if len(found) > 1 else ""
        perplexity, bleu = (mean(column) for column in zip(*dev[system], strict=True))
        rows.append([system, by, f"{100 * mean(found):.1f} %{spread}", f"{perplexity:.2f}", f"{bleu:.2f}"])
    Report(
        f"headline_alignment_{dataset.name}",
        f"Alignment of headlines, {dataset.name}, {asked.seeds} seed(s)",
        ["system", "by", "accuracy", "perplexity", "BLEU"],
        rows,
        NOTES,
        {f"{system} {by}": found for (system, by), found in scores.items()},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
