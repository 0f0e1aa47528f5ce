"""From HTML to events, by the tree that a browser would build."""

import re
from collections.abc import Iterator

from turbohtml import Comment, Doctype, DocumentFragment, Element, Namespace, Node, parse, parse_fragment
from turbohtml import Text as TextNode

from documents.events import AttributeText, End, Event, Other, Role, Start, Text
from documents.html.elements import (
    DROPS_LINE_FEED,
    RAW_TEXT,
    UNSEEN,
    VOID,
    role_of,
    says_translate,
    translated_attributes,
    write_tag,
)
from seq2seq.errors import DataError

WHOLE_DOCUMENT = re.compile(r"<(?:!doctype|html|head|body|frameset)(?=[\s/>])", re.IGNORECASE)
DOCTYPE = re.compile(r"<!doctype[^>]*>", re.IGNORECASE)
UNREADABLE = re.compile("\r\n?|[\0\ud800-\udfff]")
SPACE = " \t\n\f"
END_OF_NAME = tuple(f"{SPACE}/>")
DROPS_SPACE_BEFORE = frozenset(("html", "head"))  # white space before their start tags is in no tree
MAX_REPEATED = 8  # characters of tags that only the parser opened, for each character of the text
FREE_REPEATED = 1000  # such characters that every text may have
IMPLIED = frozenset("html head body tbody colgroup tr".split())  # inserted where their tags are left out


def read_html(html: str, where: str) -> list[Event]:
    """The events of a whole document, or of a fragment, as a browser reads it. Raises DataError, located at `where`,
    for unclosed tags that a browser would open again so often that the document is many times longer than its source.

    Tags stand in the events as they are written. Elements that are closed implicitly, or not at all, are closed;
    those that only the parser inserted (`<tbody>`) have no tags. A fragment is read as the content of a `<template>`,
    which may be rows and cells of a table too.
    """
    source = UNREADABLE.sub(lambda match: "\n" if match[0][0] == "\r" else "\ufffd", html)
    is_document = WHOLE_DOCUMENT.search(source)
    root = (
        parse(source, source_locations=True)
        if is_document
        else parse_fragment(source, "template", source_locations=True)
    )
    return list(TreeReader(source, where).read(root))


class TreeReader:
    """Walks a parsed tree, without recursion. `source` is what it was parsed from."""

    def __init__(self, source: str, where: str) -> None:
        self._source, self._where = source, where
        self._repeated = 0  # characters of tags that are not in the source

    def read(self, root: Node) -> Iterator[Event]:
        """The events of a node's descendants. Raises DataError."""
        stack: list[Node | End] = [*reversed(root.children)]
        contents: list[str | None] = [None]  # of each open element, its text as written where that is not escaped
        while stack:
            node = stack.pop()
            if isinstance(node, End):
                contents.pop()
                yield node
            elif isinstance(node, Element):
                yield self._start(node)
                contents.append(self._raw_content(node))
                stack.append(End())
                stack += reversed(node.children)
            elif isinstance(node, DocumentFragment):  # the content of a <template>
                stack += reversed(node.children)
            elif isinstance(node, TextNode):
                yield Text(node.data, contents[-1])
            else:
                yield Other(self._markup(node))

    def _start(self, element: Element) -> Start:
        name, location = element.tag, element.source_location
        if location is None and name in IMPLIED:
            return Start("", "", Role.BLOCK)
        attributes = {key: as_text(value) for key, value in element.attrs.items()}
        translated = translated_attributes(name, attributes)
        markup, places = self._written_tag(element, attributes, translated) or write_tag(name, attributes, translated)
        is_html = element.namespace is Namespace.HTML
        is_void = name in VOID if is_html else markup.endswith("/>")
        closing = "" if is_void else self._end_tag(element)
        if location is None:
            self._count_repeated(len(markup) + len(closing))
        return Start(
            markup,
            closing,
            role_of(name) if is_html else Role.VERBATIM,
            says_translate(attributes),
            name not in UNSEEN,
            places,
        )

    def _count_repeated(self, characters: int) -> None:
        """n unclosed tags before m paragraphs are n times m elements, from a source of n + m tags."""
        self._repeated += characters
        if self._repeated > FREE_REPEATED + MAX_REPEATED * len(self._source):
            problem = "has unclosed tags that a browser would open again in every paragraph, too often to be written"
            raise DataError(self._where, problem, "close every tag that formats text, such as <b> and <font>")

    def _written_tag(
        self, element: Element, attributes: dict[str, str], translated: list[str]
    ) -> tuple[str, list[AttributeText]] | None:
        """The start tag as it stands in the source with the places of attributes, or None if it does not."""
        if (location := element.source_location) is None:
            return None
        start, end = location.start_tag.start_offset, location.start_tag.end_offset
        markup = self._source[start:end]
        if not is_tag(markup, f"<{element.tag}") or not all(name in location.attrs for name in translated):
            return None
        spans = sorted((location.attrs[name], name) for name in translated)
        if element.tag in DROPS_LINE_FEED and self._source.startswith("\n", end):
            markup += "\n"
        if element.tag in DROPS_SPACE_BEFORE:
            before = self._source[:start]
            start -= len(before) - len(before.rstrip(SPACE))
            markup = self._source[start:end]
        return markup, [
            AttributeText(name, span.start_offset - start, span.end_offset - start, attributes[name])
            for span, name in spans
        ]

    def _raw_content(self, element: Element) -> str | None:
        """The content of an element whose text has no tags and, except in a text field, no character references."""
        if element.namespace is not Namespace.HTML or element.tag not in RAW_TEXT:
            return None
        location = element.source_location
        if element.tag != "textarea" or location is None or location.end_tag is None:
            return None if element.tag == "textarea" else element.text
        content = self._source[location.start_tag.end_offset : location.end_tag.start_offset]
        return content.removeprefix("\n")

    def _end_tag(self, element: Element) -> str:
        location = element.source_location
        if location is None or location.end_tag is None:
            return f"</{element.tag}>"
        markup = self._source[location.end_tag.start_offset : location.end_tag.end_offset]
        return markup if is_tag(markup, f"</{element.tag}") else f"</{element.tag}>"

    def _markup(self, node: Node) -> str:
        """A comment or declaration. A processing instruction is a comment to a browser."""
        if isinstance(node, Doctype) and (written := DOCTYPE.search(self._source)):
            return written[0]
        if isinstance(node, Comment) and node.data[:1] == "?" and ">" not in node.data:
            return f"<{node.data}>"
        return node.html


def is_tag(markup: str, begin: str) -> bool:
    """Whether markup is a tag that begins with `<name` or `</name`, in any case."""
    length = len(begin)
    return markup[:length].lower() == begin.lower() and markup[length : length + 1] in END_OF_NAME and markup[-1] == ">"


def as_text(value: str | list[str] | None) -> str:
    """An attribute's value; of a list of tokens, such as classes, joined."""
    return " ".join(value) if isinstance(value, list) else value or ""
