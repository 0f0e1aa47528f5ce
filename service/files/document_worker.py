"""The program of a process that parses one document, or renders its translation, with limits on memory and time.

    python -m service.files.document_worker MEGABYTES SECONDS PATH < REQUEST

The request is one line, and the answer is by its step (`service.files.worker_protocol`). Exit code REFUSED: stderr has
the problem as JSON. NO_SPACE: the disk is full.
"""

import errno
import gc
import json
import os
import resource
import sys
from pathlib import Path

from interlinear.documents.document import DocumentFile
from interlinear.documents.files import parse_file
from interlinear.errors import DataError, RequestError
from interlinear.generation.terms import TermFinder
from interlinear.translation.sentences import DocumentSentences
from service.files.worker_protocol import DocumentRequest, read_aligned, read_request, write_split

MAX_GROWTH = 10  # bytes of a translated document for each byte of its source, besides a megabyte
MEGABYTE = 1_000_000
REFUSED = 1
NO_SPACE = os.EX_TEMPFAIL
NICENESS = 10  # answers to other requests come first


def main() -> int:
    """Answer the request on stdin. Returns the exit code."""
    gc.disable()  # the process ends before garbage matters, and a document is millions of objects that stay
    megabytes, seconds, path = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    set_limits(megabytes, seconds, path.stat().st_size)
    request = read_request(sys.stdin.readline())
    try:
        answer = answer_to(request, parse_file(path.read_bytes(), request.name, request.options))
        with open(sys.stdout.fileno(), "wb", closefd=False) as output:  # sys.stdout would fail once more at the end
            output.write(answer)
    except DataError as error:
        part = error.where.removeprefix(request.name).lstrip(": ")
        return refuse(f"in {part} {error.problem}" if part else error.problem, error.remedy)
    except RequestError as error:
        return refuse(f"cannot be used: {error.problem}", error.remedy, error.where)
    except MemoryError:
        return refuse("takes too much memory", "divide it")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return NO_SPACE
        if error.errno != errno.EFBIG:
            raise
        return refuse("has a translation that is far larger", "divide it")
    return 0


def refuse(problem: str, remedy: str, field: str = "file") -> int:
    """Write why the document cannot be translated, and the field of the request at fault. Returns the exit code."""
    json.dump({"field": field, "problem": problem, "remedy": remedy}, sys.stderr)
    return REFUSED


def set_limits(megabytes: int, seconds: int, size: int) -> None:
    """Limit this process: memory, processor time, and bytes of the output. It gives way to other processes."""
    os.nice(NICENESS)
    limits = {
        resource.RLIMIT_DATA: megabytes * MEGABYTE,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: MAX_GROWTH * size + MEGABYTE,
        resource.RLIMIT_CORE: 0,
    }
    for kind, limit in limits.items():
        _, hard = resource.getrlimit(kind)
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (limit, limit))


def answer_to(request: DocumentRequest, file: DocumentFile) -> bytes:
    """The answer to a request about a document. Raises DataError, and RequestError for contradictory terms."""
    segments, most = file.segments, request.characters
    if request.step == "beginning":
        return "\n".join(segment.text for segment in segments[:most])[:most].encode()
    characters = sum(len(segment.text) for segment in segments)
    if characters > most:
        problem = f"has {characters:,} characters of text, and at most {most:,} are translated"
        raise DataError("", problem, "divide it")
    source, target = request.source, request.target
    find_terms = TermFinder(request.terms, source).find if request.terms else lambda text: ()
    sentences = DocumentSentences(segments, source, target, find_terms, most=request.sentences)
    if request.step == "sentences":
        return write_split(file.warnings, sentences.sentences)
    return file.render(sentences.join(list(map(read_aligned, sys.stdin))), target)


if __name__ == "__main__":
    sys.exit(main())
