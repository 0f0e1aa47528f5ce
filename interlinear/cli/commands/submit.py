"""`interlinear submit`: runs `train` as a job on a Ray cluster."""

import os
import re
from typing import Annotated

import typer

from interlinear.cli.console import say
from interlinear.cli.options import ClusterAddress, WaitForJob, Workers, number_range, option_groups
from interlinear.cli.training_options import TrainingOptions
from interlinear.errors import UsageError

LOCAL_STORE = re.compile(r"(sqlite|file):|[^:]*$")  # an MLflow URI that refers to a local file


@option_groups
def submit(
    address: ClusterAddress,
    options: TrainingOptions,
    workers: Workers = "1",
    wait: WaitForJob = False,
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
    from interlinear.cli.job_output import report_submission
    from training.ray.job_package import build_job_spec, build_package
    from training.ray.jobs import Cluster, check_resources
    from training.storage.storage import Storage

    min_workers, _ = number_range("--workers", workers)
    options.check()
    log = options.log
    pack_data = pack_data or bool(options.own_text.paths)
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
        "--workers": workers, "--storage": options.storage, "--register": log.register,
        "--experiment": log.experiment, "--parent": log.parent, "--data-root": data_root, "--prepared": prepared,
        "--runs": runs,
    }  # fmt: skip
    words += [word for option, value in valued.items() if value for word in (option, value)]
    flags = {"--gpu": options.gpu, "--no-cuda-graphs": options.no_cuda_graphs, "--no-tracking": log.no_tracking}
    words += [option for option, on in flags.items() if on]
    environment = job_environment(env or (), None if log.no_tracking else log.tracking)
    job_spec = build_job_spec(package, options.run, words, options.resume, folder)
    cluster = Cluster(address)
    if not may_grow:
        check_resources(cluster.resources(), min_workers, options.gpu, cluster.address)
    notes = [cluster.version_difference] if cluster.version_difference else []
    if package.files:
        notes.append(f"with it go {', '.join(package.files)}: {sum(map(len, package.files.values())):,} bytes.")
    return report_submission(cluster, cluster.submit(job_spec, package.files, environment), wait, notes)


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
