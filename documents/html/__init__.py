"""HTML: whole documents and fragments, read as a browser reads them."""

from documents.builder import build_document
from documents.document import Document
from documents.html.elements import escape, escape_attribute
from documents.html.tree import read_html
from documents.masks import Masks


def parse_html(html: str, where: str = "HTML") -> Document:
    """Parse HTML. Any text is HTML; what a browser would correct is corrected: tags are closed, and nested.
    Instructions of PHP, CDATA sections and tags of templates stay as they are.

    Raises DataError, located at `where`, for unclosed tags that would be opened again and again without end.
    """
    masks = Masks()
    return build_document(
        read_html(html, where, masks),
        lambda text: masks.unmask(escape(text)),
        lambda text: masks.unmask(escape_attribute(text)),
    )


__all__ = ["parse_html"]
