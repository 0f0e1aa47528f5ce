"""From a model's name to its bundle on this machine."""

from registry.local_bundle import LocalBundle, folder_bundle, require_bundle
from registry.names import FolderName, parse_model_name


def fetch_bundle(name: str, tracking: str | None = None) -> LocalBundle:
    """The bundle that a name points to, on this machine.

    A bundle kept in files that this machine sees is used where it lies; any other is downloaded once into the cache
    (registry/cache_folder.py) and checked before it gets its name there.

    Raises CallError (malformed name, no such folder) and RegistryError (store unreachable; unknown name, version,
    alias or run; nothing in it that is a bundle).
    """
    match parse_model_name(name):
        case FolderName(path):
            return folder_bundle(path, name, tracking)
        case parsed:
            from registry.cache import ModelCache
            from registry.store import MlflowStore  # a folder's bundle needs no MLflow

            store = MlflowStore(tracking)
            stored = store.find(parsed)
            lease = None if stored.folder else ModelCache().download(stored, store)
            folder = lease.folder if lease else stored.folder
            assert folder
            return LocalBundle(require_bundle(folder, name), stored.name, stored.version, lease)
