"""Preparation of a data set for training: vocabularies are learned, texts become ids, images become pixels.

The result's key is a hash of the texts and of the settings that it depends on, so systems trained on one corpus share a
vocabulary. Memory does not grow with the corpus: it is read in chunks, and results are written as they are computed.
"""

import hashlib
import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from interlinear.errors import DataError
from interlinear.files import checksum
from interlinear.text import TextConfig
from training.data.arrays import write_atomically
from training.data.cleaning import Cleaning, Reason
from training.data.dataset import Dataset
from training.data.guide.link_sources import LinkSource
from training.data.images.image_features import check_features_match
from training.data.images.image_store import ImageForm
from training.data.images.images import SplitImages
from training.data.prepare.executors import LocalExecutor, PrepareExecutor
from training.data.prepare.prepare_job import PrepareJob
from training.data.prepare.prepared import (
    SPLITS,
    TARGET,
    PreparedData,
    PreparedRecord,
    SplitRecord,
)
from training.data.prepare.text_settings import TEXT_TRAITS, check_same_settings, warn_of_identical_fields
from training.data.prepare.working_folder import publish, working_folder

ARRAYS_VERSION = 1  # version of the arrays' content; a change invalidates all prepared data


def prepare(
    dataset: Dataset,
    sources: Mapping[str, TextConfig],
    target: TextConfig,
    joint: bool,
    max_length: int,
    folder: Path = Path("prepared"),
    progress: bool = True,
    images: Mapping[str, int | None] | None = None,
    executor: PrepareExecutor | None = None,
    guide: LinkSource | None = None,
) -> PreparedData:
    """Prepare a data set's train and dev splits for training, or open them if they are already prepared.

    `sources`: the text sources. `images`: the image sources, with the side length of their pixels, or None for
    precomputed features. `joint`: learn one vocabulary from all texts. `max_length`: the limit of tokens in a text,
    without end symbols. `executor`: where the passes over the data run; default: this process. `guide`: where the word
    links between first text and target come from that guide attention; they are made in this process.

    Pairs with a longer text, with an empty first source or target, or rejected by the data set's cleaning are excluded,
    counted, and reported on stderr. Other sources may be absent from a row. The folder gets its name only when it is
    complete. Raises DataError, or RecipeError if a joint vocabulary is not possible.
    """
    fields = {**sources, TARGET: target}
    images = images or {}
    if joint:
        check_same_settings("joint_vocabulary", fields, ("units", "vocabulary", *TEXT_TRAITS))
    if target.operations_on:
        check_same_settings(
            "target.operations_on", {target.operations_on: sources[target.operations_on], TARGET: target}
        )
    if not dataset.has_split("dev"):
        raise DataError(
            str(dataset.path), "has no split 'dev', which tells training when to stop", "add `dev:` below `splits:`"
        )
    warn_of_identical_fields(dataset, list(fields))
    split_images = {split: {name: SplitImages(dataset.image(split, name)) for name in images} for split in SPLITS}
    forms = {name: _image_form(name, size, split_images) for name, size in images.items()}
    executor = executor or LocalExecutor()
    with _progress_bar(progress) as bar:
        parts = {part for split in SPLITS for name in fields for part in dataset.field(split, name).parts}
        scan_task = bar.add_task("files", total=len(parts))
        executor.scan_files(dataset, SPLITS, list(fields), partial(bar.advance, scan_task))
        fingerprints = {split: dataset.fingerprint(split, list(fields)) for split in SPLITS}
        for split, by_name in split_images.items():
            for name, images_of_split in by_name.items():
                fingerprints[f"{split}.{name}"] = images_of_split.fingerprint(precomputed=images[name] is None)
        settings = {
            "format": ARRAYS_VERSION,
            "fingerprints": fingerprints,
            "fields": {name: config.model_dump() for name, config in fields.items()},
            "joint": joint,
            "max_length": max_length,
        }
        if images:
            settings["images"] = dict(images)
        if guide:
            guide.check(dataset.field("train", TARGET))
            settings["guide"] = dict(guide.identity)
        if dataset.cleaning.enabled:
            settings["cleaning"] = dataset.cleaning.model_dump()
        key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        final = folder / f"{dataset.name}-{key[:16]}"
        if final.exists():
            return PreparedData.load(final).check()
        with working_folder(final, executor.resumable) as unfinished:
            job = PrepareJob(dataset, fields, joint, max_length, unfinished, bar, forms, split_images, executor)
            splits = job.run()
            guide_record = job.write_guide(guide, splits["train"]) if guide else None
            files = [path for path in sorted(unfinished.glob("[!.]*")) if path.name != "prepared.json"]
            record = PreparedRecord(
                key=key,
                dataset=dataset.name,
                languages={name: code for name, code in dataset.languages.items() if name in fields},
                sources=dict(sources),
                target=target,
                joint=joint,
                max_length=max_length,
                fingerprints=fingerprints,
                splits=splits,
                files={path.name: path.stat().st_size for path in files},
                checksums={path.name: checksum(path) for path in files},
                images=forms,
                cleaning=dataset.cleaning,
                guide=guide_record,
            )
            write_atomically(unfinished / "prepared.json", record.as_json())
            publish(unfinished, final)
    for name, split_record in splits.items():
        _print_skipped(name, split_record, max_length, dataset.cleaning)
        _print_absent(name, split_record)
    if guide_record and (unlinked := splits["train"].rows - guide_record.linked_pairs):
        print(f"train: {unlinked:,} of {splits['train'].rows:,} pairs have no word links", file=sys.stderr)
    return PreparedData.load(final)


def _progress_bar(visible: bool) -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not (visible and console.is_terminal),  # without a terminal rich would print an empty line
        transient=True,
    )


def _image_form(name: str, size: int | None, split_images: Mapping[str, Mapping[str, SplitImages]]) -> ImageForm:
    """How the images of a source are stored. Raises DataError if the features of the splits come from different
    networks."""
    if size is not None:
        return size
    train, dev = (split_images[split][name].precomputed for split in SPLITS)
    check_features_match(train.grid, dev.grid, dev.path, "the split 'train'")
    return train.grid


def _print_skipped(split: str, record: SplitRecord, max_length: int, cleaning: Cleaning) -> None:
    by_reason = [(skipped, cleaning.describe(Reason[name.upper()])) for name, skipped in record.cleaned.items()]
    by_reason += [(record.empty, "with an empty side"), (record.long, f"longer than {max_length} tokens")]
    for skipped, why in by_reason:
        if skipped.count:
            pairs = "pair" if skipped.count == 1 else "pairs"
            message = f"{split}: skipped {skipped.count:,} {pairs} {why} (the first in line {skipped.first_line:,})"
            print(message, file=sys.stderr)


def _print_absent(split: str, record: SplitRecord) -> None:
    for name, rows in record.present.items():
        if rows < record.rows:
            print(f"{split}: {rows:,} of {record.rows:,} pairs have '{name}'", file=sys.stderr)
