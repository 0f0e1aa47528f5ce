"""From a parser's events to a document: divides its text into segments, with their inline tags."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from documents.document import Document, Segment
from documents.events import AttributeText, Elements, End, Event, Role, Start, Text
from documents.inline import InlineTag, Template
from documents.invisible import invisible_forms, without_invisible
from documents.placement import CLOSING_MARKS
from documents.protection import cut_protected, is_word
from documents.untranslated import has_letters, protect_untranslated

WHITE_SPACE = re.compile("[ \t\n\r\f]+")  # what HTML and XML count as white space; a no-break space is text


class Paragraph:
    """Text and inline tags up to the next block. White space is collapsed as it is displayed: to one space between
    words, and to nothing at the edges of lines, where it is kept beside the text.

    raw: the same as it stands in the document.
    """

    def __init__(self) -> None:
        self.raw: list[str | int] = []
        self._tags: list[InlineTag] = []
        self._open: list[int] = []
        self._places: list[tuple[int, int]] = []  # where each tag stands in `raw`
        self._displayed: list[str] = []  # the text with characters that are not displayed
        self._text: list[str] = []
        self._length = 0
        self._last = "\n"  # the last character; at first as after a line break
        self._leading = ""  # white space before the first character
        self._space = ""  # white space after the last character
        self._space_before_mark = 0  # how much of it is before the last tag that is seen, which is set off by it
        self._mark: int | None = None  # the last tag that is seen, if it is after the last character or white space
        self._divides = False  # whether it, or one that it touches, divides words
        self._begun = False  # whether there is a character, or a tag that is seen
        self._last_break = -1

    def segment(self) -> tuple[str, Segment, str]:
        """The text with its tags, and the white space before and after it."""
        forms = invisible_forms("".join(self._displayed))
        segment = Segment("".join(self._text), tuple(self._tags), forms=forms)
        return self._leading, segment, self._space[self._space_before_mark :]

    def written(self, number: int) -> Template:
        """All of a tag as it stands in the document."""
        start, end = self._places[number]
        return tuple(self.raw[start:end])

    def add_text(self, text: str, markup: str) -> None:
        """Add text; `markup` is how it stands in the document."""
        self.raw.append(markup)
        position = 0
        for match in WHITE_SPACE.finditer(text):
            self._write(text[position : match.start()])
            self._add_space(match.group())
            position = match.end()
        self._write(text[position:])

    def open(self, opening: Template, closing: str) -> None:
        """Open an inline tag."""
        number = self._add_tag(InlineTag(0, 0, opening, closing))
        self.raw += opening
        self._open.append(number)

    def close(self) -> None:
        """Close the inline tag that was opened last."""
        number = self._open.pop()
        self.raw.append(self._tags[number].closing)
        self._places[number] = self._places[number][0], len(self.raw)
        self._update(number, end=self._length)

    def add_mark(self, markup: Template, seen: bool, divides: bool = False) -> None:
        """Add a tag without text of this paragraph. `divides`: between two words it is as a space."""
        self.raw += markup
        is_set_off = self._mark is None and (bool(self._space) or self._last == "\n")
        number = self._add_tag(InlineTag(0, 0, markup, space_before=seen and is_set_off))
        if seen:
            self._begin()
            self._mark = number
            self._divides |= divides
            self._space_before_mark = len(self._space)

    def add_protected(self, markup: Template, text: str) -> None:
        """Add a tag with text that is not translated."""
        displayed = " ".join(WHITE_SPACE.sub(" ", text).split(" ")).strip(" ")
        if not displayed:
            self.add_mark(markup, seen=False)
            return
        self.raw += markup
        self._begin()
        self._write_space()
        number = self._add_tag(InlineTag(0, 0, markup, protected=True))
        self._write(displayed)
        self._update(number, end=self._length)

    def break_line(self, markup: Template) -> None:
        """Add a line break. White space before it is written with it."""
        self.raw += markup
        self._begun = True
        space, self._space = self._space, ""
        self._last_break = self._add_tag(InlineTag(0, 0, (space, *markup), line_break=True))
        self._write("\n")
        self._update(self._last_break, end=self._length)

    def _add_tag(self, tag: InlineTag) -> int:
        parent = self._open[-1] if self._open else None
        self._tags.append(replace(tag, start=self._length, end=self._length, parent=parent))
        self._places.append((len(self.raw), len(self.raw)))
        return len(self._tags) - 1

    def _update(self, number: int, **fields: object) -> None:
        self._tags[number] = replace(self._tags[number], **fields)  # type: ignore[arg-type]

    def _write(self, written: str) -> None:
        self._displayed.append(written)
        if text := without_invisible(written):
            self._begin()
            self._end_marks(text[0])
            self._write_space()
            self._space_before_mark = 0
            self._text.append(text)
            self._length += len(text)
            self._last = text[-1]

    def _end_marks(self, following: str) -> None:
        """Before a character, without white space: between words a mark is as a space, and before a full stop it is set
        off from the word that may stand there in the translation."""
        if self._mark is None:
            return
        if self._divides and not self._space and is_word(self._last) and is_word(following):
            self._update(self._mark, divides=True)
            self._text.append(" ")
            self._length += 1
        if following in CLOSING_MARKS:
            self._update(self._mark, space_after=True)
            if self._last != "\n":
                self._space = ""  # that before the mark
        self._mark, self._divides = None, False

    def _add_space(self, space: str) -> None:
        if self._mark is not None:
            self._update(self._mark, space_after=True)
        self._mark, self._divides = None, False
        self._displayed.append(" ")
        self._space += space

    def _begin(self) -> None:
        """Before anything is seen, white space is that before the text."""
        if not self._begun:
            self._begun, self._leading, self._space = True, self._space, ""

    def _write_space(self) -> None:
        """Write the white space before a character: a space or, at the begin of a line, what stands in the document."""
        space, self._space = self._space, ""
        if not space or not self._length:
            return
        if self._last == "\n":
            self._update(self._last_break, opening=(*self._tags[self._last_break].opening, space))
        else:
            self._text.append(" ")
            self._length += 1


Escape = Callable[[str], str]


def build_document(events: Sequence[Event], escape: Escape, escape_attribute: Escape) -> Document:
    """Divide a document into segments. `escape` and `escape_attribute` write text in the document's format."""
    return DocumentBuilder(events, escape, escape_attribute).build()


class DocumentBuilder:
    """Reads events, without recursion, since elements may be nested thousands of times."""

    def __init__(self, events: Sequence[Event], escape: Escape, escape_attribute: Escape) -> None:
        self._events = events
        self._elements = Elements.of(events)
        self._escape, self._escape_attribute = escape, escape_attribute
        self._segments: list[Segment] = []
        self._template: list[str | int] = []
        self._paragraph = Paragraph()
        self._around: list[tuple[list[str | int], Paragraph]] = []  # what is around each separate element
        self._at_end: list[Callable[[], None]] = []  # what the end of each open element does
        self._translated = [True]  # for each open element whether its content is translated

    def build(self) -> Document:
        """Read all events."""
        n = 0
        while n < len(self._events):
            event = self._events[n]
            if isinstance(event, Start):
                n = self._start(n, event)
            elif isinstance(event, End):
                self._translated.pop()
                self._at_end.pop()()
            elif not self._translated[-1]:
                self._template.append(self._markup(event))
            elif isinstance(event, Text):
                self._paragraph.add_text(event.text, self._markup(event))
            else:
                self._paragraph.add_mark((event.markup,), seen=False)
            n += 1
        self._end_paragraph()
        return Document(tuple(self._segments), tuple(self._template), self._escape, self._escape_attribute)

    def _start(self, n: int, event: Start) -> int:
        """Read the start of an element, or all of it if it stays as it is; returns the index of the last event read."""
        role, translated = self._role(n, event)
        if role is Role.BLOCK:
            self._block(event, translated)
            return n
        if role in (Role.INLINE, Role.SEPARATE) and self._elements.ends[n] > n + 1:
            self._translated.append(True)
            self._inline(event) if role is Role.INLINE else self._separate(event)
            return n
        end = self._elements.ends[n]
        opening = self._tag(event, translated)
        if role is Role.LINE_BREAK:
            self._paragraph.break_line((*opening, event.closing))
        elif role is Role.PROTECTED:
            markup = (*opening, self._verbatim(n, end))
            self._paragraph.add_protected(markup, self._text_between(n, end))
        elif role is Role.VERBATIM_BLOCK:
            self._end_paragraph()
            self._template += [*opening, self._verbatim(n, end)]
        else:
            divides = role is not Role.INLINE or not event.closing
            self._paragraph.add_mark((*opening, self._verbatim(n, end)), event.seen, divides)
        return end

    def _role(self, n: int, event: Start) -> tuple[Role, bool]:
        """The role of an element here, and whether its attributes and content are translated."""
        outside = self._translated[-1]
        translated = outside if event.translate is None else event.translate
        if not outside:
            return Role.BLOCK, translated
        role = event.role
        if role is Role.PROTECTED and event.translate:
            role = Role.INLINE
        if n in self._elements.has_block and role in (Role.INLINE, Role.PROTECTED):
            return Role.BLOCK, translated and role is Role.INLINE
        if not translated and role is Role.INLINE:
            role = Role.PROTECTED
        if not translated and role is Role.SEPARATE:
            role = Role.VERBATIM
        return role, translated

    def _block(self, event: Start, translated: bool) -> None:
        self._end_paragraph()
        self._template += self._tag(event, translated)
        self._translated.append(translated)

        def end() -> None:
            self._end_paragraph()
            self._template.append(event.closing)

        self._at_end.append(end)

    def _inline(self, event: Start) -> None:
        self._paragraph.open(self._tag(event, True), event.closing)
        self._at_end.append(self._paragraph.close)

    def _separate(self, event: Start) -> None:
        opening = self._tag(event, True)
        self._around.append((self._template, self._paragraph))
        self._template, self._paragraph = [*opening], Paragraph()

        def end() -> None:
            self._end_paragraph()
            content = (*self._template, event.closing)
            self._template, self._paragraph = self._around.pop()
            self._paragraph.add_mark(content, seen=True, divides=True)

        self._at_end.append(end)

    def _end_paragraph(self) -> None:
        """Add what has been read since the last block as a segment or, if there is nothing to translate, as it is."""
        paragraph, self._paragraph = self._paragraph, Paragraph()
        leading, segment, trailing = paragraph.segment()
        segment = cut_protected(protect_untranslated(segment, paragraph.written, self._escape))
        if has_letters(segment.text):
            self._template += [leading, self._add_segment(segment), trailing]
        else:
            self._template += paragraph.raw

    def _add_segment(self, segment: Segment) -> int:
        self._segments.append(segment)
        return len(self._segments) - 1

    def _tag(self, event: Start, translated: bool) -> Template:
        """A start tag, with places for the translations of its attributes."""
        template: list[str | int] = []
        done = 0
        for attribute in event.attributes if translated else ():
            segment = self._attribute(attribute)
            if has_letters(segment.text):
                number = self._add_segment(segment)
                template += [event.markup[done : attribute.start], f'{attribute.name}="', number, '"']
                done = attribute.end
        return (*template, event.markup[done:])

    def _attribute(self, attribute: AttributeText) -> Segment:
        text = without_invisible(attribute.value)
        segment = Segment(text, attribute=attribute.name, forms=invisible_forms(attribute.value))
        return cut_protected(protect_untranslated(segment, lambda number: (), self._escape_attribute))

    def _markup(self, event: Event) -> str:
        """An event as it is written, except an end."""
        if isinstance(event, Text):
            return self._escape(event.text) if event.markup is None else event.markup
        assert not isinstance(event, End)
        return event.markup

    def _verbatim(self, start: int, end: int) -> str:
        """An element as it is written, without its start tag."""
        parts, closings = [], [self._closing(start)]
        for event in self._events[start + 1 : end + 1]:
            if isinstance(event, End):
                parts.append(closings.pop())
            else:
                parts.append(self._markup(event))
                if isinstance(event, Start):
                    closings.append(event.closing)
        return "".join(parts)

    def _closing(self, start: int) -> str:
        event = self._events[start]
        assert isinstance(event, Start)
        return event.closing

    def _text_between(self, start: int, end: int) -> str:
        return "".join(event.text for event in self._events[start:end] if isinstance(event, Text))
