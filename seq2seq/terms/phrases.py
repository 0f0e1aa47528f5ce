"""Looking up phrases of several words in a text: the longest one at a word, in a time that hardly depends on their
number."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from threading import Lock
from typing import Generic, TypeVar

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
    """Phrases, as sequences of words, with a value for each; `form` is what words are compared by."""

    def __init__(self, form: Callable[[str], str]) -> None:
        self.form = form
        self._values: dict[tuple[str, ...], Value] = {}
        self._longest: dict[str, int] = {}  # words of the longest phrase that begins with this form

    def key(self, words: Iterable[str]) -> tuple[str, ...]:
        """The forms of words."""
        return tuple(map(self.form, words))

    def get(self, key: tuple[str, ...]) -> Value | None:
        return self._values.get(key)

    def add(self, key: tuple[str, ...], value: Value) -> None:
        """Add a phrase by the forms of its words, at least one."""
        self._values[key] = value
        self._longest[key[0]] = max(len(key), self._longest.get(key[0], 0))

    def longest_at(self, forms: Sequence[str], position: int) -> tuple[int, Value] | None:
        """The longest phrase at a position of a text's forms: its number of words, and its value."""
        for length in range(min(self._longest.get(forms[position], 0), len(forms) - position), 0, -1):
            value = self._values.get(tuple(forms[position : position + length]))
            if value is not None:
                return length, value
        return None


@cache
def stem_form(language: str | None) -> Callable[[str], str] | None:
    """The form of a word by which its inflections are found: the Snowball stem of the case-folded word; None for a
    language without a stemmer."""
    algorithm = ALGORITHMS.get((language or "").lower().split("-")[0])
    if algorithm is None:
        return None
    import snowballstemmer  # not needed by a search without a glossary

    if algorithm not in snowballstemmer.algorithms():
        return None
    stemmer, lock = snowballstemmer.stemmer(algorithm), Lock()  # a stemmer keeps the word that it is at

    @lru_cache(maxsize=1 << 15)
    def form(word: str) -> str:
        folded = word.casefold()
        if len(folded) < SHORTEST_STEMMED or not folded.isalpha():
            return folded
        with lock:
            return str(stemmer.stemWord(folded))

    return form
