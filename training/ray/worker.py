"""A worker process started by Ray Train: runs its part of a training and sends events to the driver."""

import os
import pickle
import shutil
import time
import traceback
from dataclasses import replace
from typing import Any, Protocol

import ray
import torch
from ray.exceptions import RayError

from interlinear.errors import InterlinearError
from interlinear.memory_allocator import keep_freed_memory
from training.events import EpochReport, Observer, Outcome, StartReport, StepReport, TrainingJob
from training.loop import process_group, trainer
from training.loop.process_group import WorkerLostError
from training.ray.capacity import available_cpus
from training.ray.control import POLL_SECONDS, ControlRequests, WorkerCrashed, WorkerEvent, WorkerFailed, WorkerWarning
from training.storage.staging import check_shared_disk, fetch_inputs

REPORT_GRACE_SECONDS = 3.0  # seconds in which all affected workers report the loss


class ControlChannel(Protocol):
    """A worker's connection to the control actor."""

    requests: ControlRequests
    saved: int

    def flush(self) -> None: ...

    def report_lost(self, rank: int, world_size: int, seconds: float) -> None: ...

    def describe_lost(self) -> str: ...


class RayProcessGroup(process_group.TorchProcessGroup):
    """Ray's workers. Rank 0 polls the control actor; the training loop tells the other ranks to stop."""

    def __init__(self, client: ControlChannel, timeout: float) -> None:
        super().__init__(timeout)
        self.client = client
        self.saved_request = 0  # the newest save request that was received

    def stop_requested(self) -> int:
        if self.rank == 0:
            self.client.flush()
        return self.client.requests.signal

    def save_requested(self) -> bool:
        new = self.client.requests.saves > self.saved_request
        self.saved_request = self.client.requests.saves
        return new

    def confirm_saved(self) -> None:
        self.client.saved = self.saved_request  # sent with the next batch of events

    def worker_lost_error(self, seconds: float) -> WorkerLostError:
        """Every remaining worker reports the loss; the control actor knows who is missing, since torch names no
        rank."""
        self.client.report_lost(self.rank, self.world_size, seconds)
        time.sleep(REPORT_GRACE_SECONDS)
        return WorkerLostError(f"rank {self.rank}", self.client.describe_lost(), "see to that node")


def run_worker(config: dict[str, Any]) -> Any:
    """Run one worker's training; after a restart of the group it resumes from the newest checkpoint."""
    import ray.train.torch

    job, client = config["job"], ControlClient(config["control"], config["timeout"])
    context = ray.train.get_context()
    cpus_per_worker = available_cpus() // context.get_local_world_size()
    torch.set_num_threads(int(config["threads"] or max(1, cpus_per_worker)))
    keep_freed_memory()
    group = RayProcessGroup(client, config["timeout"])
    observers: list[Observer] = [RayReportObserver()]
    if group.rank == 0:
        observers.append(ForwardingObserver(client))
    node = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    starts = client.register_worker(group.rank, f"process {os.getpid()} on {node}")
    try:
        # a worker of a new rank starts for the first time, and resumes too
        restarts = max(group.all_gather(starts)) - 1
        if restarts and group.rank == 0:
            number = "1 worker goes" if group.world_size == 1 else f"{group.world_size} workers go"
            client.send(WorkerWarning(f"{number} on from the newest checkpoint (restart {restarts})."))
        job = replace(job, resume=job.resume or restarts > 0)
        if job.run_storage:
            job = fetch_inputs(job, config["staged"], node, client.warn)
        else:
            check_shared_disk(job, config["staged"], node)
        outcome = trainer.train(job, group, observers, str(ray.train.torch.get_device()))
        if job.run_storage and outcome.bundle and context.get_local_rank() == 0:
            shutil.rmtree(job.run, ignore_errors=True)  # the storage has all of it
        return outcome
    except (WorkerLostError, torch.AcceleratorError, OSError, RayError):
        raise  # another worker died, or a GPU or the network failed: Ray restarts the group
    except InterlinearError as error:
        # a restart would fail in the same way: the driver closes the cluster when it receives this
        client.send(WorkerFailed(error))
        raise
    except Exception as error:
        client.send(WorkerCrashed(repr(error), traceback.format_exc()))
        raise
    finally:
        client.close()


class ControlClient:
    """A worker's connection to the control actor: collects events, and sends them without waiting for the reply."""

    def __init__(self, control: Any, timeout: float) -> None:
        """`timeout`: seconds to wait for a reply."""
        self.control, self.timeout = control, timeout
        self.events: list[WorkerEvent] = []
        self.reply: Any = None
        self.sent_at = 0.0
        self.requests = ControlRequests()
        self.saved = 0  # the newest completed save request

    def send(self, event: WorkerEvent) -> None:
        self.events.append(event)

    def warn(self, message: str) -> None:
        self.send(WorkerWarning(message))
        self.flush()

    def flush(self) -> None:
        """Send the collected events, unless the last batch was sent less than POLL_SECONDS ago or has no reply yet."""
        if time.monotonic() - self.sent_at < POLL_SECONDS or (self.reply and not ray.wait([self.reply], timeout=0)[0]):
            return
        if self.reply:
            self.requests = ray.get(self.reply)
        self.reply = self.control.send_events.remote(self.take_events(), self.saved)
        self.sent_at = time.monotonic()

    def register_worker(self, rank: int, location: str) -> int:
        """Report the start of a worker of this rank; returns how many have started so far."""
        return int(self._wait(self.control.register_worker.remote(rank, location)))

    def report_lost(self, rank: int, world_size: int, seconds: float) -> None:
        """Report that other workers did not take part in a sum, after `seconds` seconds."""
        self._wait(self.control.report_lost.remote(rank, world_size, seconds))

    def describe_lost(self) -> str:
        """Describes the workers that did not report a loss."""
        return str(self._wait(self.control.describe_lost.remote()))

    def _wait(self, reply: Any) -> Any:
        return ray.get(reply, timeout=self.timeout)

    def close(self) -> None:
        """Send the collected events and wait until they have arrived."""
        ray.get(self.control.send_events.remote(self.take_events()))

    def take_events(self) -> bytes:
        events, self.events = pickle.dumps(self.events), []
        return events


class ForwardingObserver:
    """Rank 0's observer: forwards events to the driver's observers."""

    def __init__(self, client: ControlClient) -> None:
        self.client = client

    def started(self, job: TrainingJob, start: StartReport) -> None:
        self.client.send(start)

    def step(self, report: StepReport) -> None:
        self.client.send(report)

    def epoch(self, report: EpochReport) -> None:
        self.client.send(report)

    def warned(self, message: str) -> None:
        self.client.send(WorkerWarning(message))

    def finished(self, outcome: Outcome) -> None:
        self.client.send(outcome)


class RayReportObserver:
    """Every rank's observer: reports every epoch to Ray Train, for its dashboard. `report` waits for all ranks."""

    def started(self, job: TrainingJob, start: StartReport) -> None: ...

    def step(self, report: StepReport) -> None: ...

    def epoch(self, report: EpochReport) -> None:
        ray.train.report(
            {
                "epoch": report.epoch,
                "update": report.update,
                "train_loss": report.train_loss,
                "dev_perplexity": report.dev_perplexity,
                "dev_bleu": report.dev_bleu.score,
            }
        )

    def warned(self, message: str) -> None: ...

    def finished(self, outcome: Outcome) -> None: ...
