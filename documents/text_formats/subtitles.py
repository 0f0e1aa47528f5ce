"""Subtitles (.srt, .vtt): a sentence over several cues is translated as one, and divided again among them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from documents.document import Document, DocumentFile
from documents.reading.encoding import decode_text
from documents.text_formats.messages import NAME, TAG, TIME, read_message
from documents.text_formats.spans import replace_spans
from seq2seq.errors import DataError

LINE_LENGTH = 42  # characters, the customary limit of subtitles for television and streaming
TOKEN = re.compile(rf"({TAG})|(\s+)|([^\s<{{]+|.)", re.DOTALL)


def divide(text: str, lengths: Sequence[int]) -> list[str]:
    """The text in as many parts as there are lengths, each with about its share of the characters and, where there
    are enough words, with one at least. Tags that are open at the end of a part are closed there and opened again."""
    words = split_words(text)
    ends = list(accumulate(visible_length(word) + 1 for word in words))
    middles = [(start + end) / 2 for start, end in pairwise([0, *ends])]
    parts: list[str] = []
    used = 0
    for n, share in enumerate(accumulate(lengths), start=1):
        left = len(lengths) - n  # parts after this one, which need a word each
        boundary = sum(middle <= ends[-1] * share / sum(lengths) for middle in middles) if left else len(words)
        end = min(max(boundary, used + 1), max(len(words) - left, used + 1), len(words))
        parts.append(" ".join(words[used:end]))
        used = end
    return reopen_tags(parts)


def wrap(text: str) -> str:
    """The text in as few lines of at most LINE_LENGTH characters as it needs, of about the same length."""
    words = split_words(text)
    count = -(-visible_length(text) // LINE_LENGTH)
    if count < 2:
        return text
    aim = visible_length(text) / count
    lines: list[str] = []
    for word in words:
        candidate = f"{lines[-1]} {word}" if lines else word
        length = visible_length(candidate)
        fits = length <= LINE_LENGTH and (length - visible_length(word) / 2 <= aim or len(lines) >= count)
        if lines and fits:
            lines[-1] = candidate
        else:
            lines.append(word)
    return "\n".join(lines)


def split_words(text: str) -> list[str]:
    """The words of a text, with the tags beside them; a space in a tag separates none."""
    words = [""]
    for match in TOKEN.finditer(text):
        if match[2]:
            words.append("")
        else:
            words[-1] += match.group()
    return [word for word in words if word]


def visible_length(text: str) -> int:
    """Characters without tags."""
    return len(re.sub(TAG, "", text))


def reopen_tags(parts: Sequence[str]) -> list[str]:
    """The parts of a text, each with its tags in balance."""
    closed = {tag_name(tag) for part in parts for tag in re.findall(TAG, part) if tag.startswith("</")}
    open_tags: list[str] = []
    balanced = []
    for part in parts:
        before = "".join(open_tags)
        for tag in re.findall(TAG, part):
            if not tag.startswith("</"):
                open_tags += [tag] if tag_name(tag) in closed else []
            elif open_tags and tag_name(open_tags[-1]) == tag_name(tag):
                open_tags.pop()
        after = "".join(f"</{tag_name(tag)}>" for tag in reversed(open_tags))
        balanced.append(before + part + after if part else "")
    return balanced


def tag_name(tag: str) -> str:
    """The name of a start or end tag; "" for the codes of subtitles."""
    name = NAME.match(tag)
    return name[1] if name else ""


CLOCK = r"[ \t]*(?:\d+:)?\d+:\d\d(?:[.,]\d+)?"
TIMING = re.compile(rf"(?:^[ \t]*\d+[ \t\r]*\n)?^{CLOCK}[ \t]*-->{CLOCK}.*$", re.MULTILINE)  # with the cue's number
EMPTY_LINE = re.compile(r"^[ \t\r]*(?:\n|\Z)", re.MULTILINE)
SENTENCE_END = re.compile(r"[.!?…。！？♪:;][\"'”»)\]]*$")
SPEAKER = re.compile(r"\s*[-–—]\s*\w|\s*<v[ .]")
MAX_CUES = 6  # of one sentence; without punctuation all cues would be one


@dataclass(frozen=True)
class Cue:
    """The place of a cue's text in the file, and its lines."""

    start: int
    end: int
    text: str

    @property
    def is_dialogue(self) -> bool:
        """Whether its lines are of different speakers."""
        return any(SPEAKER.match(line) for line in self.text.split("\n"))

    @property
    def stands_alone(self) -> bool:
        """Whether it is translated by itself: its lines are of different speakers, or it has times, which must not move
        to another cue."""
        return self.is_dialogue or re.search(TIME, self.text) is not None

    @property
    def ends_sentence(self) -> bool:
        return SENTENCE_END.search(re.sub(TAG, "", self.text).rstrip()) is not None


def read_subtitles(data: bytes, where: str) -> DocumentFile:
    """A file of subtitles. Times, numbers, settings, notes and styles stay as they are. Raises DataError."""
    decoded = decode_text(data, where)
    text = decoded.text
    cues = [cue for cue in find_cues(text) if cue.text]
    if not cues:
        raise DataError(where, "has no subtitles: no line has times, as in 00:01.000 --> 00:02.000", "check its format")
    groups = list(group_cues(cues))
    line_end = "\r\n" if "\r\n" in text else "\n"

    def assemble(rendered: Sequence[str]) -> bytes:
        lines = [line for group, part in zip(groups, rendered, strict=True) for line in write_cues(group, part)]
        spans = [(cue.start, cue.end) for cue in cues]
        return decoded.encode(replace_spans(text, spans, [line.replace("\n", line_end) for line in lines]))

    return DocumentFile(tuple(map(read_group, groups)), assemble)


def find_cues(text: str) -> Iterator[Cue]:
    """The cues of a file: from the line after a timing to the next empty line or timing."""
    timings = list(TIMING.finditer(text))
    ends = [*(timing.start() for timing in timings[1:]), len(text)]
    for timing, end in zip(timings, ends, strict=False):
        start = min(timing.end() + len("\n"), len(text))
        blank = EMPTY_LINE.search(text, start, end)
        content = text[start : blank.start() if blank else end]
        kept = content.rstrip("\r\n \t")
        yield Cue(start, start + len(kept), kept.replace("\r\n", "\n"))


def group_cues(cues: Sequence[Cue]) -> Iterator[list[Cue]]:
    """The cues of each sentence together, except those that stand alone."""
    group: list[Cue] = []
    for cue in cues:
        if group and (cue.stands_alone or group[-1].stands_alone or group[-1].ends_sentence or len(group) == MAX_CUES):
            yield group
            group = []
        group.append(cue)
    if group:
        yield group


def read_group(group: Sequence[Cue]) -> Document:
    """The text of cues as one message; lines are joined, except those of different speakers."""
    joined = " ".join(cue.text for cue in group)
    return read_message(joined if group[0].is_dialogue else joined.replace("\n", " "))


def write_cues(group: Sequence[Cue], translation: str) -> list[str]:
    """The texts of the cues: their shares of the translation, in lines. What is not translated stays, and times are in
    their order."""
    source = "".join(cue.text for cue in group)
    if without_spaces(translation) == without_spaces(source):
        return [cue.text for cue in group]
    times = iter(re.findall(TIME, source))
    translation = re.sub(TIME, lambda time: next(times, time.group()), translation)
    if group[0].is_dialogue:
        return [translation]
    lengths = [len(re.sub(TAG, "", cue.text)) for cue in group]
    return [wrap(part) for part in divide(translation, lengths)]


def without_spaces(text: str) -> str:
    """A text without white space, which may be on the other side of a tag."""
    return "".join(text.split())
