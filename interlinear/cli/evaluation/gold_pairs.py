"""A sentence pair with its manual alignment, for `figure alignment`: from the options, or a line of a data set."""

from dataclasses import dataclass
from pathlib import Path

from interlinear.alignment.links import Alignment, GoldAlignment, read_gold_alignment
from interlinear.cli.decoding.alignment import Aligner, SentencePair, align_pairs
from interlinear.cli.evaluation.test_sets import parse_dataset_split
from interlinear.errors import RequestError, UsageError
from training.data.dataset import open_dataset, read_rows


@dataclass(frozen=True)
class GoldPair:
    """links: sure and possible links as text. location: where they come from, for error messages."""

    pair: SentencePair
    links: str
    tokenised: bool
    location: str


def read_gold_pair(
    source: str | None,
    target: str | None,
    gold: str | None,
    data: str | None,
    line: int | None,
    tokenised: bool,
    root: Path | None,
) -> GoldPair:
    """The pair of --source, --target and --gold, or else the line of a data set. Raises DataError, RequestError for an
    empty text, and UsageError for options that do not go together."""
    if data and source is None and target is None and gold is None:
        if tokenised:
            raise UsageError("--tokenised", "the data set says itself how its text is written", "leave it out")
        return dataset_pair(*parse_dataset_split(data), line or 1, root)
    if source is not None and target is not None and gold is not None and not data:
        if line is not None:
            raise UsageError("--line", "it is a data set that has lines", "leave it out, or give --data")
        for name, text in (("source", source), ("target", target)):
            if not text.strip():
                raise RequestError(name, "the text is empty")
        return GoldPair(SentencePair(1, source, target), gold, tokenised, "--gold")
    raise UsageError(
        "figure alignment", "it is not clear what to draw", "give --source, --target and --gold, or --data"
    )


def dataset_pair(data: str, split: str, line: int, root: Path | None) -> GoldPair:
    """A line of a data set with its gold alignment. Raises DataError, UsageError."""
    dataset = open_dataset(data, root)
    fields = ("source", "target", "alignment")
    row = next((row for row in read_rows(dataset, split, fields) if row.number == line), None)
    if row is None:
        raise UsageError(f"--line {line}", f"{data}, {split} does not have that many pairs", "name a smaller number")
    source, target, links = row.texts
    tokenised = dataset.field(split, "source").tokenised
    return GoldPair(SentencePair(line, source, target), links, tokenised, f"{data}, {split}, line {line}")


def align_gold_pair(aligner: Aligner, gold_pair: GoldPair) -> tuple[Alignment, GoldAlignment]:
    """A model's alignment of the pair, and the manual one. Raises RequestError if the pair is too long for the model,
    DataError for invalid links."""
    (outcome,) = align_pairs(aligner, iter([gold_pair.pair]))
    if outcome.problem:
        raise RequestError("the pair", outcome.problem)
    alignment = outcome.alignment
    words = len(alignment.source), len(alignment.target)
    return alignment, read_gold_alignment(gold_pair.links, gold_pair.location, *words)
