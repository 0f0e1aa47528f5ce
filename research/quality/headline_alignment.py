"""Does the alignment module find the source tokens of a headline better than the attention does?

    python -m research.quality.headline_alignment [--data demo-headline] [--rounds 3] [--set KEY=VALUE] [--save]
    python -m research.quality.headline_alignment --data headlines --trained selective_gate=BUNDLE uam=BUNDLE

`selective_gate` and `uam` are trained, with another seed in each round, or are those that `--trained` names, and align
the test set by forced decoding: by attention, and `uam` also by its read-out. Kiyono et al. 2018, table 3: 6.71 % by
attention, 51.41 % by the module.
"""

import argparse
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import mean

import interlinear
from benchmarks.runner import Benchmark, Column, Contestant, Figures, Labels, Options, deviation, run
from interlinear.alignment.links import GoldAlignment, read_gold_alignment
from interlinear.generation.generator import SequenceGenerator
from interlinear.metrics.alignment import Accuracy
from interlinear.metrics.metric import ReferenceSet, SystemOutputs
from interlinear.models.attention_reading import AttentionReading
from training.data.dataset import Dataset, open_dataset, read_rows
from training.loop.trainer import train
from training.runs.job import create_job

WAYS = {"selective_gate": ["attention"], "uam": ["attention", "uam"]}

NOTES = (
    "*Accuracy* is the share of target words that are aligned rightly, over all test words with an answer; the mean "
    "over the rounds' seeds, and its standard deviation. Right is a source word that the gold alignment links; where a "
    "set has no gold alignment, a source word that is the very same word, for the target words that their source has. "
    "A target's <null>s count neither for nor against.",
    "*Perplexity* and *BLEU* are the dev set's.",
)


def gold_of(dataset: Dataset, pairs: Sequence[tuple[str, str]]) -> list[GoldAlignment]:
    """The gold links of every pair; without gold, those of equal words."""
    if "alignment" not in dataset.splits["test"]:
        return [GoldAlignment(frozenset(equal_words(source.split(), target.split()))) for source, target in pairs]
    return [
        read_gold_alignment(
            row.texts[0], f"{dataset.name}, line {row.number}", len(source.split()), len(target.split())
        )
        for row, (source, target) in zip(read_rows(dataset, "test", ["alignment"]), pairs, strict=True)
    ]


def equal_words(source: Sequence[str], target: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The positions of every word of the target in the source."""
    return ((i, j) for j, word in enumerate(target) for i, other in enumerate(source) if other == word)


def accuracy(
    generation: SequenceGenerator, pairs: Sequence[tuple[str, str]], gold: Sequence[GoldAlignment], by: str
) -> float:
    """The share of target words with gold links that are aligned to one of their gold source words."""
    texts = (({"source": source}, target) for source, target in pairs)
    explanations = generation.align(texts, raw=False, reading=AttentionReading(by))
    targets = [target for _, target in pairs]
    outputs = SystemOutputs.from_lines(targets, [frozenset(explanation.alignment) for explanation in explanations])
    return Accuracy("accuracy").score(outputs, ReferenceSet.from_lines([targets], gold=gold)).score / 100


def align_test_set(system: str, bundle: Path, asked: argparse.Namespace) -> dict[Labels, Figures]:
    """The accuracy of a trained system, in each way to read its alignment."""
    generation = SequenceGenerator(interlinear.load(bundle), slots=64)
    dataset = open_dataset(asked.data, asked.data_root)
    pairs = [(row.texts[0], row.texts[1]) for row in read_rows(dataset, "test", ["source", "target"])]
    gold, metrics = gold_of(dataset, pairs), generation.bundle.card.metrics
    dev = {"perplexity": metrics["dev_perplexity"].score, "bleu": metrics["dev_bleu"].score}
    return {(by,): {"accuracy": accuracy(generation, pairs, gold, by), **dev} for by in WAYS[system]}


def train_and_align(
    system: str, folder: Path, seeds: Iterator[int], asked: argparse.Namespace
) -> dict[Labels, Figures]:
    """Train a system with the next seed, and align the test set with it."""
    seed = next(seeds)
    settings = [*asked.settings, f"training.seed={seed}", *(["training.epochs=1"] if asked.quick else [])]
    job = create_job(system, asked.data, settings, asked.data_root, folder / "prepared", folder / f"runs-{seed}")
    outcome = train(job)
    assert outcome.bundle
    return align_test_set(system, outcome.bundle, asked)


def main() -> None:
    options = Options(__doc__)
    options.add_argument("--data", default="demo-headline")
    options.add_argument("--data-root", type=Path, default=None)
    options.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    options.add_argument("--trained", nargs="+", default=[], metavar="SYSTEM=BUNDLE", help="in place of trainings")
    asked = options.parse()
    bundles = dict(name.split("=", 1) if "=" in name else (name, "") for name in asked.trained)
    if wrong := [system for system, folder in bundles.items() if system not in WAYS or not folder]:
        options.error(f"--trained {wrong[0]}: give SYSTEM=BUNDLE, where SYSTEM is {' or '.join(WAYS)}")
    benchmark = Benchmark(
        f"headline_alignment_{open_dataset(asked.data, asked.data_root).name}",
        f"Alignment of headlines, {asked.data}, {1 if bundles else asked.rounds} seed(s)",
        {
            "accuracy": Column("accuracy", ".1%", mean),
            "spread": Column("±", ".1%", deviation, "accuracy"),
            "perplexity": Column("perplexity", ".2f", mean),
            "bleu": Column("BLEU", ".2f", mean),
        },
        NOTES,
        ("by",),
    )
    with tempfile.TemporaryDirectory(prefix="alignment-") as scratch:
        trained = [
            Contestant(name, partial(align_test_set, name, Path(folder), asked), varies=False)
            for name, folder in bundles.items()
        ]
        trainings = [
            Contestant(system, partial(train_and_align, system, Path(scratch), itertools.count(1), asked))
            for system in WAYS
        ]
        run(benchmark, trained or trainings, asked)


if __name__ == "__main__":
    main()
