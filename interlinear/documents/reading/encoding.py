"""Text of files: from bytes in the encodings that files declare, and back."""

import codecs
import re
from dataclasses import dataclass

from interlinear.errors import DataError

MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Codecs that only decode characters.
KNOWN = re.compile(
    "utf-(8|16(-[bl]e)?)|ascii|iso8859-[0-9]+|cp(125[0-9]|437|850|852|866|932|949)|koi8-[rtu]|mac-[a-z]+"
    "|shift_jis|euc_(jp|kr)|gb2312|gbk|gb18030|big5"
)
OTHER_TYPES = {
    b"PK\x03\x04": "a zip archive",
    b"%PDF-": "a PDF",
    b"\xd0\xcf\x11\xe0": "a binary Office document",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
}


@dataclass(frozen=True)
class DecodedText:
    """A file's text, its encoding, and its byte order mark if it has one."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def has_characters_of(self, text: str) -> bool:
        """Whether the encoding has all characters of another text."""
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            return False
        return True

    def encode(self, text: str) -> bytes:
        """Another text in the same encoding. Characters that it lacks become references of XML and HTML: formats that
        have none, and declare their encoding, ask for `has_characters_of` before."""
        return self.mark + text.encode(self.encoding, "xmlcharrefreplace")


def decode_text(data: bytes, where: str, declared: str | None = None) -> DecodedText:
    """Decode by the byte order mark, else as `declared`, else as UTF-8.

    Raises DataError if the bytes are not text in that encoding.
    """
    for magic, kind in OTHER_TYPES.items():
        if data.startswith(magic):
            raise DataError(where, f"is not a text file, but {kind}", "give it the suffix of its format")
    mark, encoding = next(
        ((mark, name) for mark, name in MARKS if data.startswith(mark)), (b"", known(declared, where))
    )
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        position = len(mark) + error.start
        raise DataError(where, f"is not text in {encoding}: see byte {position}", "save it as UTF-8") from None
    if "\0" in text:
        raise DataError(where, "is not a text file: it has bytes of zero", "save it as UTF-8")
    return DecodedText(text, encoding, mark)


def known(declared: str | None, where: str) -> str:
    """The codec of a declared encoding; UTF-8 if there is none. Raises DataError for one that is not supported."""
    if not declared:
        return "utf-8"
    try:
        name = codecs.lookup(declared).name
    except LookupError:
        name = ""
    if not KNOWN.fullmatch(name):
        raise DataError(where, f"declares the encoding '{declared[:40]}', which is not supported", "save it as UTF-8")
    return "utf-8" if name.startswith("utf-16") else name  # UTF-16 is marked at its begin, or it is not UTF-16
