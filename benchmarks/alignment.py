"""How well do our aligner and our models align words, beside the aligners that people use, on the same pairs?

    python -m benchmarks.alignment [--peers FOLDER] [--model NAME BUNDLE [REVERSE] ...] [--set NAME ...]
        [--data NAME ...] [--runs 3] [--save]

FOLDER is made by benchmarks/peers/aligners.sh. A model aligns the gold sets of its languages by forced decoding, in
each way in which its attention can be read (`interlinear align --by`). Our aligner (`interlinear align` without a
model), eflomal and fast_align are trained on the sentences of the gold set alone, and on those with the train splits of
the --data of these languages.
"""

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Protocol, get_args

from benchmarks.alignment_results import EarlierScores, sets_of
from benchmarks.reporting import RESULTS, Report, say
from interlinear.decoding.alignment import Aligner
from interlinear.decoding.model_loading import load_generation
from interlinear.evaluation.scoring import align_test_set
from interlinear.evaluation.test_sets import TestSet
from interlinear.options import AlignmentKind
from seq2seq.alignment import GoldAlignment, Link, Symmetrization, symmetrize
from seq2seq.alignment.hmm import LinkPosteriors, WordAligner
from seq2seq.alignment.pair_batches import normalized_words
from seq2seq.attention_reading import READINGS
from seq2seq.errors import InterlinearError, UsageError
from seq2seq.generate import SequenceGenerator
from seq2seq.metrics.alignment import ErrorRate, Precision, Recall
from seq2seq.metrics.metric import ReferenceSet, SystemOutputs
from training.data.dataset import Dataset, open_dataset, read_rows

GOLD_SETS = ("hansards.en-fr", "bicici.de-en", "tsinghua.zh-en", "naacl.ro-en", "kftt.ja-en", "demo")
SYMMETRIZATIONS: tuple[Symmetrization, ...] = ("intersection", "grow-diag", "grow-diag-final-and")
FORWARD, BACKWARD, AGREED = "source to target", "target to source", "agreement"
METRICS = (ErrorRate("aer"), Precision("precision"), Recall("recall"))
ALIGN_WORDS = Path(__file__).parent / "peers" / "align_words.py"

Words = list[str]
Links = list[frozenset[Link]]  # of every pair, (source word, target word)
Languages = tuple[str, str]

NOTES = (
    "*AER*, and in brackets precision and recall, in per cent (Och and Ney 2003). *Source to target* links a target "
    "word with at most one source word, *target to source* the reverse; both are combined by "
    "`seq2seq.alignment.symmetrize`. *Agreement*: the links of both directions' posteriors together, the default of "
    "`interlinear align` without a model.",
    "*Trained on*: the pairs that the aligners were trained on. Their text is in lower case; words are those of the "
    "gold alignments, and in other text words and punctuation marks, or what stands between spaces if it is tokenised. "
    "A model reads the text as it is written, and has not been trained on it.",
    "eflomal 2.0.0 with its defaults; it takes its seed from the system, so that every run differs: means, and the "
    "standard deviation of the AER. fast_align by systran-align 3.5.0, with `-d -o -v`, is deterministic.",
)


@dataclass(frozen=True)
class GoldSet:
    """The test split of a data set with gold alignments. words: of both sides, as aligners compare them."""

    languages: Languages
    texts: TestSet
    gold: tuple[GoldAlignment, ...]
    words: list[tuple[Words, Words]]

    @classmethod
    def read(cls, name: str, root: Path | None) -> "GoldSet":
        """Raises DataError, and UsageError for a set without gold alignments."""
        dataset = open_dataset(name, root)
        if "alignment" not in dataset.fields("test"):
            raise UsageError(name, "it has no gold alignments", "name a set with a field 'alignment'")
        rows = [row.texts for row in read_rows(dataset, "test", ("source", "target"))]
        tokenised = frozenset(side for side in ("source", "target") if dataset.field("test", side).tokenised)
        texts = TestSet(
            dataset.name,
            dataset.task,
            {"source": tuple(source for source, _ in rows)},
            (tuple(target for _, target in rows),),
            tokenised,
        )
        gold = tuple(texts.gold_alignments(dataset, "test", "source"))
        words = [pair_words(row, (not texts.raw, not texts.raw)) for row in rows]
        return cls(languages_of(dataset), texts, gold, words)

    @property
    def reversed_texts(self) -> TestSet:
        """The same pairs with the sides exchanged."""
        sources, (targets,) = self.texts.sources, self.texts.references
        return replace(self.texts, texts={"source": targets}, references=(sources,))

    def score(self, links: Links) -> dict[str, float]:
        """AER, precision and recall of the links, in per cent."""
        outputs = SystemOutputs.from_lines([""] * len(links), links)
        references = ReferenceSet.from_lines(self.texts.references, gold=self.gold)
        return {metric.name: metric.score(outputs, references).score for metric in METRICS}


def check_aligners(folder: Path) -> None:
    """Raise UsageError unless the folder has the environment of aligners.sh."""
    if not (folder / "venv" / "bin" / "python").exists():
        raise UsageError(str(folder), "the aligners are not there", f"run benchmarks/peers/aligners.sh {folder}")


def languages_of(dataset: Dataset) -> Languages:
    """The codes of a data set's languages, source and target."""
    return dataset.languages["source"], dataset.languages["target"]


def pair_words(texts: Sequence[str], tokenised: Sequence[bool]) -> tuple[Words, Words]:
    """The words of both texts of a pair, as aligners compare them; `tokenised`: of each, words are between spaces."""
    source, target = (normalized_words(*each) for each in zip(texts, tokenised, strict=True))
    return source, target


@dataclass(frozen=True)
class TrainingText:
    """Pairs of words, beside those of a gold set, on which aligners are trained."""

    name: str
    pairs: list[tuple[Words, Words]]

    @classmethod
    def of(cls, datasets: Sequence[Dataset], languages: Languages) -> "TrainingText":
        """The train splits of the data sets of these languages, in either order; pairs with an empty side are left out.

        Raises DataError.
        """
        pairs, names = [], []
        for dataset in datasets:
            if sorted(languages_of(dataset)) != sorted(languages):
                continue
            names.append(dataset.name)
            sides = ("source", "target") if languages_of(dataset) == languages else ("target", "source")
            tokenised = [dataset.field("train", side).tokenised for side in sides]
            for row in read_rows(dataset, "train", sides):
                source, target = pair_words(row.texts, tokenised)
                if source and target:
                    pairs.append((source, target))
        return cls(", ".join(names), pairs)


@dataclass(frozen=True)
class Reading:
    """One way of reading a system's alignment of a gold set. forward, backward: for every run the links of a direction,
    both as (source word, target word); empty if the system does not have that direction."""

    system: str
    by: str
    forward: list[Links]
    backward: list[Links]
    agreed: list[Links] = field(default_factory=list)  # by a rule of the system's own

    def variants(self) -> Iterator[tuple[str, list[Links]]]:
        """The links of every run: of each direction, and of both combined."""
        if self.forward:
            yield FORWARD, self.forward
        if self.backward:
            yield BACKWARD, self.backward
        if self.forward and self.backward:
            for how in SYMMETRIZATIONS:
                yield how, [symmetrized(*run, how) for run in zip(self.forward, self.backward, strict=True)]
        if self.agreed:
            yield AGREED, self.agreed


def symmetrized(forward: Links, backward: Links, how: Symmetrization) -> Links:
    """The links of both directions combined, pair by pair."""
    return [frozenset(symmetrize(*pair, how)) for pair in zip(forward, backward, strict=True)]


class Contestant(Protocol):
    learns_from_pairs: bool  # whether it is trained on the pairs that are to be aligned

    def align(self, gold_set: GoldSet, text: TrainingText) -> Iterator[Reading]:
        """Its alignments of the set, in every way to read them; none if it does not have the set's languages."""


@dataclass(frozen=True)
class Peer:
    """eflomal or fast_align, in an environment of its own."""

    program: str
    folder: Path
    runs: int = 1
    learns_from_pairs: bool = True

    def align(self, gold_set: GoldSet, text: TrainingText) -> Iterator[Reading]:
        runs = [self.run([*gold_set.words, *text.pairs], len(gold_set.words)) for _ in range(self.runs)]
        yield Reading(self.program, "", [forward for forward, _ in runs], [backward for _, backward in runs])

    def run(self, pairs: Sequence[tuple[Words, Words]], first: int) -> tuple[Links, Links]:
        """The links of the first pairs, of a training on all. Raises UsageError if the program ends with an error."""
        with tempfile.TemporaryDirectory(prefix="alignment-") as scratch:
            files = [Path(scratch) / side for side in ("source", "target")]
            for file, side in zip(files, zip(*pairs, strict=True), strict=True):
                file.write_text("".join(f"{' '.join(words)}\n" for words in side), encoding="utf-8")
            python = self.folder / "venv" / "bin" / "python"
            command = [python, ALIGN_WORDS, self.program, *files, str(first)]
            ended = subprocess.run(command, check=False, capture_output=True, text=True)
        if ended.returncode != 0:
            raise UsageError(self.program, f"it ended with code {ended.returncode}: {ended.stderr.strip()[-300:]}")
        both = [json.loads(line) for line in ended.stdout.splitlines()]
        forward, backward = ([frozenset((i, j) for i, j in one) for one in side] for side in zip(*both, strict=True))
        return forward, backward


@dataclass(frozen=True)
class HmmAligner:
    """Our own aligner, as `interlinear align` without a model. It is deterministic."""

    learns_from_pairs: bool = True

    def align(self, gold_set: GoldSet, text: TrainingText) -> Iterator[Reading]:
        count = len(gold_set.words)
        _, aligned = WordAligner.learn([*gold_set.words, *text.pairs])
        found = list(islice(aligned, count))
        forward, backward, agreed = (
            [frozenset(links(posteriors)) if posteriors else frozenset() for posteriors in found]
            for links in (LinkPosteriors.forward, LinkPosteriors.backward, LinkPosteriors.agreed)
        )
        yield Reading("interlinear align", "", [forward], [backward], [agreed])


@dataclass(frozen=True)
class ForcedDecoding:
    """A model of one direction, or two models of opposite directions, by forced decoding."""

    name: str
    models: dict[Languages, SequenceGenerator]
    learns_from_pairs: bool = False

    @classmethod
    def load(cls, name: str, *bundles: str) -> "ForcedDecoding":
        """Raises UsageError for bundles that are not of opposite directions, and the errors of `load_generation`."""
        models: dict[Languages, SequenceGenerator] = {}
        for bundle in bundles:
            model = load_generation(bundle)
            card = model.bundle.card
            source, target = (card.languages.get(side, "?") for side in (card.model.first_text, "target"))
            if models and (target, source) not in models:
                raise UsageError(bundle, f"it goes from {source} to {target}, not back", "name the opposite direction")
            models[source, target] = model
        return cls(name, models)

    def align(self, gold_set: GoldSet, text: TrainingText) -> Iterator[Reading]:
        forward, backward = self.models.get(gold_set.languages), self.models.get(gold_set.languages[::-1])
        kinds: Sequence[AlignmentKind] = get_args(AlignmentKind)
        for by in kinds:
            there = back = []
            if forward and READINGS[by].kind in forward.attention_kinds:
                there = [self.links(forward, by, gold_set.texts)]
            if backward and READINGS[by].kind in backward.attention_kinds:
                exchanged = self.links(backward, by, gold_set.reversed_texts)
                back = [[frozenset((i, j) for j, i in links) for links in exchanged]]
            if there or back:
                yield Reading(self.name, by, there, back)

    def links(self, model: SequenceGenerator, by: AlignmentKind, texts: TestSet) -> Links:
        """The links (source word, target word) of one direction's own source and target."""
        return align_test_set(self.name, Aligner(model, by=by, raw=texts.raw), texts)


def measure(
    gold_sets: Sequence[GoldSet], datasets: Sequence[Dataset], contestants: Sequence[Contestant]
) -> list[dict[str, Any]]:
    """The scores of every set, text, contestant, reading and variant: a record with those of all runs."""
    records = []
    for gold_set in gold_sets:
        alone = TrainingText("", [])
        together = TrainingText.of(datasets, gold_set.languages)
        for contestant in contestants:
            for text in [alone, together] if contestant.learns_from_pairs and together.pairs else [alone]:
                pairs = len(gold_set.words) + len(text.pairs) if contestant.learns_from_pairs else 0
                for reading in contestant.align(gold_set, text):
                    for variant, runs in reading.variants():
                        record: dict[str, Any] = {"set": gold_set.texts.name, "text": text.name, "pairs": pairs}
                        record |= {"system": reading.system, "by": reading.by, "variant": variant}
                        records.append(record | {"runs": [gold_set.score(links) for links in runs]})
                    say(f"{gold_set.texts.name}: {reading.system} {reading.by} {text.name}")
    return records


def cell(runs: Sequence[dict[str, float]]) -> str:
    """`17.2 ± 0.1 (80, 86)`: mean AER with its standard deviation, precision and recall."""
    aer, precision, recall = (mean(run[metric.name] for run in runs) for metric in METRICS)
    spread = f" ± {stdev(run['aer'] for run in runs):.1f}" if len(runs) > 1 else ""
    return f"{aer:.1f}{spread} ({precision:.0f}, {recall:.0f})"


def table(records: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: a row for each set, text, system and reading, a column for each variant."""
    variants = [FORWARD, BACKWARD, *SYMMETRIZATIONS, AGREED]
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for record in records:
        trained_on = (
            f"the set{record['text'] and ', '}{record['text']}: {record['pairs']:,}" if record["pairs"] else "-"
        )
        key = (record["set"], trained_on, record["system"], record["by"] or "-")
        cells.setdefault(key, {})[record["variant"]] = cell(record["runs"])
    rows = [[*key, *(found.get(variant, "-") for variant in variants)] for key, found in cells.items()]
    return ["gold", "trained on, pairs", "system", "by", *variants], rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help="folder of peers/aligners.sh; without it, ours only")
    parser.add_argument("--model", nargs="+", action="append", default=[], metavar=("NAME", "BUNDLE"))
    parser.add_argument("--set", action="append", dest="sets", metavar="NAME", help=f"else {', '.join(GOLD_SETS)}")
    parser.add_argument("--data", action="append", default=[], metavar="NAME", help="further text for the aligners")
    parser.add_argument("--data-root", type=Path, default=None)
    parser.add_argument("--runs", type=int, default=3, help="runs of eflomal")
    parser.add_argument(
        "--save", action="store_true", help="keep the result in benchmarks/results/, beside that of other sets"
    )
    asked = parser.parse_args(arguments)
    if any(len(words) not in (2, 3) for words in asked.model):
        parser.error("--model takes a name, a bundle, and perhaps one of the opposite direction")
    if asked.runs < 1:
        parser.error("--runs must be at least 1")
    try:
        if asked.peers:
            check_aligners(asked.peers)
        gold_sets = [GoldSet.read(name, asked.data_root) for name in asked.sets or GOLD_SETS]
        datasets = [open_dataset(name, asked.data_root) for name in asked.data]
        for dataset in datasets:
            if all(sorted(languages_of(dataset)) != sorted(one.languages) for one in gold_sets):
                raise UsageError(f"--data {dataset.name}", "no gold set has its languages", "leave it out")
        contestants: list[Contestant] = [HmmAligner()]
        if asked.peers:
            contestants += [Peer("eflomal", asked.peers, asked.runs), Peer("fast_align", asked.peers)]
        contestants += [ForcedDecoding.load(*words) for words in asked.model]
        records = measure(gold_sets, datasets, contestants)
    except InterlinearError as error:
        parser.error(str(error))
    earlier = EarlierScores.read(RESULTS / "alignment.json" if asked.save else None, sets_of(records))
    records = earlier.joined(records, GOLD_SETS)
    columns, rows = table(records)
    measured = {"scores": records, "earlier": earlier.records}
    notes = [*earlier.notes, *NOTES]
    Report("alignment", "Word alignment against gold", columns, rows, notes, measured).publish(asked.save)


if __name__ == "__main__":
    main()
