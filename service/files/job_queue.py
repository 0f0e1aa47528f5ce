"""The jobs of a service: a queue that callers share fairly, jobs that run, and ended ones until they expire."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from service.engine.fair_queue import FairQueue
from service.files.file_job import ENDED, FileJob, FileStatus
from service.files.file_store import FileStore, StoredFile, StoreFullError
from service.logging import exception_location
from service.metrics import Metrics
from service.problems import RETRYABLE_STATUSES, Problem
from service.settings import Settings

log = logging.getLogger("interlinear.service")

RETRY_AFTER = 60  # seconds, while no document ends that could make room


class FileJobs:
    """Accepts jobs, runs some at a time, and forgets them. Methods are for the event loop."""

    def __init__(self, settings: Settings, metrics: Metrics, translate: Callable[[FileJob], Awaitable[None]]) -> None:
        """`translate`: writes the translation of a job's upload to its `result`; raises Problem."""
        self.settings = settings
        self.metrics = metrics
        self.store = FileStore(settings.files_folder, settings.files_total_bytes)
        self._translate = translate
        self._jobs: dict[str, FileJob] = {}  # in the order of their arrival
        self._numbers: dict[int, FileJob] = {}  # jobs that wait
        self._waiting: FairQueue[int] = FairQueue()
        self._tasks: dict[FileJob, asyncio.Task[None]] = {}
        self._timers: dict[FileJob, asyncio.TimerHandle] = {}  # timers after which ended jobs are deleted
        self._number = 0
        metrics.file_bytes.set_function(lambda: self.store.used)
        for status in ("queued", "running"):
            metrics.file_jobs.labels(status).set_function(partial(self._count, status))

    def start(self) -> None:
        """Make the folder of the files. Raises ServiceError."""
        self.store.open()

    async def stop(self) -> None:
        """Cancel all jobs, and delete all files."""
        tasks = list(self._tasks.values())
        for job in list(self._jobs.values()):
            self.forget(job)
        await asyncio.gather(*tasks, return_exceptions=True)
        self.store.close()

    def create_file(self) -> StoredFile:
        """A file for an upload. Raises Problem."""
        try:
            return self.store.create()
        except OSError as error:
            raise cannot_keep(error) from None

    def write(self, file: StoredFile, data: bytes) -> None:
        """Append data to a file, in any thread. Raises Problem if there is no room for it."""
        try:
            file.write(data)
        except StoreFullError:
            raise self._no_room("the documents kept take all the room") from None
        except OSError as error:
            raise cannot_keep(error) from None

    def close(self, file: StoredFile) -> None:
        """Close a file, in any thread. Raises Problem."""
        try:
            file.close()
        except OSError as error:
            raise cannot_keep(error) from None

    def submit(self, job: FileJob) -> None:
        """Queue a job. If there is no room for it, one that has ended makes room. Raises Problem."""
        own = [other for other in self._jobs.values() if other.caller == job.caller]
        if len(own) >= self.settings.files_per_caller:
            if not self._forget_ended(own):
                raise self._no_room(f"{len(own)} documents of yours wait or are translated already")
        elif len(self._jobs) >= self.settings.files_kept and not self._forget_ended(self._largest_holders_first()):
            raise self._no_room(f"{len(self._jobs)} documents wait or are translated already")
        self._jobs[job.id] = job
        self._number += 1
        self._numbers[self._number] = job
        self._waiting.put(job.caller if self.settings.fair else "", self._number, max(1, job.upload.size))
        self._start_next()

    def find(self, job_id: str, owner: str) -> FileJob | None:
        """A job of this owner."""
        job = self._jobs.get(job_id)
        return job if job and job.owner == owner else None

    def find_download(self, name: str) -> FileJob | None:
        """The job whose translated document has this name in its URL."""
        job = self._jobs.get(name.partition(".")[0])
        return job if job and job.status == "done" and job.download == name else None

    def forget(self, job: FileJob) -> None:
        """Cancel a job, and delete its files; again has no effect."""
        if self._jobs.pop(job.id, None) is None:
            return
        if waiting := [number for number, other in self._numbers.items() if other is job]:
            self._waiting.remove(waiting)
            del self._numbers[waiting[0]]
        if job.status not in ENDED:
            self._end(job, "cancelled")
        if timer := self._timers.pop(job, None):
            timer.cancel()
        if task := self._tasks.get(job):
            task.cancel()  # it deletes the files once nothing uses them
        else:
            job.delete_files()

    def make_room(self, size: int) -> None:
        """Delete ended documents until an upload of this many bytes fits, if that is possible."""
        while self.store.used + size > self.store.total_bytes:
            by_bytes = self._largest_holders_first(lambda job: job.upload.size + (job.result.size if job.result else 0))
            if not self._forget_ended(by_bytes):
                return

    def _largest_holders_first(self, size: Callable[[FileJob], int] = lambda _: 1) -> list[FileJob]:
        """All jobs: the jobs of the caller with the most bytes first, a caller's jobs in the order of their arrival. So
        no caller's documents, however small, keep others from the service."""
        held: Counter[str] = Counter()
        for job in self._jobs.values():
            held[job.caller] += size(job)
        return sorted(self._jobs.values(), key=lambda job: -held[job.caller])

    def _forget_ended(self, jobs: Sequence[FileJob]) -> bool:
        """Forget the first of the jobs that has ended; False if none has."""
        ended = next((job for job in jobs if job.status in ENDED), None)
        if ended:
            self.forget(ended)
        return ended is not None

    def _start_next(self) -> None:
        while self._waiting and len(self._tasks) < self.settings.file_jobs:
            _, number = self._waiting.take()
            job = self._numbers.pop(number)
            job.status = "running"
            task = self._tasks[job] = asyncio.create_task(self._run(job))
            task.add_done_callback(partial(self._clean_up, job))  # also if it is cancelled before it starts

    async def _run(self, job: FileJob) -> None:
        seconds = self.settings.file_work_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._translate(job)
            self._end(job, "done")
        except asyncio.CancelledError:
            pass
        except TimeoutError:
            self._fail(job, Problem(504, f"the document was not translated within {seconds:g} s"))
        except Problem as problem:
            self._fail(job, problem)
        except OSError as error:
            self._fail(job, cannot_keep(error))
        except Exception as error:
            request_id = job.request.request_id
            log.error(
                "the translation of a document failed: %s",
                exception_location(error),
                extra={"request_id": request_id},
            )
            self._fail(job, Problem(500, "the service made a mistake with this document; its log has the place"))

    def _clean_up(self, job: FileJob, _task: asyncio.Task[None]) -> None:
        """Delete the files that an ended job no longer needs, and start the next one."""
        del self._tasks[job]
        job.upload.delete()
        if job.id not in self._jobs or job.status != "done":
            job.delete_files()
        self._start_next()

    def _fail(self, job: FileJob, problem: Problem) -> None:
        job.problem = problem
        if problem.status in RETRYABLE_STATUSES:
            job.request.refund()
        if job.status not in ENDED:
            self._end(job, "failed")

    def _end(self, job: FileJob, status: FileStatus) -> None:
        """A job has ended: it is forgotten after a time."""
        job.status = status
        self.metrics.ended_file_jobs.labels(status).inc()
        seconds = self.settings.file_seconds
        job.expires = datetime.now(UTC) + timedelta(seconds=seconds)
        job.ended.set()
        self._timers[job] = asyncio.get_running_loop().call_later(seconds, self.forget, job)

    def _count(self, status: str) -> int:
        return sum(job.status == status for job in list(self._jobs.values()))

    def _no_room(self, reason: str) -> Problem:
        self.metrics.rejected.labels("files").inc()
        return Problem.too_many_requests(f"{reason}; come again in {RETRY_AFTER} s", RETRY_AFTER)


def cannot_keep(error: OSError) -> Problem:
    """The error for a file that cannot be written now."""
    log.error("a document cannot be kept: %s", error.strerror)
    return Problem.unavailable("the document cannot be kept now; the service's log says why", RETRY_AFTER)
