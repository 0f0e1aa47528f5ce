"""Generated corpora: pairs dealt out to train, dev and test, and written as parallel files with gold alignments."""

import hashlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, TypeVar

from seq2seq.errors import DataError
from training.demo.lexicon import FOLDER, grammar, lexicon
from training.demo.pairs import GeneratedPair, Pair, pharaoh
from training.demo.sentences import PUNCTUATION, SentenceGenerator, written

P = TypeVar("P", bound=GeneratedPair)
Planned = TypeVar("Planned")
Split = Literal["train", "dev", "test"]


@dataclass(frozen=True)
class CorpusPlan:
    """How many pairs a corpus has, and what is kept from train."""

    seed: int = 1
    train: int = 12_000
    dev: int = 500
    test: int = 1_000
    often: int = 5  # times that train has a word at least, before dev and test may use it
    novel: float = 0.06  # part of the combinations of words that only dev and test show
    novel_pairs: float = 0.5  # part of dev and of test that shows one of them


DEMO = CorpusPlan()
SHORTEST, LONGEST = 4, 16  # words a side of the demo corpus, no marks


def demo_corpus(plan: CorpusPlan = DEMO) -> dict[Split, list[Pair]]:
    """The demo corpus of a plan. A combination is an adjective with its noun or a verb with its object."""
    return split_corpus(sentences(plan), plan)


def sentences(plan: CorpusPlan) -> Iterator[Pair]:
    """The world's sentences of the right length."""
    speaker = SentenceGenerator(lexicon(), grammar(), plan.seed)
    while True:
        pair = speaker.sentence()
        if all(SHORTEST <= words_of(side) <= LONGEST for side in pair.sides):
            yield pair


def split_corpus(said: Iterator[P], plan: CorpusPlan) -> dict[Split, list[P]]:
    """The corpus of a plan: neither side of a pair comes twice, and no word in dev or test is rare in train.

    Some combinations, chosen by a hash of the seed and their words, are kept from train; half of dev and of test have
    at least one of them.
    """
    pairs = distinct(said)
    train: list[P] = []
    waiting: list[P] = []
    while len(train) < plan.train:
        pair = next(pairs)
        (waiting if is_novel(pair, plan) else train).append(pair)
    counts = Counter(word for pair in train for word in forms(pair))
    known = {word for word, count in counts.items() if count >= plan.often}
    heldout: dict[Split, list[P]] = {}
    candidates = (pair for pair in chain(waiting, pairs) if known.issuperset(forms(pair)))
    sizes: dict[Split, int] = {"dev": plan.dev, "test": plan.test}
    for split, size in sizes.items():
        wanted = {True: round(size * plan.novel_pairs), False: size - round(size * plan.novel_pairs)}
        chosen: dict[bool, list[P]] = {True: [], False: []}
        while any(len(chosen[novel]) < wanted[novel] for novel in wanted):
            pair = next(candidates)
            novel = is_novel(pair, plan)
            if len(chosen[novel]) < wanted[novel]:
                chosen[novel].append(pair)
        heldout[split] = shuffled(chosen[True] + chosen[False], plan)
    return {"train": train, **heldout}


def distinct(said: Iterator[P]) -> Iterator[P]:
    """Each pair of which neither side was there before."""
    seen: set[tuple[str, ...]] = set()
    for pair in said:
        if seen.isdisjoint(pair.sides):
            seen.update(pair.sides)
            yield pair


def shuffled(pairs: list[P], plan: CorpusPlan) -> list[P]:
    """The same pairs in an order that does not depend on when they were said."""
    return sorted(pairs, key=lambda pair: hashlib.sha256(f"{plan.seed} {pair.sides[0]}".encode()).digest())


def is_novel(pair: GeneratedPair, plan: CorpusPlan) -> bool:
    """Whether a sentence shows a combination of words that is kept from train."""
    hashes = (hashlib.sha256(f"{plan.seed} {first} {second}".encode()).digest() for first, second in pair.combinations)
    return any(int.from_bytes(digest[:4], "big") < plan.novel * 2**32 for digest in hashes)


def words_of(side: Iterable[str]) -> int:
    return sum(word not in PUNCTUATION for word in side)


def forms(pair: GeneratedPair) -> Iterable[str]:
    """Every word of both sides, in lower case: a sentence's first word is no other word."""
    return (word.lower() for side in pair.sides for word in side)


def write(
    corpus: Mapping[Split, Sequence[GeneratedPair]],
    folder: Path,
    suffixes: tuple[str, str] = ("de", "en"),
    text: Callable[[Sequence[str]], str] = written,
) -> None:
    """For each side SPLIT.SUFFIX, and SPLIT.align (Pharaoh: `i-j`, source-target, from 0; marks count as words)."""
    for split, pairs in corpus.items():
        for suffix, lines in (
            (suffixes[0], [text(pair.sides[0]) for pair in pairs]),
            (suffixes[1], [text(pair.sides[1]) for pair in pairs]),
            ("align", [pharaoh(pair.links) for pair in pairs]),
        ):
            content = "".join(f"{line}\n" for line in lines)
            (folder / f"{split}.{suffix}").write_bytes(content.encode("utf-8"))


def make_demo(plan: CorpusPlan, folder: Path) -> None:
    """Write the demo corpus of a plan: SPLIT.de, SPLIT.en, SPLIT.align."""
    write(demo_corpus(plan), folder)


def content_hash(plan: object) -> str:
    """SHA-256 (hex) of all that decides a corpus: the generator's code, its words and rules, and the plan."""
    digest = hashlib.sha256(repr(plan).encode())
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in {".py", ".yaml"}:
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def generate_once(name: str, generated: Path, plan: Planned, make: Callable[[Planned, Path], None]) -> Path:
    """The folder that holds a generated data set, made below `generated` if it is not there; whole or not at all."""
    folder = generated / f"{name}-{content_hash(plan)[:16]}"
    if folder.is_dir():
        return folder
    unfinished: Path | None = None
    try:
        generated.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=generated))
        make(plan, unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    except OSError as error:
        if not folder.is_dir():  # else another process was faster, with the same content
            raise DataError(str(folder), f"cannot be written: {error.strerror}") from None
    finally:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder
