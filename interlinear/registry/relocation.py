"""A store that was copied or moved: its SQLite file has the addresses of its files, absolute as MLflow keeps them."""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from interlinear.errors import RegistryError

ARTIFACTS = "mlartifacts"  # the folder of a store's files, beside its database
ADDRESSES = {  # columns by table
    "experiments": ("artifact_location",),
    "runs": ("artifact_uri",),
    "logged_models": ("artifact_location",),
    "model_versions": ("source", "storage_location"),
}


def address_here(location: str, artifacts: Path) -> str | None:
    """The address beside a store's database, in `artifacts`, that replaces a record's `location`; None if the record is
    right, or if no file of the experiment is here."""
    parts = urlsplit(location)
    folder = Path(url2pathname(parts.path))
    if parts.scheme not in ("", "file") or ARTIFACTS not in folder.parts or folder.is_relative_to(artifacts):
        return None
    names = folder.parts
    within = names[len(names) - names[::-1].index(ARTIFACTS) :]
    return artifacts.joinpath(*within).as_uri() if within and (artifacts / within[0]).is_dir() else None


def relocate(database: Path) -> int:
    """Let the records of a copied or moved store name the files beside its database; returns the number of changed
    addresses. Raises RegistryError for a file that is no store, or that another process writes."""
    artifacts = database.resolve().parent / ARTIFACTS
    changed = 0
    try:
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=rw", uri=True)) as store, store:
            for table, columns in ADDRESSES.items():
                for column in columns:
                    for (old,) in store.execute(f"select distinct {column} from {table} where {column} is not null"):
                        if new := address_here(old, artifacts):
                            changed += 1
                            store.execute(f"update {table} set {column} = ? where {column} = ?", (new, old))
    except sqlite3.Error as error:
        raise RegistryError(
            str(database), f"cannot be changed: {error}", "name an MLflow store by --tracking"
        ) from None
    return changed
