"""Plain text, HTML and XHTML files."""

import re

from interlinear.documents.builder import build_document
from interlinear.documents.document import Document, DocumentFile
from interlinear.documents.events import End, Event, Role, Start, Text
from interlinear.documents.formats import document_format
from interlinear.documents.html import parse_html
from interlinear.documents.messages.messages import message_block
from interlinear.documents.reading.encoding import DecodedText, decode_text

# Line ends and white space that aligns columns: the texts between are translated separately.
SEPARATOR = re.compile(r"[\r\n\v\f\t\x85\u2028\u2029]+|[ ]{3,}")
CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"' ]*([\w.:-]+)", re.IGNORECASE)


@document_format(".txt")
def read_text(data: bytes, where: str) -> DocumentFile:
    """A text file: every line is translated separately. Raises DataError."""
    decoded = decode_text(data, where)
    return file_of(decoded, parse_text(decoded.text))


@document_format(".html", ".htm", has_references=True)
def read_html_file(data: bytes, where: str) -> DocumentFile:
    """An HTML file, decoded as its `<meta charset>` says. Raises DataError."""
    charset = CHARSET.search(data[:4096])
    decoded = decode_text(data, where, charset[1].decode("ascii") if charset else None)
    return file_of(decoded, parse_html(decoded.text, where))


def file_of(decoded: DecodedText, document: Document) -> DocumentFile:
    """The file of one document."""
    return DocumentFile((document,), lambda rendered: decoded.encode(rendered[0]))


def parse_text(text: str) -> Document:
    """Lines, and columns that are separated by tabs or several spaces, as separate texts."""
    events: list[Event] = []
    done = 0
    for match in SEPARATOR.finditer(text):
        events += message_block("", "", [Text(text[done : match.start()])])
        events += [Start(match.group(), "", Role.VERBATIM_BLOCK), End()]
        done = match.end()
    events += message_block("", "", [Text(text[done:])])
    return build_document(events, str, str)
