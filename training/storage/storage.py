"""Folders on a storage that several machines reach (a disk, S3 or Google Cloud Storage), by URI, through pyarrow.

    URI/prepared/FINGERPRINT/NAME/    URI/given/CHECKSUM/    URI/runs/NAME/checkpoints/state-000001234/

A folder's .manifest.json, with the size and SHA-256 of every file, is written after all files and removed before any: a
folder with a manifest is complete, one without does not count. Failed operations are retried with a warning each, for a
limited time, since a storage may be temporarily unavailable. Every file appears when it is complete, so that several
processes may upload the same content at once.
"""

import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, ValidationError

from interlinear.errors import CorruptedError, StorageError, UsageError
from interlinear.files import checksum, fsync
from interlinear.installation import how_to_install
from training.storage.local_file import LocalFile, local_errors

MANIFEST = ".manifest.json"
FORMAT = 1
BLOCK = 8 << 20  # bytes that are copied at once
RETRY_SECONDS = 600.0  # seconds of retrying; INTERLINEAR_STORAGE_PATIENCE sets another number
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds between two attempts: doubled each time
# seconds for S3 to accept a connection and to answer; attempts for each request
CONNECT_TIMEOUT, REQUEST_TIMEOUT, MAX_ATTEMPTS = 5.0, 10.0, 3
SCHEMES = ("file", "s3", "gs", "gcs")
SECRETS = {"access_key", "secret_key", "session_token"}
DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR}
FORBIDDEN_BY_S3 = re.compile(r"ACCESS_DENIED|AccessDenied|HTTP status (401|403)|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT")
NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|^Bucket '.*' not found")

T = TypeVar("T")


class ManifestEntry(BaseModel):
    """A file of a folder."""

    model_config = ConfigDict(frozen=True)

    size: int
    sha256: str


class Manifest(BaseModel):
    """.manifest.json: the files of a folder."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    files: dict[str, ManifestEntry]


class Storage:
    """Folders on a storage, named by relative paths such as `runs/NAME/bundle`.

    Every method raises StorageError where the storage refuses, or is unavailable for longer than `retry_seconds`;
    `warn` is called for every failure that is retried.
    """

    def __init__(
        self, uri: str, warn: Callable[[str], None] = lambda message: None, retry_seconds: float | None = None
    ) -> None:
        """`uri`: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, file:///FOLDER or a folder's path. Raises UsageError.

        Amazon is asked for the region of a bucket, without retries, where the URI does not have it; `self.uri` does.
        """
        self.uri = check_uri(uri)
        self.warn = warn
        setting = os.environ.get("INTERLINEAR_STORAGE_PATIENCE", "")
        try:
            self.retry_seconds = retry_seconds if retry_seconds is not None else float(setting or RETRY_SECONDS)
        except ValueError:
            raise UsageError(
                "INTERLINEAR_STORAGE_PATIENCE", f"'{setting}' is no number of seconds", "give one, or unset it"
            ) from None
        with self._without_retries():
            self.fs, self.root = self._retry("connect", partial(_connect, self.uri), need_root=False)
        self.local = self.fs.type_name == "local"
        if self.fs.type_name == "s3":
            self.uri = _with_region(self.uri, self.fs.region)

    def uri_of(self, name: str) -> str:
        """The URI of a folder on the storage."""
        base, mark, options = self.uri.partition("?")
        return f"{base.rstrip('/')}/{quote(name)}{mark}{options}"

    def check(self) -> None:
        """Check at once, without retries, whether files can be written, read and removed here."""
        name, content = f".check-{uuid4().hex}", b"written by interlinear to see whether it may"
        with self._without_retries():
            if self.local:
                self._retry("make the folder", lambda: self.fs.create_dir(self.root), need_root=False)
            self.write(name, content)
            if self.read(name) != content:
                raise StorageError(self.uri, "what was written is not what is read", "check the storage")
            self._retry("remove a file", lambda: self.fs.delete_file(self._path(name)))

    def put(self, name: str, files: Path | Mapping[str, Path]) -> None:
        """Upload a folder, or files by their names in the new folder. Replaces an existing folder unless it is
        identical."""
        files = _files(files)
        manifest = self.manifest(name)
        if manifest and _matches(manifest, files):
            return
        self.remove(name)
        self._upload(name, files)

    def put_once(self, name: str, files: Path | Mapping[str, Path]) -> None:
        """Upload a folder whose name is the checksum of its content, unless it is there. Several processes may do so at
        once: nothing is removed before."""
        if self.manifest(name) is None:
            self._upload(name, _files(files))

    def get(self, name: str, folder: Path) -> None:
        """Download a folder under a temporary name, and rename it when every file matches the manifest. A local folder
        that matches already is left as it is. Raises CorruptedError, which names the file that is missing or
        differs."""
        manifest = self._require_manifest(name)
        if folder.is_dir() and _matches(manifest, {file: folder / file for file in manifest.files}):
            return
        temporary = folder.with_name(f".{folder.name}-{uuid4().hex[:8]}")
        with local_errors(folder, "written"):
            folder.parent.mkdir(parents=True, exist_ok=True)
            try:
                for file, entry in manifest.files.items():
                    self._fetch(name, file, entry, temporary / file)
                if folder.is_dir():
                    shutil.rmtree(folder)
                temporary.rename(folder)
                fsync(folder.parent)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)

    def get_file(self, name: str, file: str, path: Path) -> None:
        """Download one file of a folder, as `get` does."""
        entry = self._require_manifest(name).files.get(file)
        if entry is None:
            raise CorruptedError(
                self.uri_of(name), f"has no {file}", f"remove {self.uri_of(name)}; it is then uploaded again"
            )
        if _matches(Manifest(files={file: entry}), {file: path}):
            return
        temporary = path.with_name(f".{path.name}-{uuid4().hex[:8]}")
        with local_errors(path, "written"):
            try:
                self._fetch(name, file, entry, temporary)
                temporary.rename(path)
            finally:
                with suppress(OSError):
                    temporary.unlink()

    def remove(self, name: str) -> None:
        """Remove a folder, if it exists: its manifest first."""
        self._retry(f"remove {name}", lambda: self._remove(name))

    def names(self, prefix: str) -> list[str]:
        """The names of the folders in a folder, complete or not, sorted."""
        from pyarrow.fs import FileSelector, FileType

        infos = self._retry(
            f"list {prefix}", lambda: self.fs.get_file_info(FileSelector(self._path(prefix), allow_not_found=True))
        )
        return sorted(info.base_name for info in infos if info.type == FileType.Directory)

    def manifest(self, name: str) -> Manifest | None:
        """The manifest of a folder; None where it is missing or incomplete."""
        content = self.read(f"{name}/{MANIFEST}")
        try:
            return Manifest.model_validate_json(content) if content is not None else None
        except ValidationError:
            return None

    def read(self, name: str) -> bytes | None:
        """A small file's content; None where there is none."""

        def read() -> bytes | None:
            try:
                with self.fs.open_input_stream(self._path(name)) as stream:
                    return bytes(stream.read())
            except FileNotFoundError:
                return None

        return self._retry(f"read {name}", read)

    def write(self, name: str, content: bytes) -> None:
        """Write a small file atomically."""
        self._retry(f"write {name}", lambda: self._write(name, content))

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def _require_manifest(self, name: str) -> Manifest:
        manifest = self.manifest(name)
        if manifest is None:
            raise CorruptedError(
                self.uri_of(name),
                "is not there, or was never whole",
                f"remove {self.uri_of(name)}; it is then uploaded again",
            )
        for file in manifest.files:  # untrusted: its names become paths on this machine
            if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
                raise CorruptedError(self.uri_of(name), f"its manifest names '{file}'", "do not use this folder")
        return manifest

    def _upload(self, name: str, files: Mapping[str, Path]) -> None:
        """Write the files of a folder, then its manifest."""
        entries = {}
        for file, path in files.items():
            entries[file] = self._retry(f"write {name}/{file}", partial(self._upload_file, path, f"{name}/{file}"))
        self.write(f"{name}/{MANIFEST}", Manifest(files=entries).model_dump_json(indent=1).encode())

    def _upload_file(self, path: Path, name: str) -> ManifestEntry:
        digest, size = hashlib.sha256(), 0
        with LocalFile(path, "rb") as file, self._create(name) as stream:
            while block := file.read(BLOCK):
                digest.update(block)
                size += len(block)
                stream.write(block)
        return ManifestEntry(size=size, sha256=digest.hexdigest())

    def _write(self, name: str, content: bytes) -> None:
        with self._create(name) as stream:
            stream.write(content)

    @contextmanager
    def _create(self, name: str) -> Iterator[Any]:
        """A stream to a file that appears when it is complete: an object does so; a file on a disk, which grows while
        it is written, gets its name then."""
        path = written = self._path(name)
        try:
            if self.local:
                written = str(self._make_folder(PurePosixPath(name).parent) / f".{uuid4().hex}.draft")
            with self.fs.open_output_stream(written) as stream:
                yield stream
            if self.local:
                self.fs.move(written, path)
        except FileNotFoundError as error:  # the folder has disappeared; raised as an error that is retried
            raise OSError(errno.EIO, str(error)) from None
        finally:
            if written != path:  # a failed upload's
                with suppress(OSError):
                    self.fs.delete_file(written)

    def _make_folder(self, name: PurePosixPath) -> Path:
        """Create a folder on a disk, but not the storage's own: it is missing where the disk is not mounted."""
        folder = Path(self.root)
        for part in name.parts:
            folder /= part
            folder.mkdir(exist_ok=True)
        return folder

    def _remove(self, name: str) -> None:
        for remove, path in (
            (self.fs.delete_file, f"{self._path(name)}/{MANIFEST}"),
            (self.fs.delete_dir, self._path(name)),
        ):
            with suppress(FileNotFoundError):
                remove(path)

    def _fetch(self, name: str, file: str, entry: ManifestEntry, path: Path) -> None:
        where = self.uri_of(f"{name}/{file}")
        try:
            downloaded = self._retry(f"read {name}/{file}", lambda: self._download_file(f"{name}/{file}", path))
        except FileNotFoundError:
            raise CorruptedError(
                where, "is missing", f"remove {self.uri_of(name)}; it is then uploaded again"
            ) from None
        if downloaded != entry:
            problem = (
                f"has {downloaded.size:,} bytes instead of {entry.size:,}"
                if downloaded.size != entry.size
                else "is damaged"
            )
            raise CorruptedError(
                where,
                f"{problem}: it differs from what was uploaded",
                f"remove {self.uri_of(name)}; it is then uploaded again",
            )

    def _download_file(self, name: str, path: Path) -> ManifestEntry:
        digest, size = hashlib.sha256(), 0
        with self.fs.open_input_stream(self._path(name)) as stream, LocalFile(path, "wb") as file:
            while block := stream.read(BLOCK):
                digest.update(block)
                size += len(block)
                file.write(block)
            file.fsync()
        return ManifestEntry(size=size, sha256=digest.hexdigest())

    @contextmanager
    def _without_retries(self) -> Iterator[None]:
        retry_seconds, self.retry_seconds = self.retry_seconds, 0.0
        try:
            yield
        finally:
            self.retry_seconds = retry_seconds

    def _retry(self, what: str, work: Callable[[], T], need_root: bool = True) -> T:
        """Call `work`, and retry on failure for `retry_seconds` seconds. FileNotFoundError is left to the caller."""
        began, pause = time.monotonic(), FIRST_PAUSE
        while True:
            try:
                if need_root and self.local and not Path(self.root).is_dir():  # a disk that is not mounted
                    raise OSError(errno.EIO, "the folder is not there")
                return work()
            except FileNotFoundError:
                raise
            except OSError as error:
                failed = f"{what}: {error_summary(error)}"
                self._raise_if_permanent(error, failed)
            waited = time.monotonic() - began
            left = self.retry_seconds - waited
            if left <= 0:
                raise StorageError(
                    self.uri,
                    f"the storage failed{f' for {waited:.0f} s' if self.retry_seconds else ''} ({failed})",
                    "see that it can be reached; what it holds already is not lost",
                )
            self.warn(
                f"{self.uri}: the storage failed ({failed}); trying again in {min(pause, left):.0f} s, for at most "
                f"{left:.0f} s more."
            )
            time.sleep(min(pause, left))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _raise_if_permanent(self, error: OSError, failed: str) -> None:
        """Raise StorageError for errors that retrying does not solve."""
        if error.errno in DISK_FULL or "No space left" in str(error):
            raise StorageError(self.uri, f"the storage is full ({failed})", "make room, then go on with --resume")
        if error.errno in FORBIDDEN or FORBIDDEN_BY_S3.search(str(error)):
            raise StorageError(
                self.uri,
                f"the storage does not let us in ({failed})",
                "give this account the right to read, write and remove, its credentials in the environment",
            )
        if NO_BUCKET.search(str(error)):
            raise StorageError(self.uri, f"there is no such bucket ({failed})", "create it, or correct the name")


def check_uri(uri: str) -> str:
    """The URI, with a path made absolute. Raises UsageError."""
    parts = urlsplit(uri)
    if "://" not in uri:
        if not uri:
            raise UsageError("--storage", "no storage is named", "give s3://BUCKET/PREFIX, gs://... or a folder")
        return Path(uri).expanduser().absolute().as_uri()
    if parts.scheme not in SCHEMES:
        raise UsageError(
            uri, f"'{parts.scheme}' is no storage that we know", f"use a folder or {', '.join(SCHEMES)}://"
        )
    if parts.username or parts.password or SECRETS & {key for key, _ in parse_qsl(parts.query)}:
        shown = f"{parts.scheme}://{parts.hostname}{parts.path}"
        raise UsageError(
            shown, "a URI is no place for credentials", "put them into the environment (AWS_ACCESS_KEY_ID)"
        )
    return uri


def _connect(uri: str) -> tuple[Any, str]:
    try:
        from pyarrow.fs import AwsStandardS3RetryStrategy, FileSystem, S3FileSystem
    except ImportError:
        raise UsageError("--storage", "this needs pyarrow", how_to_install("train")) from None
    try:
        fs, root = FileSystem.from_uri(uri)
        if fs.type_name == "s3":  # by default an unresponsive server is waited for silently for 100 s
            options: dict[str, Any] = dict(parse_qsl(urlsplit(uri).query))
            options |= {name: value == "true" for name, value in options.items() if value in ("true", "false")}
            attempts = AwsStandardS3RetryStrategy(max_attempts=MAX_ATTEMPTS)
            fs = S3FileSystem(
                **options | {"region": fs.region},
                connect_timeout=CONNECT_TIMEOUT, request_timeout=REQUEST_TIMEOUT, retry_strategy=attempts,
            )  # fmt: skip
    except ValueError as error:
        raise UsageError(uri, f"is not a storage's URI ({error_summary(error)})", "see docs/storage.md") from None
    if not root.strip("/"):
        raise UsageError(uri, "names no bucket or folder", "give s3://BUCKET/PREFIX, gs://... or a folder")
    return fs, root.rstrip("/")


def _with_region(uri: str, region: str) -> str:
    """The URI with the region of its bucket, for which pyarrow would ask Amazon each time that it connects."""
    query = urlsplit(uri).query
    if {"region", "endpoint_override"} & {key for key, _ in parse_qsl(query)}:
        return uri
    return f"{uri}{'&' if query else '?'}region={region}"


def _files(files: Path | Mapping[str, Path]) -> Mapping[str, Path]:
    """Files by their names in a folder; all of a folder's."""
    if isinstance(files, Path):
        return {path.relative_to(files).as_posix(): path for path in sorted(files.rglob("*")) if path.is_file()}
    return files


def _matches(manifest: Manifest, files: Mapping[str, Path]) -> bool:
    """Whether these are exactly the manifest's files."""
    try:
        return manifest.files.keys() == files.keys() and all(
            files[name].stat().st_size == entry.size and checksum(files[name]) == entry.sha256
            for name, entry in manifest.files.items()
        )
    except OSError:
        return False


def error_summary(error: BaseException) -> str:
    """Pyarrow's error message on one line, without request ids and repetitions."""
    text = " ".join(str(error).split())
    noise = r"^When .*?: (?=AWS Error)|; Details: .*$| ?\(Request ID: .*?\)| Detail: \[errno.*$|^\[Errno \d+\] "
    return re.sub(noise, "", text).rstrip(". ")
