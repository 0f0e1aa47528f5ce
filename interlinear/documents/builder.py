"""Builds a document from a parser's events: divides its text into segments, with their inline tags."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from interlinear.documents.document import Document, Segment, fill
from interlinear.documents.events import AttributeText, Elements, End, Event, Role, Start, Text
from interlinear.documents.inline import Template
from interlinear.documents.invisible import invisible_forms, without_invisible
from interlinear.documents.paragraph import Paragraph
from interlinear.documents.protection import cut_protected
from interlinear.documents.untranslated import has_letters, protect_untranslated

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
        self._around: list[tuple[list[str | int], Paragraph]] = []  # the markup around each separate element
        self._at_end: list[Callable[[], None]] = []  # the function to call at the end of each open element
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
        """Read the start of an element, or the whole element if it stays unchanged; returns the index of the last event
        read."""
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
        elif role is Role.EXTRA_SPACE:
            self._paragraph.add_extra_space(opening)
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
        begin, number = len(self._template), len(self._segments)
        self._template += self._tag(event, translated)
        self._translated.append(translated)
        around, self._paragraph.finish = self._paragraph.finish, event.finish

        def end() -> None:
            self._end_paragraph()
            self._template.append(event.closing)
            if event.source and len(self._segments) == number + 1:
                self._enclose(begin, number, event.source)
            self._paragraph.finish = around

        self._at_end.append(end)

    def _enclose(self, begin: int, number: int, source: str) -> None:
        """Make the markup around a segment, from a place in the template on, a part of the segment: an unchanged
        segment is then written exactly as in the document."""
        segment, place = self._segments[number], self._template.index(number, begin)
        before, after = (fill(part, ()) for part in (self._template[begin:place], self._template[place + 1 :]))
        around = before + segment.around[0], segment.around[1] + after
        self._segments[number] = replace(segment, around=around, source=(source,))
        self._template[begin:] = [number]

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
        """Add the content since the last block as a segment or, if there is nothing to translate, unchanged."""
        paragraph, self._paragraph = self._paragraph, Paragraph()
        self._paragraph.finish = paragraph.finish
        segment = cut_protected(protect_untranslated(paragraph.segment(), paragraph.written, self._escape))
        segment = replace(segment, finish=paragraph.finish)
        if has_letters(segment.text):
            self._template.append(self._add_segment(segment))
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
            segment = self._attribute(attribute, event.markup[attribute.start : attribute.end])
            if has_letters(segment.text):
                template += [event.markup[done : attribute.start], self._add_segment(segment)]
                done = attribute.end
        return (*template, event.markup[done:])

    def _attribute(self, attribute: AttributeText, written: str) -> Segment:
        text, name = without_invisible(attribute.value), attribute.name
        forms = invisible_forms(attribute.value)
        segment = Segment(text, attribute=name, forms=forms, around=(f'{name}="', '"'), source=(written,))
        return cut_protected(protect_untranslated(segment, lambda number: (), self._escape_attribute))

    def _markup(self, event: Event) -> str:
        """An event as written, except an end."""
        if isinstance(event, Text):
            return self._escape(event.text) if event.markup is None else event.markup
        assert not isinstance(event, End)
        return event.markup

    def _verbatim(self, start: int, end: int) -> str:
        """An element's markup without its start tag."""
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
