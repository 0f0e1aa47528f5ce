"""Bundles in folders of this machine."""

from dataclasses import dataclass
from pathlib import Path

from interlinear.errors import RegistryError, UsageError
from interlinear.registry.lease import Lease
from interlinear.registry.names import CHAMPION, FORMS, AliasName, is_registrable


@dataclass(frozen=True)
class LocalBundle:
    """A bundle's folder on this machine, and for a registered model its name and version.

    `source`: the version's source in the registry. `lease`: while it is held, the cache keeps the folder.
    """

    folder: Path
    name: str | None = None
    version: str | None = None
    source: str | None = None
    lease: Lease | None = None


def open_folder(path: Path, name: str, tracking: str | None = None) -> LocalBundle:
    """The bundle in a folder; `name` is the folder's name as the user wrote it.

    Raises UsageError, which suggests a registered model of that name, where there is no such folder, and RegistryError
    where the folder has no bundle.
    """
    if path.exists() and not path.is_dir():
        raise UsageError(str(path), "is not a folder", FORMS)
    if not path.exists():
        raise UsageError(str(path), "there is no such folder", suggest_registered_name(name, tracking) or FORMS)
    return LocalBundle(require_bundle(path, name))


def suggest_registered_name(name: str, tracking: str | None) -> str | None:
    """A suggestion for a name that is not a folder, where the registry has a model of that name."""
    from interlinear.registry.address import sqlite_file, tracking_uri

    uri = tracking_uri(tracking)
    if not is_registrable(name) or (uri.startswith("sqlite") and not sqlite_file(uri).exists()):
        return None
    try:
        from interlinear.registry.store import MlflowStore  # a folder's bundle needs no MLflow

        MlflowStore(tracking).find(registered := AliasName(name, CHAMPION))
        return f"did you mean {registered}?"
    except (RegistryError, ModuleNotFoundError):  # a bare install has no MLflow
        return None


def find_bundle(folder: Path) -> Path | None:
    """The bundle in a folder: the folder itself, a run's `bundle/`, or the artifact of an MLflow model."""
    candidates = (folder, folder / "bundle", folder / "artifacts" / "bundle")
    return next((candidate for candidate in candidates if (candidate / "model.json").is_file()), None)


def require_bundle(folder: Path, name: str) -> Path:
    """The bundle in the folder of a name. Raises RegistryError where there is none."""
    if bundle := find_bundle(folder):
        return bundle
    raise RegistryError(name, f"no model bundle in {folder}", "a bundle holds model.json and model.safetensors")
