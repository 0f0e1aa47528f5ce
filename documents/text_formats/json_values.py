"""JSON: the strings that are values are translated; keys and everything else stay as they are."""

import json
import re
from collections.abc import Sequence

from documents.document import Document, DocumentFile
from documents.reading.encoding import decode_text
from documents.text_formats.messages import read_message
from seq2seq.errors import DataError

SURROGATE = re.compile("[\ud800-\udfff]")  # half of a character, which no model reads
STRING = re.compile(r'"(?:[^"\\]|\\.)*"(?P<key>\s*:)?', re.DOTALL)


def read_json(data: bytes, where: str) -> DocumentFile:
    """A JSON file. Raises DataError if it is not valid."""
    decoded = decode_text(data, where)
    check_json(decoded.text, where)
    as_ascii = decoded.text.isascii() and "\\u" in decoded.text
    between: list[str] = []  # before each value, and after the last
    values: list[Document] = []
    done = skipped = 0  # skipped: the end of what describes a message in a file of Flutter
    describes = where.lower().endswith(".arb")
    for match in STRING.finditer(decoded.text):
        if describes and match["key"] and match.group().startswith('"@'):
            skipped = max(skipped, end_of_value(decoded.text, match.end()))
        elif (
            match["key"] is None
            and match.start() >= skipped
            and not SURROGATE.search(json.loads(match.group(), strict=False))
        ):
            between.append(decoded.text[done : match.start()])
            values.append(read_message(json.loads(match.group(), strict=False), mnemonics="&"))
            done = match.end()
    rest = decoded.text[done:]

    def assemble(rendered: Sequence[str]) -> bytes:
        written = [json.dumps(text, ensure_ascii=as_ascii) for text in rendered]
        return decoded.encode("".join(a + b for a, b in zip(between, written, strict=True)) + rest)

    return DocumentFile(tuple(values), assemble)


def end_of_value(text: str, position: int) -> int:
    """Where the value ends that begins at a position of a JSON text."""
    start = re.compile(r"\s*").match(text, position)
    return json.JSONDecoder(strict=False, parse_int=str).raw_decode(text, start.end() if start else position)[1]


def check_json(text: str, where: str) -> None:
    """Raises DataError if the text is not JSON."""
    try:
        json.loads(text, strict=False, parse_int=str)  # Python converts no integer of thousands of digits
    except json.JSONDecodeError as error:
        problem = f"is not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        raise DataError(where, problem, "correct it there") from None
    except RecursionError:
        raise DataError(where, "is nested too deeply to be read as JSON", "flatten it") from None
