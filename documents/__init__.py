"""Documents with markup: their texts to translate, and the same documents with translations in their places."""

from documents.document import Document, DocumentFile, Segment
from documents.html import parse_html
from documents.inline import AlignedText, InlineTag
from documents.xml import parse_xml

__all__ = ["AlignedText", "Document", "DocumentFile", "InlineTag", "Segment", "parse_html", "parse_xml"]
