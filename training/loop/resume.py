"""What a run that goes on must have in common with what it was: its recipe and its data."""

from collections.abc import Mapping
from pathlib import Path

from seq2seq.errors import TrainingError
from training.loop.checkpoint import Progress
from training.recipe import Recipe
from training.storage.staging import fingerprint

# What may change: it says when to stop and what to keep, not what an update does.
FREE = {"about", "training.epochs", "training.patience", "training.keep_last", "training.save_minutes"}


def beginning(recipe: Recipe, prepared: Path) -> Progress:
    """Where a training of this recipe on this data begins."""
    return Progress(recipe=recipe.model_dump(mode="json"), data=prepared.name, fingerprint=fingerprint(prepared))


def refuse_another(run: Path, before: Progress, now: Progress) -> None:
    """Raises TrainingError with the difference, where the recipe or the data is another than it was."""
    if changed := differing(before.recipe, now.recipe):
        raise TrainingError(
            str(run),
            f"the run was begun with another recipe: {', '.join(changed)}",
            "resume with the same settings, or start a run of another name with --run",
        )
    if others := other_data(before, now):
        raise TrainingError(
            str(run),
            f"the run was begun on other data ({others})",
            "bring the same data, or start a run of another name with --run",
        )


def differing(before: Mapping[str, object], now: Mapping[str, object], above: str = "") -> list[str]:
    """The keys by which two recipes differ in what they would train: `key (then -> now)`."""
    changed = []
    for key in sorted({*before, *now}):
        old, new, name = before.get(key), now.get(key), f"{above}{key}"
        if isinstance(old, dict) and isinstance(new, dict):
            changed += differing(old, new, f"{name}.")
        elif old != new and name not in FREE:
            changed.append(f"{name} ({old} -> {new})")
    return changed


def other_data(before: Progress, now: Progress) -> str:
    """How the data of two trainings differ; empty where they do not."""
    if before.data != now.data:
        return f"{before.data}, now {now.data}"
    if before.fingerprint not in ("", now.fingerprint):
        return f"{before.data} with fingerprint {before.fingerprint[:12]}, now {now.fingerprint[:12]}"
    return ""
