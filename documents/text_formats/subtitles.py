"""Subtitles (.srt, .vtt): a sentence over several cues is translated as one, and divided again among them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from documents.document import Document
from documents.document_file import DocumentFile
from documents.reading.encoding import decode_text
from documents.text_formats.cue_lines import divide, wrap
from documents.text_formats.messages import TAG, read_message
from seq2seq.errors import DataError

TIMING = re.compile(r"^[ \t]*(?:\d+:)?\d+:\d\d[.,]\d+[ \t]*-->[ \t]*(?:\d+:)?\d+:\d\d[.,]\d+.*$", re.MULTILINE)
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

    def assemble(rendered: Sequence[str]) -> bytes:
        parts, done = [], 0
        for group, translation in zip(groups, rendered, strict=True):
            for cue, written in zip(group, write_cues(group, translation), strict=True):
                parts += [text[done : cue.start], written.replace("\n", "\r\n" if "\r\n" in text else "\n")]
                done = cue.end
        return decoded.encode("".join(parts) + text[done:])

    return DocumentFile(tuple(map(read_group, groups)), assemble)


def find_cues(text: str) -> Iterator[Cue]:
    """The cues of a file: from the line after a timing to the next empty line."""
    for timing in TIMING.finditer(text):
        start = timing.end() + len("\n") if timing.end() < len(text) else len(text)
        blank = re.compile(r"^[ \t\r]*(?:\n|\Z)", re.MULTILINE).search(text, start)
        end = blank.start() if blank else len(text)
        content = text[start:end]
        kept = content.rstrip("\r\n \t")
        yield Cue(start, start + len(kept), kept.replace("\r\n", "\n"))


def group_cues(cues: Sequence[Cue]) -> Iterator[list[Cue]]:
    """The cues of each sentence together. One with several speakers is by itself."""
    group: list[Cue] = []
    for cue in cues:
        if group and (cue.is_dialogue or group[-1].is_dialogue or group[-1].ends_sentence or len(group) == MAX_CUES):
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
    """The texts of the cues: their shares of the translation, in lines. What is not translated stays."""
    if group[0].is_dialogue:
        return [translation]
    if translation == " ".join(cue.text for cue in group).replace("\n", " "):
        return [cue.text for cue in group]
    lengths = [len(re.sub(TAG, "", cue.text)) for cue in group]
    return [wrap(part) for part in divide(translation, lengths)]
