"""Java properties and Apple's .strings: lines of keys with values, and their escapes."""

import re
from collections.abc import Iterator
from functools import partial

from interlinear.documents.document import DocumentFile
from interlinear.documents.formats import ReadOptions, document_format
from interlinear.documents.messages.icu import COMPLEX
from interlinear.documents.reading.encoding import DecodedText, decode_text
from interlinear.documents.values.values import Value, chosen, file_of_values
from interlinear.errors import DataError

# A line with a value, as java.util.Properties reads it; a line that ends in a backslash goes on.
PROPERTY = re.compile(
    r"^[ \t\f]*(?![#!\s])(?P<key>(?:[^\\=: \t\f\r\n]|\\(?:\r\n|[\s\S]))+)"
    r"[ \t\f]*[=:]?[ \t\f]*(?:\\(?:\r\n|\r|\n)[ \t\f]*)*"
    r"(?P<value>(?:[^\\\r\n]|\\(?:\r\n|[\s\S]))*)",
    re.MULTILINE,
)
ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(?:\r\n|\r|\n)[ \t\f]*|([\s\S]))")
CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
WRITTEN = {control: f"\\{letter}" for letter, control in CONTROL.items()} | {"\\": "\\\\"}
ARGUMENT = re.compile(r"\{\d")
STRING = r'"(?:[^"\\]|\\[\s\S])*"'
# A comment, or a key with its value; what begins neither is passed by.
APPLE = re.compile(
    rf"/\*[\s\S]*?(?:\*/|\Z)|//[^\n]*|(?P<key>{STRING}|(?<![\w.-])[\w.-]++)\s*=\s*(?P<value>{STRING})\s*;|{STRING}"
)
APPLE_ESCAPED = re.compile(r"\\(?:U([0-9a-fA-F]{4})|(\r\n)|([\s\S]))")


@document_format(".properties", has_keys=True)
def read_properties(data: bytes, where: str, options: ReadOptions) -> DocumentFile:
    """A .properties file: in UTF-8 or, if it is not that, in ISO 8859-1, as Java read it before version 9. Characters
    that the file may not have are written as \\uXXXX. Raises DataError."""
    try:
        decoded = decode_text(data, where)
    except DataError:
        decoded = decode_text(data, where, "iso-8859-1")
    values = chosen(properties(decoded), options.keys, where)
    return file_of_values(decoded, values, mnemonics="&")


def properties(decoded: DecodedText) -> Iterator[Value]:
    """The values of a .properties file."""
    encoding = "ascii" if decoded.text.isascii() else decoded.encoding
    for match in PROPERTY.finditer(decoded.text):
        text, key = unescape(match["value"]), unescape(match["key"])
        # java.text.MessageFormat, which reads values with arguments, has two apostrophes for one.
        is_simple = ARGUMENT.search(text) is not None and not COMPLEX.search(text)
        doubled = is_simple and "'" not in text.replace("''", "")
        write = partial(write_property, encoding=encoding, doubled=doubled)
        yield Value(*match.span("value"), text.replace("''", "'") if doubled else text, write, (key,))


def unescape(written: str) -> str:
    """A key or value without its escapes; halves of a character stay unchanged written."""

    def character(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return CONTROL.get(match[2], match[2]) if match[2] else ""

    return whole_characters(ESCAPED.sub(character, written))


def whole_characters(text: str) -> str:
    """A text whose two halves of a character are one; a NUL for a half alone, which no value is written with."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\ufffd", "\0")


def write_property(text: str, encoding: str, doubled: bool) -> str:
    """A value on one line, with escapes for characters that the encoding lacks."""
    text = text.replace("'", "''") if doubled else text
    text = re.sub(r"[\\\t\n\r\f]", lambda match: WRITTEN[match.group()], text)
    text = re.sub(r"\A ", r"\\ ", text)
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        return "".join(character if is_in(character, encoding) else utf_16_escapes(character) for character in text)


def is_in(character: str, encoding: str) -> bool:
    return character.isascii() or (encoding != "ascii" and ord(character) < 0xFF)


def utf_16_escapes(character: str, letter: str = "u") -> str:
    """A character as Java writes it in ASCII: one or two units of UTF-16."""
    units = character.encode("utf-16-be")
    return "".join(f"\\{letter}{units[n : n + 2].hex()}" for n in range(0, len(units), 2))


@document_format(".strings", has_keys=True)
def read_apple_strings(data: bytes, where: str, options: ReadOptions) -> DocumentFile:
    """A .strings file of Apple's: `"key" = "value";`. Raises DataError."""
    decoded = decode_text(data, where)
    return file_of_values(decoded, chosen(apple_strings(decoded.text), options.keys, where))


def apple_strings(text: str) -> Iterator[Value]:
    """The values of a .strings file."""
    for match in APPLE.finditer(text):
        if match["value"]:
            start, end = match.span("value")
            yield Value(
                start,
                end,
                apple_unescape(match["value"][1:-1]),
                write_apple,
                (apple_unescape(match["key"].strip('"')),),
            )


def apple_unescape(written: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return match[2] or CONTROL.get(match[3], match[3])

    return whole_characters(APPLE_ESCAPED.sub(character, written))


def write_apple(text: str) -> str:
    """A value in double quotes."""
    escaped = re.sub(r"[\\\t\r\f]", lambda match: WRITTEN[match.group()], text)
    return '"' + escaped.replace("\n", "\\n").replace('"', '\\"') + '"'
