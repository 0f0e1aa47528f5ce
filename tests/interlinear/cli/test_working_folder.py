"""Files of the user in the working folder whose names are our modules': no command imports them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
import requests

from tests.training.toy import SETTINGS, write_corpus

ROOT = Path(__file__).parents[3]
COMMAND = Path(sys.executable).with_name("interlinear")
TINY = ("model.embedding=16", "model.hidden=16", "training.epochs=1", "training.average=1")


@pytest.fixture
def hiding(tmp_path: Path) -> Path:
    """A working folder with a file and a package that end whatever imports them."""
    (tmp_path / "service").mkdir()
    for file in ("training.py", "service/__init__.py"):
        (tmp_path / file).write_text("raise RuntimeError('the working folder hides a module')\n")
    return tmp_path


def environment(**further: str) -> dict[str, str]:
    """This process's environment without Python's settings: packages are found as they are installed."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | further


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.timeout(300)
def test_a_training_on_ray_and_the_paths_that_are_relative_to_the_folder(hiding: Path):
    write_corpus(hiding)
    settings = [word for setting in (*SETTINGS, *TINY) for word in ("--set", setting)]
    done = subprocess.run(
        [COMMAND, "train", "rnnsearch", "--data", "toy.yaml", "--workers", "2", "--run", "toy", *settings],
        cwd=hiding, env=environment(MLFLOW_TRACKING_URI="sqlite:///mine.db"), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (hiding / "runs/toy/bundle/model.json").is_file() and (hiding / "mine.db").is_file()


@pytest.mark.slow
def test_a_service_with_search_processes_translates_a_document(hiding: Path, toy: Path):
    child = subprocess.Popen(
        [COMMAND, "serve", "--port", "0", "--model", f"mt={toy}", "--device", "cpu,cpu"],
        cwd=hiding, env=environment(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stderr is not None
        said = []
        while not (found := re.search(r"playground (http://[^/]+)/", said[-1] if said else "")):
            said.append(child.stderr.readline())
            assert said[-1], "".join(said)
        answer = requests.post(
            f"{found[1]}/translate_file", files={"file": ("a.html", b"<p>ein <b>hund</b></p>")},
            data={"source": "de", "target": "en"}, timeout=60,
        )  # fmt: skip
        assert answer.status_code == 200, answer.text
        with urlopen(answer.json()["translatedFileUrl"], timeout=60) as document:
            assert document.read().startswith(b"<p>")
    finally:
        child.kill()
        child.communicate()


def test_python_m_in_such_a_folder_ends_with_a_sentence(hiding: Path):
    called = [sys.executable, "-m", "interlinear", "info", "rnnsearch"]
    done = subprocess.run(called, cwd=hiding, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"interlinear: {hiding / 'training.py'}: hides the module 'training' of Interlinear, which is in {ROOT}. "
        "Rename it, or keep its folder off Python's path: call `interlinear` or `python -P -m`, and mind PYTHONPATH.\n"
    )
    (hiding / "training.py").rename(hiding / "mine.py")
    done = subprocess.run([COMMAND, "--version"], cwd=hiding, env=environment(PYTHONPATH=str(hiding)),
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(f"interlinear: {hiding / 'service/__init__.py'}: hides the module 'service'")


def test_a_folder_without_modules_of_its_own_hides_nothing(tmp_path: Path):
    for name in ("documents", "service", "training"):  # a package is preferred to a folder without __init__.py
        (tmp_path / name).mkdir()
    called = [sys.executable, "-m", "interlinear", "--version"]
    done = subprocess.run(called, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("interlinear "), done.stderr
