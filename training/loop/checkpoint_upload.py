"""A run's checkpoints on a storage: put there beside the training, and brought from there wherever it goes on.

    runs/NAME/checkpoints/state-000001234/    tensors.safetensors, progress.json
    runs/NAME/checkpoints/epoch-0007/         epoch-0007.safetensors
    runs/NAME/bundle/                         what came of it

What the storage has is what a training goes on from, at every worker: a state that was written on a node and not yet
put is lost with its process, and is made again.
"""

import json
import queue
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from seq2seq.errors import CorruptedError, InterlinearError, StorageError
from training.events import RunStorage
from training.loop.process_group import ProcessGroup
from training.storage.storage import Storage

POLL_SECONDS = 0.25  # seconds between two looks whether all is put
CLOSE_SECONDS = 30.0  # seconds that a training which failed waits for what is under way


@dataclass(frozen=True)
class Upload:
    """Files on their way to a folder of the storage."""

    name: str
    files: Path | Mapping[str, Path]

    @property
    def is_state(self) -> bool:
        return "/state-" in self.name


class CheckpointUploader:
    """The copies of one run's checkpoints. Every worker may bring; one process puts."""

    def __init__(self, run: RunStorage, name: str, folder: Path, keep: int, warn: Callable[[str], None]) -> None:
        """`folder`: of the checkpoints on this machine. `warn` is called in the thread that calls us."""
        self.run, self.name, self.folder, self.keep, self.warn = run, name, folder, keep, warn
        self.prefix = f"runs/{name}/checkpoints"
        self.storage = Storage(run.uri, warn)
        self.warnings: queue.SimpleQueue[str] = queue.SimpleQueue()  # what the thread has to tell
        self.condition = threading.Condition()
        self.pending: list[Upload] = []
        self.current: Upload | None = None
        self.failure: InterlinearError | None = None
        self.thread: threading.Thread | None = None

    def upload_state(self, folder: Path) -> None:
        """Put a state, soon. One that waits still gives way to it."""
        self._enqueue(Upload(f"{self.prefix}/{folder.name}", folder))

    def upload_weights(self, path: Path) -> None:
        """Put an epoch's weights, soon, and before any later state."""
        self._enqueue(Upload(f"{self.prefix}/{path.stem}", {path.name: path}))

    def upload_bundle(self, folder: Path) -> None:
        """Put what came of the training, soon."""
        self._enqueue(Upload(f"runs/{self.name}/bundle", folder))

    def is_pending(self, path: Path) -> bool:
        """Whether a state's folder, or a file of weights, is still to be put."""
        with self.condition:
            uploads = [*self.pending, *([self.current] if self.current else [])]
        return any(upload.name == f"{self.prefix}/{path.stem}" for upload in uploads)

    @property
    def is_busy(self) -> bool:
        """Whether something is still to be put."""
        return not self._wait_until_idle(0)

    def wait(self, poll: Callable[[], object]) -> None:
        """Wait until all is put, calling `poll` now and then. Raises StorageError where that failed."""
        while not self._wait_until_idle(POLL_SECONDS):
            poll()
            self.report_warnings()
        self.report_warnings()
        if self.failure:
            raise self.failure

    def close(self) -> None:
        """Give what is under way a moment, when the training ends for another reason."""
        self._wait_until_idle(CLOSE_SECONDS)

    def report_warnings(self) -> None:
        """Pass on what the thread has to say."""
        while not self.warnings.empty():
            self.warn(self.warnings.get())

    def download_newest(self, workers: ProcessGroup, resume: bool) -> None:
        """Have the newest whole state of the storage in the folder, the same at every worker, and nothing else.

        Every worker calls this at once. One that is damaged for any of them is passed over by all, and removed."""
        states = self.states() if resume and workers.rank == 0 else []
        for name in reversed(workers.all_gather(states)[0]):
            problems = [problem for problem in workers.all_gather(self._download(name)) if problem]
            if not problems:
                return
            if workers.rank == 0:
                self.warn(f"{problems[0]} Trying the checkpoint before.")
                self.storage.remove(f"{self.prefix}/{name}")
        self._keep_only(None)
        workers.all_gather(None)  # nobody writes while another one clears

    def download_weights(self, path: Path) -> None:
        """Have an epoch's weights here, unless they are."""
        with self._lock():
            self.storage.get_file(f"{self.prefix}/{path.stem}", path.name, path)

    def states(self) -> list[str]:
        """The whole states on the storage, oldest first."""
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
            self.thread = threading.Thread(target=self._run, name="copies", daemon=True)
            self.thread.start()

    def _wait_until_idle(self, seconds: float) -> bool:
        with self.condition:
            return self.condition.wait_for(lambda: bool(self.failure) or not (self.pending or self.current), seconds)

    def _run(self) -> None:
        storage = Storage(self.run.uri, self.warnings.put)
        while not self.failure:
            with self.condition:
                self.condition.wait_for(lambda: bool(self.pending))
                self.current = upload = self.pending.pop(0)
            failure: InterlinearError | None = None
            try:
                self._check_owner(storage)
                storage.put(upload.name, upload.files)
                if upload.is_state:
                    self._delete_old(storage)
            except InterlinearError as error:
                failure = error
            except OSError as error:  # on this machine
                failure = StorageError(upload.name, f"it cannot be put ({error})", "go on with --resume")
            with self.condition:
                self.current, self.failure = None, failure
                self.condition.notify_all()

    def _check_owner(self, storage: Storage) -> None:
        """Another command that took the run over begins where we were: two of them would undo each other's work."""
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
        """Keep the newest states, and the weights of the epochs that they speak of."""
        kept = set(complete_states(storage, self.prefix)[-self.keep :])
        for state in list(kept):
            progress = storage.read(f"{self.prefix}/{state}/progress.json") or b""
            kept |= {f"epoch-{epoch:04d}" for epoch in referenced_epochs(progress)}
        for name in storage.names(self.prefix):
            if name not in kept:
                storage.remove(f"{self.prefix}/{name}")

    def _download(self, name: str) -> str | None:
        """Have this state here alone; why it cannot be, where it is damaged."""
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
    """The names of the whole states in a folder of the storage, oldest first."""
    states = [name for name in storage.names(prefix) if name.startswith("state-")]
    return [name for name in states if storage.manifest(f"{prefix}/{name}")]


def referenced_epochs(progress: bytes) -> list[int]:
    """The epochs whose weights a state's progress.json speaks of; none where it is damaged."""
    try:
        return [one["epoch"] for one in json.loads(progress)["progress"]["kept"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
