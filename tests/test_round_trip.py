"""Every system end to end: trained on Ray, registered, loaded by its alias, aligned, served, explained."""

import base64
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from interlinear import cli
from tests.seq2seq.systems import HEADLINES, SYSTEMS
from tests.service.test_serve import address, ask, process
from tests.training.toy import SETTINGS, write_corpus, write_edited, write_pictured
from training.recipe import load_recipe

SEVERAL = [f"{task}_{how}" for task in ("multimodal", "postedit") for how in ("hierarchical", "flat", "concat")]

Command = Callable[..., str]


@pytest.fixture
def interlinear(tmp_path: Path) -> Command:
    """Runs the command in a folder of its own and returns its output; its messages go to this process's stderr."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS")
    } | {"PYTHONPATH": str(Path.cwd())}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "interlinear", *arguments],
            cwd=tmp_path, env=environment, check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        print(done.stderr, file=sys.stderr)
        return done.stdout

    return run


def trained(interlinear: Command, system: str, data: Path, settings: Sequence[str], *options: str) -> str:
    """Train, on Ray unless the options say otherwise, and register; returns the model's name."""
    sets = [word for setting in [*SETTINGS, *settings] for word in ("--set", setting)]
    said = interlinear("train", system, "--data", str(data), "--register", f"toy-{system}", *sets, *options)
    model = f"models:/toy-{system}/1"  # a model below its baseline is no champion
    assert json.loads(interlinear("info", model, "--json"))["weights_sha256"] == said.strip().splitlines()[-1]
    return model


@pytest.mark.slow  # `make demo` goes the same way with one
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.timeout(300)
def test_every_system_end_to_end(
    system: str, tmp_path: Path, interlinear: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_corpus(tmp_path)
    headlines = system in HEADLINES
    if headlines:
        text = data.read_text().replace("translation", "summarization").replace("{source: de,", "{source: en,")
        data.write_text(text)
    model = trained(interlinear, system, data, ["joint_vocabulary=false", "training.epochs=6"])
    said = capsys.readouterr().err
    assert len(re.findall(r"^interlinear: training with [1-9]\d* workers?\b", said, re.MULTILINE)) == 1
    score = json.loads(interlinear("evaluate", model, "--data", str(data), "--metrics", "bleu", "--json"))["bleu"][
        "score"
    ]
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
            kinds = load_recipe(system).model.attention_kinds
            assert set(explanation["matrices"]) == {*kinds} | (set() if "uam" in kinds else {"posterior"})
            assert explanation["alignment"]


def sources_of(system: str, folder: Path) -> tuple[Path, list[str]]:
    """A data set with the sources of a system, and settings for it."""
    if system.startswith("multimodal"):
        return write_pictured(folder), ["sources.image.size=32", "joint_vocabulary=false"]
    return write_edited(folder), ["sources.mt.units=words", "model.tie_embeddings=none", "joint_vocabulary=false"]


@pytest.mark.parametrize("system", ["multimodal_hierarchical", "postedit_flat"])
def test_several_sources_are_trained_registered_and_scored(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, without Ray."""

    def interlinear(*arguments: str) -> str:
        assert cli.run(arguments) == 0
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    data, own = sources_of(system, tmp_path)
    model = trained(interlinear, system, data, [*own, "training.epochs=2"], "--no-ray")
    scores = json.loads(interlinear("evaluate", model, "--data", str(data), "--json"))
    assert set(scores) == ({"bleu"} if system.startswith("multimodal") else {"bleu", "hter", "unedited"})


@pytest.mark.slow
@pytest.mark.parametrize("system", SEVERAL)
@pytest.mark.timeout(300)
def test_several_sources_end_to_end(system: str, tmp_path: Path, interlinear: Command) -> None:
    pictures = system.startswith("multimodal")
    data, own = sources_of(system, tmp_path)
    model = trained(interlinear, system, data, [*own, "training.epochs=6"])
    scores = json.loads(interlinear("evaluate", model, "--data", str(data), "--json"))
    assert scores["bleu"]["score"] > 5
    source = (tmp_path / "test.source").read_text().splitlines()[1]
    with process(
        "--model", f"toy={model}", folder=tmp_path, MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/mlflow.db"
    ) as child:
        url = address(child)
        if pictures:
            with tarfile.open(tmp_path / "images.tar") as archive:
                found = archive.extractfile("test.1.png")
                assert found is not None
                picture = base64.b64encode(found.read()).decode()
            answer = ask(f"{url}/translate/multimodal", q=source, image=picture, source="de", target="en", explain=True)
            assert answer["translatedText"]
        else:
            mt = (tmp_path / "test.mt").read_text().splitlines()[1]
            answer = ask(f"{url}/post-edit", source_text=source, translation=mt, source="de", target="en", explain=True)
            assert answer["editedText"] and "operations" in answer
        (explanation,) = answer["explanations"]
        assert explanation["sources"].keys() == {"source", "image" if pictures else "mt"}
        assert ("between" in explanation) == (not system.endswith("concat"))
