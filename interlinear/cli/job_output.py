"""Reports on submitted training jobs: follows their output and derives the exit code of a command."""

import asyncio
import re
import sys
from collections.abc import Sequence

from interlinear.cli.console import DONE, FAILED, INTERRUPTED, TERMINATED, say
from interlinear.cli.progress import LiveLine
from interlinear.errors import TrainingError
from interlinear.installation import shell_command
from training.ray.jobs import Cluster, Job

WEIGHTS_LINE = re.compile("[0-9a-f]{64}")  # a training's result among its messages
STEP_LINE = re.compile(r"epoch \d+  step ")  # progress line, replaced by the next one
RUN_LINE = re.compile(
    r"interlinear: \S+ is recorded at "
)  # the first line of a training: the address of its MLflow run
RUN_LINE_TIMEOUT = 60.0  # seconds to wait for the line with a job's run
NOT_FOUND = 127  # the shell's exit code for an unknown command


def report_submission(cluster: Cluster, job: Job, wait: bool, notes: Sequence[str] = ()) -> int:
    """Print a submitted job's MLflow run, its name and the commands for following and stopping it; with `wait`, follow
    it.

    Returns an exit code; if the job ends before its run is open, the job's own.
    """
    try:
        run_line = None if "--tracking" in job.spec.options else wait_for_run_line(cluster, job)
    except (KeyboardInterrupt, SystemExit) as interruption:
        return detach(cluster, job, interruption)
    if run_line:
        print(run_line, file=sys.stderr, flush=True)
    say(f"{job.id} is submitted to {cluster.address}.")
    for note in notes:
        say(note)
    if wait or (not run_line and cluster.by_id(job.id).ended):
        return follow_job(cluster, job, run_line)
    say(f"follow it: {shell_command('jobs', 'logs', job.name, '--follow', '--address', cluster.address)}")
    say(f"stop it: {shell_command('jobs', 'stop', job.name, '--address', cluster.address)}")
    print(job.id)
    return DONE


def wait_for_run_line(cluster: Cluster, job: Job) -> str | None:
    """The output line with the address of a job's run. None if the job ends without one or does not start in time."""
    status = LiveLine()

    async def find_run_line() -> str | None:
        async with asyncio.timeout(RUN_LINE_TIMEOUT):
            async for line in cluster.follow(job):
                if RUN_LINE.match(line):
                    return line
        return None

    if status.live:
        status.show(f"{job.id} is submitted; its run is being opened")
    try:
        return asyncio.run(find_run_line())
    except (TimeoutError, TrainingError):  # the job is submitted and can be followed later
        return None
    finally:
        status.clear()


def follow_job(cluster: Cluster, job: Job, shown_line: str | None = None) -> int:
    """Print a job's output to stderr until it ends, and its last line, the weights' SHA-256, to stdout. Returns its
    exit code.

    `shown_line` is a line that has been printed already. Ctrl-C ends the command, not the job.
    """
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
        final_job = cluster.by_id(job.id)
    except (KeyboardInterrupt, SystemExit) as interruption:
        status.clear()
        return detach(cluster, job, interruption)
    finally:
        status.clear()
    if weights and final_job.state == "SUCCEEDED":
        print(weights)
    return exit_code(final_job, cluster.address)


def detach(cluster: Cluster, job: Job, interruption: BaseException) -> int:
    """Print how to follow and stop a job that is no longer followed. Returns the exit code of the interruption."""
    say(f"{job.id} goes on. Stop it: {shell_command('jobs', 'stop', job.name, '--address', cluster.address)}")
    say(f"see it again: {shell_command('jobs', 'logs', job.name, '--follow', '--address', cluster.address)}")
    return INTERRUPTED if isinstance(interruption, KeyboardInterrupt) else TERMINATED


def exit_code(job: Job, address: str) -> int:
    """The exit code of a job's command, as a shell would return it; prints the reason for a failure."""
    resume_command = shell_command("jobs", "resume", job.name, "--address", address)
    if job.state == "STOPPED":
        say(f"{job.id} was stopped. Go on with it: {resume_command}")
        return TERMINATED
    if job.exit_code is None and job.state != "SUCCEEDED":
        last_line = next((line for line in reversed(job.message.splitlines()) if line.strip()), job.state.lower())
        say(f"{job.id} failed: {last_line.strip().rstrip('.')}. Go on with it: {resume_command}")
        return FAILED
    code = job.exit_code or DONE
    code = code if code >= 0 else 128 - code  # killed by a signal
    if code == NOT_FOUND:
        say(f"{job.id} failed: the cluster has no command `interlinear`. Install it where the head and its nodes run.")
    elif code > 128:
        say(f"{job.id} was killed (signal {code - 128}). Go on with it: {resume_command}")
    return code


def as_record(job: Job) -> dict[str, str | int | None]:
    """A job in the form of the JSON output."""
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
