"""A message as its displayed text, with the written form of each character: a reference (`&auml;`), or itself."""

import html
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from interlinear.documents.events import End, Event, Other, Role, Start, Text
from interlinear.documents.messages.icu import Argument

REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
DOUBLE_AMPERSAND = re.compile(r"(?<!\S)&&(?!\S)")
LONGEST_LABEL = 1000  # characters
ELEMENT = "\ufdd1"  # a noncharacter, which stands for an element


@dataclass(frozen=True)
class Source:
    """A message.

    text: its characters, decoded, with one for each element. raw: the written form of each. elements: by their place,
    the events of an element, or its start or its end if it is inline. references: the references of characters that are
    written as such.
    """

    text: str
    raw: str | Sequence[str]
    elements: Mapping[int, Sequence[Event]] = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)

    def markup(self, start: int, end: int) -> str:
        """A part as written."""
        return "".join(self.raw[start:end])

    @cached_property
    def places(self) -> Sequence[int]:
        """The places of elements, in order."""
        return sorted(self.elements)

    def places_outside(self, start: int, end: int, arguments: Sequence[Argument]) -> Iterator[int]:
        """The places of elements in [start, end) that are in none of the arguments, which are in order."""
        for stop, after in [*((argument.start, argument.end) for argument in arguments), (end, end)]:
            yield from self.places[bisect_left(self.places, start) : bisect_left(self.places, stop)]
            start = after

    def without(self, start: int, end: int) -> "Source":
        """The message without some characters, whose written forms are joined to the following character's."""
        raw = [*self.raw[:start], self.markup(start, end + 1), *self.raw[end + 1 :]]
        elements = {place - (end - start) * (place > start): element for place, element in self.elements.items()}
        return Source(self.text[:start] + self.text[end:], raw, elements, self.references)

    def with_single_ampersands(self) -> "Source":
        """The message of a menu, in which `&&` between spaces is an ampersand."""
        source = self
        if len(self.text) > LONGEST_LABEL:
            return self
        for match in reversed(list(DOUBLE_AMPERSAND.finditer(self.text)) if not self.references else []):
            references = {"&": source.markup(*match.span())}
            source = replace(source.without(match.start(), match.start() + 1), references=references)
        return source


def flatten(events: Iterable[Event], escape: Callable[[str], str]) -> Source:
    """The content of a message with elements as characters."""
    characters: list[str] = []
    raw: list[str] = []
    elements: dict[int, list[Event]] = {}
    around = 0  # open elements of which all is one character
    for event in events:
        if around:
            elements[len(raw) - 1].append(event)
            around += isinstance(event, Start) - isinstance(event, End)
        elif isinstance(event, Text):
            is_one = event.markup not in (None, event.text) and len(event.text) == 1  # a reference of XML
            characters.append(event.text)
            raw += [event.markup or ""] if is_one else event.text if escape is str else map(escape, event.text)
        else:
            elements[len(raw)] = [event]
            characters.append(ELEMENT)
            raw.append(event.markup if isinstance(event, Other | Start) else "")
            around = isinstance(event, Start) and event.role is not Role.INLINE
    text = "".join(characters)
    if "&" not in text:
        return Source(text, raw, elements)
    return decoded(Source(text, raw, elements))


def decoded(source: Source) -> Source:
    """The message with its references decoded."""
    characters: list[str] = []
    raw: list[str] = []
    references: dict[str, str] = {}
    moved: dict[int, Sequence[Event]] = {}
    places = iter([*sorted(source.elements), len(source.text)])
    place = next(places)

    def copy(start: int, end: int) -> None:
        nonlocal place
        while place < end:
            moved[place + len(raw) - start] = source.elements[place]
            place = next(places)
        characters.append(source.text[start:end])
        raw.extend(source.raw[start:end])

    done = 0
    for match in REFERENCE.finditer(source.text):
        character = html.unescape(match.group())
        if len(character) != 1 or character == "\ufffd" or (character.isspace() and character not in "\n\r\u00a0"):
            continue
        copy(done, match.start())
        written = source.markup(*match.span())
        characters.append(character)
        raw.append(written)
        if character not in "\n\r":
            references.setdefault(character, written)
        done = match.end()
    copy(done, len(source.text))
    return Source("".join(characters), raw, moved, references)
