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

from registry.address import address, database_of, without_password
from registry.cache_folder import cache_folder
from registry.lease import Lease, remove_unused, size_of
from registry.names import FolderName, Located, ModelName, bundle_in, bundle_of, fetch, parse
from registry.store import Kept, Store
from seq2seq.errors import BundleError, RegistryError, UnknownModelError

NAMES = "names"  # the folder of what names meant
DOWNLOAD, REMOVED = ".download-", ".removed-"  # folders on their way in, and out
ABANDONED = 60.0  # seconds after which such a folder that nobody uses is taken for what a kill has left


class Meaning(BaseModel):
    """What a name meant; a file of its own in the cache."""

    model_config = ConfigDict(frozen=True)

    reference: str
    tracking: str
    name: str | None
    version: str | None
    folder: str  # in the cache
    asked: datetime


@dataclass(frozen=True)
class Remembered:
    """A bundle on this machine; where the registry could not be asked, why, and what is taken in its stead."""

    located: Located
    away: str | None = None


class Cache:
    """A folder of fetched bundles, which several processes may share. What is deleted in it is fetched anew.

    By default `models` in this machine's cache (registry/cache_folder.py). With a `limit` it makes room before it
    fetches: those that were used longest ago go first, and never one that a process uses (registry/lease.py).
    """

    def __init__(
        self,
        folder: Path | None = None,
        limit: int | None = None,
        evicted: Callable[[str, int], object] = lambda name, size: None,
    ) -> None:
        """`limit`: in bytes; files that are links into a store on this machine take none. `evicted` is told the name
        and the bytes of every model that is removed."""
        self.folder = (folder or cache_folder("models")).absolute()
        self.limit = limit
        self.evicted = evicted

    def locate(self, text: str, tracking: str | None) -> Remembered:
        """The bundle that a name points to, which is then kept here and remembered; a folder's is used where it lies.

        Where the registry does not answer, what the name meant when it last did. Raises CallError, RegistryError.
        """
        reference = parse(text)
        if isinstance(reference, FolderName):
            return Remembered(fetch(text))
        try:
            store = Store(tracking)
            return Remembered(self.take(reference, store.find(reference), store))
        except UnknownModelError:
            raise
        except RegistryError as error:
            meaning = self._recall(reference, address(tracking))
            if meaning is None:
                raise
            if not (lease := self._whole(self.folder / meaning.folder)):
                raise
            found = bundle_of(lease.folder, text)
            what = f"version {meaning.version}" if meaning.version else "the model"
            said = f"{error} Served is {what}, which {reference} meant at {meaning.asked:%Y-%m-%d %H:%M} UTC."
            return Remembered(Located(found, meaning.name, meaning.version, lease), said)

    def take(self, reference: ModelName, kept: Kept, store: Store) -> Located:
        """Keep what a name points to, and remember it. Raises RegistryError, also where there is no room."""
        try:
            lease = self.keep(kept, store)
            found = bundle_of(lease.folder, str(reference))
            self._remember(reference, kept, lease.folder, store.uri)
        except OSError as error:
            raise RegistryError(
                str(reference), f"it cannot be kept in {self.folder} ({error.strerror or error})", "see --cache"
            ) from error
        return Located(found, kept.name, kept.version, lease)

    def keep(self, kept: Kept, store: Store) -> Lease:
        """The kept model, complete: renamed into its place only after its files' checksums were right.

        Files that this machine sees are linked where that is possible, so that they take no room. Raises RegistryError,
        also where the limit leaves no room beside what is used.
        """
        place = self.folder / hashlib.sha256(f"{store.uri} {kept.location}".encode()).hexdigest()[:32]
        if lease := self._whole(place):
            return lease
        place.parent.mkdir(parents=True, exist_ok=True)
        if self.limit is not None:
            self._make_room(kept, store, self.limit)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=DOWNLOAD) as temporary:
            downloading = Lease(Path(temporary))  # until the with ends; what a kill has left has none
            if kept.folder:
                got = Path(shutil.copytree(kept.folder, Path(temporary, "copy"), copy_function=_link))
            else:
                got = store.download(kept, Path(temporary))
            if (found := bundle_in(got)) and not _is_whole(found):
                raise RegistryError(
                    str(kept),
                    "the bundle is damaged: its files are not those of its card",
                    "register it anew",
                )
            shutil.rmtree(place, ignore_errors=True)  # a damaged one: a whole one was returned above
            lease = Lease(got)
            try:
                got.rename(place)
                lease.moved(place)
            except OSError:
                if not (faster := self._whole(place)):  # another process's copy serves as well
                    raise
                lease = faster
            downloading.end()
        return lease

    def size(self) -> int:
        """Bytes that the cache takes."""
        return sum(map(size_of, self._folders()))

    def _whole(self, place: Path) -> Lease | None:
        """A lease of the bundle that is kept there, if there is one and it is whole."""
        try:
            lease = Lease(place)
        except OSError:
            return None
        if (found := bundle_in(place)) and _is_whole(found):
            return lease
        lease.end()
        return None

    def _folders(self) -> list[Path]:
        """The folders of models, and of downloads; those used longest ago first."""
        found = []
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if path.name != NAMES and path.is_dir():
                with suppress(OSError):
                    found.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(found)]

    def _make_room(self, kept: Kept, store: Store, limit: int) -> None:
        """Remove what was used longest ago until the kept model fits as well. Raises RegistryError where it cannot."""
        for path in self._folders():
            if path.name.startswith((DOWNLOAD, REMOVED)) and time.time() - path.stat().st_mtime > ABANDONED:
                remove_unused(path)
        sizes = {path: size_of(path) for path in self._folders()}
        needed = self._size_of(kept, store)
        names = self._names()
        for path, size in list(sizes.items()):
            if sum(sizes.values()) + needed <= limit:
                break
            if size and not path.name.startswith(".") and remove_unused(path):
                del sizes[path]
                self.evicted(names.get(path.name, path.name), size)
        if sum(sizes.values()) + needed > limit:
            raise RegistryError(
                str(kept),
                f"it has {needed:,} bytes, and {sum(sizes.values()):,} of the {limit:,} that {self.folder} may hold are"
                " in use",
                "let the cache hold more (INTERLINEAR_SERVE_CACHE_BYTES), or serve fewer models",
            )

    def _size_of(self, kept: Kept, store: Store) -> int:
        """Bytes that a model will take here: none for what will be linked."""
        if kept.folder is None:
            return store.size(kept)
        linked = kept.folder.stat().st_dev == self.folder.stat().st_dev
        return 0 if linked else sum(path.stat().st_size for path in kept.folder.rglob("*") if path.is_file())

    def _names(self) -> dict[str, str]:
        """The folders' models by name and version, as far as they are remembered."""
        names = {}
        for path in (self.folder / NAMES).glob("*.json"):
            with suppress(OSError, ValidationError):
                meaning = Meaning.model_validate_json(path.read_text(encoding="utf-8"))
                names[meaning.folder] = (
                    f"models:/{meaning.name}/{meaning.version}" if meaning.name else meaning.reference
                )
        return names

    def _remember(self, reference: ModelName, kept: Kept, place: Path, uri: str) -> None:
        meaning = Meaning(
            reference=str(reference),
            tracking=without_password(uri),
            name=kept.name,
            version=kept.version,
            folder=place.name,
            asked=datetime.now(UTC),
        )
        path = self._meaning(reference, uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as draft:
            draft.write(meaning.model_dump_json(indent=2))
        Path(draft.name).replace(path)

    def _recall(self, reference: ModelName, uri: str) -> Meaning | None:
        with suppress(OSError, ValidationError):
            return Meaning.model_validate_json(self._meaning(reference, uri).read_text(encoding="utf-8"))
        return None

    def _meaning(self, reference: ModelName, uri: str) -> Path:
        """The file for a name. A SQLite file is told from one of the same name in another folder."""
        where = f"sqlite {database_of(uri).absolute()}" if uri.startswith("sqlite") else uri
        return self.folder / NAMES / f"{hashlib.sha256(f'{where} {reference}'.encode()).hexdigest()[:32]}.json"


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)


def _is_whole(bundle: Path) -> bool:
    """Whether every file is the one that the bundle's card names; reads them once, about 0.1 s for 100 MB."""
    from seq2seq.bundle import check_files  # with torch behind it, which a look into the registry does not need

    try:
        check_files(bundle)
    except BundleError:
        return False
    return True
