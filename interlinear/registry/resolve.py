"""Fetches the bundle of a model name to this machine."""

from interlinear.registry.bundle_folder import LocalBundle, open_folder, require_bundle
from interlinear.registry.names import FolderName, parse_model_name


def fetch_bundle(name: str, tracking: str | None = None) -> LocalBundle:
    """The bundle that a name refers to, on this machine.

    A bundle in files that this machine sees is used in place; any other is downloaded once into the cache
    (`cache_folder.py`) and verified before it gets its final name.

    Raises UsageError (malformed name, missing folder) and RegistryError (unreachable store; unknown name, version,
    alias or run; no bundle in it).
    """
    match parse_model_name(name):
        case FolderName(path):
            return open_folder(path, name, tracking)
        case parsed:
            from interlinear.registry.cache import ModelCache
            from interlinear.registry.store import MlflowStore  # a folder's bundle needs no MLflow

            store = MlflowStore(tracking)
            stored = store.find(parsed)
            lease = None if stored.folder else ModelCache().download(stored, store)
            folder = lease.folder if lease else stored.folder
            assert folder
            return LocalBundle(require_bundle(folder, name), stored.name, stored.version, stored.source, lease)
