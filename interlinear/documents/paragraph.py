"""A paragraph during parsing: its text, its inline tags, and white space as displayed."""

import re
from dataclasses import replace

from interlinear.documents.document import Segment
from interlinear.documents.events import Finish
from interlinear.documents.inline import InlineTag, Template
from interlinear.documents.invisible import invisible_forms, without_invisible
from interlinear.documents.placement import CLOSING_MARKS
from interlinear.documents.protection import is_word

WHITE_SPACE = re.compile("[ \t\n\r\f]+")  # what HTML and XML count as white space; a no-break space is text


class Paragraph:
    """Text and inline tags up to the next block. White space is collapsed as displayed: to one space between words, and
    to nothing at the edges of lines, where it is kept beside the text.

    raw: the original markup.
    """

    def __init__(self) -> None:
        self.raw: list[str | int] = []
        self._tags: list[InlineTag] = []
        self._open: list[int] = []
        self._places: list[tuple[int, int]] = []  # the place of each tag in `raw`
        self._displayed: list[str] = []  # the text with characters that are not displayed
        self._text: list[str] = []
        self._length = 0
        self._last = "\n"  # the last character; initially a line break
        self._leading = ""  # white space before the first character
        self._space = ""  # white space after the last character
        self._space_before_mark = 0  # how much of it is before the last displayed tag, which it separates from the text
        self._mark: int | None = None  # the last displayed tag, if it is after the last character or white space
        self._divides = False  # whether it, or one that it touches, divides words
        self._begun = False  # whether there is a character, or a displayed tag
        self._last_break = -1
        self.finish: Finish | None = None

    def segment(self) -> Segment:
        """The text with its tags, and the white space around it."""
        forms = invisible_forms("".join(self._displayed))
        around = (self._leading, self._space[self._space_before_mark :])
        return Segment("".join(self._text), tuple(self._tags), forms=forms, around=around, source=tuple(self.raw))

    def written(self, number: int) -> Template:
        """The original markup of a tag."""
        start, end = self._places[number]
        return tuple(self.raw[start:end])

    def add_text(self, text: str, markup: str) -> None:
        """Add text; `markup` is its form in the document."""
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
        """Add a tag without text of this paragraph. `divides`: between two words it acts as a space."""
        self.raw += markup
        is_set_off = self._mark is None and (bool(self._space) or self._last.isspace())
        number = self._add_tag(InlineTag(0, 0, markup, space_before=seen and is_set_off))
        if seen:
            self._begin()
            self._mark = number
            self._divides |= divides
            self._space_before_mark = len(self._space)

    def add_extra_space(self, markup: Template) -> None:
        """Add the second of two spaces between words."""
        self.raw += markup
        self._add_tag(InlineTag(0, 0, markup, extra_space=True))

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
        """Before a character without white space: between words a mark acts as a space; before a full stop it is
        separated from the word that may precede it in the translation."""
        if self._mark is None:
            return
        if self._divides and not self._space and is_word(self._last) and is_word(following):
            self._update(self._mark, divides=True)
            self._text.append(" ")
            self._length += 1
        if following in CLOSING_MARKS or (following.isspace() and following != "\n"):
            self._update(self._mark, space_after=True)
        if following in CLOSING_MARKS and self._last != "\n":
            self._space = ""  # the character before the mark
        self._mark, self._divides = None, False

    def _add_space(self, space: str) -> None:
        if self._mark is not None:
            self._update(self._mark, space_after=True)
        self._mark, self._divides = None, False
        self._displayed.append(" ")
        self._space += space

    def _begin(self) -> None:
        """Before any displayed content, white space belongs before the text."""
        if not self._begun:
            self._begun, self._leading, self._space = True, self._space, ""

    def _write_space(self) -> None:
        """Write the white space before a character: a space or, at the start of a line, the original white space."""
        space, self._space = self._space, ""
        if not space or not self._length:
            return
        if self._last == "\n":
            self._write_after_break(space)
        else:
            self._text.append(" ")
            self._length += 1

    def _write_after_break(self, space: str) -> None:
        """Write white space at the start of a line after the line break and the tags closed since: emphasis of Markdown
        cannot end after a space."""
        number = self._last_break
        parent = self._tags[number].parent
        if parent is None or parent in self._open:
            self._update(number, opening=(*self._tags[number].opening, space))
            return
        while parent is not None and parent not in self._open:
            number, parent = parent, self._tags[parent].parent
        self._update(number, closing=self._tags[number].closing + space)
