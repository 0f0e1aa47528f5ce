"""Arguments that several verbs share, so that a name means the same everywhere."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from seq2seq.errors import UsageError

ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        help="A bundle's folder, models:/NAME@ALIAS, models:/NAME/VERSION or runs:/ID/model. Several, with commas "
        "between them, are an ensemble.",
    ),
]
Tracking = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        help="MLflow's address; else MLFLOW_TRACKING_URI, else mlflow.db in this folder.",
        show_default=False,
    ),
]
DataName = Annotated[
    str | None,
    typer.Option("--data", metavar="DATASET", help="A data set's name, or the path of its YAML.", show_default=False),
]
DataRoot = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Where corpora lie; else INTERLINEAR_DATA, else ./data.", show_default=False),
]
RecipeName = Annotated[
    str, typer.Argument(metavar="RECIPE", show_default=False, help="A recipe's name, or a YAML file.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", show_default=False, help="Change the recipe, e.g. model.layers=2."),
]
TrainingData = Annotated[
    str,
    typer.Option("--data", metavar="DATASET", show_default=False, help="A data set's name, or the path of its YAML."),
]
PreparedFolder = Annotated[Path, typer.Option("--prepared", metavar="FOLDER", help="Where prepared data is kept.")]
StorageUri = Annotated[
    str | None,
    typer.Option(
        "--storage",
        envvar="INTERLINEAR_STORAGE",
        metavar="URI",
        show_default=False,
        show_envvar=False,
        help="Where data and checkpoints are put for all machines: s3://BUCKET/PREFIX, gs://... or a shared folder; "
        "else INTERLINEAR_STORAGE.",
    ),
]
Device = Annotated[str, typer.Option(metavar="DEVICE", help="cpu, cuda or cuda:N.")]
PRECISION_HELP = "What is computed in; bf16 is faster where the processor has such products."
PrecisionChoice = Literal["fp32", "bf16"]  # seq2seq.config's, without pydantic at every start of the command
PrecisionName = Annotated[PrecisionChoice, typer.Option("--precision", help=PRECISION_HELP)]


def check_figure_file(path: Path) -> Path:
    """Raises CallError, before there is any work, for a suffix by which no picture is written."""
    from seq2seq.figures.style import check_suffix

    check_suffix(path)
    return path


FigureFile = Annotated[
    Path, typer.Option("--output", callback=check_figure_file, metavar="FILE", help="A .png, .svg or .pdf file.")
]
FontFile = Annotated[
    Path | None,
    typer.Option(
        "--font", exists=True, dir_okay=False, metavar="FILE", show_default=False,
        help="Set the words in this .ttf or .otf font; else in fonts that have their letters.",
    ),
]  # fmt: skip
Workers = Annotated[
    str, typer.Option(metavar="N|MIN:MAX", help="Processes that train together; a range: as there is room for.")
]
Gpu = Annotated[bool, typer.Option("--gpu", help="A GPU for every worker.")]
RunName = Annotated[
    str | None, typer.Option("--run", metavar="NAME", show_default=False, help="The run's name; else RECIPE-DATASET.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint of that name.")]
Register = Annotated[
    str | None, typer.Option(metavar="NAME", show_default=False, help="Register the model under this name.")
]
Experiment = Annotated[
    str | None, typer.Option(metavar="NAME", show_default=False, help="MLflow's experiment; else the data set's name.")
]
ParentRun = Annotated[
    str | None, typer.Option(metavar="RUN", show_default=False, help="The id of a run in MLflow to nest this one in.")
]
NoTracking = Annotated[bool, typer.Option("--no-tracking", help="Do not log to MLflow.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
InputFiles = typer.Argument(metavar="[FILE]...", exists=True, dir_okay=False, show_default=False, help="Else stdin.")


def number_range(option: str, text: str) -> tuple[int, int]:
    """The fewest and the most that an option's `N` or `MIN:MAX` names. Raises CallError."""
    fewest, colon, most = text.partition(":")
    numbers = [fewest, most if colon else fewest]
    if not all(number.isascii() and number.isdigit() for number in numbers) or not 1 <= int(fewest) <= int(numbers[1]):
        raise UsageError(option, f"'{text}' is neither a number from 1 on nor a range", "write N, or MIN:MAX")
    return int(fewest), int(numbers[1])
