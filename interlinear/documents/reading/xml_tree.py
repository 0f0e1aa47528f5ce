"""XML files as trees that keep every tag as written, so that untranslated parts do not change."""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from interlinear.documents.events import Other, Text
from interlinear.documents.reading.encoding import DecodedText, decode_text
from interlinear.errors import DataError

MAX_DEPTH = 200  # elements inside each other; office programs write less than 50
MAX_ELEMENTS = 2_000_000  # of one part, about a gigabyte as a tree
DECLARED = re.compile(rb"<\?xml[^>]{0,200}encoding\s*=\s*[\"']([\w.:-]{1,40})[\"']")
ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ATTRIBUTE = re.compile(r"""\s([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
NAMED_CHARACTER = re.compile("&(?!#|(?:amp|lt|gt|quot|apos);)")
XML = "http://www.w3.org/XML/1998/namespace"


@dataclass
class Element:
    """An element.

    name: prefix and local name; the prefix is taken from the reader's namespaces, not from the file, and is "?" for
    other namespaces; without colon if the prefix is "".
    attributes: by name; without prefix if they are in no namespace.
    tag, closing: its tags as written; `closing` is empty for `<a/>`.
    """

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    tag: str = ""
    closing: str = ""
    children: "list[Node]" = field(default_factory=list)

    @property
    def elements(self) -> "list[Element]":
        return [child for child in self.children if isinstance(child, Element)]

    @property
    def prefix(self) -> str:
        """The prefix of its name as written, with colon."""
        written = re.match(r"<([^\s/>:]+:)?", self.tag)
        return written[1] or "" if written else ""

    def find(self, name: str) -> "Element | None":
        """The first child of a name."""
        return next((child for child in self.elements if child.name == name), None)

    def walk(self) -> "Iterator[Element]":
        """Itself and all elements in it, in document order."""
        yield self
        for child in self.elements:
            yield from child.walk()

    def has(self, *names: str) -> bool:
        """Whether an element of one of the names is in it, or is itself."""
        return any(element.name in names for element in self.walk())

    def text(self) -> str:
        """All text in it."""
        return "".join(child.text() if isinstance(child, Element) else text_of(child) for child in self.children)


Node = Element | Text | Other


def text_of(node: Text | Other) -> str:
    return node.text if isinstance(node, Text) else ""


def markup(node: Node) -> str:
    """The markup of a node, with its content."""
    if isinstance(node, Element):
        return "".join((node.tag, *map(markup, node.children), node.closing))
    return node.markup or ""


def escape_xml(text: str) -> str:
    """A text as XML, without the characters that XML cannot have."""
    return ILLEGAL.sub("", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_xml_attribute(text: str) -> str:
    """A text as a value in double quotes."""
    return escape_xml(text).replace('"', "&quot;").replace("\n", "&#10;")


def written_attributes(tag: str) -> dict[str, str]:
    """A tag's attributes that are in no namespace, with HTML's named characters, which expat leaves out of values."""
    return {
        name: html.unescape(re.sub("[\t\n\r]", " ", quoted or single_quoted))
        for name, quoted, single_quoted in ATTRIBUTE.findall(tag)
        if ":" not in name and name != "xmlns"
    }


@dataclass(frozen=True)
class XmlFile:
    """A parsed file: a nameless element with all its nodes, and the file's encoding."""

    tree: Element
    decoded: DecodedText

    @property
    def root(self) -> Element:
        return self.tree.elements[0]


def read_xml(data: bytes, where: str, namespaces: Mapping[str, str], doctype: bool = False) -> XmlFile:
    """Parse an XML file; `namespaces` has the prefix for each URI, `doctype` tells whether it may name a document type.

    Nothing else is ever read: neither a DTD nor an entity. Raises NotWellFormedError, and DataError if it declares
    entities, or is nested deeper than MAX_DEPTH.
    """
    decoded = decode_xml(data, where)
    return XmlFile(TreeBuilder(where, namespaces, doctype).build(decoded.text), decoded)


def decode_xml(data: bytes, where: str) -> DecodedText:
    """A file's text, decoded as its declaration says. Raises DataError."""
    declared = DECLARED.search(data[:400])
    return decode_text(data, where, declared[1].decode("ascii") if declared else None)


class NotWellFormedError(DataError):
    """A file that is not well-formed XML."""


class TreeBuilder:
    """Builds the tree from expat's events, and cuts the markup out of the source by their positions."""

    def __init__(self, where: str, namespaces: Mapping[str, str], doctype: bool) -> None:
        self._where, self._namespaces, self._allows_doctype = where, namespaces, doctype
        self._tree = Element("")
        self._open = [self._tree]
        self._text = ""  # the text of the last token, if it is text
        self._pending: tuple[int, Element | str] = (0, "")  # the last token: its position, and its kind
        self._elements = 0
        self._parser = parser = expat.ParserCreate("utf-8", namespace_separator="}")
        parser.buffer_text = False
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._begin_text
        parser.StartCdataSectionHandler = parser.EndCdataSectionHandler = lambda: self._begin_text("")
        parser.CommentHandler = lambda text: self._flush("other")
        parser.ProcessingInstructionHandler = lambda target, text: self._flush("other")
        parser.XmlDeclHandler = lambda *_: self._flush("other")
        parser.StartDoctypeDeclHandler = self._doctype
        parser.SkippedEntityHandler = lambda name, is_parameter: self._begin_text(html.unescape(f"&{name};"))

    def build(self, source: str) -> Element:
        """Parse a source. Raises DataError."""
        self._source = source.encode("utf-8", "surrogatepass")
        try:
            self._parser.Parse(self._source, True)
        except expat.ExpatError as error:
            problem = f"is not well-formed XML at line {error.lineno}, column {error.offset + 1}"
            problem = f"{problem}: {expat.ErrorString(error.code)}"
            raise NotWellFormedError(self._where, problem, "correct it there") from None
        self._flush("end of file", len(self._source))
        return self._tree

    def _flush(self, following: "Element | str", position: int | None = None, text: str = "") -> None:
        """Add the last token, which ends where the following one begins."""
        begin, token = self._pending
        end = self._parser.CurrentByteIndex if position is None else position
        written = self._source[begin:end].decode("utf-8", "surrogatepass")
        if isinstance(token, Element):
            if token.tag:
                token.closing = written
            else:
                token.tag = written
                if NAMED_CHARACTER.search(written):
                    token.attributes = {**token.attributes, **written_attributes(written)}
        elif token == "text":
            self._open[-1].children.append(Text(self._text, written))
        elif token == "other" and written:
            self._open[-1].children.append(Other(written))
        self._pending, self._text = (end, following), text

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        element = Element(self._name(name), {self._name(key): value for key, value in attributes.items()})
        self._flush(element)
        if len(self._open) > MAX_DEPTH or self._elements > MAX_ELEMENTS:
            raise DataError(
                self._where, f"has more than {MAX_DEPTH} elements inside each other, or too many", "simplify it"
            )
        self._open[-1].children.append(element)
        self._open.append(element)

    def _end(self, name: str) -> None:
        element = self._open[-1]
        self._flush(element)
        self._open.pop()

    def _begin_text(self, text: str) -> None:
        self._flush("text", text=text)

    def _doctype(self, name: str, system: str | None, public: str | None, has_internal_subset: bool) -> None:
        if not self._allows_doctype or has_internal_subset:
            problem = "declares entities" if has_internal_subset else "has a document type declaration"
            self._refuse(f"{problem}, which is not read")
        self._flush("other")

    def _refuse(self, problem: str) -> NoReturn:
        raise DataError(self._where, problem, "remove its <!DOCTYPE>")

    def _name(self, name: str) -> str:
        uri, _, local = name.rpartition("}")
        prefix = "xml" if uri == XML else self._namespaces.get(uri, "?") if uri else ""
        return f"{prefix}:{local}" if prefix else local
