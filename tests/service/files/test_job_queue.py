"""The queue of documents: callers share it fairly, some jobs run at a time, and ended ones are forgotten."""

import asyncio
from pathlib import Path

import pytest

from interlinear.documents.formats import ReadOptions
from interlinear.generation.terms import TermOptions
from service.files.file_job import FileJob, FileRequest
from service.files.job_queue import FileJobs
from service.metrics import Metrics
from service.problems import Problem
from service.settings import Settings


async def no_terms(language_pair: tuple[str, str]) -> TermOptions:
    return TermOptions()


async def free(texts: int) -> None:
    return None


class Translating:
    """A queue whose translations end when the test says so."""

    def __init__(self, folder: Path, **limits: object) -> None:
        self.started: list[str] = []
        self.refunds = 0
        self.end = asyncio.Event()
        self.jobs = FileJobs(Settings(files_folder=folder, **limits), Metrics(), self.translate)
        self.jobs.start()

    async def translate(self, job: FileJob) -> None:
        self.started.append(job.request.name)
        await self.end.wait()
        if job.request.name == "busy":
            raise Problem.unavailable("the engine has ended")
        if job.request.name == "broken":
            raise KeyError("a secret text")
        job.result = job.upload.store.create()
        self.jobs.write(job.result, b"translated")
        job.result.close()

    def refund(self) -> None:
        self.refunds += 1

    def submit(self, name: str, caller: str = "one") -> FileJob:
        file = self.jobs.create_file()
        self.jobs.write(file, name.encode())
        file.close()
        request = FileRequest(name, "de", "en", None, "id", no_terms, free, self.refund, ReadOptions())
        job = FileJob(caller, caller, request, file)
        self.jobs.submit(job)
        return job


async def settle() -> None:
    """Let all tasks run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_callers_take_turns(tmp_path):
    async def run() -> None:
        queue = Translating(tmp_path, file_jobs=1)
        jobs = [queue.submit(f"one{i}") for i in range(3)] + [queue.submit("two", "two")]
        await settle()
        assert queue.started == ["one0"] and [job.status for job in jobs] == ["running", "queued", "queued", "queued"]
        queue.end.set()
        await asyncio.gather(*(job.ended.wait() for job in jobs))
        assert queue.started == ["one0", "two", "one1", "one2"]
        await queue.jobs.stop()

    asyncio.run(run())


def test_what_is_cancelled_at_once_gives_its_place_to_the_next(tmp_path):
    async def run() -> None:
        queue = Translating(tmp_path, file_jobs=1)
        jobs = [queue.submit(f"{i}") for i in range(3)]
        queue.jobs.forget(jobs[0])  # before its task has begun
        queue.jobs.forget(jobs[1])  # while it waits
        await settle()
        assert queue.started == ["2"] and [job.status for job in jobs] == ["cancelled", "cancelled", "running"]
        assert not jobs[0].upload.path.exists() and not jobs[1].upload.path.exists()
        queue.jobs.forget(jobs[2])
        await settle()
        assert queue.jobs.store.used == 0 and queue.jobs.find(jobs[2].id, "one") is None
        await queue.jobs.stop()

    asyncio.run(run())


def test_only_the_owner_finds_a_job_and_only_a_whole_name_its_download(tmp_path):
    async def run() -> None:
        queue = Translating(tmp_path)
        queue.end.set()
        job = queue.submit("a.txt")
        await job.ended.wait()
        assert queue.jobs.find(job.id, "one") is job and queue.jobs.find(job.id, "two") is None
        assert queue.jobs.find_download(job.download) is job
        assert queue.jobs.find_download(job.id) is queue.jobs.find_download(f"{job.id}.xx.txt") is None
        await queue.jobs.stop()

    asyncio.run(run())


def test_a_failure_is_a_problem_and_deletes_the_files(tmp_path, caplog):
    async def run() -> None:
        queue = Translating(tmp_path)
        queue.end.set()
        broken, busy = queue.submit("broken"), queue.submit("busy")
        await asyncio.gather(broken.ended.wait(), busy.ended.wait())
        await settle()
        assert broken.problem and busy.problem
        assert (broken.status, broken.problem.status, busy.problem.status) == ("failed", 500, 503)
        assert queue.refunds == 1, "what can be tried again is not charged"
        assert not broken.upload.path.exists() and queue.jobs.store.used == 0
        await queue.jobs.stop()

    asyncio.run(run())
    assert "KeyError" in caplog.text and "secret" not in caplog.text


def test_a_translation_has_a_time_limit(tmp_path):
    async def run() -> None:
        queue = Translating(tmp_path, file_work_seconds=0.05)
        job = queue.submit("a.txt")
        await job.ended.wait()
        assert job.problem and job.problem.status == 504
        await queue.jobs.stop()

    asyncio.run(run())


def test_so_many_documents_wait(tmp_path):
    async def run() -> None:
        queue = Translating(tmp_path, files_kept=3, files_per_caller=2)
        queue.submit("a", "one"), queue.submit("b", "one")
        with pytest.raises(Problem, match="2 documents of yours wait"):
            queue.submit("c", "one")
        queue.submit("c", "two")
        with pytest.raises(Problem, match="3 documents wait or are") as refused:
            queue.submit("d", "two")
        assert refused.value.status == 429 and refused.value.headers["Retry-After"]
        queue.end.set()
        await settle()
        queue.submit("d", "one")
        assert queue.jobs.metrics.registry.get_sample_value("interlinear_rejected_total", {"reason": "files"}) == 2
        await queue.jobs.stop()

    asyncio.run(run())


def kept(jobs: list[FileJob], queue: Translating) -> str:
    return " ".join(job.request.name for job in jobs if queue.jobs.find(job.id, job.owner))


def test_the_oldest_ended_document_of_the_largest_holder_makes_room_for_others(tmp_path):
    """Nobody locks others out with documents that have ended, whether by their number or by their bytes."""

    async def run() -> None:
        queue = Translating(tmp_path, files_kept=6, files_per_caller=3, files_total_bytes=90)
        queue.end.set()
        jobs = [
            queue.submit(f"{caller}{i}", caller)
            for caller, count in (("b", 1), ("a", 3), ("c", 2))
            for i in "123"[:count]
        ]
        await settle()
        for name in ("d1", "e1", "f1"):  # a has most; then a and c, of whom a came first; then c
            jobs.append(queue.submit(name, name[0]))
            await settle()
        assert kept(jobs, queue) == "b1 a3 c2 d1 e1 f1"
        jobs.append(queue.submit("a4", "a"))
        await settle()
        jobs.append(queue.submit("a5", "a"))
        await settle()
        queue.jobs.forget(jobs[0])
        jobs.append(queue.submit("f2", "f"))
        await settle()
        before = kept(jobs, queue)
        queue.jobs.make_room(queue.jobs.store.total_bytes - queue.jobs.store.used)
        assert kept(jobs, queue) == before, "there was room"
        queue.jobs.make_room(queue.jobs.store.total_bytes)
        assert kept(jobs, queue) == "" and queue.jobs.store.used == 0
        await queue.jobs.stop()

    asyncio.run(run())


def test_an_ended_document_expires(tmp_path):
    async def run() -> None:
        queue = Translating(tmp_path, file_seconds=0.1)
        queue.end.set()
        job = queue.submit("a")
        await job.ended.wait()
        await settle()
        assert job.result and job.result.path.exists() and queue.jobs.find(job.id, "one") is job
        await asyncio.sleep(0.15)
        assert not job.result.path.exists() and queue.jobs.find(job.id, "one") is None
        await queue.jobs.stop()

    asyncio.run(run())


def test_all_is_deleted_when_the_service_stops(tmp_path):
    async def run() -> None:
        queue = Translating(tmp_path, file_jobs=1)
        jobs = [queue.submit("a"), queue.submit("b")]
        await settle()
        await queue.jobs.stop()
        assert [job.status for job in jobs] == ["cancelled", "cancelled"]

    asyncio.run(run())
    assert not list(tmp_path.iterdir())
