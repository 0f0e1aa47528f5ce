"""Makes a model's shortlist from a data set's training pairs, and measures it on the dev set."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from interlinear.alignment.links import read_gold_alignment
from interlinear.bundle import add_shortlist
from interlinear.cli.console import progress
from interlinear.errors import DataError, RegistryError, UsageError
from interlinear.generation.forced_decoding import TextPair
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.models.attention_reading import quick_reading
from interlinear.registry.names import AliasName, FolderName, VersionName, check_name, parse_model_name
from interlinear.shortlist import Coverage, LinkCounts, Shortlist, build_shortlist, coverage
from interlinear.shortlist.link_counts import attention_links, word_links
from training.data.dataset import Dataset, Row, read_rows
from training.data.formats import Part, count_lines
from training.data.text_lines import read_file

if TYPE_CHECKING:
    from interlinear.registry.store import MlflowStore

TRAIN, DEV = "train", "dev"  # splits
PAIRS_AT_A_TIME = 64  # pairs of a batch of forced decoding
BATCHES_AHEAD = 32  # batches that are sorted by length together


@dataclass(frozen=True)
class MadeShortlist:
    """A shortlist, and the number of pairs that it was made from, and that were left out as empty or too long."""

    shortlist: Shortlist
    pairs: int
    left_out: int


@dataclass(frozen=True)
class DevCoverage:
    """The coverage of the dev set's references, and of the model's outputs from the whole vocabulary, by a
    shortlist."""

    references: Coverage
    outputs: Coverage


@dataclass(frozen=True)
class PairReader:
    """Reads the pairs of a split for a model: the texts of its sources, and the target."""

    generation: SequenceGenerator
    dataset: Dataset
    split: str

    @property
    def names(self) -> list[str]:
        return [*self.generation.bundle.card.model.texts, "target"]

    @property
    def raw(self) -> bool:
        """Whether no text is tokenised."""
        return not any(self.dataset.field(self.split, name).tokenised for name in self.names)

    def lines(self) -> int:
        """Number of lines of the split, which is read for it."""
        return sum(count_lines(part).lines for part in self.dataset.field(self.split, "target").parts)

    def read(self, label: str) -> Iterator[tuple[Row, TextPair | None]]:
        """Every row with its pair; None if a side is empty, or longer than the model takes. With a progress bar."""
        limits, raw = self.generation.bundle.card.limits, self.raw
        for row in progress(read_rows(self.dataset, self.split, self.names), label, total=self.lines()):
            *texts, output = row.texts
            given = {name: text for name, text in zip(self.names, texts, strict=False) if text.strip()}
            pair = self.generation.read_pair(given, output, raw)
            sources, target = pair
            source_lengths = [len(text.encoded.ids) for text in sources.values()]
            fits = max(source_lengths, default=0) <= limits.source_length
            fits = fits and len(target.encoded.ids) <= limits.target_length
            yield row, pair if fits and all(source_lengths) and sources and target.encoded.ids else None


def make_shortlist(
    generation: SequenceGenerator, dataset: Dataset, links: Path | None, words: int, frequent: int
) -> MadeShortlist:
    """The shortlist of a model by its own attention to the training pairs, or by a file of word links.

    words: target tokens for each source token. frequent: most frequent target tokens, which every sentence has.
    Raises DataError, and UsageError for a model without the sources that the links or the data set have.
    """
    reader, tokenizers = PairReader(generation, dataset, TRAIN), generation.bundle.tokenizers
    names = [*generation.bundle.card.model.texts]
    counts = {name: LinkCounts(tokenizers[name].size, tokenizers["target"].size) for name in names}
    target_counts = np.zeros(tokenizers["target"].size, np.int64)
    pairs = left_out = 0

    def counted() -> Iterator[tuple[Row, TextPair]]:
        nonlocal pairs, left_out
        for row, pair in reader.read("counting links"):
            if pair is None:
                left_out += 1
                continue
            pairs += 1
            np.add.at(target_counts, pair[1].encoded.ids, 1)
            yield row, pair

    if links is None:
        count_attention(generation, counted(), counts)
    elif len(names) > 1:
        raise UsageError("--links", f"they link one source, and the model reads {' and '.join(names)}", "leave it out")
    else:
        count_file(links, reader, counted(), counts[names[0]])
    if not pairs:
        raise DataError(dataset.name, f"no pair of its split '{TRAIN}' can be read by the model", "name another one")
    return MadeShortlist(build_shortlist(counts, target_counts, tokenizers, words, frequent), pairs, left_out)


def count_attention(
    generation: SequenceGenerator, pairs: Iterator[tuple[Row, TextPair]], counts: Mapping[str, LinkCounts]
) -> None:
    """Counts the links of a model's attention while it is forced to write the targets."""
    best = quick_reading(generation.bundle.model.readings)
    while ahead := [pair for _, pair in islice(pairs, PAIRS_AT_A_TIME * BATCHES_AHEAD)]:
        ahead.sort(key=pair_length)
        for start in range(0, len(ahead), PAIRS_AT_A_TIME):
            batch = ahead[start : start + PAIRS_AT_A_TIME]
            for name, (source_N, target_N) in attention_links(batch, generation.forced_attention(batch), best):
                counts[name].add(source_N, target_N)


def pair_length(pair: TextPair) -> int:
    sources, target = pair
    return len(target.encoded.ids) + max(len(text.encoded.ids) for text in sources.values())


def count_file(path: Path, reader: PairReader, pairs: Iterator[tuple[Row, TextPair]], counts: LinkCounts) -> None:
    """Counts the word links of a file in Pharaoh format, whose line i belongs to the split's line i."""
    have, expected = count_lines(Part(path)).lines, reader.lines()
    if have != expected:
        raise DataError(
            str(path),
            f"it has {have:,} lines, and the split '{reader.split}' of {reader.dataset.name} {expected:,}",
            "line i of both must belong together",
        )
    lines = enumerate(read_file(path), 1)
    for row, (sources, target) in pairs:
        line = next(text for number, text in lines if number == row.number)
        (source,) = sources.values()
        links = read_gold_alignment(line, f"{path}, line {row.number}", len(source.words), len(target.words))
        counts.add(*word_links(source, target, links.sure | links.possible))


def measure_on_dev(generation: SequenceGenerator, shortlist: Shortlist, dataset: Dataset) -> DevCoverage | None:
    """The coverage of a data set's dev set by a shortlist; None without a dev set. `generation` searches the whole
    vocabulary.

    Images are absent, as in forced decoding.
    """
    if not dataset.has_split(DEV):
        return None
    reader = PairReader(generation, dataset, DEV)
    rows = [(row, pair) for row, pair in reader.read("reading the dev set") if pair]
    sources = [{name: text.encoded.ids for name, text in texts.items()} for _, (texts, _) in rows]
    tokenised = frozenset() if reader.raw else frozenset(reader.names)
    requests = (
        Request(
            {name: text for name, text in zip(reader.names, row.texts, strict=False) if name in texts},
            generation.bundle.card.search,
            tokenised=tokenised,
        )
        for row, (texts, _) in rows
    )
    answers = list(progress(generation.generate(requests), "translating the dev set", total=len(rows)))
    found = zip(sources, answers, strict=True)
    outputs = [(ids, answer.candidates[0].ids) for ids, answer in found if isinstance(answer, GenerationResult)]
    references = zip(sources, (target.encoded.ids for _, (_, target) in rows), strict=True)
    return DevCoverage(coverage(shortlist, references), coverage(shortlist, outputs))


@dataclass(frozen=True)
class Destination:
    """The folder of a copy; None for the bundle itself, or, if it is not to change, a copy that is only registered.

    register: the name of a new version, of the model that the run of the store has trained.
    """

    output: Path | None
    changes_bundle: bool
    register: str | None = None
    store: "MlflowStore | None" = None
    run_id: str | None = None


def is_folder(model: str) -> bool:
    """Whether a model is named by its folder."""
    return isinstance(parse_model_name(model), FolderName)


def choose_name(model: str, output: Path | None, register: str | None) -> str | None:
    """The name to register the model with its shortlist under: `register`, else for a registered model its own, unless
    there is an output folder; None: it is not registered. Raises UsageError, before any work is done, if there is no
    bundle to write to."""
    reference = parse_model_name(model) if "," not in model or Path(model).exists() else None
    if register is None and output is None and isinstance(reference, AliasName | VersionName):
        register = reference.name
    if register is not None:
        check_name(register)
    if "," in model and not Path(model).exists():
        raise UsageError(model, "an ensemble has no bundle of its own", "make a shortlist for each of its models")
    if output is None and register is None and not is_folder(model):
        raise UsageError(
            model, "the model of a run is not changed", "register one with --register NAME, or name an --output FOLDER"
        )
    if output is not None and output.exists():
        raise UsageError(f"--output {output}", "it is there already", "name a new folder")
    if output is not None and not output.resolve().parent.is_dir():
        raise UsageError(f"--output {output}", f"there is no folder {output.parent}", "make it, or name another one")
    return register


def find_destination(
    model: str, folder: Path, output: Path | None, register: str | None, tracking: str | None
) -> Destination:
    """Where the shortlist of the model in a folder is kept. Raises RegistryError if it is to be registered and the
    store has no run that trained it."""
    changes_bundle = output is None and is_folder(model)
    if register is None:
        return Destination(output, changes_bundle)
    from interlinear.registry.curves import find_training_run  # only --register needs MLflow
    from interlinear.registry.store import MlflowStore

    store = MlflowStore(tracking)
    if run_id := find_training_run(store, model, folder):
        return Destination(output, changes_bundle, register, store, run_id)
    raise RegistryError(
        model,
        f"{store.display_uri} has no run that trained it",
        "name the store by --tracking, or leave --register out",
    )


def keep_shortlist(shortlist: Shortlist, folder: Path, destination: Destination) -> str:
    """Keep the shortlist of the bundle in a folder; returns the name of the model that has it."""
    with tempfile.TemporaryDirectory(dir=destination.output and destination.output.resolve().parent) as temporary:
        changed = folder
        if not destination.changes_bundle:
            changed = Path(shutil.copytree(folder, Path(temporary, "bundle")))
        add_shortlist(changed, shortlist)
        if destination.output:
            changed = changed.rename(destination.output)
        if not (destination.store and destination.register and destination.run_id):
            return str(changed)
        logged = destination.store.log_with_shortlist(changed, destination.run_id)
        return f"models:/{destination.register}/{destination.store.register(logged, destination.register)}"


def as_text(name: str, made: MadeShortlist, measured: DevCoverage | None, vocabulary: int) -> str:
    """The shortlist's size and coverage as text for people."""
    lines = [f"{name} has a shortlist of {made.pairs:,} pairs"]
    if measured:
        references, outputs = measured.references, measured.outputs
        lines += [
            f"words of a sentence: {references.candidates_each:,.0f} of {vocabulary:,} on average "
            f"(dev, {references.sentences:,} sentences)",
            f"they cover {references.share:.2%} of the references' words, and {outputs.share:.2%} of those that the "
            "model writes from the whole vocabulary",
        ]
    return "\n".join(lines)


def as_record(name: str, made: MadeShortlist, measured: DevCoverage | None) -> str:
    """The same as JSON."""
    record: dict[str, object] = {"model": name, "pairs": made.pairs, "left_out": made.left_out}
    if measured:
        record["dev"] = {
            "sentences": measured.references.sentences,
            "words": measured.references.candidates_each,
            "references_covered": measured.references.share,
            "outputs_covered": measured.outputs.share,
        }
    return json.dumps(record)
