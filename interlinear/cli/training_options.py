"""Options of the commands that train: what `train` and `submit` have in common, and where a training is logged."""

from dataclasses import dataclass
from typing import Annotated

import typer

from interlinear.cli.options import DataName, Gpu, RecipeName, Resume, Settings, Tracking
from interlinear.cli.parallel_text import OwnText
from interlinear.errors import UsageError


@dataclass(frozen=True)
class TrackingOptions:
    """Where a training is logged, and whether its model is registered."""

    register: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="Register the model under this name.")
    ] = None
    tracking: Tracking = None
    experiment: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=False, help="MLflow's experiment; else the data set's name."),
    ] = None
    parent: Annotated[
        str | None, typer.Option(metavar="RUN", show_default=False, help="ID of the parent run in MLflow.")
    ] = None
    no_tracking: Annotated[bool, typer.Option("--no-tracking", help="Do not log to MLflow.")] = False

    def check(self) -> None:
        """Raises UsageError for options that have no effect with --no-tracking."""
        if self.no_tracking and (self.register or self.tracking or self.experiment or self.parent):
            raise UsageError(
                "--no-tracking", "the other options of MLflow have no effect with it", "leave it or them out"
            )


@dataclass(frozen=True)
class TrainingOptions:
    """A recipe, its data, and the run that trains it."""

    recipe: RecipeName
    data: DataName = None
    own_text: OwnText = OwnText()
    settings: Settings = None
    gpu: Gpu = False
    no_cuda_graphs: Annotated[
        bool,
        typer.Option("--no-cuda-graphs", help="With --gpu: launch every operation of an update by itself."),
    ] = False
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="NAME", show_default=False, help="The run's name; else RECIPE-DATASET."),
    ] = None
    resume: Resume = False
    storage: Annotated[
        str | None,
        typer.Option(
            "--storage",
            envvar="INTERLINEAR_STORAGE",
            metavar="URI",
            show_default=False,
            show_envvar=False,
            help="Shared storage for data and checkpoints: s3://BUCKET/PREFIX, gs://... or a shared folder; "
            "else INTERLINEAR_STORAGE.",
        ),
    ] = None
    log: TrackingOptions = TrackingOptions()

    def check(self) -> None:
        """Raises UsageError for options that have no effect with, or without, another one."""
        if self.no_cuda_graphs and not self.gpu:
            raise UsageError(
                "--no-cuda-graphs", "CUDA graphs are used on GPUs only", "leave it out, or train with --gpu"
            )
        self.log.check()

    def data_set(self) -> str:
        """The data set, which is made if the options name text of one's own. Raises UsageError, DataError."""
        return self.own_text.data_set(self.data, self.recipe, self.settings or ())
