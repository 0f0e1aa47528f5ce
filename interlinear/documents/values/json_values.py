"""JSON: the strings that are values are translated; keys and everything else stay unchanged."""

import json
import re
from collections.abc import Iterator
from functools import partial

from interlinear.documents.document import DocumentFile
from interlinear.documents.formats import ReadOptions, document_format
from interlinear.documents.reading.encoding import decode_text
from interlinear.documents.values.values import Value, chosen, file_of_values
from interlinear.errors import DataError

SURROGATE = re.compile("[\ud800-\udfff]")  # half of a character, which no model reads
TOKEN = re.compile(r'(?P<string>"(?:[^"\\]|\\.)*")(?P<key>\s*:)?|[{}\[\]]', re.DOTALL)


@document_format(".json", ".arb", has_keys=True)
def read_json(data: bytes, where: str, options: ReadOptions) -> DocumentFile:
    """A JSON file. Raises DataError if it is not valid."""
    decoded = decode_text(data, where)
    check_json(decoded.text, where)
    as_ascii = decoded.text.isascii() and "\\u" in decoded.text
    describes = where.lower().endswith(".arb")  # of Flutter: a key that begins with @ describes a message
    values = (
        Value(*match.span(), text, partial(json.dumps, ensure_ascii=as_ascii), keys)
        for match, text, keys in strings(decoded.text)
        if not SURROGATE.search(text) and not (describes and any(key.startswith("@") for key in keys))
    )
    return file_of_values(decoded, chosen(values, options.keys, where), mnemonics="&")


def strings(text: str) -> Iterator[tuple["re.Match[str]", str, tuple[str, ...]]]:
    """The strings that are values, with the keys around them."""
    keys: list[str] = []  # the key of each open object and array; empty in an array
    for match in TOKEN.finditer(text):
        token = match.group()
        if token in "{[":
            keys.append("")
        elif token in "]}":
            keys.pop()
        elif match["key"] is None:
            yield match, json.loads(token, strict=False), tuple(filter(None, keys))
        else:
            keys[-1] = json.loads(match["string"], strict=False)


def check_json(text: str, where: str) -> None:
    """Raises DataError if the text is not JSON."""
    try:
        json.loads(text, strict=False, parse_int=str)  # Python converts no integer of thousands of digits
    except json.JSONDecodeError as error:
        problem = f"is not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        raise DataError(where, problem, "correct it there") from None
    except RecursionError:
        raise DataError(where, "is nested too deeply to be read as JSON", "flatten it") from None
