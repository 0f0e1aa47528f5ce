"""Trainings as jobs of a Ray cluster, through its Jobs API: asked for, followed, stopped, gone on with.

A job is `interlinear train ... --address auto`, run by the cluster in a folder that outlives it, with the few files of
a package (package.py). What a job was asked for is kept with it by the cluster, so that anybody whom the cluster lets
in can go on with it. Nothing but text passes to the cluster: it has its own Python, and its own `interlinear`.
"""

import asyncio
import base64
import logging
import os
import shlex
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from registry.address import user
from seq2seq.errors import TrainingError, UsageError
from training.ray.job_package import DATA, JobPackage, unzip
from training.runs.job import check_run_name

os.environ.setdefault("RAY_AUTH_MODE", "token")  # Ray reads it when it is imported

import aiohttp
import ray
import requests
from packaging.version import InvalidVersion, Version
from ray.exceptions import AuthenticationError
from ray.job_submission import JobDetails, JobStatus, JobSubmissionClient
from ray.util.state import list_nodes
from ray.util.state.exception import RayStateApiException

# What Ray's client tells of its sockets and archives is not news.
for name in (
    "ray.dashboard.modules.job.sdk",
    "ray.dashboard.modules.dashboard_sdk",
    "ray._private.runtime_env.packaging",
):
    logging.getLogger(name).setLevel(logging.ERROR)

MIN_RAY, MIN_PYTHON = Version("2.54"), Version("3.11")  # what `interlinear` needs of a cluster
REQUEST_TIMEOUT = 30.0  # seconds within which a cluster's head answers a question
CONNECT_TIMEOUT = 5.0  # seconds until a cluster counts as unreachable
HEAD_AWAY_SECONDS = 60.0  # seconds that a head may be away while a job is followed
RETRY_SECONDS = 2.0  # between two looks at it
FOLDER = "~/interlinear"  # where jobs run, on the cluster: it has to outlive them
STOP_SECONDS = 120  # that a job has to save, when it is stopped
MAX_KEPT_BYTES = 48 << 10  # bytes of a package that are kept with a job. Ray hands them on in an environment variable.
WORKING_DIR = '"$OLDPWD"/'  # the folder with what was packed, in which the shell begins

METADATA_KEY = "interlinear"  # of what is kept with a job, among its metadata
START_HINT = "start a head with `ray start --head`, and say http://HOST:8265"


class JobSpec(BaseModel):
    """What a job is asked for, as it is kept with it by the cluster."""

    run: str
    recipe: str
    data: str
    options: tuple[str, ...] = ()  # the others of `interlinear train`
    resume: bool = False
    folder: str = FOLDER
    user: str | None = None
    package: str | None = None  # its files, zipped, in base64; None for one that is too large to be kept
    packed: tuple[str, ...] = ()  # their paths
    texts: bool = False  # whether the data set's text is among them

    def entrypoint(self) -> str:
        """The command line that the cluster's shell runs; what was packed lies in the folder that it starts in."""
        words = [
            "train",
            self.shell_path(self.recipe),
            "--data",
            self.shell_path(self.data),
            "--run",
            shlex.quote(self.run),
        ]
        words += ["--data-root", WORKING_DIR + DATA] if self.texts else []
        words += map(shlex.quote, self.options)
        words += ["--resume"] if self.resume else []
        folder = shlex.quote(self.folder)
        if self.folder.startswith("~/"):
            folder = f"~/{shlex.quote(self.folder[2:])}"  # the shell knows whose home it is
        return f"mkdir -p {folder} && cd {folder} && exec interlinear {' '.join(words)} --address auto"

    def shell_path(self, name: str) -> str:
        """A recipe or data set for the shell: a name, or where it was packed, seen from where the command runs."""
        return (WORKING_DIR if name in self.packed else "") + shlex.quote(name)


@dataclass(frozen=True)
class Resources:
    """CPUs and GPUs: what a cluster has, or a training needs."""

    cpus: int
    gpus: int

    def __str__(self) -> str:
        return f"{self.cpus} CPUs and {self.gpus} GPUs"


@dataclass(frozen=True)
class Job:
    """One submission as the cluster knows it. Several of one name are attempts at the same run."""

    id: str  # the cluster's
    spec: JobSpec
    state: str  # PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED
    ended: bool
    message: str
    exit_code: int | None
    start_time: datetime | None
    end_time: datetime | None

    @property
    def name(self) -> str:
        return self.spec.run


class _Client(JobSubmissionClient):
    """Ray's client, which waits for ever for a head that does not answer."""

    def _do_request(self, method: str, endpoint: str, **options: Any) -> requests.Response:
        answer: requests.Response = super()._do_request(method, endpoint, timeout=REQUEST_TIMEOUT, **options)
        return answer


class Cluster:
    """A Ray cluster by the address of its head's dashboard, http://HOST:8265.

    Its token is where Ray reads it: RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH, `~/.ray/auth_token`. Every method raises
    TrainingError, within seconds, for a cluster that is not there or does not let us in.
    """

    def __init__(self, address: str) -> None:
        """Raises CallError for an address that is none, and TrainingError, also for versions that are too old."""
        self.address = check_address(address)
        # Ray would rather follow RAY_ADDRESS than the address that it is given.
        os.environ["RAY_API_SERVER_ADDRESS"] = self.address
        self.check_dashboard()
        with self.errors():
            self.client = _Client(self.address)
            self.python = str(self.metadata().get("pythonVersion") or "")
        for name, there, least in (("Ray", self.ray, MIN_RAY), ("Python", self.python, MIN_PYTHON)):
            with suppress(InvalidVersion):
                if Version(there) < least:
                    raise TrainingError(
                        self.address, f"the cluster has {name} {there}, and {least} at least is needed", "update it"
                    )

    def check_dashboard(self) -> None:
        """See that it is a Ray head that answers. Whether it lets us in is seen later."""
        other = TrainingError(self.address, "what answers there is not a Ray cluster's dashboard", START_HINT)
        try:
            answer = requests.get(
                f"{self.address}/api/version", timeout=(CONNECT_TIMEOUT, REQUEST_TIMEOUT), allow_redirects=False
            )
            if answer.status_code in (401, 403):
                self.ray = ""
                return
            self.ray = str(answer.json()["ray_version"])
        except requests.exceptions.JSONDecodeError:
            raise other from None
        except requests.RequestException as error:
            raise TrainingError(
                self.address, f"no Ray cluster answers ({connection_problem(error)})", START_HINT
            ) from None
        except (KeyError, TypeError):
            raise other from None

    @property
    def version_difference(self) -> str:
        """A sentence where the cluster has another Ray or Python than this machine; else nothing."""
        from platform import python_version

        ours = {"Ray": ray.__version__, "Python": python_version()}
        theirs = {"Ray": self.ray, "Python": self.python}
        others = [f"{name} {theirs[name]} (here {ours[name]})" for name in ours if theirs[name] not in ("", ours[name])]
        return f"the cluster has {' and '.join(others)}; the job runs with what is there." if others else ""

    def metadata(self) -> Mapping[str, Any]:
        """The versions that the cluster was started with; nothing where its head does not say."""
        version = self.client._do_request("GET", "/api/version")
        if version.ok:
            self.ray = str(version.json().get("ray_version") or "")
        answer = self.client._do_request("GET", "/api/v0/cluster_metadata")
        found = answer.json().get("data") if answer.ok else None
        return found if isinstance(found, dict) else {}

    @contextmanager
    def errors(self) -> Iterator[None]:
        """What Ray's client raises inside becomes a TrainingError that names the cluster."""
        try:
            yield
        except AuthenticationError as error:
            problem = "the cluster wants a token, and there is none here"
            if "invalid" in str(error).lower():
                problem = "the cluster does not take this token"
            raise TrainingError(
                self.address,
                problem,
                "give the cluster's in RAY_AUTH_TOKEN or ~/.ray/auth_token; RAY_AUTH_MODE=disabled where it has none",
            ) from None
        except (requests.RequestException, ConnectionError, aiohttp.ClientError, RayStateApiException) as error:
            raise TrainingError(
                self.address,
                f"the Ray cluster does not answer ({connection_problem(error)})",
                "see whether its head is well",
            ) from None
        except RuntimeError as error:
            raise TrainingError(
                self.address, f"the Ray cluster refused: {last_message(error)}", "see its dashboard"
            ) from error

    def resources(self) -> Resources:
        """What the nodes that are alive have, free or not."""
        with self.errors():
            nodes = list_nodes(self.address, filters=[("state", "=", "ALIVE")], timeout=int(REQUEST_TIMEOUT))
        return Resources(*(int(sum(node.resources_total.get(kind, 0) for node in nodes)) for kind in ("CPU", "GPU")))

    def jobs(self) -> list[Job]:
        """Interlinear's, oldest first."""
        with self.errors():
            found = [job for details in self.client.list_jobs() if (job := parse_job(details))]
        return sorted(found, key=lambda job: job.start_time or datetime.now(UTC))

    def newest(self, name: str) -> Job:
        """The last attempt at a run; or the one with that id. Raises TrainingError where there is none."""
        jobs = self.jobs()
        found = [job for job in jobs if job.id == name] or [job for job in jobs if job.name == name]
        if not found:
            names = ", ".join(dict.fromkeys(job.name for job in reversed(jobs)))
            raise TrainingError(
                name, f"{self.address} has no such job", f"there are {names}" if names else "it has none yet"
            )
        return found[-1]

    def submit(self, spec: JobSpec, files: Mapping[str, bytes], environment: Mapping[str, str]) -> Job:
        """Ask for a job; `environment` is handed to it. Raises TrainingError: one of that name has not ended."""
        known = self.jobs()
        for job in known:
            if job.name == spec.run and not job.ended:
                raise TrainingError(
                    spec.run,
                    f"a job of that name is {job.state.lower()} on {self.address}",
                    f"give another --run, or stop it: interlinear jobs stop {spec.run} --address {self.address}",
                )
        attempt = 1 + sum(job.name == spec.run for job in known)
        taken = {job.id for job in known}
        while (name := spec.run if attempt == 1 else f"{spec.run}.{attempt}") in taken:
            attempt += 1
        settings: dict[str, Any] = {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS), **environment}}
        with tempfile.TemporaryDirectory(prefix="interlinear-job-") as folder:
            if files:
                JobPackage(files, spec.recipe, spec.data, spec.run).write(Path(folder))
                settings["working_dir"] = folder
            try:
                with self.errors():
                    self.client.submit_job(
                        entrypoint=spec.entrypoint(),
                        submission_id=name,
                        runtime_env=settings,
                        metadata={"job_name": spec.run, METADATA_KEY: spec.model_dump_json(exclude_none=True)},
                    )
            except TrainingError as error:
                if "already exists" in str(error.__cause__):  # Ray knows of it before its list does
                    raise TrainingError(
                        spec.run, "a job of that name was submitted at this moment", "give another --run"
                    ) from None
                raise
        return self.newest(name)

    def resume(self, name: str) -> Job:
        """Ask again for what a job was, from its newest checkpoint. Raises TrainingError where it has not ended."""
        before = self.newest(name)
        spec = before.spec.model_copy(update={"resume": True})
        if spec.packed and spec.package is None:
            raise TrainingError(
                name,
                f"the {len(spec.packed)} files that went along with it are not kept, being more than {MAX_KEPT_BYTES:,} bytes",
                "say `interlinear submit` as you did, with --resume",
            )
        files = unzip(base64.b64decode(spec.package)) if spec.package else {}
        with self.errors():
            environment = (self.client.get_job_info(before.id).runtime_env or {}).get("env_vars", {})
        return self.submit(spec, files, {key: str(value) for key, value in environment.items()})

    def stop(self, name: str) -> Job:
        """Ask a job to save and to end. Raises TrainingError where it has ended."""
        job = self.newest(name)
        if job.ended:
            raise TrainingError(name, f"it has ended ({job.state.lower()})", "there is nothing to stop")
        with self.errors():
            self.client.stop_job(job.id)
        return job

    def logs(self, job: Job) -> str:
        """What a job has printed so far."""
        with self.errors():
            return str(self.client.get_job_logs(job.id))

    async def follow(self, job: Job) -> AsyncIterator[str]:
        """A job's lines as they are printed, until it has ended. A head that is away for a moment is waited for.

        Raises TrainingError where it stays away.
        """
        shown, seen, rest = 0, time.monotonic(), ""
        while True:
            passed = 0
            try:
                with self.errors():
                    async for text in self.client.tail_job_logs(job.id):
                        seen = time.monotonic()
                        passed += len(text)
                        new = text[max(0, len(text) - (passed - shown)) :] if passed > shown else ""
                        shown = max(shown, passed)
                        *lines, rest = (rest + new).split("\n")
                        for line in lines:
                            yield line
                    if JobStatus(self.client.get_job_status(job.id)).is_terminal():
                        break
            except TrainingError:
                if time.monotonic() - seen > HEAD_AWAY_SECONDS:
                    raise
            await asyncio.sleep(RETRY_SECONDS)
        if rest:
            yield rest


def check_address(address: str) -> str:
    """The address without a slash at its end. Raises CallError."""
    try:
        parts = urlsplit(address)
        good = parts.port != 0 and parts.scheme in ("http", "https") and parts.hostname and not parts.query
    except ValueError:
        good = False
    if not good:
        raise UsageError(address, "is not the address of a Ray cluster's dashboard", "say http://HOST:8265")
    return address.rstrip("/")


def connection_problem(error: BaseException) -> str:
    """Why a connection failed, in a few words."""
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted"
    text = str(error)
    for words in ("Connection refused", "Name or service not known", "No route to host", "Network is unreachable"):
        if words in text:
            return words.lower()
    return type(error).__name__


def last_message(error: BaseException) -> str:
    """The last line that says something; Ray's answers are tracebacks."""
    lines = [line.strip(" .") for line in str(error).splitlines()]
    return next((line for line in reversed(lines) if line), type(error).__name__)


def parse_job(details: JobDetails) -> Job | None:
    """A job of Interlinear's; None for one of others."""
    try:
        spec = JobSpec.model_validate_json((details.metadata or {})[METADATA_KEY])
    except (KeyError, ValidationError):
        return None
    if details.submission_id is None:
        return None
    start_time, end_time = (
        datetime.fromtimestamp(stamp / 1000, UTC) if stamp else None for stamp in (details.start_time, details.end_time)
    )
    status = JobStatus(details.status)
    return Job(
        id=details.submission_id,
        spec=spec,
        state=status.value,
        ended=status.is_terminal(),
        message=details.message or "",
        exit_code=details.driver_exit_code,
        start_time=start_time,
        end_time=end_time,
    )


def build_job_spec(package: JobPackage, run: str | None, options: Sequence[str], resume: bool, folder: str) -> JobSpec:
    """What is asked for of a package. Raises CallError for a name that cannot be a run's."""
    check_run_name(run or package.name)
    kept = base64.b64encode(package.to_zip()).decode() if package.files else None
    return JobSpec(
        run=run or package.name,
        recipe=package.recipe,
        data=package.data,
        options=tuple(options),
        resume=resume,
        folder=folder,
        user=user(),
        package=kept if kept and len(kept) <= MAX_KEPT_BYTES else None,
        packed=tuple(package.files),
        texts=package.texts,
    )


def check_resources(there: Resources, workers: int, gpu: bool, where: str) -> None:
    """Raises TrainingError where a cluster is too small for so many workers: Ray would wait for ever."""
    needed = Resources(workers, workers if gpu else 0)
    if there.cpus < needed.cpus or there.gpus < needed.gpus:
        raise TrainingError(
            where,
            f"{workers} workers need {needed}, and the cluster has {there}",
            "ask for fewer, add nodes, or say --may-grow where the cluster adds them itself",
        )
