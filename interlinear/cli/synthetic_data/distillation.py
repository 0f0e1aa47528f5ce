"""Sequence-level distillation (Kim and Rush 2016): a model translates the train split of a data set, and its outputs
become the targets that a student is trained on."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from interlinear.bundle import Bundle, ModelCard
from interlinear.bundle.bundle import SHORTLIST
from interlinear.cli.console import say
from interlinear.cli.decoding.images import ImageLoader, dataset_images
from interlinear.cli.decoding.model_loading import choose_precision, combine, load_members
from interlinear.cli.decoding.translation import InputLine, readable
from interlinear.cli.synthetic_data.synthetic_options import DistillationOptions
from interlinear.cli.synthetic_data.translator import write_outputs
from interlinear.errors import UsageError
from interlinear.models.model import Model
from interlinear.models.protocol import EncoderDecoder
from training.data.dataset import Dataset, line_count_error, open_dataset, read_rows
from training.data.dataset.distilled import DistilledFolder, check_distillable, distilled_description
from training.data.formats import count_lines
from training.data.text_lines import read_file
from training.runs.run_lock import run_lock

TRAIN, TARGET = "train", "target"


def distill_dataset(options: DistillationOptions) -> Path:
    """Write the data set, or what is missing of it; returns the path of its description.

    Raises UsageError and DataError, before any work is done and with nothing changed, where models, data set and
    folder do not fit together; RegistryError, BundleError; TrainingError where another process writes the folder.
    """
    dataset = open_dataset(options.data, options.data_root)
    folder = DistilledFolder((options.output or Path(f"{dataset.name}-distilled")).resolve())
    precision = choose_precision(options.device, options.precision)
    members = load_members(options.model, options.tracking, options.device, precision, options.use_shortlist)
    for name, member in members:
        check_model_fits(name, member.card, dataset)
    bundle = combine([member for _, member in members])
    model, search = bundle.card.model, options.search.apply_to(bundle, n_best=1)
    check_distillable(dataset, [*model.texts], [*model.images], options.with_originals)
    record = {
        "models": [{"name": name, **hashes(member, options.use_shortlist)} for name, member in members],
        "search": search.model_dump(mode="json"),
        "precision": precision,
        "data": {"name": dataset.name, "sha256": dataset.fingerprint(TRAIN, [*model.texts])},
        "originals": options.with_originals,
    }
    if folder.check(record) and folder.complete:
        say("it is there already")
        return folder.description
    lines = count_train_lines(dataset, [*model.texts, TARGET])
    with run_lock(folder.path, "writing this data set"):
        if not folder.check(record):  # once more, now that no other process can create it
            folder.create(record)
        file, done = folder.open_outputs()
        with file:
            if done:
                say(f"going on after line {done:,} of {lines:,}")
            tokenised = tokenised_fields(dataset, [*model.texts, TARGET])
            rows = read_lines(bundle, dataset, done, lines)
            write_outputs(file, bundle, rows, search, tokenised, done, lines)
        sources = [*model.texts, *model.images]
        models = " and ".join(name for name, _ in members)
        folder.finish(distilled_description(dataset, sources, folder.outputs.name, models, options.with_originals))
    report_empty_lines(folder.outputs, dataset)
    return folder.description


def hashes(bundle: Bundle[Model], shortlist: bool) -> dict[str, str]:
    """SHA-256 of the files that determine a model's outputs: its weights, and its shortlist if that is used."""
    weights = {"weights_sha256": bundle.card.weights_sha256}
    return weights | ({"shortlist_sha256": bundle.card.files[SHORTLIST]} if shortlist else {})


def check_model_fits(name: str, card: ModelCard, dataset: Dataset) -> None:
    """Raises UsageError where the data set lacks a source of the model, or is in other languages."""
    for source, fields in (
        *((source, dataset.fields(TRAIN)) for source in card.model.texts),
        *((source, dataset.images(TRAIN)) for source in card.model.images),
    ):
        if source not in fields:
            raise UsageError(
                name,
                f"the model reads '{source}', which the train split of {dataset.name} does not have",
                "name a model that reads what the data set has",
            )
    for field in (*card.model.texts, TARGET):
        ours, theirs = card.languages.get(field), dataset.languages.get(field)
        if ours and theirs and ours != theirs:
            raise UsageError(
                name,
                f"the model's '{field}' is {ours}, and that of {dataset.name} is {theirs}",
                "name a model of the data set's languages",
            )


def tokenised_fields(dataset: Dataset, names: Sequence[str]) -> frozenset[str]:
    """The train split's fields whose words are separated by spaces."""
    return frozenset(name for name in names if dataset.field(TRAIN, name).tokenised)


def count_train_lines(dataset: Dataset, names: Sequence[str]) -> int:
    """The number of lines of the train split. Raises DataError where its fields differ."""
    fields = [dataset.field(TRAIN, name) for name in names]
    indexes = [[count_lines(part) for part in field.parts] for field in fields]
    counts = [sum(index.lines for index in each) for each in indexes]
    if len(set(counts)) > 1:
        raise line_count_error(dataset, TRAIN, fields, indexes)
    return counts[0]


def read_lines(bundle: Bundle[EncoderDecoder], dataset: Dataset, done: int, lines: int) -> Iterator[InputLine]:
    """The lines of the train split after the first `done`, with all inputs of the model."""
    first, *others = bundle.card.model.texts
    pictures: dict[str, list[ImageLoader | None]] = {
        name: dataset_images(dataset, TRAIN, name, range(lines)) for name in bundle.card.model.images
    }
    for row in read_rows(dataset, TRAIN, [first, *others]):
        if row.number <= done:
            continue
        text, *further = (readable(text) for text in row.texts)
        images = {name: picture for name, of in pictures.items() if (picture := of[row.number - 1])}
        yield InputLine(row.number, f"line {row.number}", text, dict(zip(others, further, strict=True)), images)


def report_empty_lines(outputs: Path, dataset: Dataset) -> None:
    """Print the number of lines without an output, and the first."""
    included = dataset.included_lines(TRAIN)
    empty = [
        number
        for number, text in enumerate(read_file(outputs), 1)
        if not text.strip() and (included is None or number - 1 in included)
    ]
    if empty:
        count = "1 line has" if len(empty) == 1 else f"{len(empty):,} lines have"
        say(
            f"{count} no output, the first is line {empty[0]:,}: the source is empty, or the model cannot read it. "
            "Training leaves such pairs out."
        )
