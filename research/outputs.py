"""Outputs of runs on their test sets, in one compressed archive for each paper.

A text of the archive has the outputs of all runs for test sets of one name and size: the names of the runs in its
first line, then sentence by sentence the line of each run. Neighbours are alike, so that this takes a seventh less than
a text for each run.
"""

import hashlib
import lzma
import tarfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

from interlinear.errors import DataError
from interlinear.registry.lease import exclusive_lock
from training.data.arrays import write_atomically

OutputKey = tuple[str, str]  # names of a run and of a test set

# For text: no alignment of bytes to words of a machine, and more context of letters.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "pb": 0, "lc": 4}]


def archive_file(folder: Path, paper: str) -> Path:
    """The archive of a paper's outputs. `folder`: of results."""
    return folder / "outputs" / f"{paper}.tar.xz"


def outputs_sha256(lines: Sequence[str]) -> str:
    """The SHA-256 of outputs as text (hex)."""
    return hashlib.sha256(as_text(lines)).hexdigest()


def read_outputs(folder: Path, paper: str) -> dict[OutputKey, list[str]]:
    """The lines of all stored outputs of a paper. Raises DataError for a damaged archive."""
    path = archive_file(folder, paper)
    outputs: dict[OutputKey, list[str]] = {}
    if not path.exists():
        return outputs
    try:
        with tarfile.open(path, "r:xz") as archive:
            for member in archive:
                file = archive.extractfile(member)
                names, *lines = file.read().decode().split("\n")[:-1] if file else ("",)
                runs, test = names.split("\t"), member.name.rpartition(".")[0]
                outputs |= {(run, test): lines[i :: len(runs)] for i, run in enumerate(runs)}
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError) as error:
        raise DataError(str(path), f"is no archive of outputs ({error})", "restore the file") from None
    return outputs


def add_outputs(folder: Path, paper: str, outputs: Mapping[OutputKey, Sequence[str]]) -> None:
    """Add outputs, or replace those of the same keys; the others stay, also if another process adds some now. The file
    changes completely or not at all, and depends on the outputs alone."""
    path = archive_file(folder, paper)
    path.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(path.parent / ".lock"):
        texts: dict[str, list[tuple[str, Sequence[str]]]] = defaultdict(list)
        for (run, test), lines in sorted({**read_outputs(folder, paper), **outputs}.items()):
            texts[f"{test}.{len(lines)}"].append((run, lines))
        content = BytesIO()
        with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name, runs in sorted(texts.items()):
                sentences = zip(*(lines for _, lines in runs), strict=True)
                text = as_text(["\t".join(run for run, _ in runs), *(line for each in sentences for line in each)])
                member = tarfile.TarInfo(name)  # of no time, and of nobody
                member.size = len(text)
                archive.addfile(member, BytesIO(text))
        write_atomically(path, lzma.compress(content.getvalue(), filters=FILTERS))


def as_text(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
