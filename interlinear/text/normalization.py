"""Unicode normalization of text. Each step keeps the span of every character in the original text."""

import re
import unicodedata
from dataclasses import dataclass

from interlinear.text.config import TextConfig
from interlinear.text.words import UNKNOWN_MARK, Span, substitute_reserved


@dataclass(frozen=True)
class MappedText:
    """A text derived from an original text; `spans`: each character's span in the original (None: unchanged)."""

    text: str
    spans: list[Span] | None = None

    def span(self, start: int, end: int) -> Span:
        if self.spans is None:
            return start, end
        if start < end:
            return self.spans[start][0], self.spans[end - 1][1]
        position = self.spans[start][0] if start < len(self.spans) else self.spans[-1][1] if self.spans else 0
        return position, position

    def then(self, text: str, spans: list[Span]) -> "MappedText":
        """The result of a further step, whose `spans` refer to this text."""
        return MappedText(text, [self.span(*span) for span in spans])


def normalize(text: str, config: TextConfig) -> MappedText:
    """Normalise to NFC with one kind of space and without lone surrogates; lower-case and join pieces if configured."""
    mapped = lowercase(compose(substitute_reserved(text)), config.lowercase)
    if config.unknown is not None:
        unknown = config.unknown.lower() if config.lowercase else config.unknown
        mapped = replace_matches(mapped, re.compile(rf"(?<!\S){re.escape(unknown)}(?!\S)"), UNKNOWN_MARK)
    if config.segmentation is not None and config.subwords:
        mapped = replace_matches(mapped, subword_end(config.segmentation), "")
    return mapped


def subword_end(marker: str) -> re.Pattern[str]:
    """The marker of a subword that the next one continues, with the spaces after it."""
    return re.compile(rf"{re.escape(marker)}(?: +|$)")


def join_subwords(line: str, marker: str | None) -> str:
    """Whole words of a line whose words are cut into subwords; without a marker, the line."""
    return line if marker is None else subword_end(marker).sub("", line)


def compose(text: str) -> MappedText:
    """Normalise to NFC, with offsets."""
    if unicodedata.is_normalized("NFC", text):
        return MappedText(text)
    composed: list[str] = []
    spans: list[Span] = []
    start = 0
    while start < len(text):
        end = start + 1
        while end < len(text) and composes(text, start, end):
            end += 1
        group = unicodedata.normalize("NFC", text[start:end])
        composed.append(group)
        spans += [(start, end)] * len(group)
        start = end
    return MappedText("".join(composed), spans)


def composes(text: str, start: int, end: int) -> bool:
    """Whether the character at `end` may compose with, or be reordered within, the group text[start:end]."""
    following = text[end]
    if following.isascii():
        return False
    if unicodedata.combining(following):
        return True
    group = text[start:end]
    apart = unicodedata.normalize("NFC", group) + unicodedata.normalize("NFC", following)
    return unicodedata.normalize("NFC", group + following) != apart


def lowercase(mapped: MappedText, lowercase: bool) -> MappedText:
    if not lowercase:
        return mapped
    lower = mapped.text.lower()
    if len(lower) == len(mapped.text):
        return MappedText(lower, mapped.spans)
    letters = [letter.lower() for letter in mapped.text]  # a few letters have two in lower case
    spans = [(i, i + 1) for i, letter in enumerate(letters) for _ in letter]
    return mapped.then("".join(letters), spans)


def replace_matches(mapped: MappedText, pattern: re.Pattern[str], replacement: str) -> MappedText:
    """Replace each match, with offsets."""
    if not pattern.search(mapped.text):
        return mapped
    parts: list[str] = []
    spans: list[Span] = []
    done = 0
    for match in pattern.finditer(mapped.text):
        parts += [mapped.text[done : match.start()], replacement]
        spans += [(i, i + 1) for i in range(done, match.start())] + [match.span()] * len(replacement)
        done = match.end()
    parts.append(mapped.text[done:])
    spans += [(i, i + 1) for i in range(done, len(mapped.text))]
    return mapped.then("".join(parts), spans)


def align_characters(text: str, other: str) -> list[Span]:
    """Align the characters of a text to another that differs in spaces (and little else): a span for each character."""
    spans = []
    position = 0
    for letter in text:
        index = position
        while index < len(other) and other[index] == " ":
            index += 1
        if letter != " " and (index := other.find(letter, index, index + 4)) >= 0:
            spans.append((index, index + 1))
            position = index + 1
        else:
            spans.append((position, position))
    return spans
