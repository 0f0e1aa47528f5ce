"""XML: whole documents and fragments. Nothing outside the text is read: declarations of a document type are refused."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from xml.parsers import expat

from interlinear.documents.builder import build_document
from interlinear.documents.document import Document
from interlinear.documents.events import End, Event, Other, Role, Start, Text
from interlinear.documents.html.elements import UNTRANSLATED_TAGS, escape, escape_attribute
from interlinear.errors import DataError

WRAPPER = "<fragment>"  # around a text without declaration, which may have any number of elements
TRANSLATE = ("translate", "its:translate")  # attributes; the second is from the W3C's Internationalization Tag Set


def parse_xml(xml: str, where: str = "XML") -> Document:
    """Parse XML, which is a whole document if it begins with a declaration, else a fragment.

    An element beside text is inline, and so is all in it; others are blocks. An element with `translate="no"` is not
    translated. Attributes are not, since their names do not say which are for readers.

    Raises DataError, located at `where`, if it is not well-formed, or has a document type declaration.
    """
    return build_document(list(to_events(read_tokens(xml, where))), escape, escape_attribute)


@dataclass
class Token:
    """A part of the source: its offset in bytes, and its kind."""

    kind: Literal["start", "end", "text", "other"]
    position: int
    text: str = ""  # decoded text
    translate: bool | None = None
    markup: str = ""  # as written


def read_tokens(xml: str, where: str) -> list[Token]:
    """The tokens of a source, without the wrapper's tokens. Raises DataError."""
    is_document = xml.lstrip("\ufeff \t\r\n").startswith(("<?xml", "<!DOCTYPE"))
    source = (xml if is_document else f"{WRAPPER}{xml}</{WRAPPER[1:]}").encode("utf-8", "surrogatepass")
    tokens: list[Token] = []
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = False

    def add(kind: Literal["start", "end", "text", "other"], text: str = "", translate: bool | None = None) -> None:
        tokens.append(Token(kind, parser.CurrentByteIndex, text, translate))

    def start_element(name: str, attributes: dict[str, str]) -> None:
        said = next((attributes[key].lower() for key in TRANSLATE if key in attributes), "")
        add("start", translate={"yes": True, "no": False}.get(said))

    def refuse_document_type(*_: object) -> None:
        raise DataError(where, "has a document type declaration, which is not read", "send it without <!DOCTYPE>")

    parser.StartElementHandler = start_element
    parser.EndElementHandler = lambda name: add("end")
    parser.CharacterDataHandler = lambda text: add("text", text)
    parser.StartCdataSectionHandler = parser.EndCdataSectionHandler = lambda: add("text")
    parser.CommentHandler = lambda text: add("other")
    parser.ProcessingInstructionHandler = lambda target, text: add("other")
    parser.XmlDeclHandler = lambda *_: add("other")
    parser.StartDoctypeDeclHandler = refuse_document_type
    try:
        parser.Parse(source, True)
    except expat.ExpatError as error:
        if not is_document and parser.ErrorByteIndex >= len(source) - len(f"</{WRAPPER[1:]}"):
            raise DataError(where, "is not well-formed XML: an element is not closed", "close every element") from None
        column = error.offset + 1 - (len(WRAPPER) if error.lineno == 1 and not is_document else 0)
        problem = f"is not well-formed XML at line {error.lineno}, column {column}: {expat.ErrorString(error.code)}"
        raise DataError(where, problem, "close every element in order, and write & as &amp;") from None
    for token, following in zip(tokens, [*(token.position for token in tokens[1:]), len(source)], strict=True):
        token.markup = source[token.position : following].decode("utf-8", "surrogatepass")
    if not is_document:
        tokens = tokens[1:-1]
    return tokens


def to_events(tokens: list[Token]) -> Iterator[Event]:
    """The events of tokens: each element with its end tag, its role by the text beside it, and text in one piece."""
    closings, is_inline = find_elements(tokens)
    text: list[Token] = []
    for n, token in enumerate(tokens):
        if token.kind == "text":
            text.append(token)
            continue
        if text:
            yield Text("".join(part.text for part in text), "".join(part.markup for part in text))
            text = []
        if token.kind == "start":
            role = role_of(token.markup) if n in is_inline else Role.BLOCK
            yield Start(token.markup, closings[n], role, token.translate, seen=True)
        else:
            yield End() if token.kind == "end" else Other(token.markup)
    if text:
        yield Text("".join(part.text for part in text), "".join(part.markup for part in text))


def role_of(tag: str) -> Role:
    """The role of an element beside text, by its start tag: the role of HTML's element of the same name."""
    name = re.split(r"[\s/>]", tag[1:], maxsplit=1)[0]
    if name in ("br", "lb") and tag.endswith("/>"):
        return Role.LINE_BREAK
    return Role.PROTECTED if name in UNTRANSLATED_TAGS and not tag.endswith("/>") else Role.INLINE


def find_elements(tokens: list[Token]) -> tuple[dict[int, str], set[int]]:
    """The end tag of each element, by its start's index; and the elements beside text, with all in them."""
    closings: dict[int, str] = {}
    parents: dict[int, int] = {}
    mixed: set[int] = set()  # elements with text of their own
    open_elements = [-1]
    for n, token in enumerate(tokens):
        if token.kind == "start":
            parents[n] = open_elements[-1]
            open_elements.append(n)
        elif token.kind == "end":
            closings[open_elements.pop()] = token.markup
        elif token.kind == "text" and token.text.strip():
            mixed.add(open_elements[-1])
    is_inline: set[int] = set()
    for n, parent in parents.items():
        if parent in mixed or parent in is_inline:
            is_inline.add(n)
    return closings, is_inline
