"""Preparing data: the verb `prepare`."""

from pathlib import Path

from interlinear.arguments import DataRoot, PreparedFolder, RecipeName, Settings, TrainingData


def prepare(
    recipe: RecipeName,
    data: TrainingData,
    settings: Settings = None,
    data_root: DataRoot = None,
    prepared: PreparedFolder = Path("prepared"),
) -> None:
    """Learn vocabularies and turn a data set into ids, once; prints the folder."""
    from training.dataset import open_dataset
    from training.recipe import load_recipe
    from training.running import prepare_for

    dataset = open_dataset(data, data_root)
    print(prepare_for(load_recipe(recipe, settings or (), dataset.defaults), dataset, prepared).folder)
