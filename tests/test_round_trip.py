"""Every system end to end: trained, registered, loaded by its alias, aligned, served, explained.

Some in processes and on Ray, as users do; the others in this process, which takes a third of the time.
"""

import base64
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from interlinear import cli
from service.app import create_app
from service.settings import ServedModelConfig, Settings
from tests.interlinear.systems import HEADLINES, SYSTEMS
from tests.parameters import slow_but
from tests.service import test_serve
from tests.training.toy import SETTINGS, write_corpus, write_edited, write_pictured
from training.recipe import load_recipe

TRANSFORMERS = ("transformer", "transformer_guided", "transformer_small_data", "transformer_ssru")
SEVERAL = ["multimodal_transformer", "postedit_transformer"]
SEVERAL += [f"{task}_{how}" for task in ("multimodal", "postedit") for how in ("hierarchical", "flat", "concat")]
IN_PROCESSES = ("contextual_gates", "uam", "multimodal_hierarchical", "postedit_flat")

Command = Callable[..., str]
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def in_processes(system: str) -> bool:
    """Whether the commands and the service of the test's system are processes."""
    return system in IN_PROCESSES


@pytest.fixture
def interlinear(
    in_processes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs the command in a folder of its own and returns its output; its messages go to this process's stderr."""
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def run_process(*arguments: str) -> str:
        command = [sys.executable, "-m", "interlinear", *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        print(done.stderr, file=sys.stderr)
        return done.stdout

    def run(*arguments: str) -> str:
        assert cli.run([*arguments, "--no-ray"] if arguments[0] == "train" else arguments) == 0
        return capsys.readouterr().out

    return run_process if in_processes else run


@contextmanager
def served(model: str, folder: Path, in_processes: bool) -> Iterator[Ask]:
    """A service with a model; the function asks it."""
    if in_processes:
        with test_serve.process("--model", f"toy={model}", folder=folder) as child:
            url = test_serve.address(child)
            yield lambda path, **request: test_serve.ask(url + path, **request)
    else:
        with TestClient(create_app(Settings(models=(ServedModelConfig(name="toy", uri=model),)))) as client:
            yield lambda path, **request: client.post(path, json=request).raise_for_status().json()


def trained(interlinear: Command, system: str, data: Path, settings: Sequence[str]) -> str:
    """Train and register; returns the model's name."""
    sizes = SETTINGS
    if load_recipe(system).model.kind == "transformer":
        own = ["model.feed_forward=32", "model.tie_embeddings=none", "model.norm=pre", "training.warmup=20"]
        sizes = (*(setting for setting in SETTINGS if "hidden" not in setting), *own)
    sets = [word for setting in [*sizes, *settings] for word in ("--set", setting)]
    said = interlinear("train", system, "--data", str(data), "--register", f"toy-{system}", *sets)
    model = f"models:/toy-{system}/1"  # a model below its baseline is no champion
    assert json.loads(interlinear("info", model, "--json"))["weights_sha256"] == said.strip().splitlines()[-1]
    return model


@pytest.mark.slow  # `make demo` goes the same way with one
@pytest.mark.parametrize("system", [*SYSTEMS, *TRANSFORMERS])
@pytest.mark.timeout(300)
def test_every_system_end_to_end(
    system: str, in_processes: bool, tmp_path: Path, interlinear: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_corpus(tmp_path)
    headlines = system in HEADLINES
    if headlines:
        text = data.read_text().replace("translation", "summarization").replace("{source: de,", "{source: en,")
        data.write_text(text)
    model = trained(interlinear, system, data, ["joint_vocabulary=false", "training.epochs=6"])
    if in_processes:  # on Ray
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

    with served(model, tmp_path, in_processes) as ask:
        if headlines:
            answer = ask("/summarize", text=sources[:2], explain=True)
            texts = answer["summaries"]
        else:
            answer = ask("/translate", q=sources[:2], source="de", target="en", explain=True)
            texts = answer["translatedText"]
        assert len(texts) == 2
        assert answer["model"]["version"] == "1"
        for explanation in answer["explanations"]:
            recipe = load_recipe(system).model
            posterior = recipe.kind == "recurrent" and "uam" not in recipe.attention_kinds
            assert set(explanation["matrices"]) == {*recipe.attention_kinds} | ({"posterior"} if posterior else set())
            assert explanation["alignment"]


def sources_of(system: str, folder: Path) -> tuple[Path, list[str]]:
    """A data set with the sources of a system, and settings for it."""
    if system.startswith("multimodal"):
        return write_pictured(folder), ["sources.image.size=32", "joint_vocabulary=false"]
    return write_edited(folder), ["sources.mt.units=words", "model.tie_embeddings=none", "joint_vocabulary=false"]


@pytest.mark.parametrize("system", slow_but(["multimodal_flat", "postedit_transformer"], SEVERAL))
@pytest.mark.timeout(300)
def test_several_sources_end_to_end(system: str, in_processes: bool, tmp_path: Path, interlinear: Command) -> None:
    pictures = system.startswith("multimodal")
    data, own = sources_of(system, tmp_path)
    model = trained(interlinear, system, data, [*own, "training.epochs=6"])
    scores = json.loads(interlinear("evaluate", model, "--data", str(data), "--json"))
    assert set(scores) == ({"bleu"} if pictures else {"bleu", "hter", "unedited"}) and scores["bleu"]["score"] > 5
    source = (tmp_path / "test.source").read_text().splitlines()[1]
    with served(model, tmp_path, in_processes) as ask:
        if pictures:
            with tarfile.open(tmp_path / "images.tar") as archive:
                found = archive.extractfile("test.1.png")
                assert found is not None
                picture = base64.b64encode(found.read()).decode()
            answer = ask("/translate/multimodal", q=source, image=picture, source="de", target="en", explain=True)
            assert answer["translatedText"]
        else:
            mt = (tmp_path / "test.mt").read_text().splitlines()[1]
            answer = ask("/post-edit", source_text=source, translation=mt, source="de", target="en", explain=True)
            assert answer["editedText"] and "operations" in answer
        (explanation,) = answer["explanations"]
        assert explanation["sources"].keys() == {"source", "image" if pictures else "mt"}
        one_softmax = system.endswith(("flat", "hierarchical", "multimodal_transformer"))  # its combination
        assert ("between" in explanation) == one_softmax
