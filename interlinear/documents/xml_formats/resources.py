"""Android's strings.xml and .NET's .resx: their strings are translated; names, types and comments stay unchanged."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from interlinear.documents.builder import build_document
from interlinear.documents.document import DocumentFile
from interlinear.documents.events import End, Event, Role, Start, Text
from interlinear.documents.formats import ReadOptions, document_format
from interlinear.documents.messages.messages import message_events
from interlinear.documents.reading.xml_tree import Element, escape_xml, markup, read_xml
from interlinear.documents.values.values import Value, chosen, file_of_values
from interlinear.errors import DataError

XLIFF = "urn:oasis:names:tc:xliff:document:1.2"
ARRAYS = frozenset(("plurals", "string-array"))
REFERENCE = re.compile(r"\s*[@?][\w:+.]+(?:/[\w.]+)?\s*")  # to another resource, or a part of a theme
ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([\s\S]))")
LETTERS = {"n": "\n", "t": "\t"}
ESCAPES = {"\n": "\\n", "\t": "\\t"}
CDATA = "<![CDATA["


@document_format(".xml", has_keys=True, declares_encoding=True)
def read_android(data: bytes, where: str, options: ReadOptions) -> DocumentFile:
    """A file of Android's string resources; another XML file is refused. Raises DataError."""
    remedy = "of XML, only Android's strings are read, whose root is <resources>"
    return read_resources(data, where, options, "resources", remedy, android_strings)


@document_format(".resx", has_keys=True, declares_encoding=True)
def read_resx(data: bytes, where: str, options: ReadOptions) -> DocumentFile:
    """A .resx file of .NET: strings, and neither objects, files nor what is of a designer (`>>`). Raises DataError."""
    return read_resources(data, where, options, "root", "check its suffix", resx_strings, mnemonics="&_")


def read_resources(
    data: bytes,
    where: str,
    options: ReadOptions,
    root: str,
    remedy: str,
    values: Callable[[Element], Iterator[Value]],
    mnemonics: str = "",
) -> DocumentFile:
    """A file whose root has this name, with the values of its tree. `mnemonics`: as in `read_message`. Raises
    DataError."""
    file = read_xml(data, where, {XLIFF: "xliff"}, doctype=True)
    if file.root.name != root:
        raise DataError(where, f"is XML of another kind: its root is <{file.root.name[:80]}>", remedy)
    decoded = replace(file.decoded, text=markup(file.tree))
    return file_of_values(decoded, chosen(values(file.tree), options.keys, where), mnemonics=mnemonics)


def placed(element: Element, start: int) -> Iterator[tuple[Element, int]]:
    """The elements in an element that begins at a character, with the characters at which they begin."""
    start += len(element.tag)
    for child in element.children:
        if isinstance(child, Element):
            yield child, start
        start += len(markup(child))


def android_strings(tree: Element) -> Iterator[Value]:
    """The strings of Android's resources, also in plurals and arrays."""
    for root, start in placed(tree, 0):
        for resource, position in placed(root, start):
            name, stays = resource.attributes.get("name", ""), resource.attributes.get("translatable") == "false"
            if resource.name == "string" and not stays:
                yield from android_value(resource, position, name)
            elif resource.name in ARRAYS and not stays:
                for item, place in placed(resource, position):
                    yield from android_value(item, place, name)


def resx_strings(tree: Element) -> Iterator[Value]:
    """The strings of a .resx file."""
    for root, start in placed(tree, 0):
        for data, position in placed(root, start):
            name = data.attributes.get("name", "")
            if data.name == "data" and not data.attributes.keys() & {"type", "mimetype"} and not name.startswith(">>"):
                for value, place in placed(data, position):
                    if value.name == "value":
                        begin = place + len(value.tag)
                        end = begin + len("".join(map(markup, value.children)))
                        yield Value(begin, end, value.text(), escape_xml, (name,))


@dataclass(frozen=True)
class AndroidText:
    """How a string is escaped. quoted: quotes around it keep its white space; has_quotes: quotes in it are characters,
    as many write them in tags, though Android would leave them out."""

    quoted: bool
    has_quotes: bool

    @staticmethod
    def of(written: str) -> "AndroidText":
        stripped = written.strip()
        unescaped = ESCAPED.sub("", stripped).count('"')
        quoted = unescaped == 2 and len(stripped) > 1 and stripped[0] == stripped[-1] == '"'
        return AndroidText(quoted, bool(unescaped) and not quoted)

    def unescape(self, written: str) -> str:
        """A text as displayed."""
        written = written.strip()[1:-1] if self.quoted else re.sub(r"\s+", " ", written)

        def character(match: re.Match[str]) -> str:
            return chr(int(match[1], 16)) if match[1] else LETTERS.get(match[2], match[2])

        return ESCAPED.sub(character, written)

    def escape(self, text: str) -> str:
        """A text as written."""
        escaped = re.sub(r"[\n\t]", lambda match: ESCAPES[match.group()], text.replace("\\", "\\\\"))
        if not self.has_quotes:
            escaped = escaped.replace('"', '\\"')
        if self.quoted:
            return f'"{escaped}"'
        return re.sub(r"\A(?=[@?])", r"\\", escaped.replace("'", "\\'"))


def android_value(element: Element, start: int, name: str) -> Iterator[Value]:
    """The content of a string: text, in CDATA too, or text with inline elements."""
    begin = start + len(element.tag)
    written = "".join(map(markup, element.children))
    if REFERENCE.fullmatch(element.text()):
        return
    if element.elements:
        events = list(inline_events(element))
        as_it_was = "".join(map(event_markup, balanced(events)))
        document = build_document([Start("", "", Role.BLOCK), *events, End()], escape_inline, escape_inline)
        yield Value(begin, begin + len(written), as_it_was, str, (name,), document)
        return
    content = AndroidText.of(element.text())
    in_cdata = written.strip().startswith(CDATA)

    def write(text: str) -> str:
        escaped = content.escape(text)
        if in_cdata:
            return f"{CDATA}{escaped.replace(']]>', ']]]]><![CDATA[>')}]]>"
        return escape_xml(escaped)

    yield Value(begin, begin + len(written), content.unescape(element.text()), write, (name,))


PLAIN = AndroidText(quoted=False, has_quotes=False)


def escape_inline(text: str) -> str:
    """A part of a string. What would be escaped at the begin of one is not here."""
    escaped = escape_xml(PLAIN.escape(text))
    return escaped.removeprefix("\\") if text[:1] in ("@", "?") else escaped


def inline_events(element: Element) -> Iterator[Event]:
    """The content of a string with inline elements; `<xliff:g>` stays, and so does what is in it."""
    text = ""
    for child in element.children:
        if not isinstance(child, Element):
            text += child.text if isinstance(child, Text) else ""
            continue
        yield from text_events(text)
        text = ""
        if child.name == "xliff:g":
            yield Start(child.tag, child.closing, Role.PROTECTED)
            yield Text(child.text(), "".join(map(markup, child.children)))
        else:
            yield Start(child.tag, child.closing, Role.INLINE if child.children else Role.VERBATIM)
            yield from inline_events(child)
        yield End()
    yield from text_events(text)


def text_events(text: str) -> Iterator[Event]:
    """The events of a text between elements, whose tags and placeholders are written as text."""
    for event in message_events(PLAIN.unescape(text)):
        if isinstance(event, Start):
            yield replace(event, markup=escape_inline(event.markup), closing=escape_inline(event.closing))
        elif isinstance(event, Text) and event.markup is not None:
            yield replace(event, markup=escape_inline(event.markup))
        else:
            yield event


def balanced(events: list[Event]) -> Iterator[Event | str]:
    """The events, with the end tags of elements in place of their ends."""
    closings: list[str] = []
    for event in events:
        if isinstance(event, Start):
            closings.append(event.closing)
        yield closings.pop() if isinstance(event, End) else event


def event_markup(event: Event | str) -> str:
    """An event as written."""
    if isinstance(event, str):
        return event
    if isinstance(event, Text):
        return escape_inline(event.text) if event.markup is None else event.markup
    return "" if isinstance(event, End) else event.markup
