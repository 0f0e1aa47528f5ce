"""Compares a run's recipe and data with the recipe and data of the training that resumes it."""

from collections.abc import Mapping
from pathlib import Path

from interlinear.errors import TrainingError
from training.loop.checkpoints.training_state import TrainingProgress
from training.recipe import Recipe
from training.storage.staging import prepared_fingerprint

# Keys that may change: they affect when to stop and which checkpoints to keep, but no update.
CHANGEABLE_KEYS = {"about", "training.epochs", "training.patience", "training.keep_last", "training.save_minutes"}


def initial_progress(recipe: Recipe, prepared: Path) -> TrainingProgress:
    """The progress of a training of this recipe on this data before its first update."""
    return TrainingProgress(
        recipe=recipe.model_dump(mode="json"), data=prepared.name, fingerprint=prepared_fingerprint(prepared)
    )


def check_same_run(run: Path, before: TrainingProgress, now: TrainingProgress) -> None:
    """Raises TrainingError, which names the difference, where the recipe or the data has changed."""
    if changed := recipe_differences(before.recipe, now.recipe):
        raise TrainingError(
            str(run),
            f"the run was begun with another recipe: {', '.join(changed)}",
            "resume with the same settings, or start a run of another name with --run",
        )
    if others := data_difference(before, now):
        raise TrainingError(
            str(run),
            f"the run was begun on other data ({others})",
            "use the same data, or start a run of another name with --run",
        )


def recipe_differences(before: Mapping[str, object], now: Mapping[str, object], prefix: str = "") -> list[str]:
    """The keys that make two recipes train differently: `key (before -> now)`."""
    changed = []
    for key in sorted({*before, *now}):
        old, new, name = before.get(key), now.get(key), f"{prefix}{key}"
        if isinstance(old, dict) and isinstance(new, dict):
            changed += recipe_differences(old, new, f"{name}.")
        elif old != new and name not in CHANGEABLE_KEYS:
            changed.append(f"{name} ({old} -> {new})")
    return changed


def data_difference(before: TrainingProgress, now: TrainingProgress) -> str:
    """The difference between the data of two trainings; empty if it is the same."""
    if before.data != now.data:
        return f"{before.data}, now {now.data}"
    if before.fingerprint != now.fingerprint:
        return f"{before.data} with fingerprint {before.fingerprint[:12]}, now {now.fingerprint[:12]}"
    return ""
