"""HTML: whole documents and fragments, read as a browser reads them."""

from documents.builder import build_document
from documents.document import Document
from documents.html.elements import escape, escape_attribute
from documents.html.tree import read_html


def parse_html(html: str, where: str = "HTML") -> Document:
    """Parse HTML. Any text is HTML; what a browser would correct is corrected: tags are closed, and nested.

    Raises DataError, located at `where`, for unclosed tags that would be opened again and again without end.
    """
    return build_document(read_html(html, where), escape, escape_attribute)


__all__ = ["parse_html"]
