"""The wheel is complete: it works from any folder and contains the recipes and data-set descriptions."""

import os
import subprocess
import sys
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT],
        check=True,
        capture_output=True,
        timeout=110,
    )
    return next(folder.glob("*.whl"))


def run(arguments: list[str | Path], folder: Path, **environment: str) -> str:
    """Run a program outside the checkout; returns its output."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    done = subprocess.run(
        arguments, cwd=folder, env=clean | environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_has_every_package_recipe_and_description(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("interlinear", "training", "service"):
        # Every file of a package - code, the drawings, the playground's page - is in the wheel too.
        for file in (ROOT / package).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                assert file.relative_to(ROOT).as_posix() in names
    for folder in ("recipes", "corpora"):
        for file in (file for file in (ROOT / folder).rglob("*") if file.is_file()):
            assert f"training/{file.relative_to(ROOT).as_posix()}" in names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "benchmarks/", "tools/"))]


def test_all_brings_every_package_of_the_design(wheel):
    """By the wheel's own metadata, in which the other extras stand in full: pip is not asked for this distribution."""
    assert wheel.name.startswith("interlinear_nmt-")
    folder = "-".join(wheel.name.split("-")[:2])
    metadata = message_from_bytes(zipfile.ZipFile(wheel).read(f"{folder}.dist-info/METADATA"))
    required: dict[str, set[str]] = {}
    for requirement in map(Requirement, metadata.get_all("Requires-Dist")):
        if requirement.marker is None or requirement.marker.evaluate({"extra": "all"}):
            required.setdefault(requirement.name, set()).update(requirement.extras)
    design = {"torch", "ray", "fastapi", "uvicorn", "pydantic", "mlflow", "sacrebleu", "httpx", "pytest"}
    assert design <= set(required) and "train" in required["ray"]
    assert metadata["Name"] not in required


def test_wheel_works_from_any_folder(wheel, tmp_path):
    """Unpacked into a folder of its own, with this environment's libraries and nothing of the checkout."""
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    zipfile.ZipFile(wheel).extractall(site)
    where = run([sys.executable, "-c", "import training; print(training.__file__)"], elsewhere, PYTHONPATH=str(site))
    assert where.startswith(str(site))
    for module in ("interlinear", "interlinear.cli"):
        command = [sys.executable, "-m", module]
        assert "translate" in run([*command, "--help"], elsewhere, PYTHONPATH=str(site))
        assert "parameters" in run([*command, "info", "rnnsearch"], elsewhere, PYTHONPATH=str(site))
    program = "from interlinear import load, train, translate; from service.ray_serve import build; "
    program += "from service.app import create_app; import service.files.document_worker; print(create_app.__name__)"
    assert run([sys.executable, "-c", program], elsewhere, PYTHONPATH=str(site)) == "create_app\n"


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.timeout(900)
def test_bare_install_in_an_empty_environment(wheel, tmp_path):
    """Without extras the command starts, counts a recipe's parameters, and names the extra that a command needs."""
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    run(
        [python, "-m", "pip", "install", "-qq", "--no-compile", "--constraint", ROOT / "constraints.txt", wheel],
        tmp_path,
    )
    command = tmp_path / "empty" / "bin" / "interlinear"
    assert "translate" in run([command, "--help"], tmp_path)
    assert "parameters" in run([command, "info", "rnnsearch"], tmp_path)
    refused = subprocess.run(
        [command, "serve", "--port", "0"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "'.[serve]'" in refused.stderr and "Traceback" not in refused.stderr
