"""From generated words to text: commas, capital letters, spaces."""

from collections.abc import Iterable, Sequence

from tools.demo_world.pairs import Word, Words

PUNCTUATION = ".,?!"


def remove_extra_commas(words: Iterable[Word]) -> Words:
    """The words without a comma before another punctuation mark."""
    kept: list[Word] = []
    for word in words:
        if word.text in PUNCTUATION and kept and kept[-1].text == ",":
            kept.pop()
        kept.append(word)
    return tuple(kept)


def capitalize_first(words: Words) -> tuple[str, ...]:
    """The words as strings, the first with a capital letter."""
    first, *others = (word.text for word in words)
    return (first[0].upper() + first[1:], *others)


def join_words(words: Sequence[str]) -> str:
    """The text of a sentence: words separated by spaces, without a space before a punctuation mark."""
    return "".join(word if index == 0 or word in PUNCTUATION else f" {word}" for index, word in enumerate(words))


def count_words(side: Iterable[str]) -> int:
    """The number of words, without punctuation marks."""
    return sum(word not in PUNCTUATION for word in side)
