"""Outputs of a run on its test sets, stored as compressed text so that further scores can be computed later."""

import gzip
import hashlib
from collections.abc import Sequence
from pathlib import Path

from seq2seq.errors import DataError
from training.data.arrays import write_atomically
from training.data.formats import read_file


def outputs_file(folder: Path, run: object, test: str) -> Path:
    """The file of a run's outputs for a test set, one a line. `folder`: of results. `run`: its key."""
    return folder / "outputs" / f"{run}.{test}.gz"


def write_outputs(path: Path, lines: Sequence[str]) -> str:
    """Write outputs atomically; returns the SHA-256 of their text (hex). The same lines make the same file."""
    text = _as_text(lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, gzip.compress(text, mtime=0))
    return hashlib.sha256(text).hexdigest()


def outputs_sha256(path: Path) -> str:
    """The SHA-256 of the text of stored outputs (hex). Raises DataError for a file that cannot be read."""
    return hashlib.sha256(_as_text(list(read_file(path)))).hexdigest()


def check_outputs(path: Path, sha256: str) -> None:
    """Raises DataError for outputs that are not those that were scored."""
    if outputs_sha256(path) != sha256:
        raise DataError(
            str(path),
            "these are not the outputs that were scored: their SHA-256 differs from that in the run's result",
            "restore the file, or remove it and the result, and the run is scored again",
        )


def _as_text(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
