"""Trainings that were handed to a Ray cluster: the verbs `jobs list`, `jobs logs`, `jobs stop` and `jobs resume`."""

import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.console import DONE, FAILED, INTERRUPTED, TERMINATED, say
from interlinear.options import Json
from interlinear.progress import LiveLine, format_duration

if TYPE_CHECKING:
    from training.ray.jobs import Cluster, Job

app = typer.Typer(help="See, follow, stop and resume the trainings that `submit` handed over.", no_args_is_help=True)

Address = Annotated[
    str,
    typer.Option(
        metavar="URL", envvar="RAY_API_SERVER_ADDRESS", show_default=False,
        help="The cluster's dashboard, http://HOST:8265.",
    ),
]  # fmt: skip
Name = Annotated[
    str, typer.Argument(metavar="NAME", show_default=False, help="A run's name: its last job; or a job's own.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Stay until it has ended, and end with its exit code.")]

COLUMNS = ("NAME", "JOB", "STATE", "BEGAN", "TOOK", "RECIPE", "DATA", "BY")
WEIGHTS_LINE = re.compile("[0-9a-f]{64}")  # the last line of a training
STEP_LINE = re.compile(r"epoch \d+  step ")  # a line that the next one of its kind takes the place of
RUN_LINE = re.compile(r"interlinear: \S+ is recorded at ")  # the first line of a training: where MLflow has its run
RUN_LINE_TIMEOUT = 60.0  # seconds that a job's run is waited for
NOT_FOUND = 127  # the shell's exit code for a command that is not there


@app.command("list")
def list_jobs(address: Address, as_json: Json = False) -> None:
    """List the jobs that the cluster knows of: those that run, and those that have ended."""
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


def as_record(job: "Job") -> dict[str, str | int | None]:
    """What a program may know of a job."""
    return {
        "name": job.name,
        "job": job.id,
        "state": job.state,
        "exit_code": job.exit_code,
        "began": job.start_time.isoformat() if job.start_time else None,
        "ended": job.end_time.isoformat() if job.end_time else None,
        "recipe": job.spec.recipe,
        "data": job.spec.data,
        "user": job.spec.user,
        "command": job.spec.entrypoint(),
    }


@app.command()
def logs(
    name: Name,
    address: Address,
    follow: Annotated[bool, typer.Option("--follow", help="Stay, and print what comes, until it has ended.")] = False,
) -> int:
    """Print what a job has said; with --follow also what it says, ending with its exit code."""
    from training.ray.jobs import Cluster

    cluster = Cluster(address)
    job = cluster.newest(name)
    if follow:
        return follow_job(cluster, job)
    sys.stdout.write(cluster.logs(job))
    return DONE


@app.command()
def stop(name: Name, address: Address) -> None:
    """Ask a job to save its state and to end. `jobs resume` goes on with it."""
    from training.ray.jobs import STOP_SECONDS, Cluster

    cluster = Cluster(address)
    job = cluster.stop(name)
    say(f"{job.id} is asked to save and to end; after {STOP_SECONDS} s it is killed.")
    say(f"go on with it: interlinear jobs resume {job.name} --address {cluster.address}")


@app.command()
def resume(name: Name, address: Address, wait: Wait = False) -> int:
    """Submit a job that has ended once more, with what it was given: it goes on from its newest checkpoint."""
    from training.ray.jobs import Cluster

    cluster = Cluster(address)
    return report_submission(cluster, cluster.resume(name), wait)


def report_submission(cluster: "Cluster", job: "Job", wait: bool, notes: Sequence[str] = ()) -> int:
    """Say where MLflow has a submitted job's run, what it is called and what one may do now; with `wait`, stay with it.

    Returns an exit code: that of a job which ends before its run is open, too.
    """
    try:
        run_line = None if "--no-tracking" in job.spec.options else wait_for_run_line(cluster, job)
    except (KeyboardInterrupt, SystemExit) as interruption:
        return detach(cluster, job, interruption)
    if run_line:
        print(run_line, file=sys.stderr, flush=True)
    say(f"{job.id} is submitted to {cluster.address}.")
    for note in notes:
        say(note)
    if wait or (not run_line and cluster.newest(job.id).ended):
        return follow_job(cluster, job, run_line)
    say(f"follow it: interlinear jobs logs {job.name} --follow --address {cluster.address}")
    say(f"stop it: interlinear jobs stop {job.name} --address {cluster.address}")
    print(job.id)
    return DONE


def wait_for_run_line(cluster: "Cluster", job: "Job") -> str | None:
    """The line in which a job says where its run is; None where it has ended without one, or has not begun in time."""
    import asyncio

    from seq2seq.errors import TrainingError

    status = LiveLine()

    async def first() -> str | None:
        async with asyncio.timeout(RUN_LINE_TIMEOUT):
            async for line in cluster.follow(job):
                if RUN_LINE.match(line):
                    return line
        return None

    if status.live:
        status.show(f"{job.id} is submitted; its run is being opened")
    try:
        return asyncio.run(first())
    except (TimeoutError, TrainingError):  # the job is there, and may be followed later
        return None
    finally:
        status.clear()


def follow_job(cluster: "Cluster", job: "Job", shown_line: str | None = None) -> int:
    """A job's lines on stderr until it has ended, its last one, the weights' SHA-256, on stdout. Returns its exit code.

    `shown_line` is a line that has been shown. Ctrl-C leaves the job: it goes on.
    """
    import asyncio

    status = LiveLine()

    async def lines() -> str:
        weights = ""
        async for line in cluster.follow(job):
            if WEIGHTS_LINE.fullmatch(line):
                weights = line
            elif line == shown_line:
                continue
            elif status.live and STEP_LINE.match(line):
                status.show(line)
            else:
                status.line(line)
        return weights

    try:
        weights = asyncio.run(lines())
        ended = cluster.newest(job.id)
    except (KeyboardInterrupt, SystemExit) as interruption:
        status.clear()
        return detach(cluster, job, interruption)
    finally:
        status.clear()
    if weights and ended.state == "SUCCEEDED":
        print(weights)
    return exit_code(ended, cluster.address)


def detach(cluster: "Cluster", job: "Job", interruption: BaseException) -> int:
    """Say how to come back to a job that is not waited for any longer. Returns the exit code of that."""
    say(f"{job.id} goes on. Stop it: interlinear jobs stop {job.name} --address {cluster.address}")
    say(f"see it again: interlinear jobs logs {job.name} --follow --address {cluster.address}")
    return INTERRUPTED if isinstance(interruption, KeyboardInterrupt) else TERMINATED


def exit_code(job: "Job", address: str) -> int:
    """That of its command, as a shell would give it; what went wrong is said."""
    again = f"interlinear jobs resume {job.name} --address {address}"
    if job.state == "STOPPED":
        say(f"{job.id} was stopped. Go on with it: {again}")
        return TERMINATED
    if job.exit_code is None and job.state != "SUCCEEDED":
        last = next((line for line in reversed(job.message.splitlines()) if line.strip()), job.state.lower())
        say(f"{job.id} failed: {last.strip().rstrip('.')}. Go on with it: {again}")
        return FAILED
    code = job.exit_code or DONE
    code = code if code >= 0 else 128 - code  # killed by a signal
    if code == NOT_FOUND:
        say(f"{job.id} failed: the cluster has no command `interlinear`. Install it where the head and its nodes run.")
    elif code > 128:
        say(f"{job.id} was killed (signal {code - 128}). Go on with it: {again}")
    return code
