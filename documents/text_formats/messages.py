"""Short texts of catalogues and subtitles: with tags, placeholders of programs, and line ends that mean something."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from documents.builder import build_document
from documents.document import Document
from documents.events import End, Event, Role, Start, Text
from documents.untranslated import ADDRESS

TIME = r"<(?:\d+:)?\d+:\d\d\.\d+>"  # of WebVTT: when the words after it appear
TAG = rf"</?[A-Za-z][^<>\n]*>|{TIME}|\{{\\[^{{}}\n]*\}}"  # of HTML and WebVTT; {\an8} of subtitles
PLACEHOLDER = (
    ADDRESS + r"|\$?\{\{[^{}\n]*\}\}|[$#%]?\{[^{}\n]*\}"  # {name} ${x} #{x} %{x} {{ x }}
    r"|%\([^()\n]*\)[#0+-]?\d*(?:\.\d+)?[a-zA-Z]"  # %(name)s
    r"|%(?:\d+\$)?[#0+-]?\d*(?:\.\d+)?(?:hh|h|ll|l|j|z|t|L)?[diouxXeEfFgGcrsap@](?![a-zA-Z])|%%|%n\b"  # printf
    r"|&#?\w+;"  # character references
)
PIECE = re.compile(rf"(?P<line>\r\n|\n|\r)|(?P<tag>{TAG})|(?P<placeholder>{PLACEHOLDER})")
LINE_BREAK = re.compile(r"</?br\s*/?>", re.IGNORECASE)
NAME = re.compile(r"</?([A-Za-z][\w:-]*)")


def read_message(text: str, escape: Callable[[str], str] = str) -> Document:
    """A message as a document. Tags that are opened and closed are inline, others and placeholders stay beside the word
    that they stood beside; a line end separates texts."""
    return build_document([Start("", "", Role.BLOCK), *message_events(text), End()], escape, escape)


def message_events(text: str) -> Iterator[Event]:
    """The events of a message."""
    pieces = list(PIECE.finditer(text))
    closed_by = paired_tags(pieces)
    closing = set(closed_by.values())
    done = 0
    for n, piece in enumerate(pieces):
        if piece.start() > done:
            yield Text(text[done : piece.start()])
        done = piece.end()
        markup = piece.group()
        if n in closed_by:
            yield Start(markup, pieces[closed_by[n]].group(), Role.INLINE)
        elif n in closing:
            yield End()
        else:
            yield from mark(markup, piece.lastgroup or "")
    if done < len(text):
        yield Text(text[done:])


def mark(markup: str, kind: str) -> Iterator[Event]:
    """A line end, a placeholder, or a tag without partner."""
    if kind == "placeholder":
        yield from protected(markup)
    else:
        is_break = kind == "line" or LINE_BREAK.fullmatch(markup)
        yield Start(markup, "", Role.LINE_BREAK if is_break else Role.VERBATIM, seen=True)
        yield End()


def protected(text: str) -> Iterator[Event]:
    """A text that stays as it is."""
    yield Start("", "", Role.PROTECTED)
    yield Text(text, text)
    yield End()


def paired_tags(pieces: Sequence["re.Match[str]"]) -> dict[int, int]:
    """For each start tag the index of its end tag, where both are there, nested, and on one line."""
    pairs: dict[int, int] = {}
    open_tags: list[tuple[int, str]] = []
    counts: Counter[str] = Counter()  # of the open tags by name
    for n, piece in enumerate(pieces):
        name = NAME.match(piece.group())
        if piece.lastgroup == "line":
            open_tags.clear()
            counts.clear()
        elif piece.lastgroup == "tag" and name and not piece.group().endswith("/>"):
            if not piece.group().startswith("</"):
                open_tags.append((n, name[1].lower()))
                counts[name[1].lower()] += 1
            elif counts[name[1].lower()]:
                begin, last = open_tags.pop()
                counts[last] -= 1
                while last != name[1].lower():
                    begin, last = open_tags.pop()
                    counts[last] -= 1
                pairs[begin] = n
    return pairs
