"""Downloads of corpora from their public URLs.

A download is streamed and verified, an interrupted one is resumed, and a file gets its name only when it is complete.
"""

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

from interlinear.errors import DataError, UsageError
from training.data.dataset import Dataset
from training.data.dataset.description import DownloadSource
from training.data.uris import is_uri

CHUNK = 1 << 16
READ_TIMEOUT = 30.0  # seconds without a byte before an attempt fails
MAX_ATTEMPTS = 4
MAX_BYTES = 8 << 30  # size limit of one file
RECORD_FILE = "received.json"

DownloadProgress = Callable[[str, int, int | None], None]
"""Progress callback; receives a file's path, its bytes so far, and its size if the server reports it."""


@dataclass(frozen=True)
class DownloadRecord:
    """A received file; recorded in received.json beside it, by the file's name."""

    url: str
    bytes: int
    sha256: str


class TransferError(Exception):
    """A failed attempt. `permanent`: a further attempt would fail as well."""

    def __init__(self, problem: str, permanent: bool = False) -> None:
        super().__init__(problem)
        self.permanent = permanent


def fetch(
    dataset: Dataset,
    progress: DownloadProgress,
    source: str | None = None,
    refetch: bool = False,
    max_bytes: int = MAX_BYTES,
    pause: float = 1.0,
) -> dict[str, DownloadRecord]:
    """Download a data set's missing files to the data root; returns the records of the received files, by path.

    Files without a home are left out: `check_complete` names them. `source`: the URL of a folder laid out like the data
    root, used in place of the files' homes; only this one may be http. `refetch`: download files that exist too.
    `max_bytes`: the size limit of each file, in bytes. `pause`: the time in seconds before a second attempt, doubled
    before each further one. Raises UsageError for an invalid URL, and DataError: not found, an interrupted transfer,
    another checksum, too large, a failed write.
    """
    root, *_ = dataset.roots
    paths = [path for path in dataset.paths if not is_uri(path)]  # URIs are read in place
    homes = {
        path: resolve_download_source(dataset, path, source) for path in paths if refetch or not dataset.has_file(path)
    }
    return {
        path: download_file(download_source, root / path, partial(progress, path), max_bytes, pause)
        for path, download_source in homes.items()
        if download_source is not None
    }


def resolve_download_source(dataset: Dataset, path: str, source: str | None) -> DownloadSource | None:
    """The URL of one file; None if it has no home. Raises DataError for a file outside the data root, UsageError for
    an invalid `source`."""
    if Path(path).is_absolute() or ".." in Path(path).parts:
        problem = f"{path} does not lie below the data root"
        raise DataError(f"data set '{dataset.name}'", problem, "put the file there yourself")
    download_source = dataset.download_source(path)
    if source is None:
        return download_source
    if urlsplit(source).scheme not in {"http", "https"} or not urlsplit(source).netloc:
        raise UsageError("--from", f"'{source}' is not a URL that begins with https:// or http://")
    # Not validated, because a DownloadSource must be https: the user has chosen this URL.
    return DownloadSource.model_construct(
        url=f"{source.rstrip('/')}/{path}", sha256=download_source.sha256 if download_source else None
    )


def check_complete(dataset: Dataset) -> None:
    """Raises DataError if files are missing after a download, because they have no home."""
    missing = [path for path in dataset.paths if not dataset.has_file(path)]
    if missing:
        has, it, files = ("has", "it", "the file") if len(missing) == 1 else ("have", "them", "them")
        raise DataError(
            f"data set '{dataset.name}'",
            f"{', '.join(missing)} {has} no public home to fetch {it} from",
            f"put {files} below the data root, or name a place that has {it} with --from",
        )


def download_file(
    download_source: DownloadSource,
    target: Path,
    progress: Callable[[int, int | None], None],
    max_bytes: int,
    pause: float,
) -> DownloadRecord:
    """Download one file. An earlier partial download (FILE.part) is resumed. Raises DataError."""
    part, version = target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.part.version")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                download_attempt(download_source.url, part, version, progress, max_bytes)
                break
            except TransferError as error:
                if error.permanent or attempt == MAX_ATTEMPTS:
                    attempts = "" if attempt == 1 else f" (the last of {attempt} attempts)"
                    remedy = (
                        "check whether the file has moved" if error.permanent else "the same command goes on from there"
                    )
                    raise DataError(download_source.url, f"{error}{attempts}", remedy) from None
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
    """One attempt: append the missing bytes to `part` if the server still has the same version of the file, else
    start again. Raises TransferError."""
    validator = version.read_text(encoding="utf-8") if version.exists() and part.exists() else ""
    request = urllib.request.Request(url, headers={"User-Agent": "interlinear", "Accept-Encoding": "identity"})
    if validator:
        request.add_header("Range", f"bytes={part.stat().st_size}-")
        request.add_header("If-Range", validator)
    try:
        with urllib.request.build_opener(HttpsRedirectHandler).open(request, timeout=READ_TIMEOUT) as response:
            resumed = response.status == HTTPStatus.PARTIAL_CONTENT
            received = part.stat().st_size if resumed else 0
            length = response.headers.get("Content-Length")
            size = None if length is None else received + int(length)
            check_size(size or 0, max_bytes)
            version.write_text(version_validator(response.headers), encoding="utf-8")
            with part.open("ab" if resumed else "wb") as file:
                while chunk := response.read(CHUNK):
                    received += len(chunk)
                    check_size(received, max_bytes)
                    file.write(chunk)
                    progress(received, size)
        if size is not None and received < size:
            raise TransferError(f"the connection ended after {received:,} of {size:,} bytes")
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            version.unlink(missing_ok=True)  # the next attempt starts from the beginning
        retryable = {
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            HTTPStatus.REQUEST_TIMEOUT,
            HTTPStatus.TOO_MANY_REQUESTS,
        }
        permanent = error.code < 500 and error.code not in retryable
        raise TransferError(f"its server answered {error.code} {error.reason}", permanent) from None
    except urllib.error.URLError as error:
        raise TransferError(f"cannot be reached: {error.reason}") from None
    except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
        raise TransferError(f"the connection broke: {error or type(error).__name__}") from None


def check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise TransferError(f"the file is larger than {max_bytes:,} bytes", permanent=True)


def version_validator(headers: http.client.HTTPMessage) -> str:
    """The validator of a file's version for If-Range: a strong ETag or the modification date; empty if the server
    sends neither."""
    tag = headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")


def verify_download(download_source: DownloadSource, name: str, part: Path, version: Path) -> DownloadRecord:
    """Check a download against its SHA-256; without one, check that a .gz file is gzip. Raises DataError, and
    removes the file, if it does not match."""
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
        raise DataError(download_source.url, problem, "the file was removed; check what this URL returns")
    return DownloadRecord(download_source.url, part.stat().st_size, sha256)


def record_download(target: Path, received: DownloadRecord) -> None:
    """Add a file to received.json in its folder."""
    record = target.with_name(RECORD_FILE)
    records = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    records[target.name] = asdict(received)
    unfinished = record.with_name(f".{RECORD_FILE}.part")
    unfinished.write_text(json.dumps(records, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    unfinished.replace(record)


class HttpsRedirectHandler(urllib.request.HTTPRedirectHandler):
    """Follows redirects, except from https to another scheme."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError(f"it redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
