"""Submits trainings as jobs to a Ray cluster through its Jobs API, and lists, follows, stops and resumes them.

A job is `interlinear train ... --address auto`, run by the cluster in a permanent folder, with the few files of a
package (job_package.py). The cluster stores the job's specification, so anybody with access to the cluster can resume
it. Only text is sent to the cluster: it has its own Python, and its own `interlinear`.
"""

import asyncio
import base64
import logging
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import ray
import requests
from packaging.version import InvalidVersion, Version
from pydantic import ValidationError
from ray.exceptions import AuthenticationError
from ray.job_submission import JobDetails, JobStatus, JobSubmissionClient
from ray.util.state import list_nodes
from ray.util.state.exception import RayStateApiException

from interlinear.errors import TrainingError, UsageError
from interlinear.installation import shell_command
from training.ray.job_package import MAX_KEPT_BYTES, JobPackage, JobSpec, unzip

# Messages of Ray's client about its sockets and archives are noise.
for name in (
    "ray.dashboard.modules.job.sdk",
    "ray.dashboard.modules.dashboard_sdk",
    "ray._private.runtime_env.packaging",
):
    logging.getLogger(name).setLevel(logging.ERROR)

MIN_RAY, MIN_PYTHON = Version("2.54"), Version("3.11")  # the oldest versions on a cluster that `interlinear` supports
REQUEST_TIMEOUT = 30.0  # seconds within which a cluster's head answers a request
CONNECT_TIMEOUT = 5.0  # seconds until a cluster counts as unreachable
HEAD_AWAY_SECONDS = 60.0  # seconds that a head may be away while a job is followed
RETRY_SECONDS = 2.0  # seconds between two attempts to reach it
MAX_NODES = 10_000  # the most that Ray lists; its default is 100
STOP_SECONDS = 120  # seconds that a stopped job has for saving

METADATA_KEY = "interlinear"  # of the specification, in a job's metadata
START_HINT = "start a head with `ray start --head`, and use http://HOST:8265"


@dataclass(frozen=True)
class Resources:
    """CPUs and GPUs that a cluster has or a training needs."""

    cpus: int
    gpus: int

    def __str__(self) -> str:
        return f"{self.cpus} CPUs and {self.gpus} GPUs"


@dataclass(frozen=True)
class Job:
    """One submission as the cluster knows it. Submissions of one name are attempts at the same run."""

    id: str  # the submission's id on the cluster
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
    """Ray's client with a timeout: the original waits forever for a head that does not answer."""

    def _do_request(self, method: str, endpoint: str, **options: Any) -> requests.Response:
        response: requests.Response = super()._do_request(method, endpoint, timeout=REQUEST_TIMEOUT, **options)
        return response


class Cluster:
    """A Ray cluster by the address of its head's dashboard, http://HOST:8265.

    The token is where Ray reads it: RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH, `~/.ray/auth_token`. Every method raises
    TrainingError, within seconds, where the cluster does not answer or refuses access.
    """

    def __init__(self, address: str) -> None:
        """Raises UsageError for an invalid address, and TrainingError, also for versions that are too old."""
        self.address = check_address(address)
        # Ray prefers RAY_ADDRESS to the address in its argument.
        os.environ["RAY_API_SERVER_ADDRESS"] = self.address
        self.check_dashboard()
        with self.errors():
            self.client = _Client(self.address)
            self.python = str(self.metadata().get("pythonVersion") or "")
        for name, version, minimum in (("Ray", self.ray, MIN_RAY), ("Python", self.python, MIN_PYTHON)):
            with suppress(InvalidVersion):
                if Version(version) < minimum:
                    raise TrainingError(
                        self.address, f"the cluster has {name} {version}, and {minimum} at least is needed", "update it"
                    )

    def check_dashboard(self) -> None:
        """Check that a Ray head answers. Authentication is checked by later requests."""
        not_a_dashboard = TrainingError(self.address, "what answers there is not a Ray cluster's dashboard", START_HINT)
        try:
            response = requests.get(
                f"{self.address}/api/version", timeout=(CONNECT_TIMEOUT, REQUEST_TIMEOUT), allow_redirects=False
            )
            if response.status_code in (401, 403):
                self.ray = ""
                return
            self.ray = str(response.json()["ray_version"])
        except requests.exceptions.JSONDecodeError:
            raise not_a_dashboard from None
        except requests.RequestException as error:
            raise TrainingError(
                self.address, f"no Ray cluster answers ({connection_problem(error)})", START_HINT
            ) from None
        except (KeyError, TypeError):
            raise not_a_dashboard from None

    @property
    def version_difference(self) -> str:
        """A sentence where the cluster has another version of Ray or Python than this machine; else empty."""
        from platform import python_version

        ours = {"Ray": ray.__version__, "Python": python_version()}
        theirs = {"Ray": self.ray, "Python": self.python}
        differences = [
            f"{name} {theirs[name]} (here {ours[name]})" for name in ours if theirs[name] not in ("", ours[name])
        ]
        return f"the cluster has {' and '.join(differences)}; the job runs with what is there." if differences else ""

    def metadata(self) -> Mapping[str, Any]:
        """The versions that the cluster was started with; empty where its head does not report them."""
        version = self.client._do_request("GET", "/api/version")
        if version.ok:
            self.ray = str(version.json().get("ray_version") or "")
        response = self.client._do_request("GET", "/api/v0/cluster_metadata")
        metadata = response.json().get("data") if response.ok else None
        return metadata if isinstance(metadata, dict) else {}

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turns errors of Ray's client into a TrainingError that names the cluster."""
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
                "check its head node",
            ) from None
        except RuntimeError as error:
            raise TrainingError(
                self.address, f"the Ray cluster refused: {last_message(error)}", "see its dashboard"
            ) from error

    def resources(self) -> Resources:
        """The total resources of the nodes that are alive."""
        with self.errors():
            nodes = list_nodes(
                self.address, filters=[("state", "=", "ALIVE")], limit=MAX_NODES, timeout=int(REQUEST_TIMEOUT)
            )
        return Resources(*(int(sum(node.resources_total.get(kind, 0) for node in nodes)) for kind in ("CPU", "GPU")))

    def jobs(self) -> list[Job]:
        """Interlinear's jobs, oldest first."""
        with self.errors():
            jobs = [job for details in self.client.list_jobs() if (job := parse_job(details))]
        return sorted(jobs, key=lambda job: job.start_time or datetime.now(UTC))

    def newest(self, name: str) -> Job:
        """The last attempt at a run; where there is no such run, the job with that id. Raises TrainingError where there
        is none."""
        jobs = self.jobs()  # the id of a run's first attempt is its name
        matches = [job for job in jobs if job.name == name] or [job for job in jobs if job.id == name]
        if not matches:
            names = ", ".join(dict.fromkeys(job.name for job in reversed(jobs)))
            raise TrainingError(
                name, f"{self.address} has no such job", f"there are {names}" if names else "it has none yet"
            )
        return matches[-1]

    def by_id(self, job_id: str) -> Job:
        """One of Interlinear's jobs, as it is now. Raises TrainingError where there is none."""
        with self.errors():
            job = parse_job(self.client.get_job_info(job_id))
        assert job is not None
        return job

    def submit(self, spec: JobSpec, files: Mapping[str, bytes], environment: Mapping[str, str]) -> Job:
        """Submit a job with these environment variables. Raises TrainingError where a job of that name has not
        ended."""
        known = self.jobs()
        for job in known:
            if job.name == spec.run and not job.ended:
                raise TrainingError(
                    spec.run,
                    f"a job of that name is {job.state.lower()} on {self.address}",
                    f"give another --run, or stop it: "
                    f"{shell_command('jobs', 'stop', spec.run, '--address', self.address)}",
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
                if "already exists" in str(error.__cause__):  # Ray's list does not contain it yet
                    raise TrainingError(
                        spec.run, "a job of that name was submitted at this moment", "give another --run"
                    ) from None
                raise
        return self.by_id(name)

    def resume(self, name: str) -> Job:
        """Submit a job again, resuming from its newest checkpoint. Raises TrainingError where it has not ended."""
        before = self.newest(name)
        spec = before.spec.model_copy(update={"resume": True})
        if spec.packed and spec.package is None:
            raise TrainingError(
                name,
                f"the {len(spec.packed)} packed files were not stored with it, since they have more than "
                f"{MAX_KEPT_BYTES:,} bytes",
                "repeat the `interlinear submit` command with --resume",
            )
        files = unzip(base64.b64decode(spec.package)) if spec.package else {}
        with self.errors():
            environment = (self.client.get_job_info(before.id).runtime_env or {}).get("env_vars", {})
        return self.submit(spec, files, {key: str(value) for key, value in environment.items()})

    def stop(self, name: str) -> Job:
        """Ask a job to save and end. Raises TrainingError where it has ended."""
        job = self.newest(name)
        if job.ended:
            raise TrainingError(name, f"it has ended ({job.state.lower()})", "there is nothing to stop")
        with self.errors():
            self.client.stop_job(job.id)
        return job

    def logs(self, job: Job) -> str:
        """The output of a job so far."""
        with self.errors():
            return str(self.client.get_job_logs(job.id))

    async def follow(self, job: Job) -> AsyncIterator[str]:
        """A job's output line by line as it is printed, until the job ends. Waits while the head is briefly away.

        Raises TrainingError where the head stays away for HEAD_AWAY_SECONDS.
        """
        printed, last_contact, partial_line = 0, time.monotonic(), ""
        while True:
            received = 0
            try:
                with self.errors():
                    async for text in self.client.tail_job_logs(job.id):
                        last_contact = time.monotonic()
                        received += len(text)
                        new = text[max(0, len(text) - (received - printed)) :] if received > printed else ""
                        printed = max(printed, received)
                        *lines, partial_line = (partial_line + new).split("\n")
                        for line in lines:
                            yield line
                    if JobStatus(self.client.get_job_status(job.id)).is_terminal():
                        break
            except TrainingError:
                if time.monotonic() - last_contact > HEAD_AWAY_SECONDS:
                    raise
            await asyncio.sleep(RETRY_SECONDS)
        if partial_line:
            yield partial_line


def check_address(address: str) -> str:
    """The address without a trailing slash. Raises UsageError."""
    try:
        parts = urlsplit(address)
        valid = parts.port != 0 and parts.scheme in ("http", "https") and parts.hostname and not parts.query
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(address, "is not the address of a Ray cluster's dashboard", "use http://HOST:8265")
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
    """The last line with text; Ray's error messages are tracebacks."""
    lines = [line.strip(" .") for line in str(error).splitlines()]
    return next((line for line in reversed(lines) if line), type(error).__name__)


def parse_job(details: JobDetails) -> Job | None:
    """An Interlinear job; None for other jobs."""
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


def check_resources(available: Resources, workers: int, gpu: bool, where: str) -> None:
    """Raises TrainingError where a cluster is too small for the workers: Ray would wait forever."""
    needed = Resources(workers, workers if gpu else 0)
    if available.cpus < needed.cpus or available.gpus < needed.gpus:
        raise TrainingError(
            where,
            f"{workers} workers need {needed}, and the cluster has {available}",
            "ask for fewer, add nodes, or say --may-grow where the cluster adds them itself",
        )
