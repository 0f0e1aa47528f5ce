"""The data set that is made of a user's parallel text: a folder with a description, splits, and a record of its origin.

Its folder NAME has NAME.yaml, which the user may change; the text files NAME.SPLIT.LANGUAGE; and split.json, from which
a later call with the same text detects that the work is done.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from interlinear.errors import UsageError
from interlinear.files import CHECKSUM_KEY, content_checksum, read_checked_json
from training.data.arrays import write_atomically
from training.data.dataset.description import Task
from training.data.parallel.inputs import ParallelText
from training.data.parallel.splitting import SPLITS, SplitCounts, SplitOptions, Track, write_splits
from training.data.prepare.working_folder import publish, working_folder
from training.data.uris import fingerprint

RECORD = "split.json"
# What a record says of the origin, and the message where it differs.
ORIGIN = {
    "text": "was made of other text",
    "languages": "was made with other --languages",
    "task": "was made for another task",
    "seed": "was drawn by another seed",
    "dev": "was made with another size of dev",
    "test": "was made with another size of test",
}


@dataclass(frozen=True)
class SplitFolder:
    """The folder of a data set that is made of a user's parallel text."""

    path: Path

    @property
    def description(self) -> Path:
        return self.path / f"{self.path.name}.yaml"

    def files(self, languages: Sequence[str]) -> dict[str, tuple[Path, Path]]:
        """The source and the target of each split."""
        # The data root is searched before this folder, so that a name like `train.de` could be another's text.
        suffixes = languages if languages[0] != languages[1] else ("source", "target")
        name = self.path.name
        return {
            split: (self.path / f"{name}.{split}.{suffixes[0]}", self.path / f"{name}.{split}.{suffixes[1]}")
            for split in SPLITS
        }

    def check(self, origin: Mapping[str, Any]) -> SplitCounts | None:
        """The counts of the data set that the folder holds, if it has this origin; None if the folder does not exist.

        Raises UsageError for an invalid name, and for a folder with other content or of another origin, which is not
        changed.
        """
        if not re.fullmatch(r"[\w.@+-]+", self.path.name):
            raise UsageError(str(self.path), "is no name for a data set", "use letters, digits, '-', '_' and '.'")
        description = shlex.quote(str(self.description))
        remedy = f"train on it as it is with --data {description}, or make another by `interlinear data split --output`"
        if not self.path.exists():
            return None
        if not (self.path / RECORD).is_file():
            raise UsageError(
                str(self.path),
                "is there already, and was not made by this",
                "name a new folder: `interlinear data split --output FOLDER`",
            )
        try:
            recorded = read_checked_json(self.path / RECORD)
            counts = SplitCounts(**recorded["counts"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(str(self.path / RECORD), f"is damaged: {error}", remedy) from None
        for key, difference in ORIGIN.items():
            if _identity(recorded.get(key)) != _identity(origin[key]):
                raise UsageError(str(self.path), f"{difference} ({_changed(recorded.get(key), origin[key])})", remedy)
        if not self.description.is_file():
            raise UsageError(str(self.path), f"lacks its description {self.description.name}", remedy)
        return counts


def make_dataset(
    text: ParallelText, folder: SplitFolder, options: SplitOptions, task: Task, track: Track
) -> tuple[SplitCounts, bool]:
    """Make the data set in its folder, unless it was made of the same text with the same options before.

    Returns the number of pairs, and whether the data set is new. The folder gets its name when it is complete. Raises
    UsageError for a folder of something else, DataError for text that cannot be read or is too little.
    """
    origin = describe_origin(text, options, task)
    if (counts := folder.check(origin)) is not None:
        return counts, False
    with _parent_folder(folder.path), working_folder(folder.path, resumable=False) as unfinished:
        files = {
            split: (unfinished / paths[0].name, unfinished / paths[1].name)
            for split, paths in folder.files(text.languages).items()
        }
        counts = write_splits(text, files, unfinished / ".pairs", options, track)
        for split in SPLITS:
            if not counts.splits[split]:
                for path in files.pop(split):
                    path.unlink()
        (unfinished / folder.description.name).write_text(describe(text, files, options, task), encoding="utf-8")
        record = {**origin, "counts": asdict(counts)}
        content = {**record, CHECKSUM_KEY: content_checksum(record)}
        write_atomically(unfinished / RECORD, f"{json.dumps(content, indent=2, ensure_ascii=False)}\n".encode())
        publish(unfinished, folder.path)
    return counts, True


@contextmanager
def _parent_folder(path: Path) -> Iterator[None]:
    """Remove the folder around `path` after an error, if it was created in vain."""
    new = not path.parent.exists()
    try:
        yield
    except BaseException:
        if new:
            with suppress(OSError):
                path.parent.rmdir()
        raise


def describe_origin(text: ParallelText, options: SplitOptions, task: Task) -> dict[str, Any]:
    """The inputs that the data set depends on, with the keys of ORIGIN."""
    return {
        "text": [{"file": path.name, "sha256": fingerprint(path)} for path in text.paths],
        "languages": list(text.languages),
        "task": task,
        "seed": options.seed,
        "dev": asdict(options.dev),
        "test": asdict(options.test),
    }


def describe(text: ParallelText, files: Mapping[str, tuple[Path, Path]], options: SplitOptions, task: Task) -> str:
    """The description as YAML."""
    content = {
        "task": task,
        "about": str(text),
        "licence": "not stated",
        "languages": dict(zip(("source", "target"), text.languages, strict=True)),
        "splits": {split: {"source": source.name, "target": target.name} for split, (source, target) in files.items()},
    }
    return (
        f"# dev and test were drawn by seed {options.seed}. This file may be changed: docs/datasets.md says how.\n"
        + yaml.safe_dump(content, default_flow_style=None, sort_keys=False, allow_unicode=True, width=120)
    )


def _identity(recorded: object) -> object:
    """A recorded value without file names, which may change: text is compared by checksums."""
    if isinstance(recorded, list):
        return [each.get("sha256") if isinstance(each, Mapping) else each for each in recorded]
    return recorded


def _changed(recorded: object, now: object) -> str:
    """The differences, for a message: new files, else values."""
    if isinstance(now, list) and now and isinstance(now[0], Mapping):
        known = _identity(recorded)
        changed = [each["file"] for each in now if not isinstance(known, list) or each["sha256"] not in known]
        return f"changed: {', '.join(changed)}" if changed else "fewer files, or in another order"
    return f"{_value(recorded)}, not {_value(now)}"


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{value['lines']:,}" if value.get("lines") is not None else f"{100 * value.get('fraction', 0):g}%"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
