"""Fetching a corpus from its public home: streamed, checked, continued where it broke, in place when it is whole."""

import hashlib
import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from seq2seq.errors import CallError, DataError
from training.data.description import Description, Home
from training.data.uris import is_uri

CHUNK = 1 << 16
SILENCE = 30.0  # seconds without a byte before an attempt is given up
ATTEMPTS = 4
LARGEST = 8 << 30  # bytes of one file
RECORD = "received.json"

Progress = Callable[[str, int, int | None], None]
"""Told a file's path, its bytes so far, and its bytes in all where the home says so."""


@dataclass(frozen=True)
class Received:
    """What came for one file; written to received.json beside it, by the file's name."""

    url: str
    bytes: int
    sha256: str


class TransferError(Exception):
    """An attempt that failed. `final`: another one would fail as well."""

    def __init__(self, problem: str, final: bool = False) -> None:
        super().__init__(problem)
        self.final = final


def fetch(
    name: str,
    description: Description,
    root: Path,
    progress: Progress,
    source: str | None = None,
    again: bool = False,
    largest: int = LARGEST,
    pause: float = 1.0,
) -> dict[str, Received]:
    """Fetch a data set's files to the data root, those that are missing; returns what was received, by path.

    `source` is the URL of a folder laid out like the data root, instead of the files' homes; only there may it be http.
    `again` fetches what is there too. `largest` is a limit in bytes for each file. `pause` is the time in seconds
    before a second attempt, doubled before each further one. Raises CallError for a bad URL, and DataError: no home,
    not found, cut off, another checksum, too large, no place to write.
    """
    paths = [path for path in description.paths if not is_uri(path)]  # a URI is read where it is
    homes = {path: home_of(name, description, path, source) for path in paths}
    return {
        path: fetch_file(home, root / path, partial(progress, path), largest, pause)
        for path, home in homes.items()
        if again or not (root / path).exists()
    }


def home_of(name: str, description: Description, path: str, source: str | None) -> Home:
    """Where one file is to be fetched from. Raises DataError where there is no such place."""
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise DataError(f"data set '{name}'", f"{path} does not lie below the data root", "put the file there yourself")
    home = description.home(path)
    if source is not None:
        if urlsplit(source).scheme not in {"http", "https"} or not urlsplit(source).netloc:
            raise CallError("--from", f"'{source}' is not a URL that begins with https:// or http://")
        # Not validated as a Home, which must be https: the user has named this place.
        return Home.model_construct(url=f"{source.rstrip('/')}/{path}", sha256=home.sha256 if home else None)
    if home is None:
        raise DataError(
            f"data set '{name}'",
            f"{path} has no public home to fetch it from",
            "put the file below the data root, or name a place that has it with --from",
        )
    return home


def fetch_file(
    home: Home, target: Path, progress: Callable[[int, int | None], None], largest: int, pause: float
) -> Received:
    """Fetch one file to its place. What an earlier attempt left in FILE.part is continued. Raises DataError."""
    part, version = target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.part.version")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                transfer(home.url, part, version, progress, largest)
                break
            except TransferError as error:
                if error.final or attempt == ATTEMPTS:
                    tried = "" if attempt == 1 else f" (the last of {attempt} attempts)"
                    remedy = "look whether its home has moved" if error.final else "the same command goes on from there"
                    raise DataError(home.url, f"{error}{tried}", remedy) from None
            time.sleep(pause * 2 ** (attempt - 1))
        received = check(home, target.name, part, version)
        part.replace(target)
        version.unlink(missing_ok=True)
        remember(target, received)
    except OSError as error:
        raise DataError(str(target), f"cannot be written: {error.strerror or error}") from None
    return received


def transfer(url: str, part: Path, version: Path, progress: Callable[[int, int | None], None], largest: int) -> None:
    """One attempt: add to `part` what it lacks, if the file at home is still the same version. Raises TransferError."""
    known = version.read_text(encoding="utf-8") if version.exists() and part.exists() else ""
    request = urllib.request.Request(url, headers={"User-Agent": "interlinear", "Accept-Encoding": "identity"})
    if known:
        request.add_header("Range", f"bytes={part.stat().st_size}-")
        request.add_header("If-Range", known)
    try:
        with urllib.request.build_opener(OnlyAsSafe).open(request, timeout=SILENCE) as response:
            goes_on = response.status == HTTPStatus.PARTIAL_CONTENT
            done = part.stat().st_size if goes_on else 0
            length = response.headers.get("Content-Length")
            size = None if length is None else done + int(length)
            refuse_larger(size or 0, largest)
            version.write_text(version_of(response.headers), encoding="utf-8")
            with part.open("ab" if goes_on else "wb") as file:
                while chunk := response.read(CHUNK):
                    done += len(chunk)
                    refuse_larger(done, largest)
                    file.write(chunk)
                    progress(done, size)
        if size is not None and done < size:
            raise TransferError(f"the connection ended after {done:,} of {size:,} bytes")
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            version.unlink(missing_ok=True)  # the next attempt begins anew
        waiting = {HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
        final = error.code < 500 and error.code not in waiting
        raise TransferError(f"its server answered {error.code} {error.reason}", final) from None
    except urllib.error.URLError as error:
        raise TransferError(f"cannot be reached: {error.reason}") from None
    except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
        raise TransferError(f"the connection broke: {error or type(error).__name__}") from None


def refuse_larger(size: int, largest: int) -> None:
    if size > largest:
        raise TransferError(f"the file is larger than {largest:,} bytes", final=True)


def version_of(headers: http.client.HTTPMessage) -> str:
    """What tells this version of a file from another: a strong ETag or a date; nothing if its server says neither."""
    tag = headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")


def check(home: Home, name: str, part: Path, version: Path) -> Received:
    """Whether what came is what was asked for. Raises DataError, and the file is not kept."""
    with part.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    problem = None
    if home.sha256 is not None and sha256 != home.sha256:
        problem = f"came with the SHA-256 {sha256}, and {home.sha256} was expected"
    elif name.endswith(".gz") and not compressed:
        problem = "came, but it is not a gzip file"
    if problem:
        part.unlink()
        version.unlink(missing_ok=True)
        raise DataError(home.url, problem, "it was not kept; look at what that address sends")
    return Received(home.url, part.stat().st_size, sha256)


def remember(target: Path, received: Received) -> None:
    """Add a file to the record of what was received into its folder."""
    record = target.with_name(RECORD)
    known = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    known[target.name] = asdict(received)
    unfinished = record.with_name(f".{RECORD}.part")
    unfinished.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    unfinished.replace(record)


class OnlyAsSafe(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but not from https to anything else."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError(f"it redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
