"""Every system learns: copy, reverse and a dictionary, on strings that it was never shown."""

import random
from pathlib import Path

import pytest

import seq2seq
from seq2seq.generation import Answer, Generation, Request
from seq2seq.search import SearchOptions
from tests.seq2seq.systems import SYSTEMS
from tests.training.toy import write_strings
from training.loop import train
from training.running import job_for

SYMBOLS = [f"s{i}" for i in range(50)]
MEANINGS = dict(zip(SYMBOLS, random.Random(7).sample([f"t{i}" for i in range(50)], 50), strict=True))
TASKS = {
    "copy": lambda words: words,
    "reverse": lambda words: words[::-1],
    "dictionary": lambda words: [MEANINGS[word] for word in words],
}
QUICK = [("contextual_gates", "reverse")]  # in `make test`
SETTINGS = (
    "sources.source.units=words", "target.units=words", "joint_vocabulary=false", "model.embedding=64",
    "model.hidden=64", "model.dropout=0", "training.batch_tokens=null", "training.batch_sentences=64",
    "training.learning_rate=0.003", "training.warmup=100", "training.schedule=halve_from_epoch",
    "training.halve_from=5", "training.epochs=8", "training.patience=null", "training.label_smoothing=0",
    "training.precision=fp32", "training.average=1", "training.clip=1.0", "training.divide_by=tokens",
)  # fmt: skip


SIZES = {"train": 30_000, "dev": 100, "test": 300}


def write(folder: Path, task: str) -> Path:
    """Strings of 5 to 20 symbols to learn from, and others to be asked."""
    return write_strings(folder, SIZES, lambda chance: chance.choices(SYMBOLS, k=chance.randint(5, 20)), TASKS[task])


@pytest.mark.parametrize(
    ("system", "task"),
    [
        pytest.param(system, task, marks=[] if (system, task) in QUICK else pytest.mark.slow)
        for system in SYSTEMS
        for task in TASKS
    ],
)
@pytest.mark.timeout(600)
def test_it_learns(tmp_path: Path, system: str, task: str) -> None:
    job = job_for(
        system, str(write(tmp_path, task)), SETTINGS, prepared=tmp_path / "prepared", runs=tmp_path / "runs", run="run"
    )
    outcome = train(job)
    assert outcome.bundle is not None
    sources = (tmp_path / "test.source").read_text().splitlines()
    targets = (tmp_path / "test.target").read_text().splitlines()
    requests = (Request({"source": line}, SearchOptions(beam=1)) for line in sources)
    answers = Generation(seq2seq.load(outcome.bundle), slots=100, width=1).answers(requests)
    right = [
        isinstance(answer, Answer) and answer.candidates[0].text == target
        for answer, target in zip(answers, targets, strict=True)
    ]
    assert sum(right) >= 0.99 * len(right), f"{sum(right)} of {len(right)}"
