"""Command-line arguments and options that several commands share."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial, wraps
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import typer

from interlinear.errors import UsageError

Result = TypeVar("Result")
CONTEXT, POSITIONAL_OR_KEYWORD = "context", inspect.Parameter.POSITIONAL_OR_KEYWORD


SHARED = "an option of the group, for those of its commands that have a parameter of this name"


def option_groups(command: Callable[..., Result]) -> Callable[..., Result]:
    """The command with an option for each field of the dataclasses among its parameters, and among their fields, in
    their places: options that several commands share are declared once, as the fields. `Annotated[Group, "a", "b"]`:
    the options a and b only. A SHARED parameter has the value of the group's option, and is not an option of the
    command.
    """
    parameters: list[inspect.Parameter] = []
    shared: list[str] = []

    def add_options(called: Callable[..., Any], names: Sequence[str] = ()) -> Callable[[dict[str, Any]], Any]:
        """Add the options of a function or dataclass; returns its call with their values."""
        hints = get_type_hints(called, include_extras=True)
        arguments: dict[str, Callable[[dict[str, Any]], Any]] = {}
        for name, parameter in inspect.signature(called).parameters.items():
            annotation = hints[name]
            group, *fields = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
            if names and name not in names:
                continue
            if is_dataclass(group) and isinstance(group, type):
                arguments[name] = add_options(group, fields)
            elif SHARED in fields:
                arguments[name] = partial(shared_value, parameter)
                shared.append(name)
            else:
                arguments[name] = itemgetter(name)
                parameters.append(parameter.replace(annotation=annotation))
        return lambda values: called(**{name: value_of(values) for name, value_of in arguments.items()})

    call = add_options(command)
    if shared and all(parameter.name != CONTEXT for parameter in parameters):
        parameters.insert(0, inspect.Parameter(CONTEXT, POSITIONAL_OR_KEYWORD, annotation=typer.Context))

    @wraps(command)
    def with_groups(**values: Any) -> Result:
        result: Result = call(values)
        return result

    with_groups.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_groups.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    with_groups.shared = frozenset(shared)  # type: ignore[attr-defined]
    return with_groups


def shared_value(parameter: inspect.Parameter, values: Mapping[str, Any]) -> Any:
    """The value of the option of a group above the command. Raises UsageError for one that is missing."""
    context = values[CONTEXT].parent
    while parameter.name not in context.params:
        context = context.parent
    value = context.params[parameter.name]
    if value is None and parameter.default is parameter.empty:
        option = next(each for each in context.command.params if each.name == parameter.name)
        raise UsageError(option.opts[0], "is missing", option.help)
    return value


def given_options(context: typer.Context, **values: Any) -> dict[str, Any]:
    """The SHARED options on the command line, by their parameters."""
    root = context.find_root()
    sources = {name: root.get_parameter_source(name) for name in values}
    return {name: values[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"}


ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        help="A bundle's folder, models:/NAME@ALIAS, models:/NAME/VERSION or runs:/ID/model. Several, separated "
        "by commas, form an ensemble.",
    ),
]
Tracking = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        help="MLflow's address; else MLFLOW_TRACKING_URI, else mlflow.db in this folder. `none`: log no training.",
        show_default=False,
    ),
    SHARED,
]


def shipped_names(folder: Literal["recipes", "corpora"]) -> Callable[[str], list[str]]:
    """Completes the names of the YAML files that ship in a folder."""

    def complete(incomplete: str) -> list[str]:
        from training.yaml_files import resource_folder

        return sorted(path.stem for path in resource_folder(folder).glob(f"{incomplete}*.yaml"))

    return complete


DataName = Annotated[
    str | None,
    typer.Option(
        "--data", metavar="DATASET", show_default=False, autocompletion=shipped_names("corpora"),
        help="A data set's name, or the path of its YAML.",
    ),
]  # fmt: skip
DataRoot = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Folder with the corpora; else INTERLINEAR_DATA, else ./data.", show_default=False
    ),
    SHARED,
]
RecipeName = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE", show_default=False, autocompletion=shipped_names("recipes"),
        help="A recipe's name, or a YAML file.",
    ),
]  # fmt: skip
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", show_default=False, help="Change the recipe, e.g. model.layers=2."),
]
TrainingData = Annotated[
    str,
    typer.Option(
        "--data", metavar="DATASET", show_default=False, autocompletion=shipped_names("corpora"),
        help="A data set's name, or the path of its YAML.",
    ),
]  # fmt: skip
PREPARED, RUNS = Path("prepared"), Path("runs")
PreparedFolder = Annotated[Path, typer.Option("--prepared", metavar="FOLDER", help="Folder for prepared data."), SHARED]
Device = Annotated[
    str,
    typer.Option(metavar="DEVICE", help="cpu, cuda or cuda:N; to serve, several: cuda:0,1, with a process each."),
    SHARED,
]
# As in interlinear.config, whose import of pydantic would slow down every start.
PrecisionChoice = Literal["fp32", "bf16", "int8", "auto"]
PrecisionName = Annotated[
    PrecisionChoice,
    typer.Option(
        "--precision",
        help="Precision of computation; bf16 is faster on processors that support it, int8 on most CPUs; auto chooses.",
    ),
    SHARED,
]
CompileSearch = Annotated[
    Literal["auto", "on", "off"],
    typer.Option(
        "--compile",
        help="Whether to compile the steps of the search, which takes half a minute at the start; auto: on a GPU.",
    ),
    SHARED,
]
UseShortlist = Annotated[
    bool,
    typer.Option(
        "--shortlist",
        help="Search only among the words of the model's shortlist (`interlinear shortlist`): faster, on a CPU.",
    ),
    SHARED,
]


def check_figure_file(path: Path | None) -> Path | None:
    """Raises UsageError, before any work is done, for a suffix that is not a supported image format."""
    from interlinear.figures.style import check_suffix

    if path:
        check_suffix(path)
    return path


FigureFile = Annotated[
    Path | None,
    typer.Option(
        "--output", callback=check_figure_file, metavar="FILE", show_default=False,
        help="A .png, .svg or .pdf file; else KIND.png.",
    ),
    SHARED,
]  # fmt: skip
FontFile = Annotated[
    Path | None,
    typer.Option(
        "--font", exists=True, dir_okay=False, metavar="FILE", show_default=False,
        help="Font for words, .ttf or .otf; else installed fonts that cover their characters.",
    ),
    SHARED,
]  # fmt: skip
LocalWorkers = Annotated[
    str | None,
    typer.Option(
        "--workers", metavar="N|MIN:MAX", show_default=False,
        help="Number of training processes; a range: as many as resources allow. Else one for each processor, where "
        "memory and batch suffice; with --gpu, --address or --no-ray, one.",
    ),
]  # fmt: skip
Gpu = Annotated[bool, typer.Option("--gpu", help="A GPU for every worker.")]
PerGpu = Annotated[
    int, typer.Option(min=1, max=100, metavar="N", help="With --gpu: trials of a tuning that share a GPU.")
]


def running_cluster(address: str | None) -> str | None:
    """The address of a running cluster; None for `local`, a cluster of the command's own."""
    return None if address == "local" else address


TrainingCluster = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        show_default=False,
        callback=running_cluster,
        help="A running Ray cluster; else, or with `local`, one of its own.",
    ),
]
DataCluster = Annotated[
    str | None, typer.Option(metavar="URI", show_default=False, help="A running Ray cluster; else this machine.")
]
RunsFolder = Annotated[Path, typer.Option(metavar="FOLDER", help="Where runs are kept."), SHARED]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the newest checkpoint of that name.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
STDIN = Path("-")


def check_input_files(paths: list[Path] | None) -> list[Path] | None:
    """Raises UsageError, before any work is done, for a name that is neither a file or pipe nor `-`."""
    for path in paths or []:
        if path != STDIN and (not path.exists() or path.is_dir()):
            problem = "is a folder, not a file" if path.is_dir() else "there is no such file"
            raise UsageError(str(path), problem, "correct its path")
    return paths


InputFiles = typer.Argument(
    metavar="[FILE]...",
    callback=check_input_files,
    show_default=False,
    help="Input files; else, or for -, stdin.",
)
AlignmentKind = Literal[
    "attention", "words", "gated", "next", "next-words", "next-gated", "posterior", "uam", "uam-vocabulary"
]
AlignedBy = Annotated[
    AlignmentKind | None,
    typer.Option(
        "--by",
        show_default=False,
        help="Kind of attention to align by, see `interlinear align --help`; else the best that the model has.",
    ),
]
Reverse = Annotated[
    str | None,
    typer.Option(metavar="MODEL", show_default=False, help="A model of the opposite direction; see --symmetrize."),
]
Symmetrize = Annotated[
    Literal["intersection", "union", "grow", "grow-diag", "grow-diag-final", "grow-diag-final-and"] | None,
    typer.Option(show_default=False, help="How to combine the alignments of both directions, as in Moses."),
]
TokenisedPair = Annotated[
    bool, typer.Option("--tokenised", help="Words are separated by spaces, as in gold alignments.")
]
Split = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default=False, help="The split of the data set; else test."),
]
MtFile = Annotated[
    Path | None,
    typer.Option(
        "--mt", exists=True, dir_okay=False, metavar="FILE", show_default=False,
        help="Machine translations of the source, line by line, for a post-editing model.",
    ),
]  # fmt: skip
ImageFolder = Annotated[
    Path | None,
    typer.Option(
        "--image-dir", exists=True, file_okay=False, metavar="FOLDER", show_default=False,
        help="Folder of pictures: N.jpg, N.png or N.webp belongs to line N. A line may have none.",
    ),
]  # fmt: skip


@dataclass(frozen=True)
class TestSetSource:
    """Where a test set comes from: the command's options."""

    data: DataName = None
    split: Split = None
    source: Annotated[
        Path | None,
        typer.Option(
            "--source", exists=True, dir_okay=False, metavar="FILE", show_default=False, help="Text to translate."
        ),
    ] = None
    references: Annotated[
        list[Path] | None,
        typer.Option(
            "--reference", exists=True, dir_okay=False, metavar="FILE", show_default=False,
            help="Reference translations; may be repeated.",
        ),
    ] = None  # fmt: skip
    data_root: DataRoot = None
    mt: MtFile = None
    image_dir: ImageFolder = None
    no_images: Annotated[bool, typer.Option("--no-images", help="Ignore the pictures.")] = False
    tokenised: Annotated[bool, typer.Option("--tokenised", help="Words in the files are separated by spaces.")] = False


SYSTEM_HELP = (
    "a bundle's folder, models:/NAME@ALIAS, models:/NAME/VERSION, runs:/ID/model, a file with outputs, or `unedited`: "
    "the machine translations of a set for post-editing"
)
MetricNames = Annotated[
    str | None,
    typer.Option(
        "--metrics", metavar="NAME,...|all", show_default=False,
        help="Metrics by name (docs/scores.md); else bleu; rouge for summaries, bleu and hter for post-edits.",
    ),
]  # fmt: skip
Tokenize = Annotated[
    Literal["13a", "none", "intl", "char", "zh"] | None,
    typer.Option(
        show_default=False,
        help="sacrebleu's tokeniser; else none for tokenised text, zh for Chinese, char for Japanese, Thai and others "
        "without spaces, 13a.",
    ),
]
Lowercase = Annotated[
    bool | None,
    typer.Option("--lowercase/--natural-case", show_default=False, help="Ignore case; else as the data set states."),
]
DASHBOARD = typer.Option(
    "--address", metavar="URL", envvar="RAY_API_SERVER_ADDRESS", show_default=False,
    help="The cluster's dashboard, http://HOST:8265.",
)  # fmt: skip
ClusterAddress = Annotated[str, DASHBOARD]
JobsAddress = Annotated[str, DASHBOARD, SHARED]
WaitForJob = Annotated[bool, typer.Option("--wait", help="Wait for the job to end, and exit with its exit code.")]


def number_range(option: str, text: str) -> tuple[int, int]:
    """The minimum and maximum of an option's `N` or `MIN:MAX`. Raises UsageError."""
    fewest, colon, most = text.partition(":")
    numbers = [fewest, most if colon else fewest]
    if not all(number.isascii() and number.isdigit() for number in numbers) or not 1 <= int(fewest) <= int(numbers[1]):
        raise UsageError(option, f"'{text}' is neither a number from 1 on nor a range", "write N, or MIN:MAX")
    return int(fewest), int(numbers[1])


def check_per_gpu(per_gpu: int, gpu: bool) -> None:
    """Raises UsageError for trials that share a GPU where there is none."""
    if per_gpu > 1 and not gpu:
        raise UsageError("--per-gpu", "it has no effect without --gpu", "give that too, or leave it out")
