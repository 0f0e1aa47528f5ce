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

from seq2seq.errors import DamagedError, InterlinearError, StorageError
from training.events import RunOnStorage
from training.loop.process_group import Workers
from training.storage.storage import Storage

LOOK = 0.25  # seconds between two looks whether all is put
AT_THE_END = 30.0  # seconds that a training which failed waits for what is under way


@dataclass(frozen=True)
class Parcel:
    """Files on their way to a folder of the storage."""

    name: str
    files: Path | Mapping[str, Path]

    @property
    def is_state(self) -> bool:
        return "/state-" in self.name


class Copies:
    """The copies of one run's checkpoints. Every worker may bring; one process puts."""

    def __init__(self, run: RunOnStorage, name: str, folder: Path, keep: int, warn: Callable[[str], None]) -> None:
        """`folder`: of the checkpoints on this machine. `warn` is called in the thread that calls us."""
        self.run, self.name, self.folder, self.keep, self.warn = run, name, folder, keep, warn
        self.above = f"runs/{name}/checkpoints"
        self.storage = Storage(run.uri, warn)
        self.said: queue.SimpleQueue[str] = queue.SimpleQueue()  # what the thread has to tell
        self.changed = threading.Condition()
        self.waiting: list[Parcel] = []
        self.in_hand: Parcel | None = None
        self.failed: InterlinearError | None = None
        self.thread: threading.Thread | None = None

    def put_state(self, folder: Path) -> None:
        """Put a state, soon. One that waits still gives way to it."""
        self._put(Parcel(f"{self.above}/{folder.name}", folder))

    def put_weights(self, path: Path) -> None:
        """Put an epoch's weights, soon, and before any later state."""
        self._put(Parcel(f"{self.above}/{path.stem}", {path.name: path}))

    def put_bundle(self, folder: Path) -> None:
        """Put what came of the training, soon."""
        self._put(Parcel(f"runs/{self.name}/bundle", folder))

    def needs(self, path: Path) -> bool:
        """Whether a state's folder, or a file of weights, is still to be put."""
        with self.changed:
            parcels = [*self.waiting, *([self.in_hand] if self.in_hand else [])]
        return any(parcel.name == f"{self.above}/{path.stem}" for parcel in parcels)

    @property
    def busy(self) -> bool:
        """Whether something is still to be put."""
        return not self._wait(0)

    def finish(self, meanwhile: Callable[[], object]) -> None:
        """Wait until all is put, calling `meanwhile` now and then. Raises StorageError where that failed."""
        while not self._wait(LOOK):
            meanwhile()
            self.tell()
        self.tell()
        if self.failed:
            raise self.failed

    def close(self) -> None:
        """Give what is under way a moment, when the training ends for another reason."""
        self._wait(AT_THE_END)

    def tell(self) -> None:
        """Pass on what the thread has to say."""
        while not self.said.empty():
            self.warn(self.said.get())

    def bring(self, workers: Workers, resume: bool) -> None:
        """Have the newest whole state of the storage in the folder, the same at every worker, and nothing else.

        Every worker calls this at once. One that is damaged for any of them is passed over by all, and removed."""
        states = self.states() if resume and workers.rank == 0 else []
        for name in reversed(workers.gather(states)[0]):
            problems = [problem for problem in workers.gather(self._bring(name)) if problem]
            if not problems:
                return
            if workers.rank == 0:
                self.warn(f"{problems[0]} Trying the checkpoint before.")
                self.storage.remove(f"{self.above}/{name}")
        self._keep_only(None)
        workers.gather(None)  # nobody writes while another one clears

    def bring_weights(self, path: Path) -> None:
        """Have an epoch's weights here, unless they are."""
        with self._lock():
            self.storage.get_file(f"{self.above}/{path.stem}", path.name, path)

    def states(self) -> list[str]:
        """The whole states on the storage, oldest first."""
        return whole_states(self.storage, self.above)

    def _put(self, parcel: Parcel) -> None:
        if self.failed:
            raise self.failed
        with self.changed:
            if parcel.is_state:
                self.waiting = [other for other in self.waiting if not other.is_state]
            self.waiting.append(parcel)
            self.changed.notify_all()
        if self.thread is None:
            self.thread = threading.Thread(target=self._work, name="copies", daemon=True)
            self.thread.start()

    def _wait(self, seconds: float) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: bool(self.failed) or not (self.waiting or self.in_hand), seconds)

    def _work(self) -> None:
        storage = Storage(self.run.uri, self.said.put)
        while not self.failed:
            with self.changed:
                self.changed.wait_for(lambda: bool(self.waiting))
                self.in_hand = parcel = self.waiting.pop(0)
            failed: InterlinearError | None = None
            try:
                self._check_owner(storage)
                storage.put(parcel.name, parcel.files)
                if parcel.is_state:
                    self._drop_old(storage)
            except InterlinearError as error:
                failed = error
            except OSError as error:  # on this machine
                failed = StorageError(parcel.name, f"it cannot be put ({error})", "go on with --resume")
            with self.changed:
                self.in_hand, self.failed = None, failed
                self.changed.notify_all()

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

    def _drop_old(self, storage: Storage) -> None:
        """Keep the newest states, and the weights of the epochs that they speak of."""
        kept = set(whole_states(storage, self.above)[-self.keep :])
        for state in list(kept):
            progress = storage.read(f"{self.above}/{state}/progress.json") or b""
            kept |= {f"epoch-{epoch:04d}" for epoch in kept_epochs(progress)}
        for name in storage.names(self.above):
            if name not in kept:
                storage.remove(f"{self.above}/{name}")

    def _bring(self, name: str) -> str | None:
        """Have this state here alone; why it cannot be, where it is damaged."""
        with self._lock():
            self._keep_only(name)
            try:
                self.storage.get(f"{self.above}/{name}", self.folder / name)
            except DamagedError as error:
                return str(error)
        return None

    def _keep_only(self, state: str | None) -> None:
        for path in self.folder.glob("*"):
            if path.name.startswith(("state-", "epoch-")) and path.name != state:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def _lock(self) -> FileLock:
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / ".lock")


def whole_states(storage: Storage, above: str) -> list[str]:
    """The names of the whole states in a folder of the storage, oldest first."""
    states = [name for name in storage.names(above) if name.startswith("state-")]
    return [name for name in states if storage.manifest(f"{above}/{name}")]


def kept_epochs(progress: bytes) -> list[int]:
    """The epochs whose weights a state's progress.json speaks of; none where it is damaged."""
    try:
        return [one["epoch"] for one in json.loads(progress)["progress"]["kept"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
