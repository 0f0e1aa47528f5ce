"""Values of files of data and messages: finds the values that are texts, and replaces them by translations."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from interlinear.documents.document import Document, DocumentFile
from interlinear.documents.messages.messages import read_message
from interlinear.documents.reading.encoding import DecodedText
from interlinear.documents.text_formats.spans import replace_spans
from interlinear.errors import DataError

EXTENSION = (
    r"(?:html?|css|s[ac]ss|less|js|mjs|ts|[jt]sx|vue|json|ya?ml|xml|xsd|csv|tsv|txt|md|pdf|rtf|docx?|xlsx?|pptx?|od[tsp]"
    r"|png|jpe?g|gif|svg|webp|ico|bmp|tiff?|mp[34]|wav|ogg|webm|mov|avi|zip|t?gz|tar|7z|exe|dll|so|jar|py|rb|php|java|kt"
    r"|swift|go|rs|cs|cpp|h|sh|bat|sql|db|log|ini|conf|cfg|toml|properties|ttf|woff2?|eot|strings|po|lock|env)"
)
DATE = r"\d{4}-\d\d?-\d\d?"
TIME = r"\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\s?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"
DATE_FIELD = "(?:d{1,2}|D{1,2}|M{1,4}|[yY]{2,4}|[Hhms]{1,2}|E{3,4}|a)"
# No part has two quantifiers beside each other that read the same characters: the time is linear.
NO_TEXT = re.compile(
    "|".join(
        (
            rf"{DATE}(?:[T ]{TIME})?|{TIME}",
            r"[A-Z][a-z]{2}, \d\d? [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d (?:GMT|[+-]\d{4})",  # of HTTP and mail
            rf"(?:%[-^]?[A-Za-z][^A-Za-z%]*)+|{DATE_FIELD}(?:[./:, -]{{1,2}}{DATE_FIELD})+",  # formats of dates
            r":[a-z_]\w*[:?!]?",  # symbols of Ruby
            r"P(?=T?\d)(?:\d+[YMWD])*(?:T(?:\d+[HMS])+)?",  # ISO 8601: how long
            r"#[0-9a-fA-F]{3,8}|(?:rgb|hsl)a?\([^()]*\)|(?:var|url|calc)\([^()]*\)",
            r"\d+(?:\.\d+)?(?:px|r?em|pt|v[hw]|m?s|fr|deg|dpi|[kMGT]i?B)",
            r"[a-z]{2,3}(?:[-_][A-Z][a-z]{3})?[-_](?:[A-Z]{2}|\d{3})|[a-z]{2,3}[-_][A-Z][a-z]{3}",  # de-DE, zh-Hans
            r"[a-zA-Z][a-zA-Z0-9+.-]*://\S+|(?:mailto|tel|sms|data|file|urn|geo):\S+",
            r"(?:application|audio|font|image|model|multipart|text|video)/[\w.+-]+(?:; ?\w+=[\w-]+)?",
            r"(?:[A-Za-z]:[\\/]|\\\\|\.{0,2}/|~/)[^\s<>|]*|[A-Za-z]:\\[^<>|\n]*",  # paths; with spaces on Windows
            rf"[\w@.%+~-]+(?:[/\\][\w@.%+~-]+)*\.{EXTENSION}",
            r"[\w@.-]+(?:/[\w@.-]+){2,}/?|[\w-]+(?:\\[\w-]+)+|\w+(?:::\w+)+|\w+\(\)|[@?][\w:]+/[\w.]+",
            r"(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{16,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
            r"(?=[^\d\s]*\d)(?=[^A-Z\s]*[A-Z])(?=[^a-z\s]*[a-z])[A-Za-z0-9+/_-]{24,}={0,2}",  # keys and hashes
            r"[\^~v=<>]{0,2}\d+(?:\.\d+)+(?:-(?:alpha|beta|rc|dev|snapshot)[\w.+-]*)?|v\d+",  # versions
            r"(?=[^\d\s]*\d)(?=[^A-Z\s]*[A-Z])[A-Z0-9]+(?:[-/.:][A-Z0-9]+)*",  # A4, DE-1234
            r"(?:[a-z]+|[A-Z]{1,3})-?\d+[A-Za-z]?",  # x1, item-12, h2
            r"[a-z][a-z0-9]+(?:\.[a-z0-9][\w-]*)+",  # home.title, com.example.app
            r"[a-z]+(?:-[a-z0-9]+)*-\d+|[a-z]\w*(?:-\w+)*--[\w-]+",  # col-md-6, btn--primary
            r"(?=[a-z0-9$]*[A-Z])\$?[a-z][a-z0-9]*(?:[A-Z]+[a-z0-9]+)*(?:[A-Z]{2,})?",  # camelCaseId
            r"(?![A-Z]\w*_in(?:nen)?$)[$@]?_{0,2}[A-Za-z0-9]+(?:_+[A-Za-z0-9]+)+(?:[.:-][\w.-]+)?"
            r"|__\w+__|_[a-z]+",  # btn_primary
        )
    ),
    re.ASCII,
)
LANGUAGE_KEY = re.compile(r"(?i).*(?:lang|language|locale|country|currency|hreflang)(?:[_-]?(?:code|id))?")
CODE = re.compile(r"[A-Za-z]{2,3}")
IN_LANGUAGE = "\0"  # before a value that is the language of the file; no other has this character


def is_text(value: str, key: str = "") -> bool:
    """Whether a value is for readers: not a date, a colour, a language code, an address, a path or an identifier.

    `key`: the name under which it stands. What begins with @ is for programs (JSON-LD, ARB), and `de` is the code of a
    language only as a `lang`, since it is a word elsewhere.
    """
    value = value.strip()
    if key.startswith("@") or (CODE.fullmatch(value) and LANGUAGE_KEY.fullmatch(key)):
        return False
    return NO_TEXT.fullmatch(value) is None


@dataclass(frozen=True)
class Value:
    """A value of a file: its span in the text, quotes included; the value itself; the function that writes another
    value there; its keys; and its document, if that is not the message."""

    start: int
    end: int
    text: str
    write: Callable[[str], str]
    keys: tuple[str, ...] = ()
    document: Document | None = None

    @property
    def key(self) -> str:
        return self.keys[-1] if self.keys else ""


def chosen(values: Iterable[Value], keys: Sequence[str], where: str) -> Iterator[Value]:
    """The values to translate: texts, of the keys if some are named. Raises DataError for a key that is not there."""
    missing = set(keys)
    for value in values:
        path = f".{'.'.join(value.keys)}."
        named = [key for key in keys if f".{key}." in path]
        missing.difference_update(named)
        if (named or not keys) and "\0" not in value.text and is_text(value.text, value.key):
            yield value
    if missing:
        raise DataError(where, f"has no text under the key '{min(missing)[:80]}'", "name keys as they are in the file")


def file_of_values(
    decoded: DecodedText, values: Iterable[Value], language: Value | None = None, mnemonics: str = ""
) -> DocumentFile:
    """The file whose values are messages. A value whose words do not change keeps its written form.

    `language`: a value before all others that becomes the language of the translation. `mnemonics`: as in
    `read_message`."""
    read = [(value, value.document or read_message(value.text, mnemonics=mnemonics)) for value in values]
    translated = [(value, document) for value, document in read if document.segments]
    if language and translated:
        translated.insert(0, (language, Document((), (IN_LANGUAGE + language.text,), str, str)))
    spans = [(value.start, value.end) for value, _ in translated]

    def assemble(rendered: Sequence[str]) -> bytes:
        written = [
            decoded.text[value.start : value.end] if text.split() == value.text.split() else value.write(text)
            for (value, _), text in zip(translated, [text.removeprefix(IN_LANGUAGE) for text in rendered], strict=True)
        ]
        return decoded.encode(replace_spans(decoded.text, spans, written))

    warnings = tuple(warning for _, document in read if not document.segments for warning in document.warnings)
    return DocumentFile(tuple(document for _, document in translated), assemble, in_language, warnings)


def in_language(rendered: str, target: str) -> str:
    """A value in a file of this language."""
    return target if rendered.startswith(IN_LANGUAGE) and target != "und" else rendered
