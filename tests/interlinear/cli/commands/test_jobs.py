"""`submit` and `jobs`: error handling without a cluster, and a real cluster whose dashboard requires a token."""

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import mlflow
import psutil
import pytest
import requests

from interlinear.bundle import read_card
from interlinear.cli import run as interlinear
from interlinear.cli.job_output import exit_code
from tests.training.toy import SETTINGS, write_corpus
from training.ray.jobs import Cluster, Job, JobSpec, Resources

ROOT = Path(__file__).parents[4]
TOKEN = hashlib.sha256(b"a test's").hexdigest()
TINY = ("model.embedding=16", "model.hidden=16", "training.epochs=3", "training.average=1")


@contextmanager
def serving(answer: Callable[[str], str], status: int = 200) -> Iterator[str]:
    """A server whose answer depends on the method and path of a request, such as `GET /api/version`; yields its
    address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(answer(f"{self.command} {self.path}").encode())

        do_POST = do_GET

        def log_message(self, *words: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def answering(status: int, content: str) -> AbstractContextManager[str]:
    """A server that gives one answer to every request."""
    return serving(lambda _request: content, status)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def with_token(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the token in this process; Ray would keep it for all later tests that start a cluster."""
    # Imported late, because training.ray has to set Ray's environment first.
    from ray._raylet import AuthenticationTokenLoader

    loader = AuthenticationTokenLoader.instance()
    loader.reset_cache()
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    monkeypatch.delenv("RAY_API_SERVER_ADDRESS", raising=False)
    yield
    loader.reset_cache()


@pytest.mark.timeout(60)
def test_an_address_without_a_cluster_is_reported(with_token: None, capsys: pytest.CaptureFixture[str]):
    def said(address: str) -> tuple[int, str]:
        code = interlinear(["submit", "rnnsearch", "--data", "demo", "--address", address])
        return code, capsys.readouterr().err

    nobody = f"http://127.0.0.1:{free_port()}"
    assert said(nobody)[0] == 1
    assert said(nobody)[1].startswith(f"interlinear: {nobody}: no Ray cluster answers (connection refused). Start a")
    for address in ("127.0.0.1:8265", "ray://127.0.0.1:10001", "http://", "http://host:x", "auto"):
        assert said(address) == (
            2,
            f"interlinear: {address}: is not the address of a Ray cluster's dashboard. Use http://HOST:8265.\n",
        )
    for content in ("<html>", "{}", "[]", "7"):
        with answering(200, content) as address:
            assert said(address)[1].startswith(
                f"interlinear: {address}: what answers there is not a Ray cluster's dashboard."
            )
    with answering(200, '{"ray_version": "2.9.0"}') as address:
        assert said(address) == (
            1,
            f"interlinear: {address}: the cluster has Ray 2.9.0, and 2.54 at least is needed. Update it.\n",
        )
    old = '{"ray_version": "2.60.0", "data": {"rayVersion": "2.60.0", "pythonVersion": "3.9.2"}}'
    with answering(200, old) as address:
        assert "the cluster has Python 3.9.2, and 3.11 at least is needed" in said(address)[1]
    with answering(403, "Forbidden: Invalid authentication token") as address:
        assert said(address)[1] == (
            f"interlinear: {address}: the cluster does not take this token. Give the cluster's in RAY_AUTH_TOKEN or "
            "~/.ray/auth_token; RAY_AUTH_MODE=disabled where it has none.\n"
        )


def test_invalid_arguments_are_found_before_contacting_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv("NOT_SET", raising=False)
    for words, sentence in (
        (["--workers", "0"], "--workers: '0' is neither a number from 1 on nor a range. Write N, or MIN:MAX."),
        (["--workers", "4:1"], "'4:1' is neither a number"),
        (["--workers", "two"], "'two' is neither a number"),
        (["--run", "a/b"], "'a/b' is no name for a run"),
        (["--env", "NOT_SET"], "--env NOT_SET: there is no such environment variable here"),
        (["--tracking", "sqlite:///mlflow.db"], "is a file, and the job would look for it on the cluster"),
        (["--tracking", "mlruns"], "is a file, and the job would look for it on the cluster"),
        (["--tracking", "none", "--register", "x"], "--tracking none: --register needs a registry"),
        (["--no-ray"], "No such option: --no-ray"),
        (["--worker", "2"], "No such option: --worker (Possible options: --source, --workers)"),
        (["--pack-data", "--data-root", "/srv"], "--data-root: the text goes along"),
        (["--source", "a.de", "--target", "a.en"], "--data multi30k-de-en: is a data set, and"),
    ):
        address = ["--address", f"http://127.0.0.1:{free_port()}"]
        assert interlinear(["submit", "rnnsearch", "--data", "multi30k-de-en", *address, *words]) == 2, words
        assert sentence in capsys.readouterr().err


class Dashboard:
    """What a head's dashboard answers: jobs by id, with their run and state, oldest first, and 150 nodes."""

    def __init__(self, jobs: Mapping[str, tuple[str, str]]) -> None:
        self.requests: list[str] = []
        self.jobs = [
            {
                "type": "SUBMISSION", "submission_id": one, "entrypoint": "", "status": state, "start_time": i + 1,
                "metadata": {"interlinear": JobSpec(run=run, recipe="rnnsearch", data="demo").model_dump_json()},
            }
            for i, (one, (run, state)) in enumerate(jobs.items())
        ]  # fmt: skip

    def __call__(self, request: str) -> str:
        self.requests.append(request)
        if request.startswith("GET /api/v0/nodes?"):
            node = {
                "node_id": "0", "node_ip": "10.0.0.1", "node_name": "10.0.0.1", "is_head_node": False, "labels": {},
                "state": "ALIVE", "state_message": None, "resources_total": {"CPU": 4.0, "GPU": 1.0},
            }  # fmt: skip
            limit = int(parse_qs(urlsplit(request).query)["limit"][0])
            nodes = {"result": [node] * min(150, limit), "total": 150, "num_after_truncation": 150, "num_filtered": 150}
            return json.dumps({"result": True, "msg": "", "data": {"result": nodes}})
        answers: dict[str, object] = {
            "GET /api/version": {"ray_version": "2.60.0", "version": "4"},
            "GET /api/v0/cluster_metadata": {"data": {"pythonVersion": "3.12.1"}},
            "GET /api/jobs/": self.jobs,
        }
        if request not in answers and request.endswith("/logs"):
            return json.dumps({"logs": f"the log of {request.split('/')[-2]}\n"})
        return json.dumps(answers.get(request, {"stopped": True}))


@pytest.mark.parametrize(
    ("name", "job"), [("first", "first.2"), ("second", "second"), ("second.2", "second.2.2"), ("third.2", "third.2")]
)
def test_a_runs_name_is_its_last_job_and_otherwise_a_jobs(
    with_token: None, capsys: pytest.CaptureFixture[str], name: str, job: str
):
    dashboard = Dashboard({
        "first": ("first", "STOPPED"), "first.2": ("first", "RUNNING"),
        "second": ("second", "RUNNING"), "second.2": ("second.2", "STOPPED"), "second.2.2": ("second.2", "RUNNING"),
        "third": ("third", "STOPPED"), "third.2": ("third", "RUNNING"), "third.3": ("third", "RUNNING"),
    })  # fmt: skip
    with serving(dashboard) as address:
        assert interlinear(["jobs", "logs", name, "--address", address]) == 0
        assert capsys.readouterr().out == f"the log of {job}\n"
        assert interlinear(["jobs", "stop", name, "--address", address]) == 0
        assert f"{job} is asked to save and to end" in capsys.readouterr().err
        assert f"POST /api/jobs/{job}/stop" in dashboard.requests


def test_the_resources_of_a_cluster_are_those_of_all_its_nodes(with_token: None):
    with serving(Dashboard({})) as address:
        assert Cluster(address).resources() == Resources(cpus=600, gpus=150)


def test_the_exit_code_of_a_job(capsys: pytest.CaptureFixture[str]):
    call = JobSpec(run="mine", recipe="rnnsearch", data="demo")
    job = Job("mine.2", call, "FAILED", True, "Job failed.", 1, None, None)
    for ended, code, sentence in (
        (replace(job, state="SUCCEEDED", exit_code=0), 0, ""),
        (replace(job, exit_code=1), 1, ""),
        (replace(job, exit_code=2), 2, ""),
        (replace(job, exit_code=127), 127, "the cluster has no command `interlinear`"),
        (replace(job, exit_code=-9), 137, "mine.2 was killed (signal 9). Go on with it: interlinear jobs resume mine"),
        (replace(job, state="STOPPED", exit_code=None), 143, "mine.2 was stopped. Go on with it:"),
        (replace(job, exit_code=None, message="a\nThe supervisor died.\n"), 1, "mine.2 failed: The supervisor died."),
    ):
        assert exit_code(ended, "http://head:8265") == code
        said = capsys.readouterr().err
        assert sentence in said and bool(said) == bool(sentence)


@dataclass(frozen=True)
class Head:
    """A running head, the folder that jobs run in, and the arguments of a training on the toy corpus."""

    address: str
    folder: Path
    process: psutil.Process

    def submit(self, run: str, *words: str, pairs: str = "toy.yaml") -> list[str]:
        settings = [word for setting in (*SETTINGS, *TINY) for word in ("--set", setting)]
        where = ["--folder", str(self.folder), "--address", self.address, "--pack-data"]
        return ["submit", "rnnsearch", "--data", pairs, "--run", run, *settings, *where, *words]

    def driver(self, run: str) -> psutil.Process:
        """The process of a running job's `interlinear train`."""
        for child in self.process.children(recursive=True):
            with_run = f"--run {run} " in " ".join(child.cmdline()) + " "
            if with_run and "-c" not in child.cmdline()[:2] and "interlinear" in " ".join(child.cmdline()[:3]):
                return child
        raise AssertionError(f"no driver of {run}")

    def weights(self, run: str) -> str:
        return str(read_card(self.folder / "runs" / run / "bundle").weights_sha256)


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """A head with two CPUs on loopback; it requires a token, and does not see this process's folder."""
    folder = tmp_path_factory.mktemp("cluster")
    scratch = Path(f"/tmp/ray-{os.getpid()}-{free_port()}")  # socket paths must be short
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
        "HOME": str(folder), "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
        "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "RAY_USAGE_STATS_ENABLED": "0",
        "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "RAY_worker_niceness": "0",
        "RAY_agent_register_timeout_ms": "120000",  # on a busy machine its agents start slowly
    }  # fmt: skip
    ports = {name: str(free_port()) for name in ("port", "dashboard-port", "dashboard-agent-listen-port")}
    ports |= {"min-worker-port": "0", "max-worker-port": "0", "ray-client-server-port": str(free_port())}
    started = subprocess.Popen(
        ["ray", "start", "--head", "--block", "--dashboard-host", "127.0.0.1", "--node-ip-address", "127.0.0.1",
         "--num-cpus", "2", "--num-gpus", "0", "--object-store-memory", str(80 << 20), "--temp-dir", str(scratch),
         *(f"--{name}={port}" for name, port in ports.items())],
        env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    process = psutil.Process(started.pid)
    address = f"http://127.0.0.1:{ports['dashboard-port']}"
    try:
        wait_for(lambda: started_at(address), 120)
        yield Head(address, folder / "work", process)
    finally:
        while below := process.children(recursive=True):  # Ray's own shutdown would take half a minute to drain
            for child in below:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            psutil.wait_procs(below, timeout=10)
        started.kill()
        started.wait()
        subprocess.run(["rm", "-rf", str(scratch)], check=True)


def started_at(address: str) -> bool:
    try:
        return requests.get(f"{address}/api/version", timeout=5).status_code == 401
    except requests.RequestException:
        return False


def interlinear_in(
    folder: Path, *words: str, token: str | None = TOKEN, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, in a folder, with that token."""
    return subprocess.run(
        [sys.executable, "-m", "interlinear", *words], cwd=folder, check=False, capture_output=True, text=True,
        env=user_environment(folder, token) | environment,
    )  # fmt: skip


def user_environment(folder: Path, token: str | None = TOKEN) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "MLFLOW_"))}
    there = {} if token is None else {"RAY_AUTH_TOKEN": token}
    return kept | there | {"HOME": str(folder), "PYTHONPATH": str(ROOT), "MLFLOW_DISABLE_TELEMETRY": "true"}


def wait_for(true: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.5)


def state_of(head: Head, job: str) -> str:
    return Cluster(head.address).newest(job).state


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_job_from_submission_to_its_end(head: Head, with_token: None, tmp_path: Path):
    write_corpus(tmp_path)
    (tmp_path / ".env").write_text("SECRET=1")
    done = interlinear_in(tmp_path, *head.submit("whole", "--wait", "--register", "toy"), SECRET="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [head.weights("whole")]
    said = done.stderr.splitlines()
    assert re.match(rf"interlinear: whole is recorded at sqlite:///{head.folder}/mlflow.db, run \w+$", said[0])
    assert said[1] == f"interlinear: whole is submitted to {head.address}."
    assert [line for line in said if "is recorded at" in line] == said[:1]
    assert [line for line in said if line.startswith("epoch 3  loss")]
    assert any(line == "interlinear: registered as models:/toy/1" for line in said)
    assert "data/train.source" in done.stderr and ".env" not in done.stderr

    listed = interlinear_in(tmp_path, "jobs", "list", "--address", head.address, "--json")
    (found,) = json.loads(listed.stdout)
    said_of_it = [found[key] for key in ("name", "job", "state", "exit_code", "data")]
    assert said_of_it == ["whole", "whole", "SUCCEEDED", 0, "data/toy.yaml"]
    listed = interlinear_in(tmp_path, "jobs", "list", "--address", head.address).stdout.splitlines()
    assert listed[0].split() == ["NAME", "JOB", "STATE", "BEGAN", "TOOK", "RECIPE", "DATA", "BY"]
    assert listed[1].split()[:3] == ["whole", "whole", "succeeded"]
    logs = interlinear_in(tmp_path, "jobs", "logs", "whole", "--address", head.address)
    assert logs.returncode == 0 and head.weights("whole") in logs.stdout.splitlines()

    for words, code, sentence in (
        (["stop", "whole"], 1, "whole: it has ended (succeeded). There is nothing to stop."),
        (["logs", "nobody"], 1, f"nobody: {head.address} has no such job. There are whole."),
        (["resume", "nobody"], 1, "has no such job"),
    ):
        refused = interlinear_in(tmp_path, "jobs", *words, "--address", head.address)
        assert (refused.returncode, refused.stderr.count("\n")) == (code, 1) and sentence in refused.stderr

    # If training fails in a job, `submit --wait` ends as `train` would have.
    failed = interlinear_in(tmp_path, *head.submit("wild", "--wait", "--set", "training.learning_rate=1e38",
                                                   "--set", "training.clip=null"))  # fmt: skip
    assert failed.returncode == 1 and failed.stdout == ""
    assert "is not finite" in failed.stderr and "Traceback" not in failed.stderr
    assert state_of(head, "wild") == "FAILED"

    # The output of a job that ends before it has a run is shown completely, also without --wait; failed preparation has
    # a run.
    early = interlinear_in(tmp_path, *head.submit("early", "--resume"))
    assert early.returncode == 1 and early.stdout == "" and "recorded" not in early.stderr
    assert "there is no run of that name to resume" in early.stderr
    (tmp_path / "dev.source").write_text("too few lines\n")
    unequal = interlinear_in(tmp_path, *head.submit("unequal", "--wait"))
    assert unequal.returncode == 1 and unequal.stderr.startswith("interlinear: unequal is recorded at sqlite:///")
    client = mlflow.MlflowClient(f"sqlite:///{head.folder}/mlflow.db")
    found = client.search_runs([client.get_experiment_by_name("toy").experiment_id])
    ended = {run.info.run_name: (run.info.status, run.data.tags.get("error", "")) for run in found}
    assert set(ended) == {"whole", "wild", "unequal"} and ended["unequal"][0] == "FAILED"
    assert f"interlinear: {ended['unequal'][1]}" in unequal.stderr.splitlines()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_own_text_goes_along_with_a_job(head: Head, tmp_path: Path):
    """With a byte-order mark, and line ends as on Windows."""
    write_corpus(tmp_path)
    for side in ("source", "target"):
        text = (tmp_path / f"train.{side}").read_text().replace("\n", "\r\n")
        (tmp_path / f"manual.{side}").write_bytes(b"\xef\xbb\xbf" + text.encode())
    settings = [word for setting in (*SETTINGS, *TINY) for word in ("--set", setting)]
    done = interlinear_in(
        tmp_path, "submit", "rnnsearch", "--source", "manual.source", "--target", "manual.target",
        "--languages", "de,en",
        "--run", "own", "--wait", *settings,
        "--folder", str(head.folder), "--address", head.address,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [head.weights("own")]
    assert "with it go" in done.stderr and "manual-de-en.train.de" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_refusals_of_a_cluster_are_messages(head: Head, tmp_path: Path):
    write_corpus(tmp_path)
    for words, sentence in (
        (["--workers", "3"], "3 workers need 3 CPUs and 0 GPUs, and the cluster has 2 CPUs and 0 GPUs."),
        (["--workers", "1:9", "--gpu"], "1 workers need 1 CPUs and 1 GPUs, and the cluster has 2 CPUs and 0 GPUs."),
    ):
        refused = interlinear_in(tmp_path, *head.submit("large", *words))
        assert refused.returncode == 1 and sentence in refused.stderr and refused.stderr.count("\n") == 1
    for token, sentence in (
        (None, "the cluster wants a token, and there is none here."),
        ("0" * 64, "the cluster does not take this token."),
    ):
        refused = interlinear_in(tmp_path, *head.submit("stranger"), token=token)
        assert refused.returncode == 1 and sentence in refused.stderr and refused.stderr.count("\n") == 1
    listed = interlinear_in(tmp_path, "jobs", "list", "--address", head.address, "--json")
    assert not {"large", "stranger"} & {job["name"] for job in json.loads(listed.stdout)}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_killed_or_stopped_job_resumes_to_the_same_weights(head: Head, with_token: None, tmp_path: Path):
    write_corpus(tmp_path)
    long = ["--set", "training.epochs=40", "--set", "training.patience=100", "--set", "training.save_minutes=0.01"]
    settings = [word for setting in (*SETTINGS, *TINY) for word in ("--set", setting)]
    alone = ["train", "rnnsearch", "--data", "toy.yaml", *settings, *long, "--no-ray", "--tracking", "none"]
    undisturbed = interlinear_in(tmp_path, *alone, OMP_NUM_THREADS="1").stdout.strip()

    # Its driver is killed; `submit --wait` reports it, and the same command with --resume continues.
    submitted = interlinear_in(tmp_path, *head.submit("killed", *long))
    assert submitted.returncode == 0 and submitted.stdout == "killed\n"
    assert "interlinear jobs logs killed --follow" in submitted.stderr
    again = interlinear_in(tmp_path, *head.submit("killed", *long))
    assert again.returncode == 1 and "killed: a job of that name is " in again.stderr

    waiting = subprocess.Popen(
        [sys.executable, "-m", "interlinear", "jobs", "logs", "killed", "--follow", "--address", head.address],
        cwd=tmp_path, env=user_environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    leaving = subprocess.Popen(
        waiting.args, cwd=tmp_path, env=user_environment(tmp_path), stderr=subprocess.PIPE, text=True
    )
    trained(head, "killed")
    leaving.send_signal(signal.SIGINT)
    _, said = leaving.communicate(timeout=30)
    assert leaving.returncode == 130
    assert f"killed goes on. Stop it: interlinear jobs stop killed --address {head.address}" in said
    head.driver("killed").kill()
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 137 and "killed was killed (signal 9). Go on with it:" in said
    resumed = interlinear_in(tmp_path, *head.submit("killed", *long, "--resume", "--wait"))
    assert (resumed.returncode, resumed.stdout.strip()) == (0, undisturbed), resumed.stderr
    assert "going on after update" in resumed.stderr

    # It is stopped, and saves a state; `jobs resume` needs only its name.
    assert interlinear_in(tmp_path, *head.submit("stopped", *long)).returncode == 0
    trained(head, "stopped")
    stopped = interlinear_in(tmp_path, "jobs", "stop", "stopped", "--address", head.address)
    assert stopped.returncode == 0 and "interlinear jobs resume stopped" in stopped.stderr
    wait_for(lambda: state_of(head, "stopped") == "STOPPED", 130)
    logs = interlinear_in(tmp_path, "jobs", "logs", "stopped", "--address", head.address).stdout
    assert "interrupted; saved after" in logs
    elsewhere = tmp_path / "elsewhere"  # a folder without the description and its text
    elsewhere.mkdir()
    resumed = interlinear_in(elsewhere, "jobs", "resume", "stopped", "--wait", "--address", head.address)
    assert (resumed.returncode, resumed.stdout.strip()) == (0, undisturbed), resumed.stderr
    assert state_of(head, "stopped.2") == "SUCCEEDED"
    runs = sorted(path.name for path in (head.folder / "runs").iterdir() if path.name.startswith(("killed", "stopped")))
    assert runs == ["killed", "stopped"]


def trained(head: Head, run: str) -> None:
    """Wait until a job has trained for two epochs."""
    cluster = Cluster(head.address)
    wait_for(lambda: "epoch 2  loss" in cluster.logs(cluster.newest(run)), 300)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_modules_of_the_user_hide_none_where_the_command_and_the_job_run(head: Head, tmp_path: Path):
    """A job without packed files has no `working_dir`, for which Ray would leave the job's folder off the path."""
    for folder in (tmp_path, head.folder):
        (folder / "service").mkdir(parents=True)
        for file in ("training.py", "service/__init__.py"):
            (folder / file).write_text("raise RuntimeError('the working folder hides a module')\n")
    settings = [word for setting in (*SETTINGS, *TINY, "training.epochs=1") for word in ("--set", setting)]
    done = subprocess.run(
        [Path(sys.executable).with_name("interlinear"), "submit", "rnnsearch", "--data", "demo", "--run", "hidden",
         *settings, "--folder", str(head.folder), "--address", head.address, "--wait"],
        cwd=tmp_path, env=user_environment(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    for file in ("training.py", "service/__init__.py"):
        (head.folder / file).unlink()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [head.weights("hidden")]
