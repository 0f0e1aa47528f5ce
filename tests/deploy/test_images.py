"""The Dockerfile: linted, pinned, without root; its build context has the parts of a wheel and nothing else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


def stage(name: str) -> str:
    """The instructions of a stage of the Dockerfile."""
    (found,) = [part for part in re.split(r"^(?=FROM )", DOCKERFILE, flags=re.M) if f" AS {name}\n" in part]
    return found


def test_hadolint_finds_nothing():
    done = subprocess.run([BIN / "hadolint", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("script", ["secrets.sh", "digests.sh"])
def test_shell_scripts_pass_the_linter(script):
    subprocess.run(["sh", "-n", ROOT / "docker" / script], check=True)


PINNED = [ROOT / "docker-compose.yml", ROOT / "Dockerfile", *sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))]


def test_digests_are_written_behind_every_version_of_another_project(tmp_path):
    """With a registry's answers for each; twice, as after a new release."""
    names = {
        name for path in PINNED for name in re.findall(r"(?:image: |^ARG BASE=)([\w./-]+):", path.read_text(), re.M)
    }
    names = {name for name in names if not name.startswith("interlinear-")}
    assert names == {"postgres", "nginx", "prom/prometheus", "grafana/grafana", "python"}
    copies = [tmp_path / path.name for path in PINNED]
    for path, copy in zip(PINNED, copies, strict=True):
        copy.write_text(path.read_text())
    for letter in "ab":
        docker = tmp_path / "docker"
        docker.write_text(f'#!/bin/sh\necho sha256:{letter * 64}\necho "$@" >> "$0.log"\n')
        docker.chmod(0o755)
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(["sh", ROOT / "docker" / "digests.sh", *copies], check=True, env=os.environ | {"PATH": path})
        for original, copy in zip(PINNED, copies, strict=True):
            found = re.sub(rf"@sha256:{letter * 64}$", "", copy.read_text(), flags=re.M)
            assert found == re.sub(r"@sha256:[0-9a-f]{64}$", "", original.read_text(), flags=re.M)
            pinned = len(re.findall(rf"@sha256:{letter * 64}$", copy.read_text(), re.M))
            assert pinned == len(re.findall(rf"(?:image: |^ARG BASE=)(?:{'|'.join(names)}):", copy.read_text(), re.M))
    asked = set((tmp_path / "docker.log").read_text().splitlines())
    assert len(asked) == len(names) and all(line.startswith("buildx imagetools inspect") for line in asked)
    docker.write_text("#!/bin/sh\necho none\n")
    failed = subprocess.run(
        ["sh", ROOT / "docker" / "digests.sh", *copies], env=os.environ | {"PATH": path}, check=False
    )
    assert failed.returncode, "no digest is invented"


@pytest.mark.parametrize("target", ["train", "serve", "tracking"])
def test_every_target_runs_without_root_and_has_a_health_check(target):
    assert stage(target).startswith("FROM runtime AS "), "the stage that has the user"
    assert "HEALTHCHECK " in stage(target)
    users = re.findall(r"^USER (.*)$", stage("runtime") + stage(target), re.M)
    assert users[-1] == "10001:10001"


def test_every_base_image_has_a_version():
    assert re.search(r"^ARG BASE=python:\d+\.\d+\.\d+-slim-bookworm(@sha256:[0-9a-f]{64})?$", DOCKERFILE, re.M)
    stages = set(re.findall(r" AS (\S+)$", DOCKERFILE, re.M))
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)) <= {*stages, "${BASE}"}


def test_requirements_equal_those_of_pyproject():
    def printed(*words: str) -> list[str]:
        command = [sys.executable, ROOT / "docker" / "requirements.py", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()

    serve, train, tracking = (
        printed("serve", "postgres"),
        printed("train", "serve", "postgres"),
        printed("--only", "tracking"),
    )
    assert any(line.startswith("torch") for line in serve) and any(line.startswith("fastapi") for line in serve)
    assert not any(re.match(r"mlflow(\W|$)", line.replace("mlflow-skinny", "")) for line in serve), (
        "all of it is 0.5 GB"
    )
    assert not any(line.startswith("ray") for line in serve) and any(line.startswith("ray[") for line in train)
    assert set(serve) < set(train) and any(line.startswith("psycopg") for line in serve)
    for words, stage_name in (("serve postgres", "serve-packages"), ("train serve postgres", "train-packages")):
        assert f"RUN python requirements.py {words} > requirements.txt" in stage(stage_name)
    assert [re.match(r"[\w-]+", line)[0] for line in tracking] == ["mlflow", "psycopg", "boto3"]


def test_the_serve_images_package_size_is_in_the_docs():
    """1.3 GB; all of MLflow would add half a gigabyte."""

    def counted(*words: str) -> dict[str, float]:
        command = [sys.executable, ROOT / "docker" / "size.py", *words]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        sizes = {name: float(size) for size, _, name in map(str.split, printed[:-1])}
        size, unit, number, _ = printed[-1].split()
        assert unit == "MB" and int(number) == len(sizes) and sum(sizes.values()) == pytest.approx(float(size), abs=9)
        return sizes

    serve, before = counted("serve", "postgres"), counted("serve", "postgres", "mlflow")
    more = sum(before.values()) - sum(serve.values())
    assert serve.items() <= before.items() and more > 400
    assert {"mlflow", "pandas", "scipy", "scikit-learn", "pyarrow"} <= before.keys() - serve.keys()
    page = (ROOT / "docs" / "deploy-kubernetes.md").read_text(encoding="utf-8")
    assert "python docker/size.py serve postgres" in page
    (said,) = re.findall(r"packages are (\d+) MB", page)
    libraries = sum(size for name, size in serve.items() if name.startswith(("nvidia-", "triton", "torch")))
    torch_size = float(re.search(r"(\d+) of them torch's", page)[1])
    assert sum(serve.values()) - libraries == pytest.approx(float(said) - torch_size, rel=0.1), (
        "torch's size is its build's"
    )


def test_the_context_has_a_wheels_parts_and_nothing_else():
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*" and all(line.startswith("!") or line == "**/__pycache__" for line in lines[1:])
    allowed = {line.removeprefix("!") for line in lines[1:] if line.startswith("!")}
    wheel = re.search(r"only-include = \[(.*)\]", (ROOT / "pyproject.toml").read_text())[1]
    assert {part.strip(' "') for part in wheel.split(",")} <= allowed
    assert all((ROOT / path).exists() for path in allowed)


def test_secrets_are_generated_once_and_private(tmp_path):
    folder = tmp_path / "secrets"
    make = [ROOT / "docker" / "secrets.sh", folder]
    subprocess.run(make, check=True)
    first = {path.name: path.read_text() for path in folder.iterdir()}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o444}
    random = [text for name, text in first.items() if name != "mlflow_credentials"]
    assert len(set(random)) == len(random) == 6 and all(re.fullmatch(r"[0-9a-f]{64}", text) for text in random)
    assert f"mlflow_tracking_password = {first['mlflow_password']}\n" in first["mlflow_credentials"]

    subprocess.run(make, check=True)
    assert {path.name: path.read_text() for path in folder.iterdir()} == first
