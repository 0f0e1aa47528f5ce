"""Bundles that were fetched, and what names meant when the registry was last asked: all that a service needs to start
while the registry is away."""

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from registry.address import address, database_of, without_password
from registry.cache_folder import cache_folder
from registry.names import FolderName, Located, ModelName, bundle_in, bundle_of, fetch, parse
from registry.store import Kept, Store
from seq2seq.errors import BundleError, RegistryError, UnknownModelError


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

    By default `models` in this machine's cache (registry/cache_folder.py).
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or cache_folder("models")).absolute()

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
            if not (found := bundle_in(self.folder / meaning.folder)) or not _is_whole(found):
                raise
            what = f"version {meaning.version}" if meaning.version else "the model"
            said = f"{error} Served is {what}, which {reference} meant at {meaning.asked:%Y-%m-%d %H:%M} UTC."
            return Remembered(Located(found, meaning.name, meaning.version), said)

    def take(self, reference: ModelName, kept: Kept, store: Store) -> Located:
        """Keep what a name points to, and remember it. Raises RegistryError, also where there is no room."""
        try:
            place = self.keep(kept, store)
            found = bundle_of(place, str(reference))
            self._remember(reference, kept, place, store.uri)
        except OSError as error:
            raise RegistryError(
                str(reference), f"it cannot be kept in {self.folder} ({error.strerror or error})", "see --cache"
            ) from error
        return Located(found, kept.name, kept.version)

    def keep(self, kept: Kept, store: Store) -> Path:
        """The kept model, complete: renamed into its place only after its weights' hash was right.

        Files that this machine sees are linked where that is possible, so that they take no room.
        """
        place = self.folder / hashlib.sha256(f"{store.uri} {kept.location}".encode()).hexdigest()[:32]
        if (found := bundle_in(place)) and _is_whole(found):
            return place
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".download-") as temporary:
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
            try:
                got.rename(place)
            except OSError:
                if not bundle_in(place):  # otherwise another process was faster, and its copy serves as well
                    raise
        return place

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
        return self.folder / "names" / f"{hashlib.sha256(f'{where} {reference}'.encode()).hexdigest()[:32]}.json"


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)


def _is_whole(bundle: Path) -> bool:
    """Whether every file is the one that the bundle's card names; reads them once, about 0.1 s for 100 MB."""
    from seq2seq.bundle import checksum, read_card  # with torch behind it, which a look into the registry does not need

    try:
        return all(checksum(bundle / name) == expected for name, expected in read_card(bundle).files.items())
    except (BundleError, OSError):
        return False
