"""Documents with markup: their texts to translate, and the same documents with translations in their places."""

from interlinear.documents.document import Document, DocumentFile, Segment
from interlinear.documents.html import parse_html
from interlinear.documents.inline import AlignedText, InlineTag
from interlinear.documents.xml import parse_xml

__all__ = ["AlignedText", "Document", "DocumentFile", "InlineTag", "Segment", "parse_html", "parse_xml"]
