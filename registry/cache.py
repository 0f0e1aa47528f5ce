"""Bundles that were fetched, and what names meant when the registry was last asked: all that a service needs to start
while the registry is away."""

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

from registry.address import mask_password, sqlite_file, tracking_uri
from registry.cache_folder import cache_folder
from registry.lease import Lease, folder_size, remove_unused
from registry.local_bundle import LocalBundle, find_bundle, folder_bundle, require_bundle
from registry.names import FolderName, ModelName, parse_model_name
from registry.store import MlflowStore, StoredModel
from seq2seq.errors import BundleError, RegistryError, UnknownModelError

RESOLUTIONS = "names"  # the folder of what names meant
DOWNLOAD, REMOVED = ".download-", ".removed-"  # folders on their way in, and out
STALE_SECONDS = 60.0  # seconds after which such a folder that nobody uses is taken for what a kill has left


class ResolvedAlias(BaseModel):
    """What a name meant; a file of its own in the cache."""

    model_config = ConfigDict(frozen=True)

    reference: str
    tracking: str
    name: str | None
    version: str | None
    folder: str  # in the cache
    asked: datetime


@dataclass(frozen=True)
class ResolvedModel:
    """A bundle on this machine; where the registry could not be asked, why, and what is taken in its stead."""

    bundle: LocalBundle
    registry_error: str | None = None


class ModelCache:
    """A folder of fetched bundles, which several processes may share. What is deleted in it is fetched anew.

    By default `models` in this machine's cache (registry/cache_folder.py). With a `limit` it makes room before it
    fetches: those that were used longest ago go first, and never one that a process uses (registry/lease.py).
    """

    def __init__(
        self,
        folder: Path | None = None,
        limit: int | None = None,
        on_evict: Callable[[str, int], object] = lambda name, size: None,
    ) -> None:
        """`limit`: in bytes; files that are links into a store on this machine take none. `on_evict` is told the name
        and the bytes of every model that is removed."""
        self.folder = (folder or cache_folder("models")).absolute()
        self.limit = limit
        self.on_evict = on_evict

    def resolve(self, text: str, tracking: str | None) -> ResolvedModel:
        """The bundle that a name points to, which is then kept here and remembered; a folder's is used where it lies.

        Where the registry does not answer, what the name meant when it last did. Raises CallError, RegistryError.
        """
        reference = parse_model_name(text)
        if isinstance(reference, FolderName):
            return ResolvedModel(folder_bundle(reference.path, text, tracking))
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
            found = require_bundle(lease.folder, text)
            what = f"version {resolved.version}" if resolved.version else "the model"
            said = f"{error} Served is {what}, which {reference} meant at {resolved.asked:%Y-%m-%d %H:%M} UTC."
            return ResolvedModel(LocalBundle(found, resolved.name, resolved.version, lease), said)

    def download_and_record(self, reference: ModelName, stored: StoredModel, store: MlflowStore) -> LocalBundle:
        """Keep what a name points to, and remember it. Raises RegistryError, also where there is no room."""
        try:
            lease = self.download(stored, store)
            found = require_bundle(lease.folder, str(reference))
            self._record_resolution(reference, stored, lease.folder, store.uri)
        except OSError as error:
            raise RegistryError(
                str(reference), f"it cannot be kept in {self.folder} ({error.strerror or error})", "see --cache"
            ) from error
        return LocalBundle(found, stored.name, stored.version, lease)

    def download(self, stored: StoredModel, store: MlflowStore) -> Lease:
        """The kept model, complete: renamed into its place only after its files' checksums were right.

        Files that this machine sees are linked where that is possible, so that they take no room. Raises RegistryError,
        also where the limit leaves no room beside what is used.
        """
        place = self.folder / hashlib.sha256(f"{store.uri} {stored.location}".encode()).hexdigest()[:32]
        if lease := self._lease_if_intact(place):
            return lease
        place.parent.mkdir(parents=True, exist_ok=True)
        if self.limit is not None:
            self._evict_until_fits(stored, store, self.limit)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=DOWNLOAD) as temporary:
            downloading = Lease(Path(temporary))  # until the with ends; what a kill has left has none
            if stored.folder:
                got = Path(shutil.copytree(stored.folder, Path(temporary, "copy"), copy_function=_link_or_copy))
            else:
                got = store.download(stored, Path(temporary))
            if (found := find_bundle(got)) and not _is_intact(found):
                raise RegistryError(
                    str(stored),
                    "the bundle is damaged: its files are not those of its card",
                    "register it anew",
                )
            shutil.rmtree(place, ignore_errors=True)  # a damaged one: a whole one was returned above
            lease = Lease(got)
            try:
                got.rename(place)
                lease.rename(place)
            except OSError:
                if not (faster := self._lease_if_intact(place)):  # another process's copy serves as well
                    raise
                lease = faster
            downloading.release()
        return lease

    def size(self) -> int:
        """Bytes that the cache takes."""
        return sum(map(folder_size, self._folders()))

    def _lease_if_intact(self, place: Path) -> Lease | None:
        """A lease of the bundle that is kept there, if there is one and it is whole."""
        try:
            lease = Lease(place)
        except OSError:
            return None
        if (found := find_bundle(place)) and _is_intact(found):
            return lease
        lease.release()
        return None

    def _folders(self) -> list[Path]:
        """The folders of models, and of downloads; those used longest ago first."""
        found = []
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if path.name != RESOLUTIONS and path.is_dir():
                with suppress(OSError):
                    found.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(found)]

    def _evict_until_fits(self, stored: StoredModel, store: MlflowStore, limit: int) -> None:
        """Remove what was used longest ago until the kept model fits as well. Raises RegistryError where it cannot."""
        for path in self._folders():
            if path.name.startswith((DOWNLOAD, REMOVED)) and time.time() - path.stat().st_mtime > STALE_SECONDS:
                remove_unused(path)
        sizes = {path: folder_size(path) for path in self._folders()}
        needed = self._bytes_needed(stored, store)
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

    def _bytes_needed(self, stored: StoredModel, store: MlflowStore) -> int:
        """Bytes that a model will take here: none for what will be linked."""
        if stored.folder is None:
            return store.size(stored)
        linked = stored.folder.stat().st_dev == self.folder.stat().st_dev
        return 0 if linked else sum(path.stat().st_size for path in stored.folder.rglob("*") if path.is_file())

    def _folder_names(self) -> dict[str, str]:
        """The folders' models by name and version, as far as they are remembered."""
        names = {}
        for path in (self.folder / RESOLUTIONS).glob("*.json"):
            with suppress(OSError, ValidationError):
                resolved = ResolvedAlias.model_validate_json(path.read_text(encoding="utf-8"))
                names[resolved.folder] = (
                    f"models:/{resolved.name}/{resolved.version}" if resolved.name else resolved.reference
                )
        return names

    def _record_resolution(self, reference: ModelName, stored: StoredModel, place: Path, uri: str) -> None:
        resolved = ResolvedAlias(
            reference=str(reference),
            tracking=mask_password(uri),
            name=stored.name,
            version=stored.version,
            folder=place.name,
            asked=datetime.now(UTC),
        )
        path = self._resolution_file(reference, uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as draft:
            draft.write(resolved.model_dump_json(indent=2))
        Path(draft.name).replace(path)

    def _last_resolution(self, reference: ModelName, uri: str) -> ResolvedAlias | None:
        with suppress(OSError, ValidationError):
            return ResolvedAlias.model_validate_json(self._resolution_file(reference, uri).read_text(encoding="utf-8"))
        return None

    def _resolution_file(self, reference: ModelName, uri: str) -> Path:
        """The file for a name. A SQLite file is told from one of the same name in another folder."""
        where = f"sqlite {sqlite_file(uri).absolute()}" if uri.startswith("sqlite") else uri
        return self.folder / RESOLUTIONS / f"{hashlib.sha256(f'{where} {reference}'.encode()).hexdigest()[:32]}.json"


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)


def _is_intact(bundle: Path) -> bool:
    """Whether every file is the one that the bundle's card names; reads them once, about 0.1 s for 100 MB."""
    from seq2seq.bundle import check_files  # with torch behind it, which a look into the registry does not need

    try:
        check_files(bundle)
    except BundleError:
        return False
    return True
