"""Parsing and rendering of untrusted documents, each in a process of its own that is ended at a time limit."""

import asyncio
import errno
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, TypeVar

from interlinear.documents.formats import ReadOptions
from interlinear.installation import PYTHON
from interlinear.translation.sentences import Sentence
from service.files.document_worker import NO_SPACE, REFUSED
from service.files.worker_protocol import DocumentRequest, read_split, write_request
from service.problems import Problem

log = logging.getLogger("interlinear.service")

T = TypeVar("T")

WORKER = "service.files.document_worker"
DETECTED_CHARACTERS = 10_000  # characters of a document from which its language is detected


class DocumentProcesses:
    """Runs `document_worker` for each step. A process has nothing of the service's environment but Python's path."""

    def __init__(self, processes: int, seconds: float, megabytes: int) -> None:
        """`processes`: how many run at the same time; `seconds` and `megabytes`: limits of each."""
        self.seconds, self.megabytes = seconds, megabytes
        self._executor = ThreadPoolExecutor(processes, "documents")

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def beginning(self, path: Path, name: str, options: ReadOptions) -> str:
        """The beginning of a document's text, to detect its language. Raises Problem for a document that cannot be
        translated. Cancelling this ends the process, as in the other methods."""
        request = DocumentRequest("beginning", name, DETECTED_CHARACTERS, options=options)
        return await self._run(path, request, bytes.decode)

    async def split(self, path: Path, request: DocumentRequest) -> tuple[list[str], list[Sentence]]:
        """The warnings and the different sentences of a document. Raises Problem."""
        return await self._run(path, request, read_split)

    async def write(
        self, path: Path, request: DocumentRequest, translations: Iterable[bytes], output: BinaryIO
    ) -> None:
        """Write the document with the translations of its sentences, in their order (`write_aligned`). Raises Problem,
        and OSError if the disk is full."""
        await self._run(path, replace(request, step="written"), len, translations, output)

    async def _run(
        self,
        path: Path,
        request: DocumentRequest,
        read: Callable[[bytes], T],
        lines: Iterable[bytes] = (),
        output: int | BinaryIO = subprocess.PIPE,
    ) -> T:
        run = WorkerRun(path, request, lines, output, self.seconds, self.megabytes)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: read(run.communicate()))
        finally:
            run.cancel()


class WorkerRun:
    """One process, from its start to its answer."""

    def __init__(
        self,
        path: Path,
        request: DocumentRequest,
        lines: Iterable[bytes],
        output: int | BinaryIO,
        seconds: float,
        megabytes: int,
    ) -> None:
        """`lines`: the input after the request."""
        self._path, self._request, self._lines, self._output = path, request, lines, output
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
                content = b"\n".join([write_request(self._request), *self._lines])
                answer, errors = process.communicate(content, self._seconds)
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
                return Problem.in_field(refusal["field"], f"{refusal['problem']}; {refusal['remedy']}")
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
