"""Events from XML trees: unchanged markup, and text with inline elements."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from interlinear.documents.builder import build_document
from interlinear.documents.document import Document
from interlinear.documents.events import AttributeText, End, Event, Other, Role, Start, Text
from interlinear.documents.reading.xml_tree import Element, Node, XmlFile, escape_xml, escape_xml_attribute, markup

RoleOf = Callable[[Element], Role]


def xml_document(file: XmlFile, events: Iterator[Event]) -> Document:
    """The document of a file from the events of its root."""
    before, after = around_root(file.tree)
    return build_document([*verbatim(before), *events, *verbatim(after)], escape_xml, escape_xml_attribute)


def around_root(tree: Element) -> tuple[str, str]:
    """The markup before and after the root element: declarations and comments."""
    root = tree.children.index(tree.elements[0])
    return "".join(map(markup, tree.children[:root])), "".join(map(markup, tree.children[root + 1 :]))


def verbatim(written: str) -> Iterator[Event]:
    """Markup that stays unchanged, between texts."""
    yield Start(written, "", Role.VERBATIM_BLOCK)
    yield End()


def mark(written: str, role: Role = Role.VERBATIM, seen: bool = True) -> Iterator[Event]:
    """Markup in a text: one that stays in its place, or a line break."""
    yield Start(written, "", role, seen=seen)
    yield End()


def structure(element: Element, walk: Callable[[Element], Iterator[Event]]) -> Iterator[Event]:
    """An element around paragraphs. Its own text is not translated; `walk` reads the elements in it."""
    yield Start(element.tag, element.closing, Role.BLOCK, translate=False)
    for child in element.children:
        if isinstance(child, Element):
            yield from walk(child)
        else:
            yield child
    yield End()


def on_one_line(events: Iterator[Event]) -> Iterator[Event]:
    """The events of a text whose line ends are spaces."""
    for event in events:
        yield Text(" ", event.markup) if isinstance(event, Text) and event.text == event.markup == "\n" else event


@dataclass(frozen=True)
class MixedText:
    """Events of elements with text and inline elements in any order, as in HTML.

    role_of: how an element takes part in the text around it.
    unseen: names of elements that are not displayed.
    is_space: whether an element is displayed as a space between words.
    moved: names of elements that the reader of the paragraph writes elsewhere.
    block: reads an element that is translated separately.
    attributes: the attributes of an element in a text that are translated.
    translate: whether an element in a text says that it is to be translated, or is not; None if it says nothing.
    """

    role_of: RoleOf
    block: Callable[[Element], Iterator[Event]]
    unseen: frozenset[str] = frozenset()
    is_space: Callable[[Element], bool] = field(default=lambda element: False)
    moved: frozenset[str] = frozenset()
    attributes: Callable[[Element], list[AttributeText]] = field(default=lambda element: [])
    translate: Callable[[Element], bool | None] = field(default=lambda element: None)

    def content(self, children: list[Node]) -> Iterator[Event]:
        """The events of an element's content."""
        before: Node | None = None
        for child in children:
            if not isinstance(child, Element):
                yield child
            elif child.name in self.moved:
                continue
            elif self.is_space(child):
                is_second = isinstance(before, Text) and before.text.endswith(" ")
                yield from mark(markup(child), Role.EXTRA_SPACE) if is_second else [Text(" ", markup(child))]
            else:
                yield from self._element(child)
            before = child

    def _element(self, element: Element) -> Iterator[Event]:
        role, seen, translate = self.role_of(element), element.name not in self.unseen, self.translate(element)
        if role is Role.BLOCK:
            yield from self.block(element)
        elif role is Role.SEPARATE:
            yield Start("", "", role)
            yield from self.block(element)
            yield End()
        elif role is Role.LINE_BREAK:
            yield from mark(markup(element), role, seen)
        else:
            yield Start(element.tag, element.closing, role, translate, seen, self.attributes(element))
            if role is Role.INLINE or (role is Role.PROTECTED and translate):
                yield from self.content(element.children)
            else:
                yield Text(element.text(), "".join(map(markup, element.children)))
            yield End()


__all__ = ["AttributeText", "MixedText", "Other", "mark", "structure", "verbatim", "xml_document"]
