"""A language pair that a small model learns in seconds: each word has one translation, and the word order is
reversed."""

import io
import random
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image

from training.events import TrainingJob
from training.runs.job import create_job

WORDS = [f"{a}{b}" for a in ("ka", "li", "mo", "ru", "te") for b in ("ba", "do", "fi", "nu")]
SETTINGS = (
    "sources.source.units=words", "target.units=words", "model.embedding=32", "model.hidden=32", "model.dropout=0.1",
    "training.batch_tokens=300", "training.learning_rate=0.01", "training.warmup=0", "training.epochs=3",
    "training.precision=fp32", "training.label_smoothing=0", "training.average=2", "training.score=bleu",
)  # fmt: skip


def write_corpus(folder: Path, pairs: int = 600) -> Path:
    """A data set's YAML beside its files: `pairs` for training, 40 for dev, 40 for test, without overlap."""
    return write_strings(
        folder,
        {"train": pairs, "dev": 40, "test": 40},
        lambda chance: chance.choices(WORDS, k=chance.randint(2, 6)),
        lambda words: [word.upper() for word in reversed(words)],
    )


def write_edited(folder: Path) -> Path:
    """The same with a machine translation of every line, with one word missing; every fifth line has none."""
    description = write_corpus(folder)
    for split in ("train", "dev", "test"):
        targets = (folder / f"{split}.target").read_text().splitlines()
        mts = [" ".join(line.split()[1:]) if i % 5 else "" for i, line in enumerate(targets)]
        (folder / f"{split}.mt").write_text("".join(f"{line}\n" for line in mts))
    text = description.read_text().replace("translation", "post-edit").replace("target: en", "mt: en, target: en")
    for split in ("train", "dev", "test"):
        text = text.replace(f"{split}.target}}", f"{split}.target, mt: {split}.mt}}")
    description.write_text(text)
    return description


def write_pictured(folder: Path) -> Path:
    """The same with single-colour images; every third line has none."""
    description = write_corpus(folder)
    chance = random.Random(6)
    index = []
    with tarfile.open(folder / "images.tar", "w") as archive:
        for split in ("train", "dev", "test"):
            for line in range(len((folder / f"{split}.source").read_text().splitlines())):
                if line % 3 == 0:
                    continue
                file = io.BytesIO()
                Image.new("RGB", (32, 32), tuple(chance.choices(range(256), k=3))).save(file, "PNG")
                member = tarfile.TarInfo(f"{split}.{line}.png")
                member.size = file.tell()
                file.seek(0)
                archive.addfile(member, file)
                index.append(f"{split}\t{line}\t{member.name}\n")
    (folder / "index.tsv").write_text("".join(index))
    text = description.read_text().replace("translation", "multimodal")
    for split in ("train", "dev", "test"):
        pictures = f"image: {{images: images.tar, index: index.tsv, split: {split}}}"
        text = text.replace(f"{split}.target}}", f"{split}.target, {pictures}}}")
    description.write_text(text)
    return description


def write_strings(
    folder: Path,
    sizes: dict[str, int],
    draw: Callable[[random.Random], list[str]],
    become: Callable[[list[str]], list[str]],
) -> Path:
    """A data set's YAML beside its files: random words, no two lines alike, and a function of them as target."""
    chance = random.Random(4)
    seen: set[tuple[str, ...]] = set()
    for split, count in sizes.items():
        lines: list[list[str]] = []
        while len(lines) < count:
            words = draw(chance)
            if tuple(words) not in seen:
                seen.add(tuple(words))
                lines.append(words)
        (folder / f"{split}.source").write_text("".join(" ".join(line) + "\n" for line in lines))
        (folder / f"{split}.target").write_text("".join(" ".join(become(line)) + "\n" for line in lines))
    splits = "".join(f"  {s}: {{source: {s}.source, target: {s}.target}}\n" for s in sizes)
    description = folder / "toy.yaml"
    description.write_text(
        "task: translation\nabout: generated strings\nlicence: none\n"
        f"languages: {{source: de, target: en}}\nsplits:\n{splits}"
    )
    return description


def toy_job(
    folder: Path,
    run: str = "toy",
    resume: bool = False,
    settings: Sequence[str] = (),
    recipe: str = "rnnsearch",
    tracking: str | None = None,
) -> TrainingJob:
    """A training on the toy corpus; all files are under `folder`."""
    data = folder / "toy.yaml"
    if not data.exists():
        write_corpus(folder)
    return create_job(
        recipe, str(data), [*SETTINGS, *settings],
        prepared=folder / "prepared", runs=folder / "runs", run=run, resume=resume, tracking=tracking,
    )  # fmt: skip
