"""Events from HTML, by the tree that a browser would build."""

import re
from collections.abc import Iterator
from dataclasses import replace

from turbohtml import Doctype, DocumentFragment, Element, Namespace, Node, parse, parse_fragment
from turbohtml import Text as TextNode

from interlinear.documents.events import AttributeText, End, Event, Other, Role, Start, Text
from interlinear.documents.html.elements import (
    DROPS_LINE_FEED,
    KNOWN,
    RAW_TEXT,
    UNSEEN,
    UNTRANSLATED_TAGS,
    VOID,
    role_of,
    says_translate,
    translated_attributes,
    write_tag,
)
from interlinear.documents.html.instructions import mask_instructions
from interlinear.documents.masks import Masks
from interlinear.errors import DataError

WHOLE_DOCUMENT = re.compile(r"<(?:!doctype|html|head|body|frameset)(?=[\s/>])", re.IGNORECASE)
# With the white space after it, which no tree contains, and which is written with the start tags below.
DOCTYPE = re.compile(r"<!doctype[^>]*>(?:[ \t\n\f]*+(?!<(?:html|head)[\s/>]))?", re.IGNORECASE)
# White space that a browser moves into the body, behind its content.
END = re.compile(r"</body\s*>([ \t\n\f]*)</html\s*>([ \t\n\f]*)\Z", re.IGNORECASE)
UNREADABLE = re.compile("\r\n?|[\0\ud800-\udfff]")
MASKED = re.compile("\\?([\U000f0000-\U0010fffd])\\1*")  # the comment that masks an instruction in content
UNSEEN_CODE = ("<?x", "<![", "{#", "<%#", "<%-")  # declarations, CDATA, and comments of templates
SPACE = " \t\n\f"
END_OF_NAME = tuple(f"{SPACE}/>")
DROPS_SPACE_BEFORE = frozenset(("html", "head"))  # white space before their start tags is in no tree
LONGEST_END = 1000  # characters of `</body></html>` with white space
MAX_REPEATED = 8  # characters of tags that only the parser opened, for each character of the text
FREE_REPEATED = 1000  # characters of such tags that any text may have
IMPLIED = frozenset("html head body tbody colgroup tr".split())  # inserted where their tags are left out


def read_html(html: str, where: str, masks: Masks | None = None) -> list[Event]:
    """The events of a whole document, or of a fragment, as a browser reads it. Raises DataError, located at `where`,
    for unclosed tags that a browser would open again until the document is many times longer than its source.

    Events have tags as written. Elements that are closed implicitly, or not at all, are closed; elements that only the
    parser inserted (`<tbody>`) have no tags. A fragment is read as the content of a `<template>`, which may be rows and
    cells of a table too. Texts and attributes contain the masks of instructions of programs.
    """
    masks = masks or Masks()
    original = UNREADABLE.sub(lambda match: "\n" if match[0][0] == "\r" else "\ufffd", html)
    source = mask_instructions(original, masks)
    is_document = WHOLE_DOCUMENT.search(source)
    root = (
        parse(source, source_locations=True)
        if is_document
        else parse_fragment(source, "template", source_locations=True)
    )
    return list(TreeReader(original, where, masks).read(root))


class TreeReader:
    """Walks a parsed tree, without recursion. `source` is the parsed text, with its instructions."""

    def __init__(self, source: str, where: str, masks: Masks) -> None:
        self._source, self._where, self._masks = source, where, masks
        end = END.search(source, max(0, len(source) - LONGEST_END))
        self._space_behind = {"body": end[1], "html": end[2]} if end else {}
        self._repeated = 0  # characters of tags that are not in the source

    def read(self, root: Node) -> Iterator[Event]:
        """The events of a node's descendants. Raises DataError."""
        stack: list[Node | End] = [*reversed(root.children)]
        contents: list[str | None] = [None]  # for each open element its text as written, if that is not escaped
        while stack:
            node = stack.pop()
            if isinstance(node, End):
                contents.pop()
                yield node
            elif isinstance(node, Element):
                start = self._start(node)
                if self._is_lone(node, start):
                    yield from (replace(start, closing="", role=Role.VERBATIM), End())
                    stack += reversed(node.children)
                    continue
                yield start
                contents.append(self._raw_content(node))
                stack.append(End())
                stack += reversed(node.children)
            elif isinstance(node, DocumentFragment):  # the content of a <template>
                stack += reversed(node.children)
            elif isinstance(node, TextNode):
                yield Text(self._without_space_behind(node), contents[-1])
            elif masked := MASKED.search(markup := self._markup(node)):
                markup = self._masks.unmask(masked[1] * (len(masked.group()) + len("<>")))
                yield from (Start(markup, "", Role.VERBATIM, seen=not markup.startswith(UNSEEN_CODE)), End())
            else:
                yield Other(markup)

    def _start(self, element: Element) -> Start:
        name, location = element.tag, element.source_location
        if location is None and name in IMPLIED:
            return Start("", "", Role.BLOCK)
        attributes = {key: as_text(value) for key, value in element.attrs.items()}
        translated = translated_attributes(name, attributes)
        markup, places = self._written_tag(element, attributes, translated) or write_tag(name, attributes, translated)
        markup = self._masks.unmask(markup) if location is None else markup
        is_html = element.namespace is Namespace.HTML
        is_void = name in VOID if is_html else markup.endswith("/>")
        closing = "" if is_void else self._end_tag(element)
        if location is None:
            self._count_repeated(len(markup) + len(closing))
        return Start(
            markup,
            closing,
            self._role(element) if is_html else Role.VERBATIM,
            says_translate(attributes),
            name not in UNSEEN,
            places,
        )

    def _is_lone(self, element: Element, start: Start) -> bool:
        """Whether an unknown element has a self-closing tag, as in XML: a browser would read everything after it as its
        content."""
        location = element.source_location
        is_closed = location is None or location.end_tag is not None
        return start.markup.endswith("/>") and element.tag not in KNOWN and not is_closed

    def _role(self, element: Element) -> Role:
        """The role of an element. An element without end tag that marks text as untranslated may be of another
        vocabulary."""
        location = element.source_location
        is_closed = location is None or location.end_tag is not None
        return role_of(element.tag) if is_closed or element.tag not in UNTRANSLATED_TAGS else Role.INLINE

    def _count_repeated(self, characters: int) -> None:
        """n unclosed tags before m paragraphs are n times m elements, from a source of n + m tags."""
        self._repeated += characters
        if self._repeated > FREE_REPEATED + MAX_REPEATED * len(self._source):
            problem = "has unclosed tags that a browser would open again in every paragraph, too often to be written"
            raise DataError(self._where, problem, "close every tag that formats text, such as <b> and <font>")

    def _written_tag(
        self, element: Element, attributes: dict[str, str], translated: list[str]
    ) -> tuple[str, list[AttributeText]] | None:
        """The start tag as in the source, with the places of attributes; None if the source does not contain it."""
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
        written = markup if is_tag(markup, f"</{element.tag}") else f"</{element.tag}>"
        return written + self._space_behind.get(element.tag, "")

    def _without_space_behind(self, node: TextNode) -> str:
        """A text, without the white space behind the body if it is the last in it."""
        is_last = isinstance(node.parent, Element) and node.parent.tag == "body" and node.next_sibling is None
        return node.data.removesuffix("".join(self._space_behind.values())) if is_last else node.data

    def _markup(self, node: Node) -> str:
        """A comment or declaration."""
        if isinstance(node, Doctype) and (written := DOCTYPE.search(self._source)):
            return written[0]
        return node.html


def is_tag(markup: str, begin: str) -> bool:
    """Whether markup is a tag that begins with `<name` or `</name`, in any case."""
    length = len(begin)
    return markup[:length].lower() == begin.lower() and markup[length : length + 1] in END_OF_NAME and markup[-1] == ">"


def as_text(value: str | list[str] | None) -> str:
    """An attribute's value; of a list of tokens, such as classes, joined."""
    return " ".join(value) if isinstance(value, list) else value or ""
