"""HTML: whole documents and fragments, read as a browser reads them."""

from interlinear.documents.builder import build_document
from interlinear.documents.document import Document
from interlinear.documents.html.elements import escape, escape_attribute
from interlinear.documents.html.tree import read_html
from interlinear.documents.masks import Masks


def parse_html(html: str, where: str = "HTML") -> Document:
    """Parse HTML. Any text is HTML; errors are corrected as in a browser: tags are closed, and nested. Instructions of
    PHP, CDATA sections and tags of templates stay unchanged.

    Raises DataError, located at `where`, for unclosed tags that would be opened again and again without end.
    """
    masks = Masks()
    return build_document(
        read_html(html, where, masks),
        lambda text: masks.unmask(escape(text)),
        lambda text: masks.unmask(escape_attribute(text)),
    )


__all__ = ["parse_html"]
