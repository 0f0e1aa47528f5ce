"""Runs on a storage, from the driver's side: ownership, newer local checkpoints, and the run's records."""

import json
import socket
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from interlinear.files import parse_checked_json
from training.events import EpochReport, Outcome, RunStorage, StartReport, StepReport, TrainingJob
from training.loop.checkpoints.checkpoint_manager import CheckpointManager
from training.loop.checkpoints.checkpoint_upload import complete_states
from training.loop.checkpoints.resume import check_same_run
from training.loop.checkpoints.training_state import TrainingProgress
from training.storage.storage import Storage


def claim(storage: Storage, folder: Path, now: TrainingProgress, resume: bool) -> RunStorage:
    """Take ownership of the run with this folder's name; its previous owner stops at its next checkpoint.

    A resumed run's newest checkpoint is uploaded where only the folder has it. Raises TrainingError, and keeps the
    previous owner, where the run was started with another recipe or on other data than `now`.
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
    """The folder's newest intact state, if it is newer than the storage's. Both must belong to this recipe and data."""
    prefix = f"runs/{folder.name}/checkpoints"
    stored_states = complete_states(storage, prefix)
    if stored_states:
        with suppress(ValueError):  # damaged: the workers skip it
            content = parse_checked_json(storage.read(f"{prefix}/{stored_states[-1]}/progress.json") or b"")
            check_same_run(folder, TrainingProgress.model_validate(content.get("progress")), now)
    state = checkpoints.newest_intact()
    if state is None or (stored_states and state.name <= stored_states[-1]):
        return None
    check_same_run(folder, checkpoints.read_progress(state), now)
    return state


def download_records(storage: Storage, folder: Path) -> None:
    """Download a run's records (its recipe and the id of its MLflow run) that the folder does not have."""
    records = f"runs/{folder.name}/records"
    if manifest := storage.manifest(records):
        for name in manifest.files:
            if not (folder / name).exists():
                storage.get_file(records, name, folder / name)


class RecordsUploader:
    """The driver's observer that uploads the files in the run's folder when the training starts.

    It must come after the observer that writes MLflow's record there.
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
