"""Finds terms in a text: entries of a glossary, and text that must not change."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from interlinear.errors import RequestError
from interlinear.generation.terms.protected import protected_spans
from interlinear.generation.terms.term import MULTILINE, Term, check_target
from interlinear.text.words import word_spans

Value = TypeVar("Value")

SHORTEST_STEMMED = 4  # characters; shorter words are found as they are only

# Snowball's algorithms by language code.
ALGORITHMS = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "et": "estonian", "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch",
    "no": "norwegian", "nb": "norwegian", "nn": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip


class PhraseIndex(Generic[Value]):
    """A trie of phrases, as sequences of words, with a value for each; `form` gives the form in which words are
    compared."""

    __slots__ = ("_next", "_value", "form")

    def __init__(self, form: Callable[[str], str]) -> None:
        self.form = form
        self._value: Value | None = None  # of the phrase that ends here
        self._next: dict[str, PhraseIndex[Value]] = {}

    def key(self, words: Iterable[str]) -> tuple[str, ...]:
        """The forms of words."""
        return tuple(map(self.form, words))

    def get(self, key: tuple[str, ...]) -> Value | None:
        found = self.longest_at(key, 0)
        return found[1] if found and found[0] == len(key) else None

    def add(self, key: tuple[str, ...], value: Value) -> None:
        """Add a phrase by the forms of its words, at least one."""
        node = self
        for form in key:
            if form not in node._next:
                node._next[form] = PhraseIndex(self.form)
            node = node._next[form]
        node._value = value

    def longest_at(self, forms: Sequence[str], position: int) -> tuple[int, Value] | None:
        """The longest phrase at a position of a text's forms: its number of words, and its value."""
        found: tuple[int, Value] | None = None
        node = self
        for end in range(position, len(forms)):
            following = node._next.get(forms[end])
            if following is None:
                break
            node = following
            if node._value is not None:
                found = end + 1 - position, node._value
        return found


@cache
def stem_form(language: str | None) -> Callable[[str], str] | None:
    """The function from a word to the form that its inflections share, the Snowball stem of the case-folded word; None
    for a language without a stemmer."""
    algorithm = ALGORITHMS.get((language or "").lower().split("-")[0])
    if algorithm is None:
        return None
    import snowballstemmer  # not needed by a search without a glossary

    if algorithm not in snowballstemmer.algorithms():
        return None
    stemmer, lock = snowballstemmer.stemmer(algorithm), Lock()  # a stemmer stores its current word

    @lru_cache(maxsize=1 << 15)
    def form(word: str) -> str:
        folded = word.casefold()
        if len(folded) < SHORTEST_STEMMED or not folded.isalpha():
            return folded
        with lock:
            return str(stemmer.stemWord(folded))

    return form


GLOSSARY, DO_NOT_TRANSLATE = "glossary", "do_not_translate"  # locations of errors: fields of the request


class GlossaryEntry(NamedTuple):
    """A term in the source language and its translation in the target language."""

    source: str
    target: str


AMBIGUOUS = GlossaryEntry("", "")  # the target of a stem with several targets


@dataclass(frozen=True)
class TermOptions:
    """The terms to find in texts: entries of a glossary, texts that are not translated, and with `protect` text that
    must not change because of its form (`protected_spans`)."""

    glossary: tuple[GlossaryEntry, ...] = ()
    do_not_translate: tuple[str, ...] = ()
    protect: bool = True

    @property
    def characters(self) -> int:
        """The length of all given texts."""
        return sum(map(len, self.do_not_translate)) + sum(len(source) + len(target) for source, target in self.glossary)

    def with_fallback(self, entries: Sequence[GlossaryEntry]) -> "TermOptions":
        """These options with further entries for sources without an entry yet, ignoring case."""
        known = {text.strip().casefold() for text in (*self.do_not_translate, *(source for source, _ in self.glossary))}
        added = tuple(entry for entry in entries if entry.source.casefold() not in known)
        return replace(self, glossary=self.glossary + added)

    @property
    def given(self) -> bool:
        """Whether terms are given, and not only found by their form."""
        return bool(self.glossary or self.do_not_translate)


class TermFinder:
    """Finds terms in texts of one language. Immutable and thread-safe.

    The entries of a glossary are found by the words of the text (`word_spans`), ignoring case, and by the words' stems,
    so that an inflected form is found too: the output has its target unchanged. Entries with different targets for one
    stem are only found in the given form. A text that is not translated is found in the given form, at word boundaries.
    Of overlapping terms the one that begins first is taken, then the longest; of equal spans a text that is not
    translated, then an entry that is found without stems.
    """

    def __init__(self, options: TermOptions, language: str | None = None) -> None:
        """`language`: of the texts, for stems. Raises RequestError for an empty entry, and for two targets of one
        source."""
        self._protect = options.protect
        self._has_phrases = options.given
        self._literal: PhraseIndex[str] = PhraseIndex(str)
        self._folded: PhraseIndex[GlossaryEntry] = PhraseIndex(str.casefold)
        stem = stem_form(language)
        self._stems: PhraseIndex[GlossaryEntry] | None = None if stem is None else PhraseIndex(stem)
        for text in options.do_not_translate:
            words = self._words_of(DO_NOT_TRANSLATE, text)
            check_target(DO_NOT_TRANSLATE, text.strip(), text)
            self._literal.add(words, text.strip())
        for entry in options.glossary:
            self._add(GlossaryEntry(entry.source.strip(), entry.target.strip()))

    def find(self, text: str) -> tuple[Term, ...]:
        """The terms of a text, in its order; they do not overlap, and none spans several lines."""
        found = [Term(*phrase) for phrase in self._find_phrases(text)] if self._has_phrases else []
        if self._protect:
            found += [
                Term(one.start, one.end, text[one.start : one.end], one.plain_number) for one in protected_spans(text)
            ]
        terms: list[Term] = []
        for term in sorted(found, key=lambda one: (one.start, -one.end)):
            if (not terms or term.start >= terms[-1].end) and not MULTILINE.search(text, term.start, term.end):
                terms.append(term)
        return tuple(terms)

    def _add(self, entry: GlossaryEntry) -> None:
        words = self._words_of(GLOSSARY, entry.source)
        check_target(GLOSSARY, entry.source, entry.target)
        literal = self._literal.get(words)
        if literal is not None and literal != entry.target:
            raise RequestError(
                GLOSSARY,
                f"'{entry.source}' has the target '{entry.target}', and is not to be translated",
                "remove one of both",
            )
        key = self._folded.key(words)
        other = self._folded.get(key)
        if other is not None and other.target != entry.target:
            raise RequestError(
                GLOSSARY,
                f"'{other.source}' has the target '{other.target}', and '{entry.source}' the target '{entry.target}'",
                "give one target for each source; upper and lower case are the same",
            )
        self._folded.add(key, entry)
        if self._stems is not None:
            stems = self._stems.key(words)
            known = self._stems.get(stems)
            self._stems.add(stems, entry if known is None or known.target == entry.target else AMBIGUOUS)

    def _find_phrases(self, text: str) -> list[tuple[int, int, str]]:
        """The spans of all phrases with their targets; of equal spans the preferred one is first."""
        spans = word_spans(text)
        words = [text[start:end] for start, end in spans]
        literal = self._literal.key(words)
        indexes = [(index, index.key(words)) for index in (self._folded, self._stems) if index is not None]
        found = []
        for i, (start, _) in enumerate(spans):
            if match := self._literal.longest_at(literal, i):
                end = spans[i + match[0] - 1][1]
                if text[start:end] == match[1]:
                    found.append((start, end, match[1]))
            for index, forms in indexes:
                entry = index.longest_at(forms, i)
                if entry is not None and entry[1] is not AMBIGUOUS:
                    found.append((start, spans[i + entry[0] - 1][1], entry[1].target))
        return found

    @staticmethod
    def _words_of(where: str, text: str) -> tuple[str, ...]:
        """The words of an entry. Raises RequestError if it has none."""
        words = tuple(text[start:end] for start, end in word_spans(text))
        if not words:
            raise RequestError(where, "a source is empty", "give the text that is to be found")
        return words
