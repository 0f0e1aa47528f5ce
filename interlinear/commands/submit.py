"""`interlinear submit`: the verb `train`, as a job of a Ray cluster."""

import os
import re
from typing import Annotated

import typer

from interlinear.commands.jobs import Address, Wait, report_submission
from interlinear.options import (
    Experiment,
    Gpu,
    NoTracking,
    ParentRun,
    RecipeName,
    Register,
    Resume,
    RunName,
    Settings,
    StorageUri,
    Tracking,
    TrainingData,
    Workers,
    number_range,
)
from seq2seq.errors import UsageError

LOCAL_STORE = re.compile(r"(sqlite|file):|[^:]*$")  # a store's address that means a file of this machine


def submit(
    recipe: RecipeName,
    data: TrainingData,
    address: Address,
    settings: Settings = None,
    workers: Workers = "1",
    gpu: Gpu = False,
    run: RunName = None,
    resume: Resume = False,
    wait: Wait = False,
    storage: StorageUri = None,
    register: Register = None,
    tracking: Tracking = None,
    experiment: Experiment = None,
    parent: ParentRun = None,
    no_tracking: NoTracking = False,
    data_root: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", show_default=False, help="Where corpora lie on the cluster, else its own."),
    ] = None,
    pack_data: Annotated[bool, typer.Option("--pack-data", help="Send the data set's text along: 10 MB at most.")] = (
        False
    ),
    folder: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where the job runs, on the cluster, and what it keeps lies.")
    ] = "~/interlinear",
    prepared: Annotated[
        str | None, typer.Option(metavar="FOLDER", show_default=False, help="Prepared data, on the cluster.")
    ] = None,
    runs: Annotated[str | None, typer.Option(metavar="FOLDER", show_default=False, help="Runs, on the cluster.")] = (
        None
    ),
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", show_default=False, help="Hand an environment variable on; repeatable."),
    ] = None,
    may_grow: Annotated[
        bool, typer.Option("--may-grow", help="Submit to a cluster that is too small now, and adds nodes itself.")
    ] = False,
) -> int:
    """Train on a Ray cluster, as a job of its own: `train`, run by the cluster.

    Only a recipe and a data set's description of one's own go along. The first line is where MLflow has its run.
    Without --wait it prints the job's name then, and ends.
    """
    from training.ray.job_package import build_package
    from training.ray.jobs import Cluster, build_job_spec, check_resources

    fewest, _ = number_range("--workers", workers)
    if no_tracking and (register or tracking or experiment or parent):
        raise UsageError("--no-tracking", "the other options of MLflow have no effect with it", "leave it or them out")
    if pack_data and data_root:
        raise UsageError("--pack-data", "the text goes along, so it lies in no folder of the cluster", "leave one out")
    package = build_package(recipe, data, settings or (), pack_data)
    options = [word for setting in settings or () for word in ("--set", setting)]
    given = {
        "--workers": workers, "--storage": storage, "--register": register, "--experiment": experiment,
        "--parent": parent, "--data-root": data_root, "--prepared": prepared, "--runs": runs,
    }  # fmt: skip
    options += [word for option, value in given.items() if value for word in (option, value)]
    options += [option for option, on in (("--gpu", gpu), ("--no-tracking", no_tracking)) if on]
    environment = job_environment(env or (), None if no_tracking else tracking)
    call = build_job_spec(package, run, options, resume, folder)
    cluster = Cluster(address)
    if not may_grow:
        check_resources(cluster.resources(), fewest, gpu, cluster.address)
    notes = [cluster.version_difference] if cluster.version_difference else []
    if package.files:
        notes.append(f"with it go {', '.join(package.files)}: {sum(map(len, package.files.values())):,} bytes.")
    return report_submission(cluster, cluster.submit(call, package.files, environment), wait, notes)


def job_environment(names: "list[str] | tuple[str, ...]", tracking: str | None) -> dict[str, str]:
    """The environment of the job, besides the cluster's own: the variables that are named, and MLflow's address.

    An address may hold a password, which a command line would show to everybody. Raises CallError.
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
