"""The lines of a PDF's pages: text, place, size, and whether it is bold."""

import ctypes
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from interlinear.errors import DataError

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage, PdfTextPage

MAGIC_WITHIN = 1024  # bytes: where readers of PDF look for its first line
HYPHEN = "\x02"  # PDFium's character for a hyphen at the end of a line
BOLD = 600  # of font weights, which are 400 for usual text
WIDE_GAP = 2.0  # sizes between two words of a line that do not belong together: of columns, or cells
UNREADABLE = 0.3  # share of characters without meaning from which a page counts as one without text
LIGATURES = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}


@dataclass(frozen=True)
class Line:
    """A line of text, or a part of one that stands apart; from left to right and bottom to top, in points."""

    text: str
    left: float
    right: float
    bottom: float
    top: float
    size: float
    bold: bool


@dataclass(frozen=True)
class Page:
    """A page: its height in points, and its lines in the order in which they were written. scanned: it shows a picture,
    and has no text that can be read."""

    height: float
    lines: list[Line]
    scanned: bool


def read_pages(data: bytes, where: str) -> list[Page]:
    """The pages of a PDF. Raises DataError if it is encrypted, damaged or none."""
    import pypdfium2

    if b"%PDF-" not in data[:MAGIC_WITHIN]:
        raise DataError(where, "is not a PDF", "check its suffix")
    try:
        document = pypdfium2.PdfDocument(data)
        try:
            return [read_page(document, number) for number in range(len(document))]
        finally:
            document.close()
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) in (pypdfium2.raw.FPDF_ERR_PASSWORD, pypdfium2.raw.FPDF_ERR_SECURITY):
            raise DataError(where, "is encrypted with a password", "save it without password") from None
        raise DataError(where, "is a damaged PDF", "save it again with the program that made it") from None


def read_page(document: "PdfDocument", number: int) -> Page:
    """The page of a number, from 0."""
    page = document[number]
    try:
        lines = list(page_lines(page))
        text = "".join(line.text for line in lines)
        has_text = bool(text) and sum(map(is_unreadable, text)) < UNREADABLE * len(text)
        return Page(page.get_height(), lines if has_text else [], not has_text and shows_picture(page))
    finally:
        page.close()


def is_unreadable(character: str) -> bool:
    """Whether a character has no meaning, as in fonts without a character map."""
    return unicodedata.category(character) in ("Co", "Cn", "Cc") or character == "\ufffd"


def shows_picture(page: "PdfPage") -> bool:
    """Whether there is a picture on a page."""
    from pypdfium2 import raw

    return any(True for _ in page.get_objects(filter=(raw.FPDF_PAGEOBJ_IMAGE,), max_depth=3))


@dataclass(frozen=True)
class Character:
    """A character with its place on the page as displayed."""

    text: str
    left: float
    right: float
    bottom: float
    top: float


def page_lines(page: "PdfPage") -> Iterator[Line]:
    """The lines of a page in the order in which they were written."""
    textpage = page.get_textpage()
    line: list[tuple[int, Character]] = []
    for index, character in enumerate(characters(page, textpage)):
        last = next((before for _, before in reversed(line) if not before.text.isspace()), None)
        apart = last is not None and not character.text.isspace() and is_apart(last, character)
        if line and (character.text == "\n" or apart):
            yield from finish(textpage, line)
            line = []
        if character.text not in "\r\n" and (line or not character.text.isspace()):
            line.append((index, character))
    yield from finish(textpage, line)
    textpage.close()


def is_apart(last: Character, character: Character) -> bool:
    """Whether there is a wide gap between two characters that PDFium reads as one line."""
    size = max(last.top - last.bottom, 1)
    return not -WIDE_GAP * size < character.left - last.right < WIDE_GAP * size


def characters(page: "PdfPage", textpage: "PdfTextPage") -> Iterator[Character]:
    """The characters of a page; characters that PDFium adds, such as spaces, have no width."""
    from pypdfium2 import raw

    box = raw.FS_RECTF()
    rotation, (width, height) = page.get_rotation(), page.get_size()
    for index in range(textpage.count_chars()):
        code = raw.FPDFText_GetUnicode(textpage, index)
        text = LIGATURES.get(code) or (chr(code) if 0 < code <= 0x10FFFF and not 0xD800 <= code < 0xE000 else "\ufffd")
        if raw.FPDFText_IsHyphen(textpage, index) == 1:
            text = HYPHEN
        raw.FPDFText_GetLooseCharBox(textpage, index, ctypes.byref(box))
        left, right, bottom, top = box.left, box.right, box.bottom, box.top
        if rotation == 90:
            left, right, bottom, top = bottom, top, height - right, height - left
        elif rotation == 180:
            left, right, bottom, top = width - right, width - left, height - top, height - bottom
        elif rotation == 270:
            left, right, bottom, top = width - top, width - bottom, left, right
        yield Character(text, left, right, bottom, top)


def finish(textpage: "PdfTextPage", line: list[tuple[int, Character]]) -> Iterator[Line]:
    """The line of these characters, if they are more than spaces."""
    from pypdfium2 import raw

    seen = [(index, character) for index, character in line if not character.text.isspace()]
    if not seen:
        return
    shown = [character for _, character in seen]
    text = " ".join("".join(character.text for _, character in line).split())
    weight = raw.FPDFText_GetFontWeight(textpage, seen[len(seen) // 2][0])
    yield Line(
        text,
        shown[0].left,
        max(character.right for character in shown),
        median(character.bottom for character in shown),
        median(character.top for character in shown),
        median(character.top - character.bottom for character in shown),
        weight >= BOLD or is_bold_font(textpage, seen[len(seen) // 2][0]),
    )


def is_bold_font(textpage: "PdfTextPage", index: int) -> bool:
    """Whether the name of a character's font says that it is bold."""
    from pypdfium2 import raw

    name, flags = ctypes.create_string_buffer(200), ctypes.c_int()
    raw.FPDFText_GetFontInfo(textpage, index, name, len(name), ctypes.byref(flags))
    return any(word in name.value.lower() for word in (b"bold", b"black", b"heavy"))
