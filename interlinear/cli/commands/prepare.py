"""The command `prepare`: prepares a data set for training."""

from pathlib import Path

from interlinear.cli.options import DataCluster, DataName, DataRoot, PreparedFolder, RecipeName, Settings, option_groups
from interlinear.cli.parallel_text import OwnText


@option_groups
def prepare(
    recipe: RecipeName,
    data: DataName = None,
    own_text: OwnText = OwnText(),
    settings: Settings = None,
    data_root: DataRoot = None,
    prepared: PreparedFolder = Path("prepared"),
    address: DataCluster = None,
) -> None:
    """Learn vocabularies and convert a data set to ids, once; prints the folder. On a Ray cluster an interrupted
    preparation continues with the same command."""
    from training.data.dataset import open_dataset
    from training.recipe import load_recipe
    from training.runs.job import prepare_data

    dataset = open_dataset(own_text.data_set(data, recipe, settings or ()), data_root)
    read = load_recipe(recipe, settings or (), dataset.defaults)
    if address is None:
        print(prepare_data(read, dataset, prepared).folder)
        return
    from training.ray.data import ray_executor

    with ray_executor(address) as executor:
        print(prepare_data(read, dataset, prepared, executor=executor).folder)
