"""Training settings for small data: batch size, epochs and warm-up that give a training enough updates."""

from collections.abc import Collection

from interlinear.config import RecurrentArchitecture
from training.recipe import Recipe, TrainingSettings

FEW_PAIRS = 5000  # for which there is a recipe
MIN_EPOCH_UPDATES = 30  # updates per epoch; data with fewer, at the recipe's batch size, is small
TARGET_UPDATES = 1000  # in a training on small data, unless patience ends it earlier
MIN_BATCH = {"batch_tokens": 200, "batch_sentences": 16}
WARMUP_EPOCHS = 3


def recommend(recipe: Recipe, pairs: int) -> str:
    """A sentence on the recipe for a few thousand pairs; empty where a recipe is regularized as that is or reads more
    than a source, and for more pairs. The figures are in docs/recipes.md too."""
    model = recipe.model
    if not isinstance(model, RecurrentArchitecture) or model.layer_norm or model.word_dropout or model.state_dropout:
        return ""
    if pairs >= FEW_PAIRS or set(recipe.sources) != {"source"} or recipe.target.operations_on:
        return ""
    return (
        f"{pairs:,} pairs are few, and the recipe rnnsearch_low_resource is made for that: with 2,697 pairs it had "
        "BLEU 14.7 where rnnsearch had 11.3."
    )


def fit_to_data(
    recipe: Recipe, explicit_keys: Collection[str], pairs: int, target_tokens: int, begun: Recipe | None = None
) -> tuple[Recipe, str]:
    """Fit settings to small data; returns the recipe and a sentence with the changes. Other data returns the recipe
    unchanged and an empty sentence.

    `explicit_keys`: dotted keys that were set explicitly for this training; they are kept. `target_tokens`: of all
    pairs, end symbols included. `begun`: the recipe with which a resumed run began; all but the number of epochs is
    taken from it, since a fitted warm-up and patience depend on that number.
    """
    before = recipe.training
    key, amount = ("batch_tokens", target_tokens) if before.batch_tokens else ("batch_sentences", pairs)
    batch: int = getattr(before, key)
    if before.epoch_updates is not None or (updates := -(-amount // batch)) >= MIN_EPOCH_UPDATES:
        return recipe, ""
    if begun and getattr(begun.training, key) is None:  # it counts batches otherwise: the trainer refuses this one
        begun = None
    changed: dict[str, int | None] = {}

    def change(name: str, fitted: int) -> None:
        value = fitted if begun is None or name == "epochs" else getattr(begun.training, name)
        if f"training.{name}" not in explicit_keys and value != getattr(before, name):
            changed[name] = value

    change(key, min(batch, max(MIN_BATCH[key], amount // MIN_EPOCH_UPDATES)))
    fitted_updates = max(1, -(-amount // (changed.get(key) or batch)))
    change("epochs", max(before.epochs, -(-TARGET_UPDATES // fitted_updates)))
    epochs = changed.get("epochs") or before.epochs
    if before.patience is not None:  # patience counts epochs, which have become shorter
        change("patience", -(-before.patience * epochs // before.epochs))
    change("warmup", min(before.warmup, fitted_updates * min(WARMUP_EPOCHS, max(1, epochs // 4))))
    if not changed:
        return recipe, ""
    training = TrainingSettings.model_validate(before.model_dump(exclude_none=False) | changed)
    settings = ", ".join(f"training.{name}={value}" for name, value in changed.items())
    return recipe.model_copy(update={"training": training}), (
        f"{pairs:,} pairs make {updates} updates an epoch at the recipe's batch size, which is too few; used instead: "
        f"{settings}. A value given with --set is kept."
    )
