"""Runs on a storage, as their driver sees them: which there are, whose each is, and what goes with it."""

import json
import socket
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from seq2seq.bundle.checksums import parse_object
from training.events import EpochReport, Outcome, RunOnStorage, Started, StepReport, TrainingJob
from training.loop.checkpoint import Checkpoints, Progress
from training.loop.checkpoint_upload import whole_states
from training.loop.resume import refuse_another
from training.storage.storage import Storage


def claim(storage: Storage, folder: Path, now: Progress, resume: bool) -> RunOnStorage:
    """Make the run of this folder's name ours: whoever wrote it until now stops at its next checkpoint.

    Of a run that goes on the storage gets the newest checkpoint, where only the folder has it. Raises TrainingError,
    and leaves the run to whom it belongs, where it was begun with another recipe or on other data than `now`.
    """
    checkpoints = Checkpoints(folder, keep=1)
    newer = _newer(storage, folder, checkpoints, now) if resume else None
    owner = f"{socket.gethostname()} {uuid4().hex[:12]}"
    storage.write(f"runs/{folder.name}/owner.json", json.dumps({"owner": owner}).encode())
    if newer:
        for path in map(checkpoints.weights_path, checkpoints.epochs_of(newer)):
            if path.is_file():
                storage.put(f"runs/{folder.name}/checkpoints/{path.stem}", {path.name: path})
        storage.put(f"runs/{folder.name}/checkpoints/{newer.name}", newer)
    return RunOnStorage(storage.uri, owner)


def _newer(storage: Storage, folder: Path, checkpoints: Checkpoints, now: Progress) -> Path | None:
    """The folder's newest whole state, if it is newer than the storage's. Either has to be of this recipe and data."""
    above = f"runs/{folder.name}/checkpoints"
    there = whole_states(storage, above)
    if there:
        with suppress(ValueError):  # damaged: the workers pass it over
            written = parse_object(storage.read(f"{above}/{there[-1]}/progress.json") or b"")
            refuse_another(folder, Progress.model_validate(written.get("progress")), now)
    state = checkpoints.newest_whole()
    if state is None or (there and state.name <= there[-1]):
        return None
    refuse_another(folder, checkpoints.progress_of(state), now)
    return state


def bring_records(storage: Storage, folder: Path) -> None:
    """What the storage has and the folder lacks of a run's records: its recipe, and which run it is in MLflow."""
    records = f"runs/{folder.name}/records"
    if manifest := storage.manifest(records):
        for name in manifest.files:
            if not (folder / name).exists():
                storage.get_file(records, name, folder / name)


class Records:
    """The driver's observer: what stands in the run's folder when the training has begun goes to the storage.

    It comes after the one that writes MLflow's record there.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def started(self, job: TrainingJob, start: Started) -> None:
        files = {path.name: path for path in job.run.iterdir() if path.is_file() and not path.name.startswith(".")}
        self.storage.put(f"runs/{job.name}/records", files)

    def step(self, report: StepReport) -> None: ...

    def epoch(self, report: EpochReport) -> None: ...

    def warned(self, message: str) -> None: ...

    def finished(self, outcome: Outcome) -> None: ...
