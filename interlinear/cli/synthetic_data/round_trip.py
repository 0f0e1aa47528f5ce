"""Artificial post-edits by round trip (Junczys-Dowmunt and Grundkiewicz 2016): text in the target language is
translated into the source language by one model and back by another. It is the post-edit of the round trip's output."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interlinear.cli.console import progress, say
from interlinear.cli.decoding.model_loading import choose_precision, combine, load_members
from interlinear.cli.synthetic_data.synthetic_options import RoundTripOptions
from interlinear.cli.synthetic_data.translator import Rows, Translator
from interlinear.config import Precision
from interlinear.errors import DataError, UsageError
from interlinear.metrics.metric import Preprocessing, ReferenceSet, SystemOutputs, Tokenization, default_tokenization
from interlinear.metrics.translation import HumanTer
from training.data.cleaning import SURROGATE
from training.data.dataset import Dataset, open_dataset, read_rows
from training.data.dataset.fields import TextField
from training.data.dataset.round_trip import (
    FIELDS,
    MT,
    SOURCE,
    TARGET,
    RoundTripFolder,
    check_post_edits,
    round_trip_description,
)
from training.data.formats import count_lines
from training.data.normalize import NormalizationStep, build_normalizer
from training.data.text_lines import read_file
from training.runs.run_lock import run_lock

BIN = 0.05  # width; the unedited triples have a separate bin, and so have triples with more edits than words
BINS = round(1 / BIN) + 2
FILLED = 0.9  # share of the wanted triples that must be available, if their number is not given
CHUNK = 500  # lines scored at a time
SEED = 1

Edits = NDArray[np.float64]  # (N, 2): the edits of each machine translation and the words of its post-edit


def count_edits(mts: Sequence[str], post_edits: Sequence[str], tokenize: Tokenization, label: str) -> Edits:
    """The edits of TER between machine translations and their post-edits, case-sensitive. `label`: of the progress."""
    metric = HumanTer("hter", Preprocessing(tokenize, lowercase=False))
    counted = [
        metric.statistics(
            SystemOutputs.from_lines(mts[start : start + CHUNK]),
            ReferenceSet.from_lines([post_edits[start : start + CHUNK]], "post-edit"),
        )
        for start in progress(range(0, len(mts), CHUNK), label, total=-(-len(mts) // CHUNK))
    ]
    return np.concatenate(counted) if counted else np.empty((0, 2))


def hter(edits: Edits) -> float:
    """The HTER of all triples together, in percent."""
    return float(100 * edits[:, 0].sum() / max(edits[:, 1].sum(), 1))


def histogram_bin(edits: Edits) -> NDArray[np.int64]:
    """The bin of each triple's HTER: 0 if nothing is edited, the last beyond 100 %."""
    rate_N = edits[:, 0] / np.maximum(edits[:, 1], 1)
    return np.minimum(np.ceil(np.round(rate_N / BIN, 6)), BINS - 1).astype(np.int64)


def select_triples(artificial: Edits, real: Edits, wanted: int | None = None) -> NDArray[np.int64]:
    """The indices of the selected artificial triples, ascending; drawn at random within a bin, from a fixed seed.

    wanted: their number; bins with too few triples lack some. None: the largest number of which the share FILLED is
    available.
    """
    bin_N = histogram_bin(artificial)
    available_B = np.bincount(bin_N, minlength=BINS)
    share_B = np.bincount(histogram_bin(real), minlength=BINS) / max(len(real), 1)
    if wanted is None:
        wanted = largest_filled(available_B, share_B)
    drawn = np.random.default_rng(SEED)
    chosen = [
        drawn.permutation(np.flatnonzero(bin_N == number))[: round(wanted * share)]
        for number, share in enumerate(share_B)
    ]
    return np.sort(np.concatenate(chosen))


def largest_filled(available_B: NDArray[np.int64], share_B: NDArray[np.float64]) -> int:
    """The largest number of triples with these shares of which FILLED are available."""

    def missing(number: int) -> float:
        return 1 - float(np.minimum(available_B, number * share_B).sum()) / number

    return bisect_right(range(1, int(available_B.sum()) + 1), 1 - FILLED + 1e-9, key=missing)


TRAIN = "train"

Triple = tuple[str, str, str]  # source, machine translation and post-edit


@dataclass(frozen=True)
class RoundTripJob:
    """A text in the target language, real post-edits, a model into the source language and one back, and the folder to
    write; all of them checked."""

    dataset: Dataset
    text: TextField
    real: Dataset
    backward: Translator
    forward: Translator
    precision: Precision
    folder: RoundTripFolder
    repeat: int
    triples: int | None

    @property
    def fields(self) -> dict[str, TextField]:
        """The real train split, in whose form the artificial triples are written."""
        return {name: self.real.field(TRAIN, name) for name in FIELDS}

    @property
    def record(self) -> dict[str, Any]:
        """The inputs that the translations depend on."""
        sha256 = self.dataset.fingerprint(TRAIN, [self.text.name])
        return {
            "to_source": self.backward.record,
            "to_target": self.forward.record,
            "search": [each.options.model_dump(mode="json") for each in (self.backward, self.forward)],
            "precision": self.precision,
            "data": {"name": self.dataset.name, "field": self.text.name, "sha256": sha256},
            "form": {name: [field.tokenised, field.lowercase] for name, field in self.fields.items()},
        }

    @property
    def selection(self) -> dict[str, Any]:
        """The further inputs that the written triples depend on."""
        post_edits = {"name": self.real.name, "sha256": self.real.fingerprint(TRAIN, FIELDS)}
        return {"post_edits": post_edits, "repeat": self.repeat, "triples": self.triples}

    def run(self) -> Path:
        """Write the data set, or what is missing of it; returns the path of its description."""
        folder, record, selection = self.folder, self.record, self.selection
        if folder.check(record) and folder.complete and folder.read_record().get("selection") == selection:
            say("it is there already")
            return folder.description
        with run_lock(folder.path, "writing this data set"):
            if not folder.check(record):  # once more, now that no other process can create it
                folder.create(record)
            self.translate()
            self.write(self.select(self.read_triples()))
            folder.create(record | {"selection": selection})
        return folder.description

    def translate(self) -> None:
        """Write the translations of every line: the text's, and theirs."""
        lines = sum(count_lines(part).lines for part in self.text.parts)
        tokenised = {name: field.tokenised for name, field in self.fields.items()}
        source, mt = self.folder.translations(SOURCE), self.folder.translations(MT)
        self.backward.write(source, self.rows, self.text.tokenised, tokenised[SOURCE], lines)
        self.forward.write(mt, Rows(source), tokenised[SOURCE], tokenised[MT], lines)

    @property
    def rows(self) -> Rows:
        """The lines of the text."""
        return Rows((self.dataset, self.text.name))

    def read_triples(self) -> list[Triple]:
        """The triple of every line that has all three texts, in the form of the real ones."""
        fields, steps = self.fields, steps_to(self.text, self.fields[TARGET])
        normalize = build_normalizer(steps, fields[TARGET].language, fields[TARGET].unknown)
        sources, mts = (list(read_file(self.folder.translations(name))) for name in (SOURCE, MT))
        triples = []
        for number, text in self.rows.numbered():
            triple = (
                in_case(sources[number - 1], fields[SOURCE]), in_case(mts[number - 1], fields[MT]), normalize(text),
            )  # fmt: skip
            if all(each.strip() for each in triple) and not SURROGATE.search(text):
                triples.append(triple)
        return triples

    def select(self, triples: Sequence[Triple]) -> list[Triple]:
        """The triples that are edited as much as the real ones. Raises DataError if there are none."""
        pairs = [row.texts for row in read_rows(self.real, TRAIN, [MT, TARGET])]
        target, label = self.fields[TARGET], "counting edits"
        tokenize = default_tokenization(target.language, target.tokenised)
        edits = count_edits([mt for _, mt, _ in triples], [pe for *_, pe in triples], tokenize, label)
        real = count_edits([mt for mt, _ in pairs], [pe for _, pe in pairs], tokenize, f"{label} of {self.real.name}")
        chosen = select_triples(edits, real, self.triples)
        figures = f"HTER of all {hter(edits):.1f}, of the real ones {hter(real):.1f}"
        if not len(chosen):
            raise DataError(
                str(self.folder.path),
                f"too few artificial triples are edited as much as the real ones ({figures})",
                "use more text or better models, or say with --triples how many are wanted at most",
            )
        say(f"{len(chosen):,} of {len(triples):,} triples are selected: HTER {hter(edits[chosen]):.1f} ({figures})")
        return [triples[index] for index in chosen.tolist()]

    def write(self, triples: Sequence[Triple]) -> None:
        """Write the selected triples, and the description."""
        self.folder.description.unlink(missing_ok=True)  # of another selection, whose files these replace
        for name, texts in zip(FIELDS, zip(*triples, strict=True), strict=True):
            self.folder.write_train_file(name, texts)
        models = " and ".join([*self.backward.names, *self.forward.names])
        about = f"{len(triples):,} artificial triples, by round trip of {self.dataset.name} through {models}"
        files = {name: self.folder.train_file(name).name for name in FIELDS}
        self.folder.write_description(round_trip_description(self.real, files, about, self.repeat))


def in_case(text: str, field: TextField) -> str:
    """A translation in the case of a field."""
    return text.lower() if field.lowercase else text


def field_in_language(dataset: Dataset, language: str | None) -> str:
    """The only field of the train split in a language. Raises UsageError."""
    names = [name for name in dataset.fields(TRAIN) if language and dataset.languages.get(name) == language]
    if len(names) != 1:
        found = f"{' and '.join(names)} are" if names else "none of its fields is"
        raise UsageError(
            "--data",
            f"in the train split of {dataset.name} {found} in the language of the post-edits ({language or 'unknown'})",
            f"name one with --field: {', '.join(dataset.fields(TRAIN))}",
        )
    return names[0]


def check_form(text: TextField, written: TextField) -> None:
    """Raises UsageError where no steps bring the text to the form of the post-edits."""
    differences = {
        "cut into subwords": text.segmentation is not None,
        "tokenised": text.tokenised and not written.tokenised,
        "lower-cased": text.lowercase and not written.lowercase,
    }
    if how := [name for name, differs in differences.items() if differs]:
        problem = f"its field '{text.name}' is {how[0]}, and the post-edits are not"
        raise UsageError("--data", problem, "use text as it is written")


def steps_to(text: TextField, written: TextField) -> list[NormalizationStep]:
    """The steps that bring a text to the form of the post-edits."""
    steps: list[NormalizationStep] = []
    if written.tokenised and not text.tokenised:
        steps.append("moses")
    if written.lowercase and not text.lowercase:
        steps.append("lower")
    return steps


def make_round_trip(options: RoundTripOptions) -> Path:
    """Write the data set, or what is missing of it; returns the path of its description.

    Raises UsageError and DataError, before any work is done and with nothing changed, where models, text,
    post-edits and folder do not fit together; RegistryError, BundleError; TrainingError where another process
    writes the folder; DataError also if too few triples are edited as much as the real ones.
    """
    dataset, real = open_dataset(options.data, options.data_root), open_dataset(options.post_edits, options.data_root)
    check_post_edits(real, options.repeat)
    source, target = real.languages.get(SOURCE), real.languages.get(TARGET)
    text = dataset.field(TRAIN, options.field or field_in_language(dataset, target))
    check_form(text, real.field(TRAIN, TARGET))
    precision = choose_precision(options.device, options.precision)
    backward = load_translator(options, "--to-source", options.to_source, precision, (target, source))
    forward = load_translator(options, "--to-target", options.to_target, precision, (source, target))
    folder = RoundTripFolder((options.output or Path(f"{real.name}-round-trip")).resolve())
    job = RoundTripJob(dataset, text, real, backward, forward, precision, folder, options.repeat, options.triples)
    return job.run()


def load_translator(
    options: RoundTripOptions, option: str, model: str, precision: Precision, languages: tuple[str | None, str | None]
) -> Translator:
    """The model of an option, which is checked. Raises UsageError, RegistryError, BundleError."""
    members = load_members(model, options.tracking, options.device, precision)
    bundle = combine([member for _, member in members])
    search = options.search.apply_to(bundle, n_best=1)
    weights = [member.card.weights_sha256 or "" for _, member in members]
    translator = Translator(option, [name for name, _ in members], bundle, search, weights)
    translator.check(languages)
    return translator
