"""Uploads a run's checkpoints to a storage in the background, and downloads them when the run resumes.

    runs/NAME/checkpoints/state-000001234/    tensors.safetensors, progress.json
    runs/NAME/checkpoints/epoch-0007/         epoch-0007.safetensors
    runs/NAME/bundle/                         the trained bundle

Every worker resumes from the storage's state. A state that was written on a node and not yet uploaded is lost with its
process, and its updates are repeated.
"""

import json
import queue
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from interlinear.errors import CorruptedError, StorageError
from training.events import RunStorage
from training.loop.checkpoints.retention import names_to_keep
from training.loop.process_group import ProcessGroup
from training.storage.storage import Storage

POLL_SECONDS = 0.25  # seconds between two checks for finished uploads
CLOSE_SECONDS = 30.0  # seconds that a failed training waits for pending uploads


@dataclass(frozen=True)
class Upload:
    """Files to be uploaded to a folder of the storage."""

    name: str
    files: Path | Mapping[str, Path]

    @property
    def is_state(self) -> bool:
        return "/state-" in self.name


class CheckpointUploader:
    """The uploads and downloads of one run's checkpoints. Every worker may download; one process uploads."""

    def __init__(self, run: RunStorage, name: str, folder: Path, keep: int, warn: Callable[[str], None]) -> None:
        """`folder`: the checkpoints on this machine. `warn` is called in the thread that calls this object."""
        self.run, self.name, self.folder, self.keep, self.warn = run, name, folder, keep, warn
        self.prefix = f"runs/{name}/checkpoints"
        self.storage = Storage(run.uri, warn)
        self.warnings: queue.SimpleQueue[str] = queue.SimpleQueue()  # from the upload thread
        self.condition = threading.Condition()
        self.pending: list[Upload] = []
        self.current: Upload | None = None
        self.failure: Exception | None = None
        self.thread: threading.Thread | None = None

    def upload_state(self, folder: Path) -> None:
        """Queue the upload of a state. It replaces a state that is still waiting."""
        self._enqueue(Upload(f"{self.prefix}/{folder.name}", folder))

    def upload_weights(self, path: Path) -> None:
        """Queue the upload of an epoch's weights; they are uploaded before any later state."""
        self._enqueue(Upload(f"{self.prefix}/{path.stem}", {path.name: path}))

    def upload_bundle(self, folder: Path) -> None:
        """Queue the upload of the trained bundle."""
        self._enqueue(Upload(f"runs/{self.name}/bundle", folder))

    def is_pending(self, path: Path) -> bool:
        """Whether the upload of a state's folder or a file of weights is pending."""
        with self.condition:
            uploads = [*self.pending, *([self.current] if self.current else [])]
        return any(upload.name == f"{self.prefix}/{path.stem}" for upload in uploads)

    @property
    def is_busy(self) -> bool:
        """Whether uploads are pending."""
        return not self._wait_until_idle(0)

    def wait(self, poll: Callable[[], object]) -> None:
        """Wait until all uploads are done, calling `poll` at intervals. Raises StorageError where one failed."""
        while not self._wait_until_idle(POLL_SECONDS):
            poll()
            self.report_warnings()
        self.report_warnings()
        if self.failure:
            raise self.failure

    def close(self) -> None:
        """Wait a limited time for pending uploads, when the training ends for another reason."""
        self._wait_until_idle(CLOSE_SECONDS)

    def report_warnings(self) -> None:
        """Pass on the upload thread's warnings."""
        while not self.warnings.empty():
            self.warn(self.warnings.get())

    def download_newest(self, workers: ProcessGroup, resume: bool) -> None:
        """Put the storage's newest intact state into the folder, the same at every worker, and remove all others.

        Every worker calls this at the same time. A state that is damaged for any worker is skipped by all and removed
        from the storage.
        """
        states = self.states() if resume and workers.rank == 0 else []
        for name in reversed(workers.all_gather(states)[0]):
            problems = [problem for problem in workers.all_gather(self._download(name)) if problem]
            if not problems:
                return
            if workers.rank == 0:
                self.warn(f"{problems[0]} Trying the checkpoint before.")
                self.storage.remove(f"{self.prefix}/{name}")
        self._keep_only(None)
        workers.all_gather(None)  # no worker writes while another one still clears the folder

    def download_weights(self, path: Path) -> None:
        """Download an epoch's weights, unless they are here already."""
        with self._lock():
            self.storage.get_file(f"{self.prefix}/{path.stem}", path.name, path)

    def states(self) -> list[str]:
        """The complete states on the storage, oldest first."""
        return complete_states(self.storage, self.prefix)

    def _enqueue(self, upload: Upload) -> None:
        if self.failure:
            raise self.failure
        with self.condition:
            if upload.is_state:
                self.pending = [other for other in self.pending if not other.is_state]
            self.pending.append(upload)
            self.condition.notify_all()
        if self.thread is None:
            self.thread = threading.Thread(target=self._run, name="checkpoint upload", daemon=True)
            self.thread.start()

    def _wait_until_idle(self, seconds: float) -> bool:
        with self.condition:
            return self.condition.wait_for(lambda: bool(self.failure) or not (self.pending or self.current), seconds)

    def _run(self) -> None:
        """Upload queued files until an upload fails."""
        try:
            storage = Storage(self.run.uri, self.warnings.put)
            while True:
                with self.condition:
                    self.condition.wait_for(lambda: bool(self.pending))
                    self.current = upload = self.pending.pop(0)
                self._upload(storage, upload)
                with self.condition:
                    self.current = None
                    self.condition.notify_all()
        except Exception as error:  # also one that is a bug: `wait` raises it, and would else wait forever
            with self.condition:
                self.current, self.failure = None, error
                self.condition.notify_all()

    def _upload(self, storage: Storage, upload: Upload) -> None:
        try:
            self._check_owner(storage)
            storage.put(upload.name, upload.files)
            if upload.is_state:
                self._delete_old(storage)
        except OSError as error:  # of this machine's disk
            raise StorageError(upload.name, f"it cannot be put ({error})", "go on with --resume") from error

    def _check_owner(self, storage: Storage) -> None:
        """Raises StorageError where another command has taken the run over: two writers would overwrite each other's
        work."""
        try:
            owner = json.loads(storage.read(f"runs/{self.name}/owner.json") or b"")["owner"]
        except (ValueError, KeyError, TypeError):
            owner = None
        if owner != self.run.owner:
            raise StorageError(
                storage.uri_of(f"runs/{self.name}"),
                f"another command has taken this run over ({owner or 'its owner.json is gone'})",
                "let that one go on, or train under another name with --run",
            )

    def _delete_old(self, storage: Storage) -> None:
        """Delete checkpoints that are no longer kept (training/loop/checkpoints/retention.py)."""
        states = complete_states(storage, self.prefix)
        kept = names_to_keep(
            states, self.keep, lambda state: storage.read(f"{self.prefix}/{state}/progress.json") or b""
        )
        for name in storage.names(self.prefix):
            if name not in kept:
                storage.remove(f"{self.prefix}/{name}")

    def _download(self, name: str) -> str | None:
        """Make this state the only one in the folder; returns the problem where the storage's copy is damaged."""
        with self._lock():
            self._keep_only(name)
            try:
                self.storage.get(f"{self.prefix}/{name}", self.folder / name)
            except CorruptedError as error:
                return str(error)
        return None

    def _keep_only(self, state: str | None) -> None:
        for path in self.folder.glob("*"):
            if path.name.startswith(("state-", "epoch-")) and path.name != state:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def _lock(self) -> FileLock:
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / ".lock")


def complete_states(storage: Storage, prefix: str) -> list[str]:
    """The names of the complete states in a folder of the storage, oldest first."""
    states = [name for name in storage.names(prefix) if name.startswith("state-")]
    return [name for name in states if storage.manifest(f"{prefix}/{name}")]
