"""Runs on a storage, as their driver sees them: which there are, whose each is, and what goes with it."""

import json
import socket
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from seq2seq.bundle.checksums import parse_checked_json
from training.events import EpochReport, Outcome, RunStorage, StartReport, StepReport, TrainingJob
from training.loop.checkpoint import CheckpointManager, TrainingProgress
from training.loop.checkpoint_upload import complete_states
from training.loop.resume import check_same_run
from training.storage.storage import Storage


def claim(storage: Storage, folder: Path, now: TrainingProgress, resume: bool) -> RunStorage:
    """Make the run of this folder's name ours: whoever wrote it until now stops at its next checkpoint.

    Of a run that goes on the storage gets the newest checkpoint, where only the folder has it. Raises TrainingError,
    and leaves the run to whom it belongs, where it was begun with another recipe or on other data than `now`.
    """
    checkpoints = CheckpointManager(folder, keep=1)
    newer = _newer_local_state(storage, folder, checkpoints, now) if resume else None
    owner = f"{socket.gethostname()} {uuid4().hex[:12]}"
    storage.write(f"runs/{folder.name}/owner.json", json.dumps({"owner": owner}).encode())
    if newer:
        for path in map(checkpoints.weights_path, checkpoints.epochs_in_state(newer)):
            if path.is_file():
                storage.put(f"runs/{folder.name}/checkpoints/{path.stem}", {path.name: path})
        storage.put(f"runs/{folder.name}/checkpoints/{newer.name}", newer)
    return RunStorage(storage.uri, owner)


def _newer_local_state(
    storage: Storage, folder: Path, checkpoints: CheckpointManager, now: TrainingProgress
) -> Path | None:
    """The folder's newest whole state, if it is newer than the storage's. Either has to be of this recipe and data."""
    prefix = f"runs/{folder.name}/checkpoints"
    there = complete_states(storage, prefix)
    if there:
        with suppress(ValueError):  # damaged: the workers pass it over
            written = parse_checked_json(storage.read(f"{prefix}/{there[-1]}/progress.json") or b"")
            check_same_run(folder, TrainingProgress.model_validate(written.get("progress")), now)
    state = checkpoints.newest_intact()
    if state is None or (there and state.name <= there[-1]):
        return None
    check_same_run(folder, checkpoints.read_progress(state), now)
    return state


def download_records(storage: Storage, folder: Path) -> None:
    """What the storage has and the folder lacks of a run's records: its recipe, and which run it is in MLflow."""
    records = f"runs/{folder.name}/records"
    if manifest := storage.manifest(records):
        for name in manifest.files:
            if not (folder / name).exists():
                storage.get_file(records, name, folder / name)


class RecordsUploader:
    """The driver's observer: what stands in the run's folder when the training has begun goes to the storage.

    It comes after the one that writes MLflow's record there.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def started(self, job: TrainingJob, start: StartReport) -> None:
        files = {path.name: path for path in job.run.iterdir() if path.is_file() and not path.name.startswith(".")}
        self.storage.put(f"runs/{job.name}/records", files)

    def step(self, report: StepReport) -> None: ...

    def epoch(self, report: EpochReport) -> None: ...

    def warned(self, message: str) -> None: ...

    def finished(self, outcome: Outcome) -> None: ...
