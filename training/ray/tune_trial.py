"""A trial of a tuning in its actor: the training loop in a thread that waits after each epoch for Tune's decision."""

import queue
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import ray.tune
import ray.util
import torch

from interlinear.errors import InterlinearError, TrainingError
from interlinear.memory_allocator import keep_freed_memory
from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob
from training.loop import trainer
from training.loop.process_group import SingleProcess
from training.ray.control import WorkerCrashed, WorkerEvent, WorkerFailed, WorkerWarning
from training.runs.run_lock import run_lock
from training.storage.staging import StagedInputs, check_shared_disk
from training.tuning.record import EpochFile, EpochResult, goodness

STOP_FILE = ".stop"  # in the tuning's folder; asks all trials to save and end
LOCK_SECONDS = 60.0  # seconds to wait for the process of a tuning that was killed to notice that, and to end
STOP_FILE_SECONDS = 0.5  # seconds between two checks for the file
RESULT_SECONDS = 1.0  # seconds between two results without news

# Names in a result for Tune.
EVENTS, EPOCH, SCORE, LAST = "events", "epoch", "score", "last"


class PausingProcess(SingleProcess):
    """A single process that waits in the first update after an epoch until it is decided whether the training
    continues.

    The loop has saved the epoch by then. A training that is stopped saves once more, after that update.
    """

    def __init__(self, stop_file: Path) -> None:
        super().__init__()
        self.stop_file, self.checked = stop_file, 0.0
        self.undecided = False
        self.decided = threading.Event()

    def stop_requested(self) -> int:
        if self.undecided:
            self.decided.wait()
            self.decided.clear()
            self.undecided = False
        if not self.signal and time.monotonic() - self.checked >= STOP_FILE_SECONDS:
            self.checked = time.monotonic()
            if self.stop_file.exists():
                self.signal = signal.SIGTERM
        return self.signal


class TrialThread(threading.Thread):
    """Trains a job, if this node sees its staged inputs, and queues its events. After an epoch that is not the last it
    waits for the next `events` or `stop`."""

    def __init__(self, job: TrainingJob, staged: StagedInputs, device: str) -> None:
        super().__init__(daemon=True)
        self.job, self.staged, self.device = job, staged, device
        self.group = PausingProcess(job.run.parent / STOP_FILE)
        self.queued: queue.Queue[WorkerEvent] = queue.Queue()
        self.reported = False  # whether the last event returned was an epoch
        self.ended = False  # whether it was the end

    def run(self) -> None:
        try:
            check_shared_disk(self.job, self.staged, ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
            with wait_for_lock(self.job.run):
                outcome = trainer.train(self.job, self.group, [EpochFile(self.job.run), self], self.device)
            if outcome.signal:
                self.queued.put(outcome)
        except InterlinearError as error:
            self.queued.put(WorkerFailed(error))
        except Exception as error:
            self.queued.put(WorkerCrashed(repr(error), traceback.format_exc()))

    def events(self) -> list[WorkerEvent]:
        """Let the training continue, and return its events: up to an epoch or the end; none after RESULT_SECONDS."""
        if self.reported:
            self.reported = False
            self.group.decided.set()
        events: list[WorkerEvent] = []
        try:
            while not events or not self.queued.empty():
                events.append(event := self.queued.get(timeout=RESULT_SECONDS))
                self.ended = isinstance(event, Outcome | WorkerFailed | WorkerCrashed)
                self.reported = isinstance(event, EpochReport)
                if self.ended or self.reported:
                    break
        except queue.Empty:
            pass
        return events

    def stop(self) -> None:
        """Stop the training, and return when its state is saved, after an update."""
        self.group.signal = signal.SIGTERM
        self.group.decided.set()
        if self.is_alive():
            self.join()

    def started(self, job: TrainingJob, start: StartReport) -> None:
        self.queued.put(start)

    def step(self, report: StepReport) -> None:
        self.queued.put(report)

    def epoch(self, report: EpochReport) -> None:
        self.group.undecided = True
        self.queued.put(report)

    def warned(self, message: str) -> None:
        self.queued.put(WorkerWarning(message))

    def finished(self, outcome: Outcome) -> None:
        self.queued.put(outcome)


class TrialActor(ray.tune.Trainable):
    """Tune's view of a trial: each result has the events since the last one, and at most one epoch with its score.

    A class and not a function: Tune ends a function's process at any place when it stops a trial, but lets `cleanup`
    save.
    """

    thread: TrialThread | None = None

    def setup(
        self,
        config: dict[str, Any],
        jobs: Mapping[str, TrainingJob] | None = None,
        staged: Mapping[str, StagedInputs] | None = None,
        device: str = "cpu",
    ) -> None:
        assert jobs and staged
        job = jobs[config["trial"]]
        torch.set_num_threads(1)
        keep_freed_memory()
        self.epochs, self.metric = job.recipe.training.epochs, job.recipe.training.score
        self.thread = TrialThread(job, staged[config["trial"]], device)
        self.thread.start()

    def step(self) -> dict[str, Any]:
        assert self.thread
        result: dict[str, Any] = {EVENTS: (events := self.thread.events()), "done": self.thread.ended}
        if events and isinstance(report := events[-1], EpochReport):
            score = goodness(self.metric, EpochResult.of(report, time.time()))
            result |= {EPOCH: report.epoch, SCORE: score, LAST: report.epoch >= self.epochs}
        return result

    def cleanup(self) -> None:
        if self.thread:
            self.thread.stop()


@contextmanager
def wait_for_lock(run: Path) -> Iterator[None]:
    """Hold the lock of a run, once the process that holds it has ended. Raises TrainingError after LOCK_SECONDS."""
    deadline = time.monotonic() + LOCK_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(run_lock(run))
                break
            except TrainingError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.2)
        yield
