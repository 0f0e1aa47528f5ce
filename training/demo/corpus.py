"""The demo corpus: sentences dealt out to train, dev and test, and written as parallel files with gold alignments."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seq2seq.errors import DataError
from training.demo.lexicon import FOLDER, grammar, lexicon
from training.demo.sentences import PUNCTUATION, Pair, Speaker, written

Split = Literal["train", "dev", "test"]


@dataclass(frozen=True)
class Plan:
    """How many pairs a corpus has, how long they may be (words a side, no marks), and what is kept from train."""

    seed: int = 1
    train: int = 12_000
    dev: int = 500
    test: int = 1_000
    shortest: int = 4
    longest: int = 16
    novel: float = 0.06  # part of the combinations of words that only dev and test show
    novel_pairs: float = 0.5  # part of dev and of test that shows one of them


DEMO = Plan()


def demo_corpus(plan: Plan = DEMO) -> dict[Split, list[Pair]]:
    """The corpus of a plan: no sentence twice in either language, and no word in dev or test that train has not.

    A combination is an adjective with its noun or a verb with its object. Some combinations, chosen by a hash of the
    seed and their words, are kept from train; half of dev and of test have at least one of them.
    """
    speaker = Speaker(lexicon(), grammar(), plan.seed)
    novel_wanted = {"dev": round(plan.dev * plan.novel_pairs), "test": round(plan.test * plan.novel_pairs)}
    train: list[Pair] = []
    heldout: dict[Split, list[Pair]] = {"dev": [], "test": []}
    usual: list[Pair] = []
    novel: list[Pair] = []
    seen: set[tuple[str, ...]] = set()
    # Half as many again wait for dev and test, since some will have a word that train lacks.
    needed_usual = plan.train + (plan.dev + plan.test) * 3 // 2
    needed_novel = sum(novel_wanted.values()) * 3 // 2
    while len(usual) < needed_usual or len(novel) < needed_novel:
        pair = speaker.sentence()
        if not all(plan.shortest <= words_of(side) <= plan.longest for side in (pair.de, pair.en)):
            continue
        if pair.de in seen or pair.en in seen:
            continue
        seen.update((pair.de, pair.en))
        (novel if any(is_novel(words, plan) for words in pair.combinations) else usual).append(pair)
    train, usual = usual[: plan.train], usual[plan.train :]
    known = {word for pair in train for word in forms(pair)}
    for pairs, share in ((novel, novel_wanted), (usual, {"dev": plan.dev, "test": plan.test})):
        waiting = iter(pair for pair in pairs if known.issuperset(forms(pair)))
        for split in heldout:
            while len(heldout[split]) < share[split]:
                heldout[split].append(next(waiting))
    return {"train": train, **{split: mixed(pairs, plan) for split, pairs in heldout.items()}}


def mixed(pairs: list[Pair], plan: Plan) -> list[Pair]:
    """The same pairs in an order that does not depend on what they are."""
    return sorted(pairs, key=lambda pair: hashlib.sha256(f"{plan.seed} {pair.de}".encode()).digest())


def is_novel(words: tuple[str, str], plan: Plan) -> bool:
    """Whether a combination of words is kept from train."""
    number = int.from_bytes(hashlib.sha256(f"{plan.seed} {words[0]} {words[1]}".encode()).digest()[:4], "big")
    return number < plan.novel * 2**32


def words_of(side: Iterable[str]) -> int:
    return sum(word not in PUNCTUATION for word in side)


def forms(pair: Pair) -> Iterable[str]:
    """Every word of both sides, in lower case: a sentence's first word is no other word."""
    return (word.lower() for side in (pair.de, pair.en) for word in side)


def write(corpus: Mapping[Split, list[Pair]], folder: Path) -> None:
    """SPLIT.de, SPLIT.en and SPLIT.align (Pharaoh: `i-j`, source-target, from 0; punctuation marks count as words)."""
    for split, pairs in corpus.items():
        for suffix, lines in (
            ("de", [written(pair.de) for pair in pairs]),
            ("en", [written(pair.en) for pair in pairs]),
            ("align", [" ".join(f"{i}-{j}" for i, j in pair.links) for pair in pairs]),
        ):
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{split}.{suffix}").write_bytes(text.encode("utf-8"))


def identity(plan: Plan = DEMO) -> str:
    """SHA-256 (hex) of all that decides the corpus: the generator's code, its words and rules, and the plan."""
    digest = hashlib.sha256(repr(plan).encode())
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in {".py", ".yaml"}:
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def generate(name: str, generated: Path) -> Path:
    """The folder that holds a generated data set, made below `generated` if it is not there; whole or not at all."""
    folder = generated / f"{name}-{identity()[:16]}"
    if folder.is_dir():
        return folder
    unfinished: Path | None = None
    try:
        generated.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=generated))
        write(demo_corpus(), unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    except OSError as error:
        if not folder.is_dir():  # else another process was faster, with the same content
            raise DataError(str(folder), f"cannot be written: {error.strerror}") from None
    finally:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder
