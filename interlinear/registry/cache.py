"""Cache of downloaded bundles and resolved aliases: all that a service needs to start while the registry is
unavailable."""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from interlinear.errors import BundleError, RegistryError, UnknownModelError
from interlinear.registry.address import mask_password, sqlite_file, tracking_uri
from interlinear.registry.bundle_folder import LocalBundle, find_bundle, open_folder, require_bundle
from interlinear.registry.cache_folder import cache_folder
from interlinear.registry.lease import Lease, exclusive_lock, folder_size, remove_unused
from interlinear.registry.names import FolderName, ModelName, parse_model_name
from interlinear.registry.store import MlflowStore, StoredModel

RESOLUTIONS = "names"  # the folder of resolved aliases
LOCK = ".lock"  # held while a download gets its final name
DOWNLOAD, REMOVED = ".download-", ".removed-"  # prefixes of folders that are being downloaded or removed
STALE_SECONDS = 60.0  # seconds after which an unused folder of this kind counts as left by a killed process


class ResolvedAlias(BaseModel):
    """The model that a name resolved to; a file of its own in the cache."""

    model_config = ConfigDict(frozen=True)

    reference: str
    tracking: str
    name: str | None
    version: str | None
    source: str | None
    folder: str  # in the cache
    asked: datetime


@dataclass(frozen=True)
class ResolvedModel:
    """A bundle on this machine; `registry_error`: why the registry did not answer, and the version in use."""

    bundle: LocalBundle
    registry_error: str | None = None


class ModelCache:
    """A folder of downloaded bundles, which several processes may share. Deleted entries are downloaded again.

    By default `models` in this machine's cache (`cache_folder.py`). With a `limit`, the least recently used
    models are evicted before a download, but never one that a process uses (`lease.py`).
    """

    def __init__(
        self,
        folder: Path | None = None,
        limit: int | None = None,
        on_evict: Callable[[str, int], object] = lambda name, size: None,
    ) -> None:
        """`limit`: in bytes; files that are hard links into a store on this machine do not count. `on_evict` is called
        with the name and size in bytes of every evicted model."""
        self.folder = (folder or cache_folder("models")).absolute()
        self.limit = limit
        self.on_evict = on_evict

    def resolve(self, text: str, tracking: str | None) -> ResolvedModel:
        """The bundle that a name refers to, downloaded and recorded here; a folder's bundle is used in place.

        Where the registry does not answer, uses the last recorded resolution. Raises UsageError, RegistryError.
        """
        reference = parse_model_name(text)
        if isinstance(reference, FolderName):
            return ResolvedModel(open_folder(reference.path, text))
        try:
            store = MlflowStore(tracking)
            return ResolvedModel(self.download_and_record(reference, store.find(reference), store))
        except UnknownModelError:
            raise
        except RegistryError as error:
            resolved = self._last_resolution(reference, tracking_uri(tracking))
            if resolved is None:
                raise
            if not (lease := self._lease_if_intact(self.folder / resolved.folder)):
                raise
            bundle = require_bundle(lease.folder, text)
            used = f"version {resolved.version}" if resolved.version else "the model"
            message = f"{error} Served is {used}, which {reference} meant at {resolved.asked:%Y-%m-%d %H:%M} UTC."
            return ResolvedModel(LocalBundle(bundle, resolved.name, resolved.version, resolved.source, lease), message)

    def download_and_record(self, reference: ModelName, stored: StoredModel, store: MlflowStore) -> LocalBundle:
        """Download the model of a name, and record the resolution. Raises RegistryError, also where there is no
        space."""
        try:
            lease = self.download(stored, store)
            bundle = require_bundle(lease.folder, str(reference))
            self._record_resolution(reference, stored, lease.folder, store.uri)
        except OSError as error:
            raise RegistryError(
                str(reference),
                f"it cannot be kept in {self.folder} ({error.strerror or error})",
                "see the setting cache",
            ) from error
        return LocalBundle(bundle, stored.name, stored.version, stored.source, lease)

    def download(self, stored: StoredModel, store: MlflowStore) -> Lease:
        """Download a model; it gets its final name only after its files' checksums have been verified.

        Files that this machine sees are hard-linked where possible, so that they take no space. Raises RegistryError,
        also where the limit leaves no space beside the models in use.
        """
        target = self.folder / hashlib.sha256(f"{store.uri} {stored.location}".encode()).hexdigest()[:32]
        if lease := self._lease_if_intact(target):
            return lease
        bundle = require_bundle(stored.folder, str(stored)) if stored.folder else None  # nothing else is copied
        target.parent.mkdir(parents=True, exist_ok=True)
        if self.limit is not None:
            self._evict_until_fits(stored, store, bundle, self.limit)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=DOWNLOAD) as temporary:
            # for the length of the block; a download left by a killed process has no lease
            downloading = Lease(Path(temporary))
            if bundle:
                downloaded = _copy_bundle(bundle, Path(temporary, "copy"))
            else:
                downloaded = store.download(stored, Path(temporary))
            if (found := find_bundle(downloaded)) and not _is_intact(found):
                raise RegistryError(
                    str(stored),
                    "the bundle is damaged: its files are not those of its card",
                    "register it again",
                )
            with exclusive_lock(self.folder / LOCK):
                if not (lease := self._lease_if_intact(target)):  # else another process's copy serves as well
                    shutil.rmtree(target, ignore_errors=True)  # a damaged one
                    lease = Lease(downloaded).rename(target)
                    downloaded.rename(target)
            downloading.release()
        return lease

    def size(self) -> int:
        """Size of the cache in bytes."""
        return sum(map(folder_size, self._folders()))

    def _lease_if_intact(self, folder: Path) -> Lease | None:
        """A lease of the bundle in a folder, if there is one and it is intact."""
        try:
            lease = Lease(folder)
        except OSError:
            return None
        if (bundle := find_bundle(folder)) and _is_intact(bundle):
            return lease
        lease.release()
        return None

    def _folders(self) -> list[Path]:
        """The folders of models and downloads, least recently used first."""
        folders = []
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if path.name != RESOLUTIONS and path.is_dir():
                with suppress(OSError):
                    folders.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(folders)]

    def _evict_until_fits(self, stored: StoredModel, store: MlflowStore, bundle: Path | None, limit: int) -> None:
        """Evict the least recently used models until the model fits. `bundle`: where this machine sees it. Raises
        RegistryError where it cannot fit."""
        for path in self._folders():
            if path.name.startswith((DOWNLOAD, REMOVED)) and time.time() - path.stat().st_mtime > STALE_SECONDS:
                remove_unused(path)
        sizes = {path: folder_size(path) for path in self._folders()}
        needed = self._bytes_to_copy(bundle) if bundle else store.size(stored)
        names = self._folder_names()
        for path, size in list(sizes.items()):
            if sum(sizes.values()) + needed <= limit:
                break
            if size and not path.name.startswith(".") and remove_unused(path):
                del sizes[path]
                self.on_evict(names.get(path.name, path.name), size)
        if sum(sizes.values()) + needed > limit:
            raise RegistryError(
                str(stored),
                f"it has {needed:,} bytes, and {sum(sizes.values()):,} of the {limit:,} that {self.folder} may hold are"
                " in use",
                "let the cache hold more (INTERLINEAR_SERVE_CACHE_BYTES), or serve fewer models",
            )

    def _bytes_to_copy(self, bundle: Path) -> int:
        """Bytes that a bundle of this machine will take here: none for files that will be linked."""
        linked = bundle.stat().st_dev == self.folder.stat().st_dev
        return 0 if linked else sum(path.stat().st_size for path in _files(bundle))

    def _folder_names(self) -> dict[str, str]:
        """Model name and version by folder name, from the recorded resolutions."""
        names = {}
        for path in (self.folder / RESOLUTIONS).glob("*.json"):
            with suppress(OSError, ValidationError):
                resolved = ResolvedAlias.model_validate_json(path.read_text(encoding="utf-8"))
                names[resolved.folder] = (
                    f"models:/{resolved.name}/{resolved.version}" if resolved.name else resolved.reference
                )
        return names

    def _record_resolution(self, reference: ModelName, stored: StoredModel, folder: Path, uri: str) -> None:
        resolved = ResolvedAlias(
            reference=str(reference),
            tracking=mask_password(uri),
            name=stored.name,
            version=stored.version,
            source=stored.source,
            folder=folder.name,
            asked=datetime.now(UTC),
        )
        path = self._resolution_file(reference, uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as temporary:
            temporary.write(resolved.model_dump_json(indent=2))
        Path(temporary.name).replace(path)

    def _last_resolution(self, reference: ModelName, uri: str) -> ResolvedAlias | None:
        with suppress(OSError, ValidationError):
            return ResolvedAlias.model_validate_json(self._resolution_file(reference, uri).read_text(encoding="utf-8"))
        return None

    def _resolution_file(self, reference: ModelName, uri: str) -> Path:
        """The file of a name's resolution. SQLite stores are identified by their absolute path."""
        where = f"sqlite {sqlite_file(uri).absolute()}" if uri.startswith("sqlite") else uri
        return self.folder / RESOLUTIONS / f"{hashlib.sha256(f'{where} {reference}'.encode()).hexdigest()[:32]}.json"


def _files(bundle: Path) -> list[Path]:
    """The files of a bundle's folder, without links: their targets are no part of it."""
    return [path for path in bundle.iterdir() if path.is_file() and not path.is_symlink()]


def _copy_bundle(bundle: Path, target: Path) -> Path:
    """Copy a bundle's files, as hard links where possible, and no other files beside them."""
    target.mkdir()
    for path in _files(bundle):
        try:
            os.link(path, target / path.name)
        except OSError:  # another file system, or one without links
            shutil.copy2(path, target / path.name, follow_symlinks=False)
    return target


def _is_intact(bundle: Path) -> bool:
    """Whether every file matches the bundle's card; reads each file once, about 0.1 s for 100 MB."""
    from interlinear.bundle import check_files  # imports torch, which other registry functions do not need

    try:
        check_files(bundle)
    except BundleError:
        return False
    return True
