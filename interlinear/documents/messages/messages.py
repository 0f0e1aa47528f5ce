"""Short texts of catalogues and subtitles: with tags, placeholders of programs, and significant line ends."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from interlinear.documents.builder import build_document
from interlinear.documents.document import Document
from interlinear.documents.events import End, Event, Role, Start, Text
from interlinear.documents.messages.bounds import Piece, widened
from interlinear.documents.messages.character_references import Source, flatten
from interlinear.documents.messages.icu import COMPLEX, Argument, IcuError, parse_arguments
from interlinear.documents.messages.plural_forms import plural_forms
from interlinear.documents.messages.written_messages import MessageWriter, find_mnemonic
from interlinear.documents.white_space import with_white_space
from interlinear.generation.terms.placeholders import ADDRESS, PLACEHOLDER, STRICT_PRINTF
from interlinear.generation.terms.placeholders import TAG as TEXT_TAG

TIME = r"<(?:\d+:)?\d+:\d\d\.\d+>"  # of WebVTT: when the words after it appear
CODES = r"\{\\[^{}\n]*\}"  # {\an8} of subtitles
TAG = rf"{TEXT_TAG}|{TIME}|{CODES}"  # of HTML and WebVTT, and these
# A line end or tab that is escaped once more in a file: `\n`. Not in a text with a path.
ESCAPE = r"(?:\\r)?\\[nN]|\\t"
NO_ESCAPES = re.compile(r"\\(?![nrtN\"'\\])|[A-Za-z]:\\|\\\\")
PIECE = rf"(?P<line>\r\n|\n|\r)|(?P<escape>{ESCAPE})|(?P<placeholder>{ADDRESS}|{PLACEHOLDER}"
# [b], [url=x], [/quote] of forums, which are tags where they are pairs.
BBCODE = (
    r"\[/?(?:b|i|u|s|url|email|color|colour|size|font|quote|spoiler|center|left|right|list|h[1-6]|sub|sup|table|tr|td"
    r"|code|img)(?:=[^\]\n]{0,300})?\]|\[(?:br|\*)\]"
)
TAGS = rf")|(?=[<{{])(?P<tag>{TAG})|(?P<bbcode>(?=\[)(?i:{BBCODE}))"
ICU_QUOTE = r"'(?=[{}])[^']*'"
PIECES = re.compile(PIECE + TAGS)
STRICT_PIECES = re.compile(PIECE.replace("(?P<placeholder>", f"(?P<placeholder>{STRICT_PRINTF}|") + TAGS)
ICU_PIECE = PIECE.replace("(?P<placeholder>", f"(?P<placeholder>{ICU_QUOTE}|")
ICU_PIECES = re.compile(ICU_PIECE + TAGS)
PLURAL_PIECES = re.compile(f"{ICU_PIECE}|#{TAGS}")
LINE_BREAK = re.compile(r"<br\s*/?>|\[(?:br|\*)\]", re.IGNORECASE)
NAME = re.compile(r"[<\[]/?([A-Za-z][\w:.-]*|\d+)")
CODE = frozenset(("code", "img"))  # elements that stay unchanged: of HTML as in documents, and of forums
BLOCKS = frozenset("p div li ul ol dl dt dd h1 h2 h3 h4 h5 h6 table tr td th blockquote pre hr section article".split())
SIMPLE_ARGUMENT = re.compile(r"\{\w{1,60}[},]")


def read_message(text: str, escape: Callable[[str], str] = str, *, mnemonics: str = "", syntax: str = "") -> Document:
    """A message as a document.

    Tags that are opened and closed are inline; other tags, and placeholders, stay beside their neighbouring word; a
    line end separates texts. Character references are decoded, and written again. Each branch of an ICU message is a
    separate text; a message with invalid syntax stays, with a warning.

    mnemonics: the characters of "&_~" that may mark the key of a menu. syntax: gettext's name of the format of the
    program's placeholders, such as "c-format"; "" if unknown.
    """
    warnings: list[str] = []
    events = message_block("", "", [Text(text)], escape, mnemonics=mnemonics, syntax=syntax, warn=warnings.append)
    return replace(build_document(list(events), escape, escape), warnings=tuple(warnings))


def message_block(
    opening: str,
    closing: str,
    content: Iterable[Event],
    escape: Callable[[str], str] = str,
    *,
    mnemonics: str = "",
    syntax: str = "",
    written: str = "",
    warn: Callable[[str], None] = lambda warning: None,
) -> Iterator[Event]:
    """A message as a block between tags; its content may have elements. `written`: its original markup, if parsing and
    writing may change it."""
    source = flatten(content, escape)
    text = source.text
    is_complex = COMPLEX.search(text) is not None
    is_icu = is_complex or ("''" in text and SIMPLE_ARGUMENT.search(text) is not None)
    if mnemonics:
        source = source.with_single_ampersands()
        text = source.text
    mnemonic = None if source.references or is_complex or not mnemonics else find_mnemonic(text, mnemonics)
    if mnemonic:
        source = source.without(mnemonic.place, mnemonic.place + len(mnemonic.mark))
    writer = MessageWriter.of(source, is_icu, mnemonic, syntax)
    reader = MessageReader(source, writer, is_icu, syntax)
    try:
        arguments = parse_arguments(text) if is_complex else plural_forms(text)
        events = list(reader.content(0, len(source.text), arguments))
    except IcuError as error:
        warn(f"A message stays as it is, because it cannot be read as an ICU message ({error}): {shortened(text)}.")
        yield Start(opening + source.markup(0, len(text)) + closing, "", Role.VERBATIM_BLOCK)
        yield End()
        return
    # With several texts, none has the arguments of the texts before it.
    has_blocks = any(isinstance(event, Start) and event.role is Role.BLOCK for event in events)
    finish = replace(writer, numbered=False) if has_blocks else writer
    yield Start(opening, closing, Role.BLOCK, translate=True, source=written, finish=finish)
    yield from events
    yield End()


def shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def message_events(text: str) -> Iterator[Event]:
    """The events of a text whose tags and placeholders stay, and whose character references are text."""
    source = Source(text, text)
    yield from MessageReader(source, None, False, "").content(0, len(text), [])


@dataclass(frozen=True)
class MessageReader:
    """Reads a message, or a branch of one. `writer`: of the branches."""

    source: Source
    writer: MessageWriter | None
    is_icu: bool
    syntax: str

    @cached_property
    def _has_escapes(self) -> bool:
        """Whether `\\n` is a line end: no backslash is of a path."""
        text = self.source.text
        return "\\" in text and not NO_ESCAPES.search(re.sub(CODES, "", text))

    def content(self, start: int, end: int, arguments: Sequence[Argument], plural: bool = False) -> Iterator[Event]:
        """The events of a part of a message. `plural`: whether `#` is a number. Raises IcuError."""
        if (
            arguments
            and not self.source.text[start : arguments[0].start].strip()
            and (arguments[0] is arguments[-1] and not self.source.text[arguments[0].end : end].strip())
        ):
            yield from self._literal(start, arguments[0].start)
            yield from self._argument(arguments[0], plural)
            yield from self._literal(arguments[0].end, end)
            return
        pieces = self._pieces(start, end, arguments, plural)
        closed_by = paired_tags(self.source, pieces)
        closing = set(closed_by.values())
        done = start
        for n, piece in enumerate(pieces):
            yield from self._text(done, piece.start)
            done = piece.end
            markup = self.source.markup(piece.start, piece.end)
            if piece.kind == "element":
                yield from self.source.elements[piece.start]
            elif piece.argument:
                yield Start("", "", Role.SEPARATE)
                yield from self._argument(piece.argument, plural)
                yield End()
            elif n in closed_by:
                partner = pieces[closed_by[n]]
                role = role_of(self.source.text[piece.start : piece.end])
                end_tag = self.source.markup(partner.start, partner.end)
                yield Start(markup, end_tag, role, seen=True, finish=self.writer if role is Role.BLOCK else None)
            elif n in closing:
                yield End()
            elif piece.kind == "bbcode" and not LINE_BREAK.fullmatch(markup):
                yield from self._text(piece.start, piece.end)
            elif piece.kind == "placeholder":
                yield from protected(self.source.text[piece.start : piece.end], markup)
            else:
                tag = self.source.text[piece.start : piece.end]
                breaks = piece.kind == "line" or LINE_BREAK.fullmatch(tag)
                alone = Role.VERBATIM_BLOCK if role_of(tag) is Role.BLOCK else Role.VERBATIM
                yield Start(markup, "", Role.LINE_BREAK if breaks else alone, seen=True)
                yield End()
        yield from self._text(done, end)

    def _text(self, start: int, end: int) -> Iterator[Event]:
        """Text, also in columns; an apostrophe of an ICU message may be doubled in it."""
        yield from with_white_space(self.source.text, start, end, self._text_alone)

    def _text_alone(self, start: int, end: int) -> Iterator[Event]:
        if start < end:
            text = self.source.text[start:end]
            yield Text(text.replace("''", "'") if self.is_icu else text, self.source.markup(start, end))

    def _literal(self, start: int, end: int) -> Iterator[Event]:
        if start < end:
            yield Start(self.source.markup(start, end), "", Role.VERBATIM_BLOCK)
            yield End()

    def _argument(self, argument: Argument, plural: bool) -> Iterator[Event]:
        """An argument with branches: each is a separate text."""
        plural = plural or argument.is_plural
        done = argument.start
        for branch in argument.branches:
            opening = self.source.markup(done, branch.start)
            inner = list(self.content(branch.start, branch.end, branch.arguments, plural))
            check_balance(inner)
            yield Start(opening, "", Role.BLOCK, translate=True, finish=self.writer)
            yield from inner
            yield End()
            done = branch.end
        yield from self._literal(done, argument.end)

    def _pieces(self, start: int, end: int, arguments: Sequence[Argument], plural: bool) -> list[Piece]:
        """The parts that are not text, in order."""
        pattern = PIECES
        if self.is_icu:
            pattern = PLURAL_PIECES if plural else ICU_PIECES
        elif self.syntax:
            pattern = STRICT_PIECES
        pieces: list[Piece] = []
        bounds: list[tuple[int, int, Argument | None]] = [
            (place, place + 1, None) for place in self.source.places_outside(start, end, arguments)
        ]
        bounds += [(argument.start, argument.end, argument) for argument in arguments]
        for stop, after, argument in [*sorted(bounds, key=lambda bound: bound[0]), (end, end, None)]:
            found = [
                Piece(*match.span(), "line" if match.lastgroup == "escape" else match.lastgroup or "")
                for match in pattern.finditer(self.source.text, start, stop)
                if match.lastgroup != "escape" or self._has_escapes
            ]
            pieces += widened(self.source.text, found, start, stop)
            if stop < after:
                pieces.append(Piece(stop, after, "argument" if argument else "element", argument))
            start = after
        return pieces


def check_balance(events: Sequence[Event]) -> None:
    """Raises IcuError if elements in a branch are not closed there."""
    depth = 0
    for event in events:
        depth += isinstance(event, Start) - isinstance(event, End)
        if depth < 0:
            break
    if depth:
        raise IcuError("a tag is opened in one branch and closed in another")


def protected(text: str, markup: str | None = None) -> Iterator[Event]:
    """A text that stays unchanged."""
    yield Start("", "", Role.PROTECTED)
    yield Text(text, text if markup is None else markup)
    yield End()


class OpenTags:
    """The tags that are open in an element."""

    def __init__(self) -> None:
        self.tags: list[tuple[int, str]] = []
        self.counts: Counter[str] = Counter()

    def open(self, n: int, name: str) -> None:
        self.tags.append((n, name))
        self.counts[name] += 1

    def close(self, name: str) -> int | None:
        """The start tag of an end tag; tags that were opened in between have no partner."""
        while self.counts[name]:
            n, last = self.tags.pop()
            self.counts[last] -= 1
            if last == name:
                return n
        return None


def role_of(tag: str) -> Role:
    """The role of an element of a message, by its start or end tag."""
    name = tag_name(tag).lower()
    if name in CODE:
        return Role.PROTECTED
    return Role.BLOCK if name in BLOCKS else Role.INLINE


def tag_name(tag: str) -> str:
    """The name of a start or end tag, in brackets of either kind, without the classes that WebVTT writes behind it
    (`<v.loud>`); "" if it has none, as the codes of subtitles."""
    name = NAME.match(tag)
    return name[1].partition(".")[0] if name else ""


def paired_tags(source: Source, pieces: Sequence[Piece]) -> dict[int, int]:
    """For each start tag the index of its end tag, if both are present, nested, in one element, and on one line."""
    pairs: dict[int, int] = {}
    around = [OpenTags()]
    for n, piece in enumerate(pieces):
        tag = source.text[piece.start : piece.end]
        if piece.kind == "line":
            around = [OpenTags() for _ in around]
        elif piece.kind == "element" and len(element := source.elements[piece.start]) == 1:
            if isinstance(element[0], Start):
                around.append(OpenTags())
            elif isinstance(element[0], End) and len(around) > 1:
                around.pop()
        elif piece.kind in ("tag", "bbcode") and tag_name(tag) and not tag.endswith("/>"):
            name = tag[0] + tag_name(tag).lower()
            if tag[1] != "/":
                around[-1].open(n, name)
            elif (begin := around[-1].close(name)) is not None:
                pairs[begin] = n
    return pairs
