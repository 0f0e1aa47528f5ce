"""Subtitles (.srt, .vtt): a sentence over several cues is translated as one, and divided again among them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from interlinear.documents.builder import build_document
from interlinear.documents.document import Document, DocumentFile
from interlinear.documents.events import End, Event, Other, Role, Start, Text
from interlinear.documents.formats import document_format
from interlinear.documents.messages.messages import TAG, TIME, message_events, tag_name
from interlinear.documents.reading.encoding import decode_text
from interlinear.documents.text_formats.spans import replace_spans
from interlinear.documents.untranslated import has_letters
from interlinear.errors import DataError
from interlinear.generation.terms.placeholders import PLACEHOLDER

LINE_LENGTH = 42  # characters, the customary limit of subtitles for television and streaming
TOKEN = re.compile(rf"({TAG})|(\s+)|((?=\{{){PLACEHOLDER}|[^\s<{{]+|.)", re.DOTALL)


def divide(text: str, lengths: Sequence[int]) -> list[str]:
    """The text in one part for each length, with about its share of the characters and, if there are enough words, with
    at least one. Tags that are open at the end of a part are closed there and opened again."""
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
    """The text in the fewest lines of at most LINE_LENGTH characters, of about the same length."""
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
    counts: Counter[str] = Counter()  # of the open tags by name
    balanced = []
    for part in parts:
        before = "".join(open_tags)
        for tag in re.findall(TAG, part):
            name = tag_name(tag)
            if not tag.startswith("</"):
                open_tags += [tag] if name in closed else []
                counts[name] += name in closed
            elif counts[name]:  # the end of an element also closes the elements in it without end tags
                ended = ""
                while ended != name:
                    ended = tag_name(open_tags.pop())
                    counts[ended] -= 1
        after = "".join(f"</{tag_name(tag)}>" for tag in reversed(open_tags))
        balanced.append(before + part + after if part else "")
    return balanced


# Times as programs write them: `0:0:3.540` (Teams), `00: 00: 03,540 -> ...` (machine translation of the whole file).
CLOCK = r"[ \t]*-?(?:\d+:[ ]?)?\d+:[ ]?\d\d?(?:[.,:;][ ]?\d+)?"
TIMING = re.compile(
    rf"(?:^[ \t]*\d+[ \t\r]*\n)?^{CLOCK}[ \t]*[-–—]+[ ]?>{CLOCK}.*$", re.MULTILINE
)  # with the cue's number
EMPTY_LINE = re.compile(r"^[ \t\r]*(?:\n|\Z)", re.MULTILINE)
SECTION = re.compile(r"(?:WEBVTT|NOTE|STYLE|REGION)(?!\w)")  # of WebVTT, which is no text
SENTENCE_END = re.compile(r"[.!?…。！？♪:;][\"'”»)\]]*$")
SPEAKER = re.compile(r"\s*[-–—]\s*\w|\s*<v[ .]")
SOUND = re.compile(
    r"\s*(?:\[[^][]*\]|\([^()]*\)|（[^（）]*）|【[^【】]*】|\*[^*]*\*|♪.*♪)\s*$", re.DOTALL
)  # [Applause]
LABEL = re.compile(r"\s*(?:[-–—]|>>|[^\W\d_a-zß-ÿ](?:[^\W_a-zß-ÿ]|[ .'-]){1,30}:\s)")  # "MAX: Ja", ">> Ja"
READING = re.compile(r"<rt(?=[ .>])")  # of the characters before it in <ruby>
MAX_CUES = 6  # of one sentence; without punctuation all cues would be one


@dataclass(frozen=True)
class Cue:
    """The place of a cue's text in the file, and its lines. Text after an empty line counts as another cue's."""

    start: int
    end: int
    text: str

    @property
    def plain_text(self) -> str:
        """The text without tags."""
        return re.sub(TAG, "", self.text)

    @property
    def has_separate_lines(self) -> bool:
        """Whether its lines are of different speakers, or one describes a sound."""
        lines, plain_lines = self.text.split("\n"), self.plain_text.split("\n")
        return any(map(SPEAKER.match, lines)) or (len(lines) > 1 and any(map(SOUND.match, plain_lines)))

    @property
    def is_interruption(self) -> bool:
        """Whether it is not part of a sentence: it describes a sound, or has no letters."""
        text = self.plain_text
        return not has_letters(text) or SOUND.match(text) is not None

    @property
    def stands_alone(self) -> bool:
        """Whether it is translated separately: it is not part of a sentence, has separate lines, or has times, which
        must not move to another cue."""
        return self.is_interruption or self.has_separate_lines or re.search(TIME, self.text) is not None

    @property
    def goes_on(self) -> bool:
        """Whether it continues a sentence: its first letter is small."""
        return next((letter.islower() for letter in self.plain_text if letter.isalpha()), False)

    @property
    def ends_sentence(self) -> bool:
        return SENTENCE_END.search(self.plain_text.rstrip()) is not None


@document_format(".srt", ".vtt")
def read_subtitles(data: bytes, where: str) -> DocumentFile:
    """A file of subtitles. Times, numbers, settings, notes and styles stay unchanged. Raises DataError."""
    decoded = decode_text(data, where)
    text = decoded.text
    cues = [cue for cue in find_cues(text) if cue.text]
    if not cues:
        raise DataError(where, "has no subtitles: no line has times, as in 00:01.000 --> 00:02.000", "check its format")
    groups = list(group_cues(cues))
    line_end = "\r\n" if "\r\n" in text else "\n"

    def assemble(rendered: Sequence[str]) -> bytes:
        lines = {
            cue.start: line.replace("\n", line_end)
            for group, part in zip(groups, rendered, strict=True)
            for cue, line in zip(group, write_cues(group, part), strict=True)
        }
        spans = [(cue.start, cue.end) for cue in cues]
        return decoded.encode(replace_spans(text, spans, [lines[cue.start] for cue in cues]))

    return DocumentFile(tuple(map(read_group, groups)), assemble)


def find_cues(text: str) -> Iterator[Cue]:
    """The cues of a file: from the line after a timing to the next timing. An empty line in a cue, as SubRip has them,
    divides it; in WebVTT, where it ends the cue, notes and the like may follow, and the identifier of the next cue."""
    is_webvtt = text.startswith("WEBVTT")
    timings = list(TIMING.finditer(text))
    ends = [*(timing.start() for timing in timings[1:]), len(text)]
    for timing, end in zip(timings, ends, strict=False):
        for n, (start, stop) in enumerate(blocks(text, min(timing.end() + len("\n"), len(text)), end)):
            is_identifier = stop == end < len(text)
            if n and is_webvtt and (is_identifier or SECTION.match(text, start)):
                continue
            kept = text[start:stop].rstrip("\r\n \t")
            yield Cue(start, start + len(kept), kept.replace("\r\n", "\n"))


def blocks(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The spans between the empty lines of a part of a text."""
    for empty in EMPTY_LINE.finditer(text, start, end):
        yield start, empty.start()
        start = empty.end()
    yield start, end


def group_cues(cues: Sequence[Cue]) -> Iterator[list[Cue]]:
    """The cues of each sentence together, except cues that stand alone. A sentence continues after a sound if it did
    not end before it, and the next cue begins with a small letter; otherwise this is unknown."""
    group: list[Cue] = []
    aside: list[list[Cue]] = []  # the sounds in it
    for n, cue in enumerate(cues):
        is_open = bool(group) and not (group[-1].stands_alone or group[-1].ends_sentence or len(group) == MAX_CUES)
        if is_open and cue.is_interruption and goes_on_behind(cues, n):
            aside.append([cue])
            continue
        if group and (cue.stands_alone or not is_open or LABEL.match(cue.plain_text)):
            yield from [group, *aside]
            group, aside = [], []
        group.append(cue)
    if group:
        yield from [group, *aside]


def goes_on_behind(cues: Sequence[Cue], n: int) -> bool:
    """Whether a sentence continues after the sound of a cue, and at most two more sounds."""
    following = next((cue for cue in cues[n + 1 : n + 4] if not cue.is_interruption), None)
    return following is not None and not following.stands_alone and following.goes_on


def read_group(group: Sequence[Cue]) -> Document:
    """The text of cues as one message; lines are joined, except separate ones."""
    joined = " ".join(cue.text for cue in group)
    text = joined if group[0].has_separate_lines else joined.replace("\n", " ")
    return build_document([Start("", "", Role.BLOCK), *without_readings(message_events(text)), End()], str, str)


def without_readings(events: Iterable[Event]) -> Iterator[Event]:
    """The events of a text in which the readings of <ruby>, whose end tags may be left out, stay unchanged."""
    in_reading = False
    for event in events:
        if isinstance(event, Start) and READING.match(event.markup):
            yield replace(event, role=Role.VERBATIM)
            in_reading = not event.closing
        elif in_reading and isinstance(event, Text):
            yield Other(event.text)
            in_reading = False
        else:
            yield event


def write_cues(group: Sequence[Cue], translation: str) -> list[str]:
    """The texts of the cues: their shares of the translation, in lines. What is not translated stays, and times are in
    their order."""
    source = "".join(cue.text for cue in group)
    if without_spaces(translation) == without_spaces(source):
        return [cue.text for cue in group]
    times = iter(re.findall(TIME, source))
    translation = re.sub(TIME, lambda time: next(times, time.group()), translation)
    if group[0].has_separate_lines:
        return [translation]
    lengths = [len(re.sub(TAG, "", cue.text)) for cue in group]
    return [wrap(part) for part in divide(translation, lengths)]


def without_spaces(text: str) -> str:
    """A text without white space, which may be on the other side of a tag."""
    return "".join(text.split())
