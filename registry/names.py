"""From a model's name to its bundle: a folder, `models:/NAME/3`, `models:/NAME@ALIAS` or `runs:/ID/model`.

`models:/NAME` is `models:/NAME@champion`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from registry.lease import Lease
from seq2seq.errors import RegistryError, UsageError

CHAMPION = "champion"  # the alias of the version to use
FORMS = "a model is a bundle folder, models:/NAME/3, models:/NAME@champion or runs:/ID/model"


@dataclass(frozen=True)
class FolderName:
    """A bundle on this machine."""

    path: Path


@dataclass(frozen=True)
class VersionName:
    """`models:/NAME/3`."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"models:/{self.name}/{self.version}"


@dataclass(frozen=True)
class AliasName:
    """`models:/NAME@ALIAS`."""

    name: str
    alias: str

    def __str__(self) -> str:
        return f"models:/{self.name}@{self.alias}"


@dataclass(frozen=True)
class RunName:
    """`runs:/ID/model`: what a run logged under that name, registered or not."""

    run_id: str
    model: str

    def __str__(self) -> str:
        return f"runs:/{self.run_id}/{self.model}"


ModelName = FolderName | VersionName | AliasName | RunName


@dataclass(frozen=True)
class LocalBundle:
    """A bundle's folder on this machine, and for a registered model its name and version.

    `lease`: while somebody has it, the cache keeps the folder.
    """

    folder: Path
    name: str | None = None
    version: str | None = None
    lease: Lease | None = None


# A registered name becomes part of addresses and of paths in an artifact store: nothing that could leave its place.
_WORD = r"[^\s/\\:@.\-\x00-\x1f\x7f][^/\\:@\x00-\x1f\x7f]*"
_VERSION = re.compile(rf"models:/(?P<name>{_WORD})/(?P<version>[1-9]\d*)")
_ALIAS = re.compile(rf"models:/(?P<name>{_WORD})@(?P<alias>[A-Za-z_][\w.-]*)")
_CHAMPION = re.compile(rf"models:/(?P<name>{_WORD})")
_RUN = re.compile(rf"runs:/(?P<run>\w[\w-]*)/(?P<model>{_WORD}(?:/{_WORD})*)")


def parse_model_name(text: str) -> ModelName:
    """What a model's name says, without looking whether it exists.

    Raises CallError for a name of none of the four forms.
    """
    if match := _VERSION.fullmatch(text):
        return VersionName(match["name"], match["version"])
    if match := _ALIAS.fullmatch(text):
        return AliasName(match["name"], match["alias"])
    if match := _CHAMPION.fullmatch(text):
        return AliasName(match["name"], CHAMPION)
    if match := _RUN.fullmatch(text):
        return RunName(match["run"], match["model"])
    if re.match(r"(models|runs):", text):
        raise UsageError(repr(text), "is not a model's name", FORMS)
    if not text.strip() or "\0" in text or re.match(r"\w[\w+.-]*://", text):
        raise UsageError(repr(text), "is neither a folder nor a model's name", FORMS)
    return FolderName(Path(text))


def check_name(name: str) -> None:
    """Raises CallError unless models can be registered under this name."""
    if not re.fullmatch(_WORD, name):
        raise UsageError(repr(name), "cannot be a registered model's name", "letters, digits, '-' and '_' can")


def fetch_bundle(name: str, tracking: str | None = None) -> LocalBundle:
    """The bundle that a name points to, on this machine.

    A bundle kept in files that this machine sees is used where it lies; any other is downloaded once into the cache
    (registry/cache_folder.py) and checked before it gets its name there.

    Raises CallError (malformed name, no such folder) and RegistryError (store unreachable; unknown name, version,
    alias or run; nothing in it that is a bundle).
    """
    match parse_model_name(name):
        case FolderName(path):
            if path.exists() and not path.is_dir():
                raise UsageError(str(path), "is not a folder", FORMS)
            if not path.exists():
                raise UsageError(str(path), "there is no such folder", suggest_registered_name(name, tracking) or FORMS)
            return LocalBundle(require_bundle(path, name))
        case parsed:
            from registry.cache import ModelCache
            from registry.store import MlflowStore  # a folder's bundle needs no MLflow

            store = MlflowStore(tracking)
            stored = store.find(parsed)
            lease = None if stored.folder else ModelCache().download(stored, store)
            folder = lease.folder if lease else stored.folder
            assert folder
            return LocalBundle(require_bundle(folder, name), stored.name, stored.version, lease)


def suggest_registered_name(name: str, tracking: str | None) -> str | None:
    """What to say instead of a name that is no folder's, where the registry has a model of that name."""
    from registry.address import sqlite_file, tracking_uri

    uri = tracking_uri(tracking)
    if not re.fullmatch(_WORD, name) or (uri.startswith("sqlite") and not sqlite_file(uri).exists()):
        return None
    try:
        from registry.store import MlflowStore

        MlflowStore(tracking).find(registered := AliasName(name, CHAMPION))
        return f"did you mean {registered}?"
    except (RegistryError, ModuleNotFoundError):  # a bare install has no MLflow
        return None


def find_bundle(folder: Path) -> Path | None:
    """The bundle in a folder: the folder itself, a run's `bundle/`, or what MLflow's model carries as its artifact."""
    places = (folder, folder / "bundle", folder / "artifacts" / "bundle")
    return next((place for place in places if (place / "model.json").is_file()), None)


def require_bundle(folder: Path, name: str) -> Path:
    """The bundle in a folder that a name led to. Raises RegistryError where there is none."""
    if found := find_bundle(folder):
        return found
    raise RegistryError(name, f"no model bundle in {folder}", "a bundle holds model.json and model.safetensors")
