"""Does the alignment module find the source tokens of a headline better than the attention does?

    python -m benchmarks.search.headline_alignment [--data demo-headline] [--seeds 3] [--at-once 1] [--set KEY=VALUE]
        [--save]
    python -m benchmarks.search.headline_alignment --data headlines --trained selective_gate=BUNDLE uam=BUNDLE

`selective_gate` and `uam` are trained with every seed, or are those that `--trained` names, and align the test set by
forced decoding: by attention, and `uam` also by its read-out. Kiyono et al. 2018, table 3: 6.71 % by attention, 51.41 %
by the module.
"""

import argparse
import multiprocessing
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import seq2seq
from benchmarks.reporting import Report, say
from seq2seq.alignment import GoldAlignment, read_gold_alignment
from seq2seq.attention_reading import AttentionReading
from seq2seq.generate import SequenceGenerator
from seq2seq.metrics.alignment import Accuracy
from seq2seq.metrics.metric import ReferenceSet, SystemOutputs
from training.data.dataset import Dataset, open_dataset, read_rows
from training.loop.trainer import train
from training.runs.job import create_job

WAYS = {"selective_gate": ["attention"], "uam": ["attention", "uam"]}

NOTES = (
    "*Accuracy* is the share of target words that are aligned rightly, over all test words with an answer; the mean "
    "over the seeds, and its standard deviation. Right is a source word that the gold alignment links; where a set has "
    "no gold alignment, a source word that is the very same word, for the target words that their source has. A "
    "target's <null>s count neither for nor against.",
    "*Perplexity* and *BLEU* are the dev set's.",
)


def gold_of(dataset: Dataset, pairs: Sequence[tuple[str, str]]) -> list[GoldAlignment]:
    """The gold links of every pair."""
    if "alignment" not in dataset.splits["test"]:
        return [
            GoldAlignment(
                frozenset((i, j) for j, word in enumerate(target.split()) for i in places(source.split(), word))
            )
            for source, target in pairs
        ]
    return [
        read_gold_alignment(
            row.texts[0], f"{dataset.name}, line {row.number}", len(source.split()), len(target.split())
        )
        for row, (source, target) in zip(read_rows(dataset, "test", ["alignment"]), pairs, strict=True)
    ]


def places(words: Sequence[str], word: str) -> list[int]:
    """The positions of a word."""
    return [i for i, other in enumerate(words) if other == word]


def accuracy(
    generation: SequenceGenerator, pairs: Sequence[tuple[str, str]], gold: Sequence[GoldAlignment], by: str
) -> float:
    """The share of target words with gold links that are aligned to one of their gold source words."""
    texts = (({"source": source}, target) for source, target in pairs)
    explanations = generation.align(texts, raw=False, reading=AttentionReading(by))
    targets = [target for _, target in pairs]
    outputs = SystemOutputs.from_lines(targets, [frozenset(explanation.alignment) for explanation in explanations])
    return Accuracy("accuracy").score(outputs, ReferenceSet.from_lines([targets], gold=gold)).score / 100


@dataclass(frozen=True)
class Trained:
    """The result of one training: dev perplexity and BLEU, and the accuracy of each alignment method."""

    system: str
    seed: int
    perplexity: float
    bleu: float
    accuracies: dict[str, float]


def one_training(
    system: str, seed: int, data: str, data_root: Path | None, settings: list[str], folder: Path
) -> Trained:
    """Train a system with a seed, and align the test set with it."""
    prepared, runs = folder / "prepared", folder / f"runs-{seed}"
    outcome = train(create_job(system, data, [*settings, f"training.seed={seed}"], data_root, prepared, runs))
    assert outcome.bundle
    return align_test_set(system, outcome.bundle, data, data_root)


def align_test_set(system: str, folder: Path, data: str, data_root: Path | None) -> Trained:
    """Align the test set with a trained system."""
    bundle = seq2seq.load(folder)
    generation = SequenceGenerator(bundle, slots=64)
    dataset = open_dataset(data, data_root)
    pairs = [(row.texts[0], row.texts[1]) for row in read_rows(dataset, "test", ["source", "target"])]
    gold = gold_of(dataset, pairs)
    accuracies = {by: accuracy(generation, pairs, gold, by) for by in WAYS[system]}
    card = bundle.card
    seed = card.recipe["training"]["seed"]
    return Trained(system, seed, card.metrics["dev_perplexity"].score, card.metrics["dev_bleu"].score, accuracies)


def train_all(data: str, data_root: Path | None, settings: list[str], seeds: int, at_once: int) -> list[Trained]:
    """Train both systems with every seed."""
    done = []
    with (
        tempfile.TemporaryDirectory(prefix="alignment-") as scratch,
        ProcessPoolExecutor(at_once, multiprocessing.get_context("spawn")) as pool,
    ):
        jobs = [
            pool.submit(one_training, system, seed, data, data_root, settings, Path(scratch))
            for seed in range(1, seeds + 1)
            for system in reversed(WAYS)  # the longest jobs first
        ]
        for job in as_completed(jobs):
            done.append(one := job.result())
            found = ", ".join(f"{share:.1%} by {by}" for by, share in one.accuracies.items())
            say(f"seed {one.seed}, {one.system}: {found}, dev perplexity {one.perplexity:.2f}")
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="demo-headline")
    parser.add_argument("--data-root", type=Path, default=None)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=1, help="trainings beside each other, a process each")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    parser.add_argument("--trained", nargs="+", default=[], metavar="SYSTEM=BUNDLE", help="in place of trainings")
    asked = parser.parse_args()
    dataset = open_dataset(asked.data, asked.data_root)
    if asked.trained:
        bundles = [name.partition("=") for name in asked.trained]
        if wrong := [system for system, _, folder in bundles if system not in WAYS or not folder]:
            parser.error(f"--trained {wrong[0]}: give SYSTEM=BUNDLE, where SYSTEM is {' or '.join(WAYS)}")
        done = [align_test_set(system, Path(folder), asked.data, asked.data_root) for system, _, folder in bundles]
    else:
        done = train_all(asked.data, asked.data_root, asked.settings, asked.seeds, asked.at_once)
    trained = {
        system: sorted((one for one in done if one.system == system), key=lambda one: one.seed) for system in WAYS
    }
    rows, kept = [], {}
    for system, runs in trained.items():
        for by in WAYS[system] if runs else ():
            shares = kept[f"{system} {by}"] = [one.accuracies[by] for one in runs]
            spread = f" ± {100 * stdev(shares):.1f}" if len(shares) > 1 else ""
            perplexity, bleu = mean(one.perplexity for one in runs), mean(one.bleu for one in runs)
            rows.append([system, by, f"{100 * mean(shares):.1f} %{spread}", f"{perplexity:.2f}", f"{bleu:.2f}"])
    Report(
        f"headline_alignment_{dataset.name}",
        f"Alignment of headlines, {dataset.name}, {len({one.seed for one in done})} seed(s)",
        ["system", "by", "accuracy", "perplexity", "BLEU"],
        rows,
        NOTES,
        kept,
    ).publish(asked.save)


if __name__ == "__main__":
    main()
