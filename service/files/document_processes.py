"""Parsing and rendering of untrusted documents, each in a process of its own that is ended at a time limit."""

import asyncio
import errno
import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from documents.inline import AlignedText, is_edge_inside
from seq2seq.installation import PYTHON
from service.files.document_worker import NO_SPACE, REFUSED
from service.problems import Problem

log = logging.getLogger("interlinear.service")

WORKER = "service.files.document_worker"


@dataclass(frozen=True)
class FileSegment:
    """A text of a document that is translated by itself, and the offsets at which inline tags have edges."""

    text: str
    edges: Sequence[int]

    def has_edge_inside(self, start: int, end: int) -> bool:
        """Whether a tag has an edge among the words in the characters [start, end), as `documents.Segment` says."""
        return is_edge_inside(self.text, self.edges, start, end)


class DocumentProcesses:
    """Runs `document_worker` for each step. A process has nothing of the service's environment but Python's path."""

    def __init__(self, processes: int, seconds: float, megabytes: int, characters: int) -> None:
        """`processes`: how many run at the same time; `seconds` and `megabytes`: limits of each; `characters`: limit of
        a document's texts."""
        self.seconds, self.megabytes, self.characters = seconds, megabytes, characters
        self._executor = ThreadPoolExecutor(processes, "documents")

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def segments(self, path: Path, name: str) -> list[FileSegment]:
        """The texts of a document; the suffix of its name says the format. Raises Problem for one that cannot be
        translated. Cancelling this ends the process."""
        answer = await self._run(path, {"name": name, "characters": self.characters}, subprocess.PIPE)
        return [FileSegment(text, edges) for text, edges in json.loads(answer)]

    async def render(
        self, path: Path, name: str, target: str, translations: Sequence[AlignedText], output: BinaryIO
    ) -> None:
        """Write the document with the translations of its segments into a language, in their order. Raises Problem, and
        OSError if the disk is full."""
        written = [[text.text, text.source_words, text.target_words, text.links] for text in translations]
        await self._run(path, {"name": name, "target": target, "translations": written}, output)

    async def _run(self, path: Path, request: dict[str, Any], output: int | BinaryIO) -> bytes:
        loop = asyncio.get_running_loop()
        run = WorkerRun(path, request, output, self.seconds, self.megabytes)
        try:
            return await loop.run_in_executor(self._executor, run.communicate)
        finally:
            run.cancel()


class WorkerRun:
    """One process, from its start to its answer."""

    def __init__(
        self, path: Path, request: dict[str, Any], output: int | BinaryIO, seconds: float, megabytes: int
    ) -> None:
        self._path, self._request, self._output = path, request, output
        self._seconds, self._megabytes = seconds, megabytes
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = False

    def communicate(self) -> bytes:
        """Start the process, and return what it writes. Raises Problem, and OSError if the disk is full."""
        limits = [str(self._megabytes), str(int(self._seconds) + 1)]
        with subprocess.Popen(
            [*PYTHON, "-m", WORKER, *limits, str(self._path)],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.PIPE,
            env=environment(),
        ) as process:
            self._process = process
            if self._cancelled:
                process.kill()
            try:
                answer, errors = process.communicate(json.dumps(self._request).encode(), self._seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                raise Problem.in_field("file", f"takes more than {self._seconds:g} s to read: divide it") from None
        if process.returncode == NO_SPACE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if process.returncode:
            raise self._problem(process.returncode, errors)
        return answer or b""

    def cancel(self) -> None:
        """End the process, if it runs."""
        self._cancelled = True
        if self._process and self._process.returncode is None:
            self._process.kill()

    def _problem(self, code: int, errors: bytes) -> Problem:
        if code == REFUSED:
            try:
                refusal = json.loads(errors)
                return Problem.in_field("file", f"{refusal['problem']}; {refusal['remedy']}")
            except ValueError:
                log.error("a document could not be read or written: %s", location_of(errors))
                return Problem(500, "the service made a mistake with this file; its log has the place")
        if not self._cancelled:
            log.warning("a process that read a document ended with %d", code)
        return Problem.in_field("file", "takes too much time or memory to read: divide it")


def environment() -> dict[str, str]:
    """The environment of a process: where modules are, and one thread."""
    path = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
    return {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}


def location_of(traceback: bytes) -> str:
    """The last place of a traceback and the type of the exception, without its message, which may have a user's
    text."""
    lines = traceback.decode("utf-8", "replace").splitlines()
    places = [line.strip() for line in lines if line.lstrip().startswith('File "')]
    kinds = [line.partition(":")[0] for line in lines if line and not line[0].isspace()]
    return f"{kinds[-1] if kinds else 'no message'} at {places[-1] if places else 'an unknown place'}"
