"""Options of the commands that train: the options that `train` and `submit` share, and where a training is logged."""

from dataclasses import dataclass
from typing import Annotated

import typer

from interlinear.cli.options import DataName, Gpu, LocalWorkers, RecipeName, Resume, Settings, Tracking
from interlinear.cli.parallel_text import OwnText
from interlinear.errors import UsageError

NO_TRACKING = "none"  # as --tracking: nothing is logged


@dataclass(frozen=True)
class TrackingOptions:
    """Where a training is logged, and whether its model is registered."""

    register: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="Register the model under this name.")
    ] = None
    tracking: Tracking = None

    @property
    def logged(self) -> bool:
        """Whether the training is logged."""
        return self.tracking != NO_TRACKING

    @property
    def store(self) -> str | None:
        """MLflow's address; None: by default, or without logging."""
        return self.tracking if self.logged else None

    def check(self) -> None:
        """Raises UsageError for a model to be registered where nothing is logged."""
        if self.register and not self.logged:
            raise UsageError(f"--tracking {NO_TRACKING}", "--register needs a registry", "leave one of them out")


@dataclass(frozen=True)
class TrainingOptions:
    """A recipe, its data, and the run that trains it."""

    recipe: RecipeName
    data: DataName = None
    own_text: OwnText = OwnText()
    settings: Settings = None
    workers: LocalWorkers = None
    gpu: Gpu = False
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

    def data_set(self) -> str:
        """The data set, which is made if the options name text of one's own. Raises UsageError, DataError."""
        return self.own_text.data_set(self.data, self.recipe, self.settings or ())
