"""`interlinear submit`: runs `train` as a job on a Ray cluster."""

import os
import re
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.console import say
from interlinear.job_output import report_submission
from interlinear.options import (
    ClusterAddress,
    DataName,
    Experiment,
    Gpu,
    NoCudaGraphs,
    NoTracking,
    ParentRun,
    RecipeName,
    Register,
    Resume,
    RunName,
    Settings,
    StorageUri,
    Tracking,
    WaitForJob,
    Workers,
    check_cuda_graphs,
    number_range,
    option_groups,
)
from interlinear.parallel_text import OwnText
from seq2seq.errors import UsageError

if TYPE_CHECKING:
    from training.storage.storage import Storage

LOCAL_STORE = re.compile(r"(sqlite|file):|[^:]*$")  # an MLflow URI that refers to a local file


@option_groups
def submit(
    recipe: RecipeName,
    address: ClusterAddress,
    data: DataName = None,
    own_text: OwnText = OwnText(),
    settings: Settings = None,
    workers: Workers = "1",
    gpu: Gpu = False,
    no_cuda_graphs: NoCudaGraphs = False,
    run: RunName = None,
    resume: Resume = False,
    wait: WaitForJob = False,
    storage: StorageUri = None,
    register: Register = None,
    tracking: Tracking = None,
    experiment: Experiment = None,
    parent: ParentRun = None,
    no_tracking: NoTracking = False,
    data_root: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", show_default=False, help="Folder with the corpora on the cluster; else its default."
        ),
    ] = None,
    pack_data: Annotated[
        bool, typer.Option("--pack-data", help="Send the data set's text along; over 10 MB by --storage.")
    ] = (False),
    folder: Annotated[
        str, typer.Option(metavar="FOLDER", help="The job's working folder on the cluster.")
    ] = "~/interlinear",
    prepared: Annotated[
        str | None, typer.Option(metavar="FOLDER", show_default=False, help="Folder for prepared data on the cluster.")
    ] = None,
    runs: Annotated[
        str | None, typer.Option(metavar="FOLDER", show_default=False, help="Folder for runs on the cluster.")
    ] = (None),
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", show_default=False, help="Pass on an environment variable; may be repeated."),
    ] = None,
    may_grow: Annotated[
        bool,
        typer.Option("--may-grow", help="Submit even if the cluster is too small now, because it adds nodes itself."),
    ] = False,
) -> int:
    """Train on a Ray cluster: submits `train` as a job of the cluster.

    Only the recipe and the data set's description, if they are your own, are sent along; with --source or --pairs the
    text too, as with --pack-data. The first line is the address of its run in MLflow. Without --wait the job's name is
    printed then, and the command ends.
    """
    from training.ray.job_package import build_job_spec, build_package
    from training.ray.jobs import Cluster, check_resources

    min_workers, _ = number_range("--workers", workers)
    check_cuda_graphs(no_cuda_graphs, gpu)
    if no_tracking and (register or tracking or experiment or parent):
        raise UsageError("--no-tracking", "the other options of MLflow have no effect with it", "leave it or them out")
    pack_data = pack_data or bool(own_text.paths)
    if pack_data and data_root:
        raise UsageError(
            "--data-root", "the text goes along, so it lies in no folder of the cluster", "leave it or the text out"
        )
    data = own_text.data_set(data, recipe, settings or ())
    package = build_package(
        recipe, data, settings or (), pack_data, storage=text_storage(storage) if pack_data else None
    )
    options = [word for setting in settings or () for word in ("--set", setting)]
    valued = {
        "--workers": workers, "--storage": storage, "--register": register, "--experiment": experiment,
        "--parent": parent, "--data-root": data_root, "--prepared": prepared, "--runs": runs,
    }  # fmt: skip
    options += [word for option, value in valued.items() if value for word in (option, value)]
    flags = {"--gpu": gpu, "--no-cuda-graphs": no_cuda_graphs, "--no-tracking": no_tracking}
    options += [option for option, on in flags.items() if on]
    environment = job_environment(env or (), None if no_tracking else tracking)
    job_spec = build_job_spec(package, run, options, resume, folder)
    cluster = Cluster(address)
    if not may_grow:
        check_resources(cluster.resources(), min_workers, gpu, cluster.address)
    notes = [cluster.version_difference] if cluster.version_difference else []
    if package.files:
        notes.append(f"with it go {', '.join(package.files)}: {sum(map(len, package.files.values())):,} bytes.")
    return report_submission(cluster, cluster.submit(job_spec, package.files, environment), wait, notes)


def text_storage(uri: str | None) -> "Storage | None":
    """The storage for text that is too large to send along, if it is one that this machine and the cluster reach by the
    same URI. Raises UsageError."""
    if uri is None or "://" not in uri:
        return None
    from training.storage.storage import Storage

    return Storage(uri, say)


def job_environment(names: "list[str] | tuple[str, ...]", tracking: str | None) -> dict[str, str]:
    """Environment variables for the job in addition to the cluster's: the named ones and MLflow's address.

    The address is passed in the environment because it may contain a password, which a command line would expose.
    Raises UsageError.
    """
    if missing := [name for name in names if name not in os.environ]:
        raise UsageError(f"--env {missing[0]}", "there is no such environment variable here", "set it, or leave it out")
    environment = {name: os.environ[name] for name in names}
    uri = tracking or os.environ.get("MLFLOW_TRACKING_URI")
    if tracking and LOCAL_STORE.match(tracking):
        raise UsageError(
            f"--tracking {tracking}", "is a file, and the job would look for it on the cluster",
            "name a server that the cluster reaches, or leave it out: the job's folder then has a store",
        )  # fmt: skip
    return environment | ({"MLFLOW_TRACKING_URI": uri} if uri and not LOCAL_STORE.match(uri) else {})
