"""Sentence splitting, and selection of the leading sentences that fit a model's input limit."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from interlinear.text.words import continues_word, is_unspaced

SplitMode = Literal["0", "1", "nonewlines"]  # DeepL's: no splitting, at line breaks too, at punctuation only

ENGLISH = "en"
SENTENCE_END = ".!?…。！？，、；："
UNSPACED_LANGUAGES = {"zh", "ja", "th", "lo", "km", "my", "bo", "dz"}  # languages without spaces between sentences
_SURROGATE = re.compile("[\ud800-\udfff]")
_SENTENCE_END_INSIDE = re.compile(r"[.!?…][^\w\s]{0,3}[^\S\n\r]+(?=\S)|[。！？](?=[^\s。！？])")
# Emoji, arrows, bullets and the like; no letter, digit, bracket, dash, or sign of arithmetic or currency.
_SIGN = (
    "[\u2022\u2023\u203c\u2043\u2049\u2190-\u21ff\u2300-\u23ff"
    "\u25a0-\u27bf\u2b00-\u2bff\ufe0f\u200d\U0001f000-\U0001faff*#]"
)
SIGNS = re.compile(f"{_SIGN}+")
MARK_BEFORE = re.compile(rf"{_SIGN}+|\(?\d{{1,3}}\)")
_WRITTEN_LINE = re.compile(r"\S[^\n\r\v\f\x85\u2028\u2029]*")
_LINE_WITH_LETTERS = re.compile(r"[^\W\d_][^\n\r\v\f\x85\u2028\u2029]*")


def split_sentences(text: str, language: str | None = None) -> list[tuple[int, int]]:
    """Character spans of the sentences, without surrounding white space; a blank text has none. Text without letters,
    such as a list's number or an emoji before a sentence, belongs to no sentence, unless the text has nothing else.

    Uses sentencex's rules and abbreviations for the language (ISO code); for None or an unsupported language the rules
    of English. A line break does not end a sentence, but an empty line does.
    """
    from sentencex import segment

    text = _SURROGATE.sub("\ufffd", text)  # sentencex rejects surrogates
    spans: list[tuple[int, int]] = []
    end = 0
    for content in filter(None, map(str.strip, segment(language or ENGLISH, text))):
        start = text.index(content, end)
        end = start + len(content)
        spans.append((start, end))
    return with_letters(text, spans)


def with_letters(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans that have letters, without signs at their edges that are not punctuation of a sentence; all spans if
    none has letters."""
    found = [without_signs(text, start, end) for start, end in spans if any(map(str.isalpha, text[start:end]))]
    return found or list(spans)


def without_signs(text: str, start: int, end: int) -> tuple[int, int]:
    """A sentence without emoji, bullets and numbers of lists that spaces set off at its edges."""
    words = [word.span() for word in re.finditer(r"\S+", text[start:end])]
    first, last = 0, len(words) - 1
    while first < last and MARK_BEFORE.fullmatch(text, start + words[first][0], start + words[first][1]):
        first += 1
    while first < last and SIGNS.fullmatch(text, start + words[last][0], start + words[last][1]):
        last -= 1
    return start + words[first][0], start + words[last][1]


def split_sentences_by_line(text: str, language: str | None = None) -> list[tuple[int, int]]:
    """Like `split_sentences`, but a line break also ends a sentence, so the line structure is preserved."""
    lines = re.finditer(r"[^\n\r\v\f\x85\u2028\u2029]+", text)
    return with_letters(
        text, [(line.start() + a, line.start() + b) for line in lines for a, b in split_sentences(line[0], language)]
    )


def split_text(text: str, language: str | None, mode: SplitMode) -> list[tuple[int, int]]:
    """Character spans of the sentences as the mode splits them; `0`: all of the text but the white space around it."""
    if mode == "0":
        content = text.strip()
        start = len(text) - len(text.lstrip())
        return [(start, start + len(content))] if content else []
    return (split_sentences if mode == "nonewlines" else split_sentences_by_line)(text, language)


def sentence_separators(text: str, spans: Sequence[tuple[int, int]], target: str | None) -> list[str]:
    """The separators before the first sentence, between sentences, and after the last, in a translation into a
    language: the white space of the text, but at least a space between sentences where the language has them, and none
    where a word was divided (`long_sentences.divide`)."""
    ends, starts = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)]
    separators = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    if target not in UNSPACED_LANGUAGES:
        separators[1:-1] = [
            separator or ("" if is_inside_word(text, end) else " ")
            for separator, end in zip(separators[1:-1], ends[1:], strict=False)
        ]
    return separators


def is_inside_word(text: str, place: int) -> bool:
    """Whether a place is inside a word of a script with spaces: before a letter or digit, and not after the end of a
    sentence or a character of a script without spaces."""
    before = text[place - 1]
    return continues_word(text[place]) and not (before in SENTENCE_END or is_unspaced(before))


def min_sentences(text: str, most: int) -> int:
    """A cheap lower bound of the number of sentences by line: the lines with letters, counted up to `most`."""
    return sum(1 for _ in islice(_LINE_WITH_LETTERS.finditer(text), most))


def fewest_of(texts: Iterable[str], most: int) -> int:
    """The sum of `min_sentences` over several texts; counting stops once it exceeds `most`."""
    count = 0
    for text in texts:
        if count > most:
            break
        count += min_sentences(text, most + 1 - count)
    return count


def estimated_sentences(text: str) -> int:
    """The approximate number of sentences by line, in a small fraction of the time of splitting."""
    return sum(1 for _ in _WRITTEN_LINE.finditer(text)) + sum(1 for _ in _SENTENCE_END_INSIDE.finditer(text))


@dataclass(frozen=True)
class LeadingText:
    """The leading part of a text: its first `sentences` sentences out of `of`."""

    text: str
    sentences: int
    of: int

    @property
    def characters(self) -> int:
        return len(self.text)

    @property
    def whole(self) -> bool:
        """Whether all sentences are included."""
        return self.sentences == self.of


def leading_sentences(text: str, language: str | None, fits: Callable[[str], bool]) -> LeadingText:
    """The largest number of leading sentences that fits, with the text unchanged; the full text if all of it fits.

    `fits` decides whether a text is short enough for a model. It must be monotonic: false for any text that begins with
    a text that does not fit. If the first sentence does not fit, the result has text "" and 0 sentences.
    """
    ends = [end for _, end in split_sentences(text, language)]
    if fits(text):
        return LeadingText(text, len(ends), len(ends))
    fitting, too_many = 0, len(ends) + 1
    while too_many - fitting > 1:  # binary search, since `fits` runs a tokenizer
        middle = (fitting + too_many) // 2
        if fits(text[: ends[middle - 1]]):
            fitting = middle
        else:
            too_many = middle
    return LeadingText(text[: ends[fitting - 1]] if fitting else "", fitting, len(ends))
