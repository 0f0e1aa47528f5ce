"""`interlinear tune`: searches for the recipe values with the best dev score, by Ray Tune with ASHA."""

from pathlib import Path
from typing import Annotated

import typer

from interlinear.cli.options import (
    PREPARED,
    RUNS,
    DataRoot,
    PerGpu,
    PreparedFolder,
    RecipeName,
    Resume,
    RunsFolder,
    Settings,
    TrainingCluster,
    TrainingData,
    check_per_gpu,
)
from interlinear.cli.training_options import TrackingOptions


def tune(
    recipe: RecipeName,
    data: TrainingData,
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="Number of trials; the first is the recipe.")] = 8,
    space: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="YAML with the keys to tune and their ranges (docs/tuning.md); else learning rate, warm-up, dropout, "
            "label smoothing and batch, around the recipe's.",
        ),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="KEY=RANGE",
            show_default=False,
            help="One more key, e.g. 'model.dropout={choice: [0.1, 0.2]}'; without --space these keys alone are tuned.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the trials' values.")] = 1,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", show_default=False, help="Epochs of a trial at most; else the recipe's."),
    ] = None,
    grace: Annotated[int, typer.Option(min=1, metavar="N", help="Epochs before a trial may be stopped.")] = 1,
    at_once: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", show_default=False, help="Concurrent trials; else as many as fit."),
    ] = None,
    settings: Settings = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="A GPU for every trial, else a processor.")] = False,
    per_gpu: PerGpu = 1,
    address: TrainingCluster = None,
    run: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=False, help="The tuning's name; else RECIPE-DATASET-tuning."),
    ] = None,
    resume: Resume = False,
    log: Annotated[TrackingOptions, "tracking"] = TrackingOptions(),
    data_root: DataRoot = None,
    prepared: PreparedFolder = PREPARED,
    runs: RunsFolder = RUNS,
) -> int:
    """Search for the values of a recipe with the best dev score. Ray Tune's ASHA stops the weaker trials early.

    Example: `interlinear tune rnnsearch --data demo --trials 4`. The last line printed is the path of the best trial's
    recipe, for `interlinear train`.
    """
    from interlinear.cli.tuning.tuning_run import TuningConfig, run_tuning
    from training.tuning.planning import TuningRequest
    from training.tuning.space import read_space

    check_per_gpu(per_gpu, gpu)
    own_space = read_space(space, ranges or ()) if space or ranges else None
    request = TuningRequest(
        recipe, data, tuple(settings or ()), own_space, trials, seed, epochs, grace,
        runs, run, data_root, prepared, log.store,
    )  # fmt: skip
    return run_tuning(request, TuningConfig(at_once, gpu, address, log.logged, per_gpu), resume)
