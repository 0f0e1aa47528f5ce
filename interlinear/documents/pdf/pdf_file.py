"""PDF: its text becomes a page of HTML, whose texts are translated. Pictures, fonts and positions are dropped."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from interlinear.documents.document import DocumentFile
from interlinear.documents.formats import document_format
from interlinear.documents.pdf.layout import Block, read_blocks, runs
from interlinear.documents.pdf.pages import read_pages
from interlinear.documents.text_formats.plain_text import read_html_file
from interlinear.errors import DataError

HEAD = '<!DOCTYPE html>\n<html>\n<head><meta charset="utf-8"></head>\n<body>\n'
FOOT = "</body>\n</html>\n"


@document_format(".pdf", is_archive=True, translated_suffix=".html")
def read_pdf(data: bytes, where: str) -> DocumentFile:
    """The text of a PDF; its translation is a file of HTML. Pages that are pictures are named in a warning. Raises
    DataError."""
    pages = read_pages(data, where)
    scanned = [str(number) for number, page in enumerate(pages, 1) if page.scanned]
    if scanned and not any(page.lines for page in pages):
        raise DataError(where, "has no text: its pages are pictures", "recognise their text with an OCR program first")
    html = HEAD + "".join(written(kind, found) for kind, found in runs(read_blocks(pages))) + FOOT
    file = read_html_file(html.encode(), where)
    return replace(file, warnings=tuple(f"Page {number} is a picture without text." for number in scanned))


def written(kind: str, found: Sequence[Block]) -> str:
    """Blocks of one kind in HTML, one on a line."""
    if kind == "tr":
        rows = ["".join(f"<td>{escape(text, False)}</td>" for text in block.texts) for block in found]
        return "<table>\n" + "".join(f"<tr>{row}</tr>\n" for row in rows) + "</table>\n"
    if kind in ("ul", "ol"):
        items = [(f' value="{block.number}"' if block.number else "", escape(block.texts[0], False)) for block in found]
        return f"<{kind}>\n" + "".join(f"<li{value}>{text}</li>\n" for value, text in items) + f"</{kind}>\n"
    return "".join(f"<{kind}>{escape(block.texts[0], False)}</{kind}>\n" for block in found)
