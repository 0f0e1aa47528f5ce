"""The distribution is on no package index: pages and messages name a clone or a wheel, never a name there."""

import json
import subprocess
from importlib.metadata import distribution
from pathlib import Path

from interlinear.installation import DISTRIBUTION, how_to_install
from interlinear.registry.store.mlflow_metadata import pip_requirements

ROOT = Path(__file__).parent.parent
NAME = "interlinear(-nmt)?"


def test_no_page_or_message_installs_by_a_name_on_the_index():
    named = rf"{NAME}\\?\[[a-z]|pip3? install[^|&`]*[ '\"]{NAME}($|[ ,.'\"`=])"
    found = subprocess.run(
        ["git", "grep", "--line-number", "-I", "-E", named], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode in (0, 1), found.stderr
    lines = [line for line in found.stdout.splitlines() if not line.startswith("pyproject.toml:")]
    assert not lines
    assert found.stdout.startswith("pyproject.toml:")  # `all` names this project's other extras: the search works


def test_the_words_of_an_install_name_an_extra_that_there_is():
    extras = distribution(DISTRIBUTION).metadata.get_all("Provides-Extra") or []
    assert {"all", "train", "serve", "postgres", "chinese", "analysis", "eflomal", "fast-align"} <= set(extras)
    assert "pip install '.[train]'" in how_to_install("train")


def test_a_logged_model_requires_this_project_by_its_place():
    origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    (ours,) = [line for line in pip_requirements() if line.startswith("interlinear")]
    assert ours == f"{DISTRIBUTION} @ {origin['url']}"
