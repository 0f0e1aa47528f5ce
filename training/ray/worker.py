"""What runs in a process that Ray Train has started: one worker's part of a training, and what it tells the driver."""

import os
import pickle
import shutil
import time
import traceback
from dataclasses import replace
from functools import partial
from typing import Any

import ray
import torch
from ray.exceptions import RayError

from seq2seq.errors import InterlinearError
from seq2seq.memory_allocator import keep_freed_memory
from training.events import EpochReport, Observer, Outcome, Started, StepReport, TrainingJob
from training.loop import trainer
from training.loop.process_group import LostColleagueError
from training.ray.control import POST, Wishes
from training.ray.process_group import Colleagues
from training.storage.staging import find, receive


def work(config: dict[str, Any]) -> Any:
    """One worker's training, from the newest checkpoint where it is not the first of its rank."""
    import ray.train.torch

    job, postman = config["job"], Postman(config["mailbox"], config["patience"])
    context = ray.train.get_context()
    share = (os.cpu_count() or 1) // context.get_local_world_size()
    torch.set_num_threads(int(config["threads"] or max(1, share)))
    keep_freed_memory()
    colleagues = Colleagues(postman, config["patience"])
    observers: list[Observer] = [EpochsToRay()]
    if colleagues.rank == 0:
        observers.append(News(postman))
    node = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    begun = postman.ask("start", colleagues.rank, f"process {os.getpid()} on {node}")
    try:
        restarts = max(colleagues.gather(begun)) - 1  # one of a new rank begins for the first time, and goes on too
        if restarts and colleagues.rank == 0:
            number = "1 worker goes" if colleagues.world == 1 else f"{colleagues.world} workers go"
            postman.tell("warned", f"{number} on from the newest checkpoint (restart {restarts}).")
        job = replace(job, resume=job.resume or restarts > 0)
        if job.stored:
            job = receive(job, config["delivery"], node, postman.warn)
        else:
            find(job, config["delivery"], node)
        outcome = trainer.train(job, colleagues, observers, str(ray.train.torch.get_device()))
        if job.stored and outcome.bundle and context.get_local_rank() == 0:
            shutil.rmtree(job.run, ignore_errors=True)  # all of it is on the storage
        return outcome
    except (LostColleagueError, torch.AcceleratorError, OSError, RayError):
        raise  # a colleague that died, a GPU or a network that failed: Ray starts the group again
    except InterlinearError as error:
        postman.tell("failed", error)  # all would end the same way again: the driver closes the cluster when it hears
        raise
    except Exception as error:
        postman.tell("crashed", repr(error), traceback.format_exc())
        raise
    finally:
        postman.finish()


class Postman:
    """A worker's end of the mailbox: gathers news, and posts them without waiting for an answer."""

    def __init__(self, mailbox: Any, patience: float) -> None:
        """`patience`: seconds to wait for an answer."""
        self.mailbox, self.patience = mailbox, patience
        self.news: list[tuple[str, tuple[object, ...]]] = []
        self.answer: Any = None
        self.posted = 0.0
        self.wishes = Wishes()
        self.saved = 0  # the newest wish to save that has been met

    def tell(self, event: str, *values: object) -> None:
        self.news.append((event, values))

    def warn(self, message: str) -> None:
        self.tell("warned", message)
        self.go()

    def go(self) -> None:
        """Post what there is, unless the last letter is a moment old or still under way."""
        if time.monotonic() - self.posted < POST or (self.answer and not ray.wait([self.answer], timeout=0)[0]):
            return
        if self.answer:
            self.wishes = ray.get(self.answer)
        self.answer = self.mailbox.post.remote(self.letter(), self.saved)
        self.posted = time.monotonic()

    def ask(self, what: str, *values: object) -> Any:
        """Call the mailbox, and wait for its answer."""
        return ray.get(getattr(self.mailbox, what).remote(*values), timeout=self.patience)

    def finish(self) -> None:
        """Post what there is and wait until it has arrived."""
        ray.get(self.mailbox.post.remote(self.letter()))

    def letter(self) -> bytes:
        letter, self.news = pickle.dumps(self.news), []
        return letter


class News:
    """Rank 0's observer: what it hears goes to those of the driver."""

    def __init__(self, postman: Postman) -> None:
        self.started = partial(postman.tell, "started")
        self.step = partial(postman.tell, "step")
        self.epoch = partial(postman.tell, "epoch")
        self.warned = partial(postman.tell, "warned")
        self.finished = partial(postman.tell, "finished")


class EpochsToRay:
    """Every rank's observer: Ray Train hears of every epoch, for its own pages. `report` waits for all ranks."""

    def started(self, job: TrainingJob, start: Started) -> None: ...

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
