"""The whole road for every system: trained on Ray, registered, loaded by its alias, aligned with, served, explained."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.seq2seq.systems import HEADLINES, SYSTEMS
from tests.service.test_serve import address, ask, process
from tests.training.toy import SETTINGS, write_corpus
from training.recipe import load_recipe

QUICK = "contextual_gates"  # the one that `make test` takes down the road


@pytest.mark.parametrize(
    "system", [pytest.param(system, marks=[] if system == QUICK else pytest.mark.slow) for system in SYSTEMS]
)
@pytest.mark.timeout(300)
def test_every_system_goes_the_whole_road(system: str, tmp_path: Path) -> None:
    data = write_corpus(tmp_path)
    headlines = system in HEADLINES
    if headlines:
        data.write_text(data.read_text().replace("translation", "summarization").replace("source: de", "source: en"))
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS")
    } | {"PYTHONPATH": str(Path.cwd())}

    def interlinear(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "interlinear", *arguments],
            cwd=tmp_path, env=environment, check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    settings = [*SETTINGS, "joint_vocabulary=false"]
    sets = [word for setting in settings for word in ("--set", setting)]
    trained = interlinear("train", system, "--data", str(data), "--register", f"toy-{system}", *sets)
    model = f"models:/toy-{system}@champion"
    facts = json.loads(interlinear("info", model, "--json"))
    assert facts["weights_sha256"] == trained.strip().splitlines()[-1]
    score = json.loads(interlinear("evaluate", model, "--data", str(data), "--json"))["bleu"]["score"]
    assert score > 5
    files = ["--source", str(tmp_path / "test.source"), "--target", str(tmp_path / "test.target")]
    links = interlinear("align", model, *files).splitlines()
    sources = (tmp_path / "test.source").read_text().splitlines()
    assert [len(line.split()) for line in links] == [len(line.split()) for line in sources]

    registry = f"sqlite:///{tmp_path}/mlflow.db"
    with process("--model", f"toy={model}", folder=tmp_path, MLFLOW_TRACKING_URI=registry) as child:
        url = address(child)
        if headlines:
            answer = ask(f"{url}/summarize", text=sources[:2], explain=True)
            texts = answer["summaries"]
        else:
            answer = ask(f"{url}/translate", q=sources[:2], source="de", target="en", explain=True)
            texts = answer["translatedText"]
        assert len(texts) == 2
        assert answer["model"]["version"] == "1"
        for explanation in answer["explanations"]:
            assert set(explanation["matrices"]) == set(load_recipe(system).model.looks)
            assert explanation["alignment"]
