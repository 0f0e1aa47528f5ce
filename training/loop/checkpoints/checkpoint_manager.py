"""Checkpoints on disk, from which a training resumes with exactly the same result as without the interruption.

    checkpoints/state-000001234/   tensors.safetensors, progress.json      the newest `keep`, by update
    checkpoints/epoch-0007.safetensors                                     weights of the best epochs

progress.json holds the SHA-256 of the tensors, of the weights of every epoch that it refers to, and of its own content,
so damage is detected before a training resumes.

A state is written under a temporary name, synced and renamed: a state with its final name is complete. Random number
generators are not part of it, since every update seeds its own from the recipe's seed, the update's number and the
worker's rank.
"""

import errno
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from interlinear.errors import CorruptedError, TrainingError
from interlinear.files import CHECKSUM_KEY, checksum, content_checksum, fsync, parse_checked_json
from training.loop.checkpoints.checkpoint_upload import CheckpointUploader
from training.loop.checkpoints.retention import names_to_keep, referenced_epochs, weights_name
from training.loop.checkpoints.training_state import BestEpoch, TrainingProgress, TrainingState


class CheckpointManager:
    """The checkpoints of one run. Only one process writes. With `uploader`, checkpoints are uploaded to a storage
    too."""

    def __init__(self, folder: Path, keep: int, uploader: CheckpointUploader | None = None) -> None:
        self.folder = folder / "checkpoints"
        self.keep = keep
        self.uploader = uploader

    def save(self, state: TrainingState) -> None:
        """Write a state, then delete checkpoints that are no longer kept (training/loop/checkpoints/retention.py)."""
        name = f"state-{state.progress.updates:09d}"
        if state.progress.done:
            name += "-done"
        temporary, final = self.folder / f".{name}", self.folder / name
        with save_errors(temporary):
            self.remove_partial()
            temporary.mkdir(parents=True)
            save_file(state.tensors, temporary / "tensors.safetensors")
            sha256 = checksum(temporary / "tensors.safetensors")
            content = {"sha256": sha256, "progress": state.progress.model_dump()}
            content |= {CHECKSUM_KEY: content_checksum(content)}
            (temporary / "progress.json").write_text(json.dumps(content), encoding="utf-8")
            for path in temporary.iterdir():
                fsync(path)
            if has_tensors(final, sha256):  # the same update, saved before the epoch was evaluated
                (temporary / "progress.json").replace(final / "progress.json")
                shutil.rmtree(temporary)
                fsync(final)
            else:
                shutil.rmtree(final, ignore_errors=True)  # damaged, or computed with other rounding
                temporary.rename(final)
            fsync(self.folder)
        if self.uploader:
            self.uploader.upload_state(final)
        self._delete_old(final)

    def remove_partial(self) -> None:
        """Remove files that a killed process left incomplete."""
        for temporary in self.folder.glob(".state-*"):
            shutil.rmtree(temporary, ignore_errors=True)
        for temporary in self.folder.glob(".epoch-*.safetensors"):
            temporary.unlink(missing_ok=True)

    def load_newest(self, warn: Callable[[str], object] = lambda message: None) -> TrainingState | None:
        """The newest intact state, with the weights of all epochs that it refers to; None where there are no states.
        `warn` is called for everything that is damaged and skipped.

        Where no state has all of its epochs, the newest one is used without the damaged epochs. Raises TrainingError
        where every state is damaged or has no intact epoch left.
        """
        incomplete: list[tuple[Path, TrainingProgress]] = []
        damaged: dict[int, str] = {}  # the problem of each epoch with damaged weights
        for folder in reversed(self.states()):
            try:
                progress = self.read_progress(folder)
                problems = {kept.epoch: self.check_weights(kept, warn) for kept in progress.kept}
                if not any(problems.values()):
                    return TrainingState(progress, load_file(folder / "tensors.safetensors"))
            except (OSError, ValueError, SafetensorError) as error:
                warn(f"{folder}: this checkpoint cannot be read ({error}); trying the one before.")
                continue
            for epoch, problem in problems.items():
                if problem and epoch not in damaged:
                    warn(f"{problem} Looking for a checkpoint that does not need it.")
                    damaged[epoch] = problem
            incomplete.append((folder, progress))
        for folder, progress in incomplete:
            if intact := [kept for kept in progress.kept if kept.epoch not in damaged]:
                skipped = ", ".join(str(kept.epoch) for kept in progress.kept if kept.epoch in damaged)
                warn(f"{folder}: going on without the weights of epoch {skipped}, which the result might have used.")
                tensors = load_file(folder / "tensors.safetensors")
                return TrainingState(progress.model_copy(update={"kept": intact}), tensors)
        if states := len(self.states()):
            detail = ", with an epoch whose weights are whole" if incomplete else ""
            raise TrainingError(
                str(self.folder),
                f"none of the {states} checkpoints can be read{detail}",
                "restore the files, or start again without --resume",
            )
        return None

    def newest_intact(self) -> Path | None:
        """The folder of the newest intact state, or None."""
        for folder in reversed(self.states()):
            with suppress(OSError, ValueError):
                self.read_progress(folder)
                return folder
        return None

    def read_progress(self, folder: Path) -> TrainingProgress:
        """The progress of a state with intact tensors. Raises OSError or ValueError where the state is damaged."""
        content = parse_checked_json((folder / "progress.json").read_bytes())
        if checksum(folder / "tensors.safetensors") != content.get("sha256"):
            raise ValueError("tensors.safetensors is damaged")
        try:
            return TrainingProgress.model_validate(content.get("progress"))
        except ValidationError as error:
            raise ValueError(f"progress.json has {error.error_count()} invalid values") from None

    def newest_workers(self) -> int:
        """The number of workers that wrote the newest intact state; 0 where there is none."""
        newest = self.newest_intact()
        return self.read_progress(newest).workers if newest else 0

    def states(self) -> list[Path]:
        """The states' folders, oldest first."""
        return sorted(self.folder.glob("state-*")) if self.folder.is_dir() else []

    def save_weights(self, epoch: int, weights: dict[str, Tensor]) -> str:
        """Save an epoch's weights; returns the SHA-256 of their file."""
        final = self.weights_path(epoch)
        temporary = final.with_name(f".{final.name}")
        with save_errors(temporary):
            self.folder.mkdir(parents=True, exist_ok=True)
            save_file(weights, temporary)
            fsync(temporary)
            sha256 = checksum(temporary)
            temporary.rename(final)
            fsync(self.folder)
        if self.uploader:
            self.uploader.upload_weights(final)
        return sha256

    def load_weights(self, kept: BestEpoch) -> dict[str, Tensor]:
        """An epoch's weights, on the CPU. Raises TrainingError where they are damaged."""
        if problem := self.check_weights(kept):
            raise TrainingError(
                str(self.weights_path(kept.epoch)), problem, "go on with --resume, which finds what is whole"
            )
        return load_file(self.weights_path(kept.epoch))

    def check_weights(self, kept: BestEpoch, warn: Callable[[str], object] | None = None) -> str | None:
        """Describes damage to an epoch's weights; None where they are intact. With `warn`, damaged weights are restored
        where the state of that epoch's end still has them."""
        problem = self._weights_problem(kept)
        if problem and warn and (state := self._restore_weights(kept)):
            warn(f"{problem} They were made again from {state}.")
            return None
        return problem

    def _weights_problem(self, kept: BestEpoch) -> str | None:
        path = self.weights_path(kept.epoch)
        try:
            if self.uploader:
                self.uploader.download_weights(path)
            if checksum(path) != kept.sha256:
                return f"{path}: the epoch's weights are damaged."
            with safe_open(path, "pt"):
                return None
        except CorruptedError as error:
            return str(error)
        except (OSError, SafetensorError) as error:
            return f"{path}: the epoch's weights cannot be read ({error})."

    def _restore_weights(self, kept: BestEpoch) -> Path | None:
        """Rewrite an epoch's weights from a state; returns that state's folder, or None where no state has them."""
        if self.uploader:
            return None
        for folder in self.states():
            with suppress(OSError, ValueError, SafetensorError):
                progress = self.read_progress(folder)
                if (progress.epoch, progress.position) != (kept.epoch + 1, 0):
                    continue
                tensors = load_file(folder / "tensors.safetensors")
                temporary = self.weights_path(kept.epoch).with_name(f".epoch-{uuid4().hex}.safetensors")
                save_file(
                    {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}, temporary
                )
                fsync(temporary)
                if checksum(temporary) == kept.sha256:
                    temporary.replace(self.weights_path(kept.epoch))
                    return folder
                temporary.unlink()
        return None

    def weights_path(self, epoch: int) -> Path:
        return self.folder / f"{weights_name(epoch)}.safetensors"

    def _delete_old(self, written: Path) -> None:
        """Delete the states and weights that are not kept. Also kept are states and weights with a pending upload, and
        the state just written, which may be older than a damaged one that was skipped."""
        states = {path.name: path for path in self.states()}
        required = [name for name, path in states.items() if path == written or self.is_upload_pending(path)]
        kept = names_to_keep(list(states), self.keep, lambda name: self._progress_content(states[name]), required)
        for name, path in states.items():
            if name not in kept:
                shutil.rmtree(path)
        for path in self.folder.glob("epoch-*.safetensors"):
            if path.stem not in kept and not self.is_upload_pending(path):
                path.unlink()

    def is_upload_pending(self, path: Path) -> bool:
        """Whether the upload of a path is pending."""
        return self.uploader is not None and self.uploader.is_pending(path)

    def epochs_in_state(self, folder: Path) -> list[int]:
        """The epochs whose weights a state refers to; empty where the state is damaged."""
        return referenced_epochs(self._progress_content(folder))

    def _progress_content(self, folder: Path) -> bytes:
        """The content of a state's progress.json; empty where it cannot be read."""
        with suppress(OSError):
            return (folder / "progress.json").read_bytes()
        return b""


def has_tensors(state: Path, sha256: str) -> bool:
    """Whether the state exists and its tensors have this checksum."""
    with suppress(OSError):
        return checksum(state / "tensors.safetensors") == sha256
    return False


@contextmanager
def save_errors(temporary: Path) -> Iterator[None]:
    """Turns write errors (such as a full disk) into a TrainingError, and removes the incomplete files."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)
        full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
        reason = "the disk is full" if full else str(error)
        remedy = "make room, then go on with --resume: nothing that was saved before is lost"
        raise TrainingError(str(temporary.parent), f"a checkpoint cannot be saved ({reason})", remedy) from None
