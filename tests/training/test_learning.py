"""Every system learns: copy, reverse and a dictionary, on strings that it was never shown."""

import random
from pathlib import Path

import pytest

import seq2seq
from seq2seq.generation import Answer, Generation, Request
from seq2seq.search import SearchOptions
from tests.seq2seq.systems import SYSTEMS
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
    "training.learning_rate=0.005", "training.warmup=100", "training.schedule=halve_from_epoch",
    "training.halve_from=5", "training.epochs=8", "training.patience=null", "training.label_smoothing=0",
    "training.precision=fp32", "training.average=1", "training.clip=1.0", "training.divide_by=tokens",
)  # fmt: skip


def write(folder: Path, task: str) -> Path:
    """20,000 strings of 5 to 20 symbols to learn from, 100 of dev and 300 of test that are not among them."""
    chance = random.Random(1)
    seen: set[tuple[str, ...]] = set()
    for split, count in {"train": 20_000, "dev": 100, "test": 300}.items():
        lines: list[tuple[str, ...]] = []
        while len(lines) < count:
            words = tuple(chance.choices(SYMBOLS, k=chance.randint(5, 20)))
            if words not in seen:
                seen.add(words)
                lines.append(words)
        (folder / f"{split}.source").write_text("".join(" ".join(words) + "\n" for words in lines))
        (folder / f"{split}.target").write_text("".join(" ".join(TASKS[task](list(w))) + "\n" for w in lines))
    splits = "".join(
        f"  {s}: {{source: {{files: {s}.source, tokenised: true}}, target: {{files: {s}.target, tokenised: true}}}}\n"
        for s in ("train", "dev", "test")
    )
    description = folder / "strings.yaml"
    description.write_text(
        f"task: translation\nabout: {task}\nlicence: none\nlanguages: {{source: en, target: en}}\nsplits:\n{splits}"
    )
    return description


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
    requests = (Request({"source": line}, SearchOptions(beam=1), raw=False) for line in sources)
    answers = Generation(seq2seq.load(outcome.bundle), slots=100, width=1).answers(requests)
    right = [
        isinstance(answer, Answer) and answer.candidates[0].text == target
        for answer, target in zip(answers, targets, strict=True)
    ]
    assert sum(right) >= 0.99 * len(right), f"{sum(right)} of {len(right)}"
