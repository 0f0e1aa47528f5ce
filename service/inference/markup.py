"""Texts with markup (`format: html` and `xml`). A text without tags only has its character references decoded."""

import html
import re
from dataclasses import dataclass
from typing import Literal

from interlinear.documents import Document, parse_html, parse_xml
from interlinear.documents.invisible import INVISIBLE
from interlinear.documents.messages.messages import read_message
from interlinear.errors import DataError
from service.problems import Problem

# Start of a tag, comment or declaration (HTML, 13.2.5.6, the tag open state); any other `<` is text.
MARKUP = re.compile(r"<[A-Za-z/!?][^\s>]*>?")
# In plain text: an end tag, a reference to a character, or a soft hyphen and the like. A text without them needs no
# document.
IN_TEXT = re.compile(rf"</\w|&(?:#?\w{{2,31}});|{INVISIBLE.pattern}")
LONG_REFERENCE = re.compile(r"&#([0-9]{8,});?")  # html.unescape raises ValueError for numbers of thousands of digits
MAX_DIGITS = 7  # of a character's number, without leading zeros
INLINE_HTML_CHARACTERS = 1000  # characters decoded in less time than it takes to wake a thread
PARSING_COST = 20  # the time to parse a character of a document, in units of the time to decode one

MarkupFormat = Literal["html", "xml"]
ReadFormat = MarkupFormat | Literal["message"]  # a plain text whose tags and references to characters are read


@dataclass(frozen=True)
class SourceText:
    """A text of a request: for a document with tags, the text to translate, and the document."""

    text: str
    document: Document | None = None

    @property
    def blank(self) -> bool:
        """Whether it is nothing but white space."""
        return self.document is None and not self.text.strip()


def read_source(text: str, field: str, markup: ReadFormat | None) -> SourceText:
    """Read a text of a request in its format, None for plain text. Raises Problem, which names the field, for XML that
    is not well-formed, and for HTML whose unclosed tags would be written too often."""
    if markup is None or (markup == "message" and not IN_TEXT.search(text)):
        return SourceText(text)
    if markup == "message":
        document = read_message(text)
        return SourceText(document.text, document) if document.segments else SourceText(text)
    if markup == "html" and not MARKUP.search(text) and not INVISIBLE.search(plain := unescape(text)):
        return SourceText(plain)
    parse = parse_html if markup == "html" else parse_xml
    try:
        document = parse(text, field)
    except DataError as error:
        raise Problem.in_field(field, f"{error.problem}; {error.remedy}") from None
    return SourceText(document.text, document)


def reading_cost(text: str, markup: ReadFormat | None) -> int:
    """The work of reading a text, in characters without tags."""
    if markup == "message":
        return len(text) * PARSING_COST if IN_TEXT.search(text) else 0
    is_document = markup == "xml" or (markup == "html" and MARKUP.search(text) is not None)
    return len(text) * (PARSING_COST if is_document else 1)


def unescape(text: str) -> str:
    """A text with its character references decoded."""
    return html.unescape(LONG_REFERENCE.sub(_shorten_reference, text))


def _shorten_reference(reference: "re.Match[str]") -> str:
    """The reference without leading zeros, or U+FFFD if its number is not a character's (HTML, 13.2.5.80)."""
    digits = reference[1].lstrip("0") or "0"
    return f"&#{digits};" if len(digits) <= MAX_DIGITS else "\ufffd"


def escape_html(text: str) -> str:
    """A text as HTML: &, < and > become character references."""
    return html.escape(text, quote=False)
