"""Significant white space, in formats that display it: its width stays unchanged."""

import re
from collections.abc import Callable, Iterator

from interlinear.documents.events import End, Event, Role, Start, Text

# What aligns texts, or stands behind a sentence, divides texts; two spaces between words do not; those behind an
# element (a noncharacter in messages) may be behind a line end.
WIDE = re.compile(r"(?<=\S)(?:(?P<columns> *\t[\t ]*| {3,}|(?<=[.!?…]) {2})|(?<!\ufdd1)  )(?=\S)")


def with_white_space(text: str, start: int, end: int, write: Callable[[int, int], Iterator[Event]]) -> Iterator[Event]:
    """The events of a text [start, end), with white space as marks; `write` gives the events of a part."""
    for space in WIDE.finditer(text, start, end):
        is_column = space["columns"] is not None
        yield from write(start, space.start() + (not is_column))
        written = [event.markup or event.text for event in write(*space.span()) if isinstance(event, Text)]
        yield Start("".join(written), "", Role.LINE_BREAK) if is_column else Start(" ", "", Role.EXTRA_SPACE)
        yield End()
        start = space.end()
    yield from write(start, end)
