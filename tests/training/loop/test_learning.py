"""Every system learns to reverse strings, and one of each order of a step to copy and to use a dictionary, tested on
unseen strings."""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import interlinear
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.search import SearchOptions
from tests.interlinear.recipes import EACH_ORDER
from tests.interlinear.systems import SYSTEMS
from tests.training.toy import write_strings
from training.loop.trainer import train
from training.runs.job import create_job

SYMBOLS = [f"s{i}" for i in range(20)]
MEANINGS = dict(zip(SYMBOLS, random.Random(7).sample([f"t{i}" for i in range(20)], 20), strict=True))
TASKS = {
    "copy": lambda words: words,
    "reverse": lambda words: words[::-1],
    "dictionary": lambda words: [MEANINGS[word] for word in words],
}
# 600 updates: enough for every system, and few enough to train all of them within minutes.
SETTINGS = (
    "sources.source.units=words", "target.units=words", "joint_vocabulary=false", "model.embedding=48",
    "model.hidden=48", "model.dropout=0", "training.batch_tokens=null", "training.batch_sentences=64",
    "training.learning_rate=0.01", "training.warmup=50", "training.schedule=halve_from_epoch",
    "training.halve_from=4", "training.epochs=6", "training.epoch_updates=100", "training.patience=null",
    "training.label_smoothing=0", "training.precision=fp32", "training.average=1", "training.clip=1.0",
    "training.divide_by=tokens",
)  # fmt: skip


SIZES = {"train": 12_000, "dev": 50, "test": 300}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A task's folder: strings of 4 to 12 symbols for training, and others for testing. Systems share it."""

    @cache
    def folder(task: str) -> Path:
        written = tmp_path_factory.mktemp(task)
        write_strings(written, SIZES, lambda chance: chance.choices(SYMBOLS, k=chance.randint(4, 12)), TASKS[task])
        return written

    return folder


@pytest.mark.slow  # test_trainer.py has a smaller one
@pytest.mark.parametrize(
    ("system", "task"),
    [(system, task) for system in SYSTEMS for task in TASKS if task == "reverse" or system in EACH_ORDER],
)
@pytest.mark.timeout(600)
def test_it_learns(data: Callable[[str], Path], tmp_path: Path, system: str, task: str) -> None:
    folder = data(task)
    job = create_job(
        system, str(folder / "toy.yaml"), SETTINGS, prepared=folder / "prepared", runs=tmp_path / "runs", run="run"
    )
    outcome = train(job)
    assert outcome.bundle is not None
    sources = (folder / "test.source").read_text().splitlines()
    targets = (folder / "test.target").read_text().splitlines()
    requests = (Request({"source": line}, SearchOptions(beam=1)) for line in sources)
    answers = SequenceGenerator(interlinear.load(outcome.bundle), slots=100, width=1).generate(requests)
    right = [
        isinstance(answer, GenerationResult) and answer.candidates[0].text == target
        for answer, target in zip(answers, targets, strict=True)
    ]
    # Most seeds of most systems have all right; the worst that was seen has 98.7 %: it leaves out a repeated symbol.
    assert sum(right) >= 0.98 * len(right), f"{sum(right)} of {len(right)}"
