"""Random split of two parallel texts into train, dev and test, with no pair in more than one of them."""

import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path

import numpy as np
import yaml

from seq2seq.errors import DataError, UsageError
from training.data.dataset.description import Task
from training.data.formats import read_file

SPLITS = ("train", "dev", "test")
# Limit in lines of a split whose size is a fraction: more lines hardly make scores more certain, and slow each epoch.
MAX_FRACTION_LINES = 2000


@dataclass(frozen=True)
class SplitSize:
    """The size of a split: a number of lines, or a fraction of all lines, of which at most MAX_FRACTION_LINES are
    taken."""

    lines: int | None = None
    fraction: float = 0.0

    @classmethod
    def parse(cls, option: str, text: str) -> "SplitSize":
        """Parse `500` or `5%`. Raises UsageError."""
        number = text.removesuffix("%")
        try:
            size = cls(fraction=float(number) / 100) if text.endswith("%") else cls(lines=int(number))
        except ValueError:
            size = cls(lines=-1)
        if (size.lines or 0) < 0 or not 0 <= size.fraction < 1:
            raise UsageError(f"{option} {text}", "is neither a number of lines nor a share", "write 1000, or 5%")
        return size

    def line_count(self, rows: int) -> int:
        """The number of lines of a split of `rows` lines; at least 1 if the size is a fraction above 0."""
        if self.lines is not None:
            return self.lines
        return min(MAX_FRACTION_LINES, max(1, round(self.fraction * rows))) if self.fraction else 0


def split_pairs(
    source: Path, target: Path, folder: Path, dev: SplitSize, test: SplitSize, seed: int, task: Task
) -> Path:
    """Write the splits of two parallel texts, and their description, to `folder`; returns the description's path.

    dev and test get pairs that occur once and have no empty side, sampled with `seed`. train gets the remaining pairs
    in the order of the texts, so that no evaluation pair is in the training data. The texts are read twice; memory is 8
    bytes a line, plus what numpy needs to sort them. Raises UsageError if the folder exists, DataError: texts with
    different numbers of lines, too few pairs that occur once.
    """
    if folder.exists():
        raise UsageError(str(folder), "is there already", "name a folder that does not exist")
    hashes, complete = read_hashes(source, target)
    rows = len(hashes)
    _, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    candidates = np.sort(first[counts == 1])
    candidates = candidates[complete[candidates]]
    sizes = {"dev": dev.line_count(rows), "test": test.line_count(rows)}
    if sum(sizes.values()) >= len(candidates):
        requested = f"{sizes['dev']:,} lines of dev and {sizes['test']:,} of test"
        raise DataError(
            str(source), f"{requested} are asked for, and {len(candidates):,} pairs occur once", "ask for fewer lines"
        )
    sampled = np.random.default_rng(seed).choice(candidates, sum(sizes.values()), replace=False)
    split_of = np.zeros(rows, np.uint8)
    split_of[sampled[: sizes["dev"]]] = SPLITS.index("dev")
    split_of[sampled[sizes["dev"] :]] = SPLITS.index("test")
    endings = file_suffixes(source, target)
    temporary = folder.with_name(f".{folder.name}.draft")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    with ExitStack() as files:
        outputs = {
            (split, ending): files.enter_context((temporary / f"{split}.{ending}").open("w", encoding="utf-8"))
            for split in SPLITS
            for ending in endings
        }
        for number, *texts in zip(split_of.tolist(), read_file(source), read_file(target), strict=True):
            for ending, text in zip(endings, texts, strict=True):
                outputs[SPLITS[number], ending].write(f"{text}\n")
    description = temporary / f"{folder.name}.yaml"
    languages = {field: ending for field, ending in zip(("source", "target"), endings, strict=True) if len(ending) == 2}
    content = {
        "task": task,
        "about": f"{source.name} and {target.name}",
        "licence": "not stated",
        "languages": languages,
        "splits": {
            split: {"source": f"{split}.{endings[0]}", "target": f"{split}.{endings[1]}"}
            for split in SPLITS
            if split == "train" or sizes[split]
        },
    }
    description.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")
    for split, size in sizes.items():
        if not size:
            for ending in endings:
                (temporary / f"{split}.{ending}").unlink()
    temporary.rename(folder)
    return folder / description.name


def read_hashes(source: Path, target: Path) -> tuple[np.ndarray, np.ndarray]:
    """A hash of each pair (rows, uint64), and whether both sides have text (rows, bool). Raises DataError."""
    hashes, complete = bytearray(), bytearray()
    for one, other in zip_longest(read_file(source), read_file(target)):
        if one is None or other is None:
            lines = sum(1 for _ in read_file(source)), sum(1 for _ in read_file(target))
            raise DataError(
                f"{source} and {target}",
                f"have {lines[0]:,} and {lines[1]:,} lines",
                "line i of each must belong together",
            )
        hashes += blake2b(f"{one}\n{other}".encode(errors="surrogateescape"), digest_size=8).digest()
        complete.append(bool(one.strip() and other.strip()))
    if not complete:
        raise DataError(f"{source} and {target}", "have no lines")
    return np.frombuffer(hashes, np.uint64), np.frombuffer(complete, np.bool_)


def file_suffixes(source: Path, target: Path) -> tuple[str, str]:
    """The suffixes of the splits' files: those of the texts, often language codes; `source` and `target` if they are
    equal or one is missing."""
    endings = [path.name.removesuffix(".gz").removesuffix(".zst").rpartition(".")[2] for path in (source, target)]
    return ("source", "target") if endings[0] == endings[1] or not all(endings) else (endings[0], endings[1])
