"""The command `prepare`: prepares a data set for training."""

from interlinear.cli.options import PREPARED, DataCluster, DataRoot, PreparedFolder, RecipeName, Settings, TrainingData


def prepare(
    recipe: RecipeName,
    data: TrainingData,
    settings: Settings = None,
    data_root: DataRoot = None,
    prepared: PreparedFolder = PREPARED,
    address: DataCluster = None,
) -> None:
    """Learn vocabularies and convert a data set to ids, once; prints the folder. On a Ray cluster an interrupted
    preparation continues with the same command."""
    from training.data.dataset import open_dataset
    from training.recipe import load_recipe
    from training.runs.job import prepare_data

    dataset = open_dataset(data, data_root)
    read = load_recipe(recipe, settings or (), dataset.defaults)
    if address is None:
        print(prepare_data(read, dataset, prepared).folder)
        return
    from training.ray.data import ray_executor

    with ray_executor(address) as executor:
        print(prepare_data(read, dataset, prepared, executor=executor).folder)
