"""`interlinear submit`: runs `train` as a job on a Ray cluster."""

import os
import re
from typing import Annotated

import typer
from typer.main import get_command

from interlinear.cli.console import say
from interlinear.cli.help import App
from interlinear.cli.options import (
    PREPARED,
    RUNS,
    ClusterAddress,
    DataRoot,
    PreparedFolder,
    RunsFolder,
    Tracking,
    WaitForJob,
    number_range,
    shipped_names,
)
from interlinear.cli.training_options import NO_TRACKING, TrainingOptions
from interlinear.errors import UsageError

EXPERIMENT = "MLFLOW_EXPERIMENT_NAME"
LOCAL_STORE = re.compile(r"(sqlite|file):|[^:]*$")  # an MLflow URI that refers to a local file


def submit(
    context: typer.Context,
    training: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE [TRAIN-OPTION]...",
            show_default=False,
            autocompletion=shipped_names("recipes"),
            help="A recipe, and what `interlinear train` takes: its data, --set, --workers, --gpu, --run, ...",
        ),
    ],
    address: ClusterAddress,
    wait: WaitForJob = False,
    pack_data: Annotated[
        bool, typer.Option("--pack-data", help="Send the data set's text along; over 10 MB by --storage.")
    ] = False,
    folder: Annotated[
        str, typer.Option(metavar="FOLDER", help="The job's working folder on the cluster.")
    ] = "~/interlinear",
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", show_default=False, help="Pass on an environment variable; may be repeated."),
    ] = None,
    may_grow: Annotated[
        bool,
        typer.Option("--may-grow", help="Submit even if the cluster is too small now, because it adds nodes itself."),
    ] = False,
    tracking: Tracking = None,
    data_root: DataRoot = None,
    prepared: PreparedFolder = PREPARED,
    runs: RunsFolder = RUNS,
) -> int:
    """Train on a Ray cluster: submits `train` as a job of the cluster. --data-root, --prepared and --runs are folders
    there.

    Only the recipe and the data set's description, if they are your own, are sent along; with --source the
    text too, as with --pack-data. The first line is the address of its run in MLflow. Without --wait the job's name is
    printed then, and the command ends.
    """
    from interlinear.cli.job_output import report_submission
    from training.ray.job_package import build_job_spec, build_package
    from training.ray.jobs import Cluster, check_resources
    from training.storage.storage import Storage

    options = training_options(context, training)
    workers, log = options.workers or "1", options.log
    min_workers, _ = number_range("--workers", workers)
    log.check()
    pack_data = pack_data or bool(options.own_text.source)
    if pack_data and data_root:
        raise UsageError(
            "--data-root", "the text goes along, so it lies in no folder of the cluster", "leave it or the text out"
        )
    data, settings = options.data_set(), options.settings or ()
    storage = None
    if pack_data and options.storage and "://" in options.storage:  # this machine and the cluster reach it by one URI
        storage = Storage(options.storage, say)
    package = build_package(options.recipe, data, settings, pack_data, storage=storage)
    words = [word for setting in settings for word in ("--set", setting)]
    valued = {
        "--workers": workers, "--storage": options.storage, "--register": log.register, "--data-root": data_root,
        "--prepared": None if prepared == PREPARED else prepared, "--runs": None if runs == RUNS else runs,
        "--tracking": None if log.logged else NO_TRACKING,
    }  # fmt: skip
    words += [word for option, value in valued.items() if value for word in (option, str(value))]
    words += ["--gpu"] if options.gpu else []
    environment = job_environment(env or (), log.store)
    job_spec = build_job_spec(package, options.run, words, options.resume, folder)
    cluster = Cluster(address)
    if not may_grow:
        check_resources(cluster.resources(), min_workers, options.gpu, cluster.address)
    notes = [cluster.version_difference] if cluster.version_difference else []
    if package.files:
        notes.append(f"with it go {', '.join(package.files)}: {sum(map(len, package.files.values())):,} bytes.")
    return report_submission(cluster, cluster.submit(job_spec, package.files, environment), wait, notes)


def training_options(context: typer.Context, words: list[str]) -> TrainingOptions:
    """The options of `train` among the words of the command. Raises the errors of the command line."""
    parser = App()

    @parser.command()
    def collect(options: TrainingOptions) -> TrainingOptions:
        return options

    command = get_command(parser)
    # Options of a group that `submit` takes itself are not refused.
    command.callback.shared = context.command.shared  # type: ignore[union-attr, attr-defined]
    with command.make_context(context.info_name, words, parent=context.parent) as parsed:
        options: TrainingOptions = command.invoke(parsed)
        return options


def job_environment(names: "list[str] | tuple[str, ...]", tracking: str | None) -> dict[str, str]:
    """Environment variables for the job in addition to the cluster's: the named ones and MLflow's address.

    The address is passed in the environment because it may contain a password, which a command line would expose.
    Raises UsageError.
    """
    if missing := [name for name in names if name not in os.environ]:
        raise UsageError(f"--env {missing[0]}", "there is no such environment variable here", "set it, or leave it out")
    environment = {name: os.environ[name] for name in (*names, EXPERIMENT) if name in os.environ}
    uri = tracking or os.environ.get("MLFLOW_TRACKING_URI")
    if tracking and LOCAL_STORE.match(tracking):
        raise UsageError(
            f"--tracking {tracking}", "is a file, and the job would look for it on the cluster",
            "name a server that the cluster reaches, or leave it out: the job's folder then has a store",
        )  # fmt: skip
    return environment | ({"MLFLOW_TRACKING_URI": uri} if uri and not LOCAL_STORE.match(uri) else {})
