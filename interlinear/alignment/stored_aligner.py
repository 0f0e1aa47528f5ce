"""A learned word aligner as a folder with one file, aligner.safetensors: words, counts, and metadata."""

from datetime import UTC, datetime
from pathlib import Path

import torch
from pydantic import BaseModel
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from interlinear.alignment.hmm import Counts, WordAligner
from interlinear.alignment.pair_batches import Vocabulary
from interlinear.errors import DataError
from interlinear.files import temporary_folder

FORMAT = "interlinear-word-aligner-1"
FILE_NAME = "aligner.safetensors"
LEARNED_COUNT = 1e-3  # smaller counts are not saved
SIDES = ("source", "target")
DIRECTIONS = ("forward", "backward")
PARTS = ("cell", "given", "empty", "jump")


class AlignerRecord(BaseModel):
    """Metadata of a stored aligner.

    pairs: the number of pairs that it has learned from; tokenised: whether their words were separated by spaces;
    created: date and time (UTC); words: the number of distinct words, by side; word_pairs: the number of word pairs
    with a count; size: in bytes.
    """

    pairs: int
    tokenised: bool
    created: str
    words: dict[str, int]
    word_pairs: int
    size: int


def is_word_aligner(folder: Path) -> bool:
    """Whether a path is a folder that `save_aligner` has written."""
    return (folder / FILE_NAME).is_file()


def save_aligner(aligner: WordAligner, folder: Path, tokenised: bool) -> None:
    """Write the aligner to a new folder, without its smallest counts; the folder appears when it is complete.

    tokenised: whether its words were separated by spaces.
    """
    kept_C = torch.stack([counts.cell_C for counts in aligner.counts]).amax(0) >= LEARNED_COUNT
    kept_C[0] = True  # padding
    tensors = {"keys": torch.from_numpy(aligner.keys_C)[kept_C]}
    for side, words in zip(SIDES, (aligner.source, aligner.target), strict=True):
        tensors[f"{side}.words"] = torch.frombuffer(bytearray("\n".join(words).encode() or b"\n"), dtype=torch.uint8)
    for name, counts in zip(DIRECTIONS, aligner.counts, strict=True):
        tensors |= {
            f"{name}.cell": counts.cell_C[kept_C].float(),
            f"{name}.given": counts.given_V.float(),
            f"{name}.empty": counts.empty_V.float(),
            f"{name}.jump": counts.jump_D.float(),
        }
    metadata = {
        "format": FORMAT,
        "pairs": str(aligner.pairs),
        "tokenised": "yes" if tokenised else "no",
        "created": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    with temporary_folder(folder) as temporary:
        save_file(tensors, temporary / FILE_NAME, metadata=metadata)


def load_aligner(folder: Path) -> WordAligner:
    """Read what `save_aligner` has written. Raises DataError for a file that is not complete or of another format."""
    tensors, metadata = read_file(folder)
    try:
        source, target = (Vocabulary(tensors[f"{side}.words"].numpy().tobytes().decode().split("\n")) for side in SIDES)
        forward, backward = (Counts(*(tensors[f"{name}.{part}"].double() for part in PARTS)) for name in DIRECTIONS)
        pairs = int(metadata["pairs"])
        return WordAligner(source, target, tensors["keys"].numpy(), (forward, backward), pairs)
    except (KeyError, ValueError) as error:
        raise unreadable(folder, error) from error


def read_record(folder: Path) -> AlignerRecord:
    """The metadata of the aligner in a folder. Raises DataError as `load_aligner` does."""
    tensors, metadata = read_file(folder)
    try:
        return AlignerRecord(
            pairs=int(metadata["pairs"]),
            tokenised=metadata["tokenised"] == "yes",
            created=metadata["created"],
            words={side: len(tensors[f"{name}.given"]) for side, name in zip(SIDES, DIRECTIONS, strict=True)},
            word_pairs=len(tensors["keys"]) - 1,  # the first is padding's
            size=(folder / FILE_NAME).stat().st_size,
        )
    except (KeyError, ValueError, OSError) as error:
        raise unreadable(folder, error) from error


def read_file(folder: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of an aligner's file. Raises DataError."""
    file = folder / FILE_NAME
    try:
        with safe_open(file, framework="pt") as stored:
            metadata: dict[str, str] = stored.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise DataError(str(file), "it is no aligner that this version reads", "make it again with --save")
            return {name: stored.get_tensor(name) for name in stored.keys()}, metadata  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise unreadable(folder, error) from error


def unreadable(folder: Path, error: Exception) -> DataError:
    return DataError(str(folder / FILE_NAME), f"it cannot be read ({error})", "make it again with --save")
