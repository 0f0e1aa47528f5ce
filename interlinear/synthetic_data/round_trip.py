"""Artificial post-edits by round trip (Junczys-Dowmunt and Grundkiewicz 2016): text in the target language is
translated into the source language by one model and back by another. It is the post-edit of what comes back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interlinear.console import say
from interlinear.decoding.model_loading import choose_precision, combine, load_members
from interlinear.decoding.search_options import SearchOverrides
from interlinear.decoding.translation import InputLine
from interlinear.synthetic_data.line_outputs import write_outputs
from interlinear.synthetic_data.triple_selection import count_edits, hter, select_triples
from seq2seq.bundle import Bundle
from seq2seq.config import Precision
from seq2seq.errors import DataError, UsageError
from seq2seq.model.ensemble import Predictor
from seq2seq.search import SearchOptions
from training.data.cleaning import SURROGATE
from training.data.dataset import Dataset, open_dataset, read_rows
from training.data.dataset.fields import TextField
from training.data.dataset.generated_folder import complete_lines, open_lines
from training.data.dataset.round_trip import (
    FIELDS,
    MT,
    SOURCE,
    TARGET,
    RoundTripFolder,
    check_post_edits,
    round_trip_description,
)
from training.data.formats import count_lines, read_file
from training.data.normalize import NormalizationStep, build_normalizer
from training.runs.run_lock import run_lock

TRAIN = "train"


@dataclass(frozen=True)
class Translator:
    """A model, or an ensemble, that translates each line once. option: of the command, which names it."""

    option: str
    names: Sequence[str]
    bundle: Bundle[Predictor]
    options: SearchOptions
    weights: Sequence[str]

    @property
    def record(self) -> list[dict[str, str]]:
        return [{"name": name, "weights_sha256": sha} for name, sha in zip(self.names, self.weights, strict=True)]

    def check(self, languages: tuple[str | None, str | None]) -> None:
        """Raises UsageError for a model that reads other than one text, or is of other languages than from the first to
        the second."""
        card, first, (read, written) = self.bundle.card, self.bundle.card.model.first_text, languages
        if len(card.model.sources) > 1:
            problem = f"it reads {' and '.join(card.model.sources)}, and a line is one text"
            raise UsageError(self.option, problem, "name a translation model")
        for field, expected in ((first, read), (TARGET, written)):
            own = card.languages.get(field)
            if own and expected and own != expected:
                problem = f"the model's '{field}' is {own}, and the post-edits need {expected}"
                raise UsageError(self.option, problem, "name a model of the data's languages")

    def write(self, folder: RoundTripFolder, name: str, rows: "Rows", read: bool, written: bool, lines: int) -> None:
        """Write the translations of all lines, or of those that are missing.

        `read`, `written`: whether the words of the text and of its translation are separated by spaces.
        """
        if folder.translations(name).is_file():
            return
        file, done = open_lines(folder.translations(name))
        tokenised = {self.bundle.card.model.first_text: read, TARGET: written}
        with file:
            if done:
                say(f"{name}: going on after line {done:,} of {lines:,}")
            fields = frozenset(field for field, separated in tokenised.items() if separated)
            write_outputs(
                file, self.bundle, rows.after(done), self.options, fields, done, lines, f"translating: {name}"
            )
        complete_lines(folder.translations(name))


@dataclass(frozen=True)
class Rows:
    """The lines of a text: a field of a data set's train split, or a file."""

    text: tuple[Dataset, str] | Path

    def numbered(self) -> Iterator[tuple[int, str]]:
        """The lines with their numbers, from 1; those that lack a required image are left out."""
        if isinstance(self.text, Path):
            return enumerate(read_file(self.text), 1)
        dataset, name = self.text
        return ((row.number, row.texts[0]) for row in read_rows(dataset, TRAIN, [name]))

    def after(self, done: int) -> Iterator[InputLine]:
        """The lines after the first `done`, to be translated."""
        for number, text in self.numbered():
            if number > done:
                yield InputLine(number, f"line {number}", None if SURROGATE.search(text) else text)


@dataclass(frozen=True)
class RoundTrip:
    """The options of `interlinear round-trip`. field: None for the one in the language of the post-edits. output: None
    for POST_EDITS-round-trip, by their data set's name. triples: None for as many as are like the real ones."""

    data: str
    field: str | None
    to_source: str
    to_target: str
    post_edits: str
    data_root: Path | None
    output: Path | None
    repeat: int
    triples: int | None
    search: SearchOverrides
    device: str
    precision: Precision
    tracking: str | None

    def run(self) -> Path:
        """Write the data set, or what is missing of it; returns the path of its description.

        Raises UsageError and DataError, before any work is done and with nothing changed, where models, text,
        post-edits and folder do not fit together; RegistryError, BundleError; TrainingError where another process
        writes the folder; DataError also if no triple is edited as much as a real one.
        """
        dataset, real = open_dataset(self.data, self.data_root), open_dataset(self.post_edits, self.data_root)
        check_post_edits(real, self.repeat)
        text = dataset.field(TRAIN, self.field or field_in_language(dataset, real.languages.get(TARGET)))
        fields = {name: real.field(TRAIN, name) for name in FIELDS}
        steps = steps_to(text, fields[TARGET])
        folder = RoundTripFolder((self.output or Path(f"{real.name}-round-trip")).resolve())
        precision = choose_precision(self.device, self.precision)
        source, target = real.languages.get(SOURCE), real.languages.get(TARGET)
        backward = self.translator("--to-source", self.to_source, precision, (target, source))
        forward = self.translator("--to-target", self.to_target, precision, (source, target))
        record = {
            "to_source": backward.record,
            "to_target": forward.record,
            "search": [each.options.model_dump(mode="json") for each in (backward, forward)],
            "precision": precision,
            "data": {"name": dataset.name, "field": text.name, "sha256": dataset.fingerprint(TRAIN, [text.name])},
            "form": {name: [field.tokenised, field.lowercase] for name, field in fields.items()},
        }
        selection = {
            "post_edits": {"name": real.name, "sha256": real.fingerprint(TRAIN, FIELDS)},
            "repeat": self.repeat,
            "triples": self.triples,
        }
        if folder.check(record) and folder.complete and folder.read_record().get("selection") == selection:
            say("it is there already")
            return folder.description
        lines = sum(count_lines(part).lines for part in text.parts)
        with run_lock(folder.path, "writing this data set"):
            if not folder.check(record):  # once more, now that no other process can create it
                folder.create(record)
            rows = Rows((dataset, text.name))
            backward.write(folder, SOURCE, rows, text.tokenised, fields[SOURCE].tokenised, lines)
            read = Rows(folder.translations(SOURCE))
            forward.write(folder, MT, read, fields[SOURCE].tokenised, fields[MT].tokenised, lines)
            triples = self.select(read_triples(folder, rows, fields, steps), real)
            folder.description.unlink(missing_ok=True)  # of another selection, whose files these replace
            for name, texts in zip(FIELDS, zip(*triples, strict=True), strict=True):
                folder.write_train_file(name, texts)
            models = " and ".join([*backward.names, *forward.names])
            about = f"{len(triples):,} artificial triples, by round trip of {dataset.name} through {models}"
            files = {name: folder.train_file(name).name for name in FIELDS}
            folder.write_description(round_trip_description(real, files, about, self.repeat))
            folder.create(record | {"selection": selection})
        return folder.description

    def translator(
        self, option: str, model: str, precision: Precision, languages: tuple[str | None, str | None]
    ) -> Translator:
        """The model of an option, which is checked. Raises UsageError, RegistryError, BundleError."""
        members = load_members(model, self.tracking, self.device, precision)
        bundle = combine([member for _, member in members])
        options = self.search.apply_to(bundle.card.search.model_copy(update={"n_best": 1}))
        weights = [member.card.weights_sha256 or "" for _, member in members]
        translator = Translator(option, [name for name, _ in members], bundle, options, weights)
        translator.check(languages)
        return translator

    def select(self, triples: list[tuple[str, ...]], real: Dataset) -> list[tuple[str, ...]]:
        """The triples that are edited as much as the real ones. Raises DataError if there are none."""
        tokenised = real.field(TRAIN, TARGET).tokenised
        pairs = [row.texts for row in read_rows(real, TRAIN, [MT, TARGET])]
        edits, real_edits = (
            count_edits([mt for *_, mt, _ in own], [pe for *_, pe in own], tokenised, label)
            for own, label in ((triples, "counting edits"), (pairs, f"counting edits of {real.name}"))
        )
        chosen = select_triples(edits, real_edits, self.triples)
        figures = f"HTER of all {hter(edits):.1f}, of the real ones {hter(real_edits):.1f}"
        if not len(chosen):
            raise DataError(
                self.data,
                f"too few artificial triples are edited as much as the real ones ({figures})",
                "use more text or better models, or say with --triples how many are wanted at most",
            )
        say(f"{len(chosen):,} of {len(triples):,} triples are selected: HTER {hter(edits[chosen]):.1f} ({figures})")
        return [triples[index] for index in np.asarray(chosen).tolist()]


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


def steps_to(text: TextField, written: TextField) -> tuple[NormalizationStep, ...]:
    """The steps that bring a text to the form of the post-edits. Raises UsageError where none do."""
    if text.segmentation or (text.tokenised and not written.tokenised) or (text.lowercase and not written.lowercase):
        how = "cut into subwords" if text.segmentation else "lower-cased" if text.lowercase else "tokenised"
        raise UsageError("--data", f"its field {text.name} is {how}, and the post-edits are not", "use natural text")
    steps: list[NormalizationStep] = []
    if written.tokenised and not text.tokenised:
        steps.append("moses")
    if written.lowercase and not text.lowercase:
        steps.append("lower")
    return tuple(steps)


def read_triples(
    folder: RoundTripFolder, rows: Rows, fields: dict[str, TextField], steps: Sequence[NormalizationStep]
) -> list[tuple[str, ...]]:
    """Source, machine translation and post-edit of every line that has all three, in the form of the real ones."""
    translations = {name: list(read_file(folder.translations(name))) for name in (SOURCE, MT)}
    normalize = build_normalizer(steps, fields[TARGET].language, fields[TARGET].unknown)
    triples = []
    for number, text in rows.numbered():
        own = [
            lines[number - 1].lower() if fields[name].lowercase else lines[number - 1]
            for name, lines in translations.items()
        ]
        if text.strip() and all(each.strip() for each in own) and not SURROGATE.search(text):
            triples.append((*own, normalize(text)))
    return triples
