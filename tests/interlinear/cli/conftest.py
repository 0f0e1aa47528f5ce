"""A small untrained bundle, which suffices to test commands that work with any model."""

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import yaml

from interlinear import cli
from interlinear.bundle import Limits, ModelCard, write_bundle
from interlinear.config import ImageGrid, ImageNetwork, RecurrentConfig, SourceConfig, Task, TextVocabulary
from interlinear.models.image_encoders.networks import grid_shape
from interlinear.models.model import build
from interlinear.search import SearchOptions
from interlinear.text import TextConfig, Tokenizer

GERMAN = "ein hund läuft . die katze schläft im garten und der mann liest das buch".split()
ENGLISH = "a dog runs . the cat sleeps in garden and man reads book".split()


def write_toy(folder: Path, seed: int, back: bool = False, image: ImageGrid | None = None, **keys: Any) -> Path:
    """A bundle from German to English, or the reverse; its units are words, its maximum length is 12. `keys` are model
    settings.

    With `combination` it post-edits English (`mt`), or reads an image.
    """
    draw = random.Random(seed)
    there = [("de", GERMAN), ("en", ENGLISH)]
    languages = dict(zip(("source", "target"), there[::-1] if back else there, strict=True))
    tokenizers = {
        name: Tokenizer.train(
            [" ".join(draw.sample(words, 8)) for _ in range(200)],
            TextConfig(units="words", vocabulary=60, language=language),
        )
        for name, (language, words) in languages.items()
    }
    task: Task = "translation"
    further: dict[str, SourceConfig] = {}
    if image:
        task, further = "multimodal", {"image": image}
    elif keys.get("combination", "none") != "none":
        task, further = "post-edit", {"mt": TextVocabulary(vocabulary=tokenizers["target"].size)}
        tokenizers["mt"] = tokenizers["target"]
    torch.manual_seed(seed)
    config = RecurrentConfig(
        **keys | {"embedding": 16, "hidden": 16},
        sources={"source": TextVocabulary(vocabulary=tokenizers["source"].size), **further},
        target=TextVocabulary(vocabulary=tokenizers["target"].size),
    )
    card = ModelCard(
        task=task,
        languages={name: language for name, (language, _) in languages.items()},
        model=config,
        search=SearchOptions(beam=2, max_length=8),
        limits=Limits(source_length=12, target_length=12),
    )
    write_bundle(folder, build(config).eval(), tokenizers, card)
    return folder


@pytest.fixture(scope="session")
def toy(tmp_path_factory) -> Path:
    return write_toy(tmp_path_factory.mktemp("models") / "toy", seed=1)


@pytest.fixture(scope="session")
def other_toy(tmp_path_factory) -> Path:
    return write_toy(tmp_path_factory.mktemp("models") / "other", seed=3)


@pytest.fixture(scope="session")
def back_toy(tmp_path_factory) -> Path:
    return write_toy(tmp_path_factory.mktemp("models") / "back", seed=3, back=True)


@pytest.fixture(scope="session")
def uam_toy(tmp_path_factory) -> Path:
    return write_toy(tmp_path_factory.mktemp("models") / "uam", seed=4, alignment_module=True)


@pytest.fixture(scope="session")
def gated_toy(tmp_path_factory) -> Path:
    return write_toy(tmp_path_factory.mktemp("models") / "gated", seed=5, word_attention=True, contextual_gates=True)


@pytest.fixture(scope="session")
def editing_toy(tmp_path_factory) -> Path:
    return write_toy(
        tmp_path_factory.mktemp("models") / "editing", seed=8, combination="flat",
        initialization="uniform", initialization_scale=1.0,
    )  # fmt: skip


@pytest.fixture(scope="session")
def seeing_toy(tmp_path_factory) -> Path:
    network = ImageNetwork(size=32)
    rows, columns, features = grid_shape(network)
    grid = ImageGrid(rows=rows, columns=columns, features=features, network=network)
    return write_toy(
        tmp_path_factory.mktemp("models") / "seeing", seed=7, image=grid, combination="concat",
        initialization="uniform", initialization_scale=1.0,
    )  # fmt: skip


TEST = {"source": "test.de", "target": "test.en"}


def describe(folder: Path, name: str = "mine", task: str = "translation", **splits: dict[str, Any]) -> Path:
    """The description of a data set from German to English, whose splits have these fields."""
    mt = {"mt": "en"} if any("mt" in fields for fields in splits.values()) else {}
    languages = {"source": "de", **mt, "target": "en"}
    content = {"task": task, "about": name, "licence": "none", "languages": languages, "splits": splits}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


@pytest.fixture
def parallel(tmp_path) -> tuple[Path, Path]:
    """Ten lines of German and of English."""
    draw = random.Random(3)
    source, target = tmp_path / "test.de", tmp_path / "test.en"
    source.write_text("".join(f"{' '.join(draw.choices(GERMAN, k=6))}\n" for _ in range(10)), encoding="utf-8")
    target.write_text("".join(f"{' '.join(draw.choices(ENGLISH, k=6))}\n" for _ in range(10)), encoding="utf-8")
    return source, target


class Printed(NamedTuple):
    out: str
    err: str


class Command:
    """Runs `interlinear` in this process, and asserts its exit code."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def both(self, *words: object, code: int = 0) -> Printed:
        """The output and the messages."""
        self.capsys.readouterr()
        ended = cli.run([str(word) for word in words])
        captured = self.capsys.readouterr()
        assert ended == code, captured.err
        return Printed(*captured)

    def __call__(self, *words: object, code: int = 0) -> str:
        """The output."""
        return self.both(*words, code=code)[0]

    def lines(self, *words: object, code: int = 0) -> list[str]:
        """The lines of the output."""
        return self(*words, code=code).splitlines()

    def json(self, *words: object) -> Any:
        """The record that the command prints with `--json`."""
        return json.loads(self(*words, "--json"))

    def err(self, code: int, *words: object) -> str:
        """The messages of a command that ends with this code."""
        return self.both(*words, code=code)[1]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)
