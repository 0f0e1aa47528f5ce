"""A text's sentences, and so many of the first ones as a model can read."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

ENGLISH = "en"
_SURROGATE = re.compile("[\ud800-\udfff]")
_WRITTEN_LINE = re.compile(r"\S[^\n\r\v\f\x85\u2028\u2029]*")


def split_sentences(text: str, language: str | None = None) -> list[tuple[int, int]]:
    """Where the sentences lie, in characters, without the white space around them; a blank text has none.

    By sentencex's rules and abbreviations of the language (ISO code; None, or one that it does not know: English). The
    end of a line ends no sentence, but an empty line does.
    """
    from sentencex import segment

    text = _SURROGATE.sub("\ufffd", text)  # it would not take them
    found: list[tuple[int, int]] = []
    end = 0
    for content in filter(None, map(str.strip, segment(language or ENGLISH, text))):
        start = text.index(content, end)
        end = start + len(content)
        found.append((start, end))
    return found


def split_sentences_by_line(text: str, language: str | None = None) -> list[tuple[int, int]]:
    """As `split_sentences`, but the end of a line ends a sentence too, so that lines stay lines."""
    lines = re.finditer(r"[^\n\r\v\f\x85\u2028\u2029]+", text)
    return [(line.start() + a, line.start() + b) for line in lines for a, b in split_sentences(line[0], language)]


def min_sentences(text: str, most: int) -> int:
    """How many sentences `split_sentences_by_line` finds at least, at no cost: its lines that are not blank. Counted up to `most`."""
    return sum(1 for _ in islice(_WRITTEN_LINE.finditer(text), most))


def fewest_of(texts: Iterable[str], most: int) -> int:
    """The same of several texts, counted to more than `most` and no further."""
    found = 0
    for text in texts:
        if found > most:
            break
        found += min_sentences(text, most + 1 - found)
    return found


@dataclass(frozen=True)
class LeadingText:
    """The beginning of a text: so many of its sentences, of so many in all, and so many of its characters."""

    text: str
    sentences: int
    of: int

    @property
    def characters(self) -> int:
        return len(self.text)

    @property
    def whole(self) -> bool:
        """Whether no sentence was left out."""
        return self.sentences == self.of


def leading_sentences(text: str, language: str | None, fits: Callable[[str], bool]) -> LeadingText:
    """As many leading sentences as fit, as they stand in the text: to the last character what was given, if all fit.

    `fits` says whether a text is short enough for a model, and of what begins with a text that is not short enough it
    must say no. Where not even the first sentence fits, nothing is left: text "", sentences 0.
    """
    ends = [end for _, end in split_sentences(text, language)]
    if fits(text):
        return LeadingText(text, len(ends), len(ends))
    most, too_many = 0, len(ends) + 1
    while too_many - most > 1:  # by halves, since to ask costs a tokenizer's work
        half = (most + too_many) // 2
        if fits(text[: ends[half - 1]]):
            most = half
        else:
            too_many = half
    return LeadingText(text[: ends[most - 1]] if most else "", most, len(ends))
