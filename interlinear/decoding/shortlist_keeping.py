"""Where a new shortlist is kept: in the bundle, in a copy of it, or in a new version of a registered model."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.errors import RegistryError, UsageError

if TYPE_CHECKING:
    from registry.store import MlflowStore
    from seq2seq.shortlist import Shortlist


@dataclass(frozen=True)
class Destination:
    """The folder of a copy; None for the bundle itself, or, if it is not to change, a copy that is only registered.

    register: the name of a new version, of the model that the run of the store has trained.
    """

    output: Path | None
    changes_bundle: bool
    register: str | None = None
    store: "MlflowStore | None" = None
    run_id: str | None = None


def is_folder(model: str) -> bool:
    """Whether a model is named by its folder."""
    from registry.names import FolderName, parse_model_name

    return isinstance(parse_model_name(model), FolderName)


def check_destination(model: str, output: Path | None, register: str | None) -> None:
    """Raises UsageError, before any work is done, if there is no bundle to write to."""
    from registry.names import check_name

    if register is not None:
        check_name(register)
    if "," in model and not Path(model).exists():
        raise UsageError(model, "an ensemble has no bundle of its own", "make a shortlist for each of its models")
    if output is None and register is None and not is_folder(model):
        raise UsageError(
            model, "a registered model is not changed", "make a new version with --register NAME, or --output FOLDER"
        )
    if output is not None and output.exists():
        raise UsageError(f"--output {output}", "it is there already", "name a new folder")
    if output is not None and not output.resolve().parent.is_dir():
        raise UsageError(f"--output {output}", f"there is no folder {output.parent}", "make it, or name another one")


def find_destination(
    model: str, folder: Path, output: Path | None, register: str | None, tracking: str | None
) -> Destination:
    """Where the shortlist of the model in a folder is kept. Raises RegistryError if it is to be registered and the
    store has no run that trained it."""
    changes_bundle = output is None and is_folder(model)
    if register is None:
        return Destination(output, changes_bundle)
    from registry.curves import find_training_run
    from registry.store import MlflowStore

    store = MlflowStore(tracking)
    if run_id := find_training_run(store, model, folder):
        return Destination(output, changes_bundle, register, store, run_id)
    raise RegistryError(
        model,
        f"{store.display_uri} has no run that trained it",
        "name the store by --tracking, or leave --register out",
    )


def keep_shortlist(shortlist: "Shortlist", folder: Path, destination: Destination) -> str:
    """Keep the shortlist of the bundle in a folder; returns the name of the model that has it."""
    from seq2seq.bundle import add_shortlist

    with tempfile.TemporaryDirectory(dir=destination.output and destination.output.resolve().parent) as temporary:
        changed = folder
        if not destination.changes_bundle:
            changed = Path(shutil.copytree(folder, Path(temporary, "bundle")))
        add_shortlist(changed, shortlist)
        if destination.output:
            changed = changed.rename(destination.output)
        if not (destination.store and destination.register and destination.run_id):
            return str(changed)
        logged = destination.store.log_with_shortlist(changed, destination.run_id)
        return f"models:/{destination.register}/{destination.store.register(logged, destination.register)}"
