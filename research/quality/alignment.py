"""How well do our aligner and our models align words, beside the aligners that people use, on the same pairs?

    python -m research.quality.alignment [--peers FOLDER] [--model NAME BUNDLE [REVERSE] ...] [--set NAME ...]
        [--data NAME ...] [--rounds 3] [--pairs N] [--save]

FOLDER is made by benchmarks/peers/aligners.sh. A model aligns the gold sets of its languages by forced decoding, in
each way in which its attention can be read (`interlinear align --by`). Our aligner (`interlinear align` without a
model), eflomal and fast_align are trained on the sentences of the gold set alone, and on those with the train splits of
the --data of these languages.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Protocol, get_args

from benchmarks.runner import Benchmark, Column, Contestant, Figures, Labels, Options, deviation, run
from interlinear.alignment.hmm import LinkPosteriors, WordAligner
from interlinear.alignment.links import GoldAlignment, Link, Symmetrization, symmetrize
from interlinear.alignment.pair_batches import WordPair, normalized_words
from interlinear.cli.decoding.alignment import Aligner
from interlinear.cli.decoding.model_loading import load_generation
from interlinear.cli.evaluation.scoring import align_test_set
from interlinear.cli.evaluation.test_sets import TestSet
from interlinear.cli.options import AlignmentKind
from interlinear.errors import InterlinearError, UsageError
from interlinear.generation.generator import SequenceGenerator
from interlinear.metrics.alignment import ErrorRate, Precision, Recall
from interlinear.metrics.metric import ReferenceSet, SystemOutputs
from interlinear.models.attention_reading import READINGS
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
    "*AER*, precision and recall, in per cent (Och and Ney 2003). *Source to target* links a target "
    "word with at most one source word, *target to source* the reverse; both are combined by "
    "`alignment.symmetrize`. *Agreement*: the links of both directions' posteriors together, the default of "
    "`interlinear align` without a model.",
    "*Trained on*: the pairs that the aligners were trained on. Their text is in lower case; words are those of the "
    "gold alignments, and in other text words and punctuation marks, or what stands between spaces if it is tokenised. "
    "A model reads the text as it is written, and has not been trained on it.",
    "eflomal 2.0.0 with its defaults; it takes its seed from the system, so that every round differs: means, and the "
    "standard deviation of the AER. fast_align by systran-align 3.5.0, with `-d -o -v`, and ours are deterministic.",
)


@dataclass(frozen=True)
class GoldSet:
    """The test split of a data set with gold alignments. words: of both sides, as aligners compare them."""

    languages: Languages
    texts: TestSet
    gold: tuple[GoldAlignment, ...]
    words: list[tuple[Words, Words]]

    @classmethod
    def read(cls, name: str, root: Path | None, pairs: int | None = None) -> "GoldSet":
        """The first pairs of a set, or all. Raises DataError, and UsageError for a set without gold alignments."""
        dataset = open_dataset(name, root)
        if "alignment" not in dataset.fields("test"):
            raise UsageError(name, "it has no gold alignments", "name a set with a field 'alignment'")
        rows = [row.texts for row in read_rows(dataset, "test", ("source", "target"))]
        tokenised = frozenset(side for side in ("source", "target") if dataset.field("test", side).tokenised)
        tested = TestSet(dataset.name, dataset.task, *columns(rows), tokenised)
        gold = tuple(tested.gold_alignments(dataset, "test", "source"))[:pairs]
        texts = TestSet(dataset.name, dataset.task, *columns(rows[:pairs]), tokenised)
        words = [pair_words(row, (not texts.raw, not texts.raw)) for row in rows[:pairs]]
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


def columns(pairs: Sequence[Sequence[str]]) -> tuple[dict[str, tuple[str, ...]], tuple[tuple[str, ...]]]:
    """Texts and references of a test set."""
    return {"source": tuple(source for source, _ in pairs)}, (tuple(target for _, target in pairs),)


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


NO_TEXT = TrainingText("", [])


@dataclass(frozen=True)
class Reading:
    """One way of reading a system's alignment of a gold set. forward, backward: the links of a direction, both as
    (source word, target word); None if the system does not have that direction."""

    by: str
    forward: Links | None
    backward: Links | None
    agreed: Links | None = None  # by a rule of the system's own

    def variants(self) -> Iterator[tuple[str, Links]]:
        """The links of each direction, and of both combined."""
        for name, links in ((FORWARD, self.forward), (BACKWARD, self.backward), (AGREED, self.agreed)):
            if links is not None:
                yield name, links
        if self.forward is not None and self.backward is not None:
            for how in SYMMETRIZATIONS:
                pairs = zip(self.forward, self.backward, strict=True)
                yield how, [frozenset(symmetrize(*pair, how)) for pair in pairs]


class WordAligning(Protocol):
    """A system that aligns words."""

    @property
    def name(self) -> str: ...

    @property
    def learns_from_pairs(self) -> bool:
        """Whether it is trained on the pairs that are to be aligned."""

    @property
    def varies(self) -> bool:
        """Whether it aligns differently each time."""

    def align(self, gold_set: GoldSet, text: TrainingText) -> Iterator[Reading]:
        """Its alignments of the set, in every way to read them; none if it does not have the set's languages."""


@dataclass(frozen=True)
class Peer:
    """eflomal or fast_align, in an environment of its own."""

    name: str
    folder: Path
    learns_from_pairs: bool = True

    @property
    def varies(self) -> bool:
        return self.name == "eflomal"

    def align(self, gold_set: GoldSet, text: TrainingText) -> Iterator[Reading]:
        yield Reading("", *self.run([*gold_set.words, *text.pairs], len(gold_set.words)))

    def run(self, pairs: Sequence[WordPair], first: int) -> tuple[Links, Links]:
        """The links of the first pairs, of a training on all. Raises UsageError if the program ends with an error."""
        with tempfile.TemporaryDirectory(prefix="alignment-") as scratch:
            files = [Path(scratch) / side for side in ("source", "target")]
            for file, side in zip(files, zip(*pairs, strict=True), strict=True):
                file.write_text("".join(f"{' '.join(words)}\n" for words in side), encoding="utf-8")
            python = self.folder / "venv" / "bin" / "python"
            command: list[str | Path] = [python, ALIGN_WORDS, self.name, *files, str(first)]
            ended = subprocess.run(command, check=False, capture_output=True, text=True)
        if ended.returncode != 0:
            raise UsageError(self.name, f"it ended with code {ended.returncode}: {ended.stderr.strip()[-300:]}")
        both = [json.loads(line) for line in ended.stdout.splitlines()]
        forward, backward = ([frozenset((i, j) for i, j in one) for one in side] for side in zip(*both, strict=True))
        return forward, backward


@dataclass(frozen=True)
class HmmAligner:
    """Our own aligner, as `interlinear align` without a model."""

    name: str = "interlinear align"
    learns_from_pairs: bool = True
    varies: bool = False

    def align(self, gold_set: GoldSet, text: TrainingText) -> Iterator[Reading]:
        count = len(gold_set.words)
        _, aligned = WordAligner.learn([*gold_set.words, *text.pairs])
        found = list(islice(aligned, count))
        forward, backward, agreed = (
            [frozenset(links(posteriors)) if posteriors else frozenset() for posteriors in found]
            for links in (LinkPosteriors.forward, LinkPosteriors.backward, LinkPosteriors.agreed)
        )
        yield Reading("", forward, backward, agreed)


@dataclass(frozen=True)
class ForcedDecoding:
    """A model of one direction, or two models of opposite directions, by forced decoding."""

    name: str
    models: dict[Languages, SequenceGenerator]
    learns_from_pairs: bool = False
    varies: bool = False

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
            there: Links | None = None
            back: Links | None = None
            if forward and READINGS[by].kind in forward.attention_kinds:
                there = self.links(forward, by, gold_set.texts)
            if backward and READINGS[by].kind in backward.attention_kinds:
                exchanged = self.links(backward, by, gold_set.reversed_texts)
                back = [frozenset((i, j) for j, i in links) for links in exchanged]
            if there or back:
                yield Reading(by, there, back)

    def links(self, model: SequenceGenerator, by: AlignmentKind, texts: TestSet) -> Links:
        """The links (source word, target word) of one direction's own source and target."""
        return align_test_set(self.name, Aligner(model, by=by, raw=texts.raw), texts)


def measure(
    aligner: WordAligning, gold_sets: Sequence[GoldSet], texts: Sequence[TrainingText]
) -> dict[Labels, Figures]:
    """The scores of every set, training text, reading and variant. `texts`: for each set, that of its languages."""
    rows: dict[Labels, Figures] = {}
    for gold_set, further in zip(gold_sets, texts, strict=True):
        for text in (NO_TEXT, further) if aligner.learns_from_pairs and further.pairs else (NO_TEXT,):
            learned = f"{len(gold_set.words) + len(text.pairs):,}" if aligner.learns_from_pairs else "-"
            for reading in aligner.align(gold_set, text):
                for variant, links in reading.variants():
                    key = (gold_set.texts.name, text.name, learned, reading.by or "-", variant)
                    rows[key] = gold_set.score(links)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    options = Options(__doc__)
    options.add_argument("--peers", type=Path, help="folder of peers/aligners.sh; without it, ours only")
    options.add_argument("--model", nargs="+", action="append", default=[], metavar=("NAME", "BUNDLE"))
    options.add_argument("--set", action="append", dest="sets", metavar="NAME", help=f"else {', '.join(GOLD_SETS)}")
    options.add_argument("--data", action="append", default=[], metavar="NAME", help="further text for the aligners")
    options.add_argument("--data-root", type=Path, default=None)
    options.size("--pairs", None, 20, "pairs of each gold set")
    asked = options.parse(arguments)
    if any(len(words) not in (2, 3) for words in asked.model):
        options.error("--model takes a name, a bundle, and perhaps one of the opposite direction")
    try:
        if asked.peers:
            check_aligners(asked.peers)
        gold_sets = [GoldSet.read(name, asked.data_root, asked.pairs) for name in asked.sets or GOLD_SETS]
        datasets = [open_dataset(name, asked.data_root) for name in asked.data]
        for dataset in datasets:
            if all(sorted(languages_of(dataset)) != sorted(one.languages) for one in gold_sets):
                raise UsageError(f"--data {dataset.name}", "no gold set has its languages", "leave it out")
        texts = [TrainingText.of(datasets, gold_set.languages) for gold_set in gold_sets]
        aligners: list[WordAligning] = [HmmAligner()]
        if asked.peers:
            aligners += [Peer("eflomal", asked.peers), Peer("fast_align", asked.peers)]
        aligners += [ForcedDecoding.load(*words) for words in asked.model]
        benchmark = Benchmark(
            "alignment",
            "Word alignment against gold",
            {
                "aer": Column("AER", ".1f", mean),
                "spread": Column("±", ".1f", deviation, "aer"),
                "precision": Column("precision", ".0f", mean),
                "recall": Column("recall", ".0f", mean),
            },
            NOTES,
            ("gold", "with", "pairs", "by", "links"),
        )
        contestants = [Contestant(one.name, partial(measure, one, gold_sets, texts), one.varies) for one in aligners]
        run(benchmark, contestants, asked)
    except InterlinearError as error:
        options.error(str(error))


if __name__ == "__main__":
    main()
