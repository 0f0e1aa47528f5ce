"""Base class of the generators: seeded choices, alignment marks, and the words used so far in a sentence."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from tools.demo_world.choices import Choices, NoChoiceError
from tools.demo_world.grammar.english import English
from tools.demo_world.grammar.lexicon import Grammar, Lexicon
from tools.demo_world.pairs import GeneratedPair, Marks, Word, Words

P = TypeVar("P", bound=GeneratedPair)


class Generator(ABC, Generic[P]):
    """Generates pairs one after the other. The same seed generates the same pairs."""

    def __init__(self, lexicon: Lexicon, grammar: Grammar, seed: int) -> None:
        self.lexicon = lexicon
        self.grammar = grammar
        self.english = English(lexicon, grammar)
        self.choices = Choices(seed)
        self.last_mark = 0
        self.used: set[str] = set()
        self.combinations: set[tuple[str, str]] = set()
        self.noun_cache: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.adjectives_of: dict[str, list[str]] = {noun: [] for noun in lexicon.noun}  # in German
        for adjective, entry in lexicon.adjectives.items():
            for noun in lexicon.nouns_of(entry.of):
                self.adjectives_of[noun].append(adjective)

    def next_pair(self) -> P:
        """The next pair. An attempt that runs out of options is discarded and started again."""
        while True:
            self.last_mark = 0
            self.used = set()
            self.combinations = set()
            try:
                return self.attempt()
            except NoChoiceError:
                continue

    @abstractmethod
    def attempt(self) -> P:
        """Generate a pair. Raises NoChoiceError."""

    def new_mark(self) -> Marks:
        """An alignment mark that no word of this pair has."""
        self.last_mark += 1
        return frozenset([self.last_mark])

    def use_once(self, word: str) -> str:
        """The word, now marked as used. Raises NoChoiceError if this pair has used it already."""
        if word in self.used:
            raise NoChoiceError
        self.used.add(word)
        return word

    def nouns_of(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """The lexicon's nouns of these kinds, cached."""
        key = tuple(kinds)
        if key not in self.noun_cache:
            self.noun_cache[key] = self.lexicon.nouns_of(list(kinds))
        return self.noun_cache[key]

    def with_articles(self, words: Words) -> Words:
        """The words with `an` for `a` before a vowel."""
        following = [word.text for word in words[1:]] + [""]
        return tuple(
            Word(self.english.article(after), word.marks) if word.text == "a" else word
            for word, after in zip(words, following, strict=True)
        )
