"""The demo corpus, and what all generated corpora share: the splits and what dev and test contain."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal, TypeVar

from tools.demo_world.grammar.lexicon import grammar, lexicon
from tools.demo_world.grammar.sentences import SentenceGenerator
from tools.demo_world.pairs import GeneratedPair, Pair
from tools.demo_world.text import count_words

P = TypeVar("P", bound=GeneratedPair)
Split = Literal["train", "dev", "test"]


@dataclass(frozen=True)
class CorpusPlan:
    """The sizes of a corpus in pairs, and what dev and test contain that train does not.

    A combination is a pair of words, for example an adjective with its noun or a verb with its object.
    """

    seed: int = 1
    train: int = 12_000
    dev: int = 500
    test: int = 1_000
    min_count: int = 5  # minimum frequency in train of every word of dev and test
    novel: float = 0.06  # share of the combinations that occur in dev and test only
    novel_pairs: float = 0.5  # share of the pairs of dev and of test that contain one of these


DEMO = CorpusPlan()
SHORTEST, LONGEST = 4, 16  # words per side, without punctuation marks


def demo_corpus(plan: CorpusPlan = DEMO) -> dict[Split, list[Pair]]:
    """The demo corpus of a plan. Its combinations: an adjective with its noun, a verb with its object."""
    return split_corpus(sentences(plan), plan)


def sentences(plan: CorpusPlan) -> Iterator[Pair]:
    """Sentence pairs of SHORTEST to LONGEST words per side."""
    generator = SentenceGenerator(lexicon(), grammar(), plan.seed)
    while True:
        pair = generator.next_pair()
        if all(SHORTEST <= count_words(side) <= LONGEST for side in pair.sides):
            yield pair


def split_corpus(generated: Iterator[P], plan: CorpusPlan) -> dict[Split, list[P]]:
    """The corpus of a plan. No side of a pair occurs twice, and no word of dev or test is rare in train.

    Novel combinations, chosen by a hash of the seed and their words, do not occur in train; a share of dev and of test
    (`novel_pairs`) has at least one of them.
    """
    pairs = distinct(generated)
    train: list[P] = []
    novel_pairs: list[P] = []
    while len(train) < plan.train:
        pair = next(pairs)
        (novel_pairs if is_novel(pair, plan) else train).append(pair)
    counts = Counter(word for pair in train for word in lowercase_words(pair))
    frequent = {word for word, count in counts.items() if count >= plan.min_count}
    heldout: dict[Split, list[P]] = {}
    candidates = (pair for pair in chain(novel_pairs, pairs) if frequent.issuperset(lowercase_words(pair)))
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


def distinct(pairs: Iterator[P]) -> Iterator[P]:
    """The pairs of which neither side occurred in an earlier one."""
    seen: set[tuple[str, ...]] = set()
    for pair in pairs:
        if seen.isdisjoint(pair.sides):
            seen.update(pair.sides)
            yield pair


def shuffled(pairs: list[P], plan: CorpusPlan) -> list[P]:
    """The pairs in an order that depends on their text and the seed only."""
    return sorted(pairs, key=lambda pair: hashlib.sha256(f"{plan.seed} {pair.sides[0]}".encode()).digest())


def is_novel(pair: GeneratedPair, plan: CorpusPlan) -> bool:
    """Whether a pair contains a combination that must not occur in train."""
    hashes = (hashlib.sha256(f"{plan.seed} {first} {second}".encode()).digest() for first, second in pair.combinations)
    return any(int.from_bytes(digest[:4], "big") < plan.novel * 2**32 for digest in hashes)


def lowercase_words(pair: GeneratedPair) -> Iterable[str]:
    """The words of both sides, in lower case so that the first word of a sentence is not a different word."""
    return (word.lower() for side in pair.sides for word in side)
