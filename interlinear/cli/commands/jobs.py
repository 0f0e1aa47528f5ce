"""Training jobs on a Ray cluster: the commands `jobs list`, `jobs logs`, `jobs stop` and `jobs resume`."""

import json
import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from interlinear.cli.console import DONE, say
from interlinear.cli.help import App
from interlinear.cli.options import DASHBOARD, JobsAddress, Json, WaitForJob
from interlinear.installation import shell_command

app = App(no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="NAME", show_default=False, help="A run's name, for its last job; or a job's name.")
]

COLUMNS = ("NAME", "JOB", "STATE", "BEGAN", "TOOK", "RECIPE", "DATA", "BY")


@app.callback()
def cluster(address: Annotated[str | None, DASHBOARD] = None) -> None:
    """List, follow, stop and resume submitted trainings."""


@app.command("list")
def list_jobs(as_json: Json = False, *, address: JobsAddress) -> None:
    """List the cluster's jobs, running and ended."""
    from interlinear.cli.job_output import as_record
    from interlinear.cli.progress import format_duration
    from training.ray.jobs import Cluster

    jobs, now = Cluster(address).jobs(), datetime.now(UTC)
    if as_json:
        print(json.dumps([as_record(job) for job in jobs], indent=2))
        return
    rows = [
        (
            job.name,
            job.id,
            job.state.lower() + (f" ({job.exit_code})" if job.exit_code else ""),
            f"{job.start_time.astimezone():%Y-%m-%d %H:%M}" if job.start_time else "-",
            format_duration(((job.end_time or now) - job.start_time).total_seconds()) if job.start_time else "-",
            job.spec.recipe,
            job.spec.data,
            job.spec.user or "-",
        )
        for job in jobs
    ]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    for row in (COLUMNS, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@app.command()
def logs(
    name: Name,
    address: JobsAddress,
    follow: Annotated[bool, typer.Option("--follow", help="Print new output until the job ends.")] = False,
) -> int:
    """Print a job's output; with --follow also new output until the job ends, and exit with its exit code."""
    from interlinear.cli.job_output import follow_job
    from training.ray.jobs import Cluster

    cluster = Cluster(address)
    job = cluster.newest(name)
    if follow:
        return follow_job(cluster, job)
    sys.stdout.write(cluster.logs(job))
    return DONE


@app.command()
def stop(name: Name, address: JobsAddress) -> None:
    """Ask a job to save its state and to end. `jobs resume` continues it."""
    from training.ray.jobs import STOP_SECONDS, Cluster

    cluster = Cluster(address)
    job = cluster.stop(name)
    say(f"{job.id} is asked to save and to end; after {STOP_SECONDS} s it is killed.")
    say(f"go on with it: {shell_command('jobs', 'resume', job.name, '--address', cluster.address)}")


@app.command()
def resume(name: Name, address: JobsAddress, wait: WaitForJob = False) -> int:
    """Submit an ended job again with the same options; it continues from its newest checkpoint."""
    from interlinear.cli.job_output import report_submission
    from training.ray.jobs import Cluster

    cluster = Cluster(address)
    return report_submission(cluster, cluster.resume(name), wait)
