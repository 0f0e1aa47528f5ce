"""The events that the parsers of all formats produce from a document, in document order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from interlinear.documents.inline import InlineTag
from interlinear.documents.placement import Piece

Finish = Callable[[Sequence[Piece], Sequence[InlineTag]], list[Piece]]


class Role(Enum):
    """How an element belongs to the text around it."""

    BLOCK = "block"  # its text is translated separately
    INLINE = "inline"  # a part of the text around it; a block if there are blocks in it
    SEPARATE = "separate"  # stands in the text around it, but its text is translated separately: a button
    LINE_BREAK = "line break"
    EXTRA_SPACE = "extra space"  # the second of two spaces between words
    PROTECTED = "protected"  # a part of the text around it that is not translated
    VERBATIM = "verbatim"  # stands in the text around it, and stays unchanged
    VERBATIM_BLOCK = "verbatim block"  # the same, as a block


@dataclass(frozen=True)
class AttributeText:
    """An attribute with a text to translate: the place of `name="value"` in the tag's markup, and the decoded value."""

    name: str
    start: int
    end: int
    value: str


@dataclass(frozen=True)
class Start:
    """An element opens.

    markup, closing: its tags as written; `closing` is empty for an element without an end tag. translate: whether it
    declares its content translatable or not; None without a declaration. finish: changes the pieces of the translation
    of a block's text before they are written; gets the source's tags too. seen: it is displayed even without text, such
    as an image: white space separates it from words. source: the original markup of a block of one text, if its events
    differ from it.
    """

    markup: str
    closing: str
    role: Role
    translate: bool | None = None
    seen: bool = False
    attributes: Sequence[AttributeText] = ()
    finish: Finish | None = None
    source: str = ""


@dataclass(frozen=True)
class End:
    """The element that was opened last, and not closed yet, closes."""


@dataclass(frozen=True)
class Text:
    """Text, decoded. `markup` is its form in the document if that is not the escaped text (a script)."""

    text: str
    markup: str | None = None


@dataclass(frozen=True)
class Other:
    """A comment, declaration or processing instruction, as written."""

    markup: str


Event = Start | End | Text | Other


@dataclass
class Elements:
    """The extents of a document's elements among its events.

    ends: for each Start its End's index. has_block: whether there are blocks in it.
    """

    ends: dict[int, int] = field(default_factory=dict)
    has_block: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, events: Sequence[Event]) -> "Elements":
        """Find them in one pass. Every Start needs its End."""
        elements = cls()
        open_elements: list[int] = []
        for n, event in enumerate(events):
            if isinstance(event, Start):
                open_elements.append(n)
            elif isinstance(event, End):
                start = open_elements.pop()
                elements.ends[start] = n
                role = events[start].role  # type: ignore[union-attr]
                is_block = role in (Role.BLOCK, Role.VERBATIM_BLOCK)
                inherits = role in (Role.INLINE, Role.PROTECTED) and start in elements.has_block
                if open_elements and (is_block or inherits):
                    elements.has_block.add(open_elements[-1])
        return elements
