"""The program of a process that parses one document, or renders its translation, with limits on memory and time.

    python -m service.files.document_worker MEGABYTES SECONDS PATH < request.json

The request has the document's name. Without translations the answer is the segments of the document as JSON, with them
the bytes of the translated document. Exit code REFUSED: stderr has the problem as JSON. NO_SPACE: the disk is full.
"""

import errno
import gc
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from documents.document import DocumentFile
from documents.files import parse_file
from documents.inline import AlignedText
from seq2seq.errors import DataError

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
    request = json.load(sys.stdin)
    try:
        file = parse_file(path.read_bytes(), request["name"])
        if (translations := request.get("translations")) is None:
            answer = json.dumps(segments_as_json(file, request["characters"])).encode()
        else:
            answer = file.render([AlignedText(*translation) for translation in translations], request["target"])
        with open(sys.stdout.fileno(), "wb", closefd=False) as output:  # sys.stdout would fail once more at the end
            output.write(answer)
    except DataError as error:
        part = error.where.removeprefix(request["name"]).lstrip(": ")
        return refuse(f"in {part} {error.problem}" if part else error.problem, error.remedy)
    except MemoryError:
        return refuse("takes too much memory", "divide it")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return NO_SPACE
        if error.errno != errno.EFBIG:
            raise
        return refuse("has a translation that is far larger", "divide it")
    return 0


def refuse(problem: str, remedy: str) -> int:
    """Write why the document cannot be translated. Returns the exit code."""
    json.dump({"problem": problem, "remedy": remedy}, sys.stderr)
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


def segments_as_json(file: DocumentFile, most_characters: int) -> list[Any]:
    """The text of each segment, and the edges of its tags. Raises DataError for a document that has too much text."""
    segments = file.segments
    characters = sum(len(segment.text) for segment in segments)
    if characters > most_characters:
        problem = f"has {characters:,} characters of text, and at most {most_characters:,} are translated"
        raise DataError("", problem, "divide it")
    return [[segment.text, segment.edges] for segment in segments]


if __name__ == "__main__":
    sys.exit(main())
