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

from seq2seq.errors import DataError, UsageError
from training.data.description import Description, DownloadSource
from training.data.uris import is_uri

CHUNK = 1 << 16
READ_TIMEOUT = 30.0  # seconds without a byte before an attempt is given up
MAX_ATTEMPTS = 4
MAX_BYTES = 8 << 30  # bytes of one file
RECORD_FILE = "received.json"

DownloadProgress = Callable[[str, int, int | None], None]
"""Told a file's path, its bytes so far, and its bytes in all where the home says so."""


@dataclass(frozen=True)
class DownloadRecord:
    """What came for one file; written to received.json beside it, by the file's name."""

    url: str
    bytes: int
    sha256: str


class TransferError(Exception):
    """An attempt that failed. `permanent`: another one would fail as well."""

    def __init__(self, problem: str, permanent: bool = False) -> None:
        super().__init__(problem)
        self.permanent = permanent


def fetch(
    name: str,
    description: Description,
    root: Path,
    progress: DownloadProgress,
    source: str | None = None,
    refetch: bool = False,
    max_bytes: int = MAX_BYTES,
    pause: float = 1.0,
) -> dict[str, DownloadRecord]:
    """Fetch a data set's files to the data root, those that are missing; returns what was received, by path.

    `source` is the URL of a folder laid out like the data root, instead of the files' homes; only there may it be http.
    `refetch` fetches what is there too. `max_bytes` is a limit in bytes for each file. `pause` is the time in seconds
    before a second attempt, doubled before each further one. Raises CallError for a bad URL, and DataError: no home,
    not found, cut off, another checksum, too large, no place to write.
    """
    paths = [path for path in description.paths if not is_uri(path)]  # a URI is read where it is
    homes = {path: resolve_download_source(name, description, path, source) for path in paths}
    return {
        path: download_file(download_source, root / path, partial(progress, path), max_bytes, pause)
        for path, download_source in homes.items()
        if refetch or not (root / path).exists()
    }


def resolve_download_source(name: str, description: Description, path: str, source: str | None) -> DownloadSource:
    """Where one file is to be fetched from. Raises DataError where there is no such place."""
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise DataError(f"data set '{name}'", f"{path} does not lie below the data root", "put the file there yourself")
    download_source = description.download_source(path)
    if source is not None:
        if urlsplit(source).scheme not in {"http", "https"} or not urlsplit(source).netloc:
            raise UsageError("--from", f"'{source}' is not a URL that begins with https:// or http://")
        # Not validated as a Home, which must be https: the user has named this place.
        return DownloadSource.model_construct(
            url=f"{source.rstrip('/')}/{path}", sha256=download_source.sha256 if download_source else None
        )
    if download_source is None:
        raise DataError(
            f"data set '{name}'",
            f"{path} has no public home to fetch it from",
            "put the file below the data root, or name a place that has it with --from",
        )
    return download_source


def download_file(
    download_source: DownloadSource,
    target: Path,
    progress: Callable[[int, int | None], None],
    max_bytes: int,
    pause: float,
) -> DownloadRecord:
    """Fetch one file to its place. What an earlier attempt left in FILE.part is continued. Raises DataError."""
    part, version = target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.part.version")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                download_attempt(download_source.url, part, version, progress, max_bytes)
                break
            except TransferError as error:
                if error.permanent or attempt == MAX_ATTEMPTS:
                    tried = "" if attempt == 1 else f" (the last of {attempt} attempts)"
                    remedy = (
                        "look whether its home has moved" if error.permanent else "the same command goes on from there"
                    )
                    raise DataError(download_source.url, f"{error}{tried}", remedy) from None
            time.sleep(pause * 2 ** (attempt - 1))
        received = verify_download(download_source, target.name, part, version)
        part.replace(target)
        version.unlink(missing_ok=True)
        record_download(target, received)
    except OSError as error:
        raise DataError(str(target), f"cannot be written: {error.strerror or error}") from None
    return received


def download_attempt(
    url: str, part: Path, version: Path, progress: Callable[[int, int | None], None], max_bytes: int
) -> None:
    """One attempt: add to `part` what it lacks, if the file at home is still the same version. Raises TransferError."""
    known = version.read_text(encoding="utf-8") if version.exists() and part.exists() else ""
    request = urllib.request.Request(url, headers={"User-Agent": "interlinear", "Accept-Encoding": "identity"})
    if known:
        request.add_header("Range", f"bytes={part.stat().st_size}-")
        request.add_header("If-Range", known)
    try:
        with urllib.request.build_opener(HttpsRedirectHandler).open(request, timeout=READ_TIMEOUT) as response:
            goes_on = response.status == HTTPStatus.PARTIAL_CONTENT
            done = part.stat().st_size if goes_on else 0
            length = response.headers.get("Content-Length")
            size = None if length is None else done + int(length)
            check_size(size or 0, max_bytes)
            version.write_text(version_validator(response.headers), encoding="utf-8")
            with part.open("ab" if goes_on else "wb") as file:
                while chunk := response.read(CHUNK):
                    done += len(chunk)
                    check_size(done, max_bytes)
                    file.write(chunk)
                    progress(done, size)
        if size is not None and done < size:
            raise TransferError(f"the connection ended after {done:,} of {size:,} bytes")
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            version.unlink(missing_ok=True)  # the next attempt begins anew
        waiting = {HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
        permanent = error.code < 500 and error.code not in waiting
        raise TransferError(f"its server answered {error.code} {error.reason}", permanent) from None
    except urllib.error.URLError as error:
        raise TransferError(f"cannot be reached: {error.reason}") from None
    except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
        raise TransferError(f"the connection broke: {error or type(error).__name__}") from None


def check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise TransferError(f"the file is larger than {max_bytes:,} bytes", permanent=True)


def version_validator(headers: http.client.HTTPMessage) -> str:
    """What tells this version of a file from another: a strong ETag or a date; nothing if its server says neither."""
    tag = headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")


def verify_download(download_source: DownloadSource, name: str, part: Path, version: Path) -> DownloadRecord:
    """Whether what came is what was asked for. Raises DataError, and the file is not kept."""
    with part.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    problem = None
    if download_source.sha256 is not None and sha256 != download_source.sha256:
        problem = f"came with the SHA-256 {sha256}, and {download_source.sha256} was expected"
    elif name.endswith(".gz") and not compressed:
        problem = "came, but it is not a gzip file"
    if problem:
        part.unlink()
        version.unlink(missing_ok=True)
        raise DataError(download_source.url, problem, "it was not kept; look at what that address sends")
    return DownloadRecord(download_source.url, part.stat().st_size, sha256)


def record_download(target: Path, received: DownloadRecord) -> None:
    """Add a file to the record of what was received into its folder."""
    record = target.with_name(RECORD_FILE)
    known = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    known[target.name] = asdict(received)
    unfinished = record.with_name(f".{RECORD_FILE}.part")
    unfinished.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    unfinished.replace(record)


class HttpsRedirectHandler(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but not from https to anything else."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError(f"it redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
