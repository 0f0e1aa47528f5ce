"""The case of letters: a text in capitals, as a title, or with a small first letter is encoded in the forms of the
training text, and its translation gets the input's case (truecasing: Lita et al. 2003; Moses' `recaser/truecase.perl`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from interlinear.text.normalization import MappedText
from interlinear.text.words import Span

COUNTED_LINES = 500_000  # enough for the form of every frequent word, and read in seconds
RAREST, MOST_WORDS = 2, 50_000  # occurrences of a word whose form is kept, and the number of such words
MOSTLY = 0.9  # the share of training lines with a capital first letter that makes it the rule
SHORTEST_CAPITALS = 4  # letters of a text of one word in capitals; a shorter one is an abbreviation

WORD = re.compile(r"[^\W\d_]+")

Case = Literal["capitals", "title", "small"]  # of a text; `small`: its first letter


@dataclass(frozen=True)
class Casing:
    """The written forms of the words of a training text.

    words: the most frequent form of each word inside sentences. capitalised: whether sentences begin with a capital
    letter. rare_capitalised: whether the rarest words do, as in German, where they are nouns.
    """

    words: tuple[str, ...]
    capitalised: bool
    rare_capitalised: bool

    @cached_property
    def forms(self) -> dict[str, str]:
        """The forms by words in small letters; words with ß also by their spelling in capitals."""
        capitals = {small(word).replace("ß", "ss"): word for word in self.words if "ß" in word}
        return capitals | {small(word): word for word in self.words}

    def form(self, word: str) -> str | None:
        """The form of a word; None for one that is not known."""
        return self.forms.get(small(word))

    def restored(self, text: str, kept: Sequence[Span] = ()) -> tuple[MappedText, Case | None]:
        """A text in the forms of the training text, and its original case; the text itself and None if its case is
        ordinary. kept: spans that do not change."""
        words = [m for m in WORD.finditer(text) if has_case(m[0]) and not inside(m.span(), kept)]
        case = self._case(text, [m[0] for m in words])
        if case is None:
            return MappedText(text), None
        chosen = words[:1] if case == "small" and not text.islower() else words
        mapped, done = MappedText("", []), 0
        for word in chosen:
            form = self.form(word[0]) or self._unknown(word[0], case)
            if len(form) != len(word[0]) and kept:
                form = small(word[0])  # the positions of terms stay
            if word is words[0] and self.capitalised:
                form = capital_first(form)
            mapped = joined(mapped, text, done, word.start(), text[done : word.start()])
            mapped = joined(mapped, text, *word.span(), form)
            done = word.end()
        return joined(mapped, text, done, len(text), text[done:]), case

    def _case(self, text: str, words: Sequence[str]) -> Case | None:
        if not words:
            return None
        forms = [self.form(word) or word for word in words]
        if [capital_first(forms[0]) if self.capitalised else forms[0], *forms[1:]] == list(words):
            return None
        if all(word.replace("ß", "").isupper() for word in words):
            return "capitals" if len(words) > 1 or len(words[0]) >= SHORTEST_CAPITALS else None
        if len(words) > 2 and all(word.istitle() for word in words):
            return "title"
        return "small" if self.capitalised and words[0][0].islower() else None

    def _unknown(self, word: str, case: Case) -> str:
        """The form of an unknown word: in a title unchanged."""
        if case == "title":
            return word
        return capital_first(small(word)) if self.rare_capitalised else small(word)


def joined(mapped: MappedText, text: str, start: int, end: int, form: str) -> MappedText:
    """The text, followed by the characters [start, end) of the original text in another form."""
    assert mapped.spans is not None
    if len(form) == end - start:
        spans = [(i, i + 1) for i in range(start, end)]
    else:
        spans = [(start, end)] * len(form)
    return MappedText(mapped.text + form, mapped.spans + spans)


def recased(text: str, case: Case, forms: "Casing | None", kept: Sequence[Span] = ()) -> str:
    """An output in a case. forms: of the output's language; a first word that is not usually lower-case stays
    unchanged. kept: spans of terms, which do not change."""
    letters = list(text)
    for i, word in enumerate(WORD.finditer(text)):
        if inside(word.span(), kept):
            continue
        if case == "capitals":
            letters[word.start() : word.end()] = map(capital, word[0])
        elif case == "title":
            letters[word.start() : word.end()] = capital_first(word[0])
        elif i == 0:
            usual = forms and forms.form(word[0])
            if word[0].istitle() and (usual is None or usual == small(word[0])):
                letters[word.start() : word.end()] = small(word[0])
    return "".join(letters)


class CasingCounter:
    """Counts the forms of the words of a training text."""

    def __init__(self) -> None:
        self._words: Counter[str] = Counter()
        self._lines = self._capital = 0

    def watch(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines, unchanged; each is counted when it is read."""
        for line in lines:
            if self._lines < COUNTED_LINES:
                self._count(line)
            yield line

    def _count(self, line: str) -> None:
        words = WORD.findall(line)
        if words and has_case(words[0]):
            self._lines += 1
            self._capital += words[0][0].isupper()
            self._words.update(words[1:])

    def casing(self) -> Casing | None:
        """The counted forms; None if no word has a case, or all are lower-case."""
        by_word: dict[str, Counter[str]] = {}
        for word, count in sorted(self._words.items()):
            if has_case(word):
                by_word.setdefault(small(word), Counter())[word] = count
        totals = {key: counts.total() for key, counts in by_word.items()}
        frequent = sorted((key for key in totals if totals[key] >= RAREST), key=lambda key: (-totals[key], key))
        words = tuple(by_word[key].most_common(1)[0][0] for key in frequent[:MOST_WORDS])
        rare = [next(iter(by_word[key]))[0].isupper() for key in totals if totals[key] < RAREST]
        capitalised = self._lines > 0 and self._capital >= MOSTLY * self._lines
        if not capitalised and all(word == small(word) for word in words):
            return None
        return Casing(words, capitalised, 2 * sum(rare) > len(rare))


def has_case(word: str) -> bool:
    """Whether a word has letters of a script with capitals."""
    return word.lower() != word.upper()


def inside(span: Span, kept: Sequence[Span]) -> bool:
    """Whether a span overlaps a kept one."""
    return any(start < span[1] and span[0] < end for start, end in kept)


def small(text: str) -> str:
    """A text in small letters, with as many characters."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def capital(letter: str) -> str:
    """A letter as a capital, if that is one character."""
    return "ẞ" if letter == "ß" else letter.upper() if len(letter.upper()) == 1 else letter


def capital_first(word: str) -> str:
    """A word with a capital first letter."""
    return capital(word[0]) + word[1:]
