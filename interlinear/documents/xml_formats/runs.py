"""Paragraphs of runs (Office Open XML): text is in runs, each with its formatting (ISO/IEC 29500-1, 17.3 and 21.1.2).

A paragraph is one text. The formatting of most of its characters is the text's; runs with another one are inline tags,
which end the run before them and begin a new one, so that every tag stands between two runs.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from interlinear.documents.events import End, Event, Role, Start, Text
from interlinear.documents.reading.xml_tree import Element, Node, escape_xml, markup
from interlinear.documents.white_space import with_white_space
from interlinear.documents.xml_formats.fields import (
    SIMPLE_FIELD,
    Field,
    is_field_part,
    is_text_field,
    with_divided_insertions,
    with_fields,
)
from interlinear.documents.xml_formats.trees import mark, verbatim

RUBY, RUBY_BASE = "w:ruby", "w:rubyBase"
Walk = Callable[[Element], Iterator[Event]]
NOT_FORMATTING = re.compile(r"<[\w.-]+:(?:lang|noProof)\b[^<>]*/>")  # of no account for how a run looks
LANGUAGE_ATTRIBUTES = re.compile(r'\s(?:lang|altLang|dirty|err|smtClean)="[^"]*"')


def with_tabs(text: str) -> Iterator[Event]:
    """The text of a run. A tab in it is a mark, as the element of one is, and so is wide space."""
    for piece in re.split("(\t)", text):
        if piece == "\t":
            yield from mark(piece, Role.LINE_BREAK)
        else:
            yield from with_white_space(piece, 0, len(piece), partial(run_text, piece))


def run_text(text: str, start: int, end: int) -> Iterator[Event]:
    """A part of the text of a run."""
    if start < end:
        yield Text(text[start:end], escape_xml(text[start:end]))


@dataclass(frozen=True)
class RunNames:
    """The elements of a vocabulary, by their meaning.

    paragraph, run, properties, text: paragraphs, their runs, a run's formatting, and its text.
    containers: elements around runs. separate: names of paragraphs' parts whose own paragraphs are translated.
    breaks: line breaks and tabs. dropped: traces of proofreading and layout, which belong to the source text.
    first, last: what must be the first in a paragraph, or after all runs; and the begins and ends of ranges.
    unseen: what is not displayed, or stands at the word before it, as a footnote's number.
    text_events: reads the text of a run.
    """

    paragraph: str
    run: str
    properties: str
    text: str
    containers: frozenset[str] = frozenset()
    breaks: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    first: frozenset[str] = frozenset()
    last: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()
    characters: tuple[tuple[str, str], ...] = ()  # elements that are characters
    text_attributes: str = ""
    text_events: Callable[[str], Iterator[Event]] = with_tabs


class RunParagraph:
    """Reads one paragraph. `walk` reads the content of text boxes."""

    def __init__(self, names: RunNames, paragraph: Element, walk: Walk) -> None:
        self._names, self._paragraph, self._walk = names, paragraph, walk
        first = next((element for element in paragraph.walk() if element.name == names.run), None)
        self._prefix = first.prefix if first else paragraph.prefix
        self._characters = dict(names.characters)
        self._base = self._main_properties()

    def events(self) -> Iterator[Event]:
        """The events of the paragraph. One without letters and text boxes stays unchanged."""
        names, paragraph = self._names, self._paragraph
        if not any(character.isalpha() for character in paragraph.text()) or not paragraph.has(names.text):
            yield from verbatim(markup(paragraph))
            return
        first, last = self._edges(paragraph.children)
        opening = paragraph.tag + "".join(map(markup, first)) + self._open(self._base)
        closing = self._close + "".join(map(markup, last)) + paragraph.closing
        yield Start(opening, closing, Role.BLOCK, translate=True, source=markup(paragraph))
        yield from self._content(paragraph.children)
        yield End()

    @property
    def _close(self) -> str:
        return f"</{self._prefix}{local(self._names.text)}></{self._prefix}{local(self._names.run)}>"

    def _open(self, properties: str) -> str:
        text = f"<{self._prefix}{local(self._names.text)}{self._names.text_attributes}>"
        return f"<{self._prefix}{local(self._names.run)}>{properties}{text}"

    def _edges(self, children: Sequence[Node]) -> tuple[list[Element], list[Element]]:
        """The nodes that move to the begin and to the end of the paragraph."""
        first: list[Element] = []
        last: list[Element] = []
        for child in children:
            if isinstance(child, Element):
                if child.name in self._names.first:
                    first.append(child)
                elif child.name in self._names.last:
                    last.append(child)
                elif self._is_container(child):
                    inner = self._edges(child.children)
                    first += [element for element in inner[0] if not is_properties(element)]
                    last += inner[1]
        return first, last

    def _is_container(self, element: Element) -> bool:
        """Whether the runs in an element are of the paragraph's text."""
        if element.name == SIMPLE_FIELD:
            return is_text_field(element.attributes.get("w:instr", ""))
        return element.name in self._names.containers

    def _properties(self, run: Element) -> str:
        properties = run.find(self._names.properties)
        return markup(properties) if properties else ""

    def _runs(self, parent: Element) -> Iterator[Element]:
        for child in parent.elements:
            if child.name == self._names.run:
                yield child
            elif self._is_container(child):
                yield from self._runs(child)

    def _main_properties(self) -> str:
        """The formatting of most characters, as the first run that has it writes it."""
        lengths: Counter[str] = Counter()
        written: dict[str, str] = {}
        for run in self._runs(self._paragraph):
            text = "".join(child.text() for child in run.elements if child.name == self._names.text)
            properties = self._properties(run)
            written.setdefault(formatting(properties), properties)
            lengths[formatting(properties)] += len(text)
        return written[lengths.most_common(1)[0][0]] if lengths else ""

    def _content(self, children: Sequence[Node]) -> Iterator[Event]:
        """Runs, grouped by formatting, and the nodes between them."""
        kept = [child for child in children if isinstance(child, Element) and not self._is_left_out(child)]
        kept = list(with_divided_insertions(kept, self._names.run))
        for key, group in groupby(with_fields(kept, self._names.run), self._group_key):
            members = list(group)
            runs = [member for member in members if isinstance(member, Element)]
            if key is None:
                for member in members:
                    yield from self._between_runs(member)
            elif key == formatting(self._base) or not any(run.has(self._names.text) for run in runs):
                for run in runs:
                    yield from self._run(run, self._base)
            else:
                properties = self._properties(runs[0])
                yield Start(self._close + self._open(properties), self._close + self._open(self._base), Role.INLINE)
                for run in runs:
                    yield from self._run(run, properties)
                yield End()

    def _is_left_out(self, element: Element) -> bool:
        names = self._names
        return element.name in names.first | names.last | names.dropped or is_properties(element)

    def _group_key(self, node: "Element | Field") -> str | None:
        """The formatting of a run; None for other nodes, and for a part of a field."""
        if isinstance(node, Field) or node.name != self._names.run or is_field_part(node):
            return None
        return formatting(self._properties(node))

    def _between_runs(self, node: "Element | Field") -> Iterator[Event]:
        close, again = self._close, self._open(self._base)
        if isinstance(node, Field):
            if node.is_text:
                yield Start(
                    close + "".join(map(markup, node.begin)) + again,
                    close + "".join(map(markup, node.end)) + again,
                    Role.INLINE,
                )
                yield from self._content(node.result)
                yield End()
            else:
                yield from mark(close + "".join(map(markup, node.nodes)) + again)
        elif self._is_container(node):
            opening, closing, content = self._container(node)
            yield Start(close + opening + again, close + closing + again, Role.INLINE)
            yield from self._content(content)
            yield End()
        else:
            yield from self._placed(node, close, again)

    def _container(self, element: Element) -> tuple[str, str, list[Node]]:
        """The markup around the content of an element, with its properties, and that content."""
        opening = element.tag + "".join(markup(child) for child in element.elements if is_properties(child))
        if inner := element.find(f"{element.name}Content"):
            return opening + inner.tag, inner.closing + element.closing, inner.children
        return opening, element.closing, element.children

    def _run(self, run: Element, current: str) -> Iterator[Event]:
        """The content of a run in text with the formatting `current`."""
        names = self._names
        start = f"<{self._prefix}{local(names.run)}>{self._properties(run)}"
        end = f"</{self._prefix}{local(names.run)}>"
        for child in run.elements:
            if child.name == names.text:
                yield from names.text_events(child.text())
            elif child.name in self._characters:
                yield Text(self._characters[child.name])
            elif child.name == RUBY and (base := child.find(RUBY_BASE)):
                yield from self._ruby(child, base, self._close + start, end + self._open(current))
            elif child.name != names.properties and child.name not in names.dropped:
                yield from self._placed(child, self._close + start, end + self._open(current))

    def _ruby(self, ruby: Element, base: Element, before: str, after: str) -> Iterator[Event]:
        """Text with its reading, which stays."""
        at = ruby.children.index(base)
        first, last = ("".join(map(markup, part)) for part in (ruby.children[:at], ruby.children[at + 1 :]))
        yield Start(
            before + ruby.tag + first + base.tag + self._open(self._base),
            self._close + base.closing + last + ruby.closing + after,
            Role.INLINE,
        )
        yield from self._content(base.children)
        yield End()

    def _placed(self, element: Element, before: str, after: str) -> Iterator[Event]:
        """An element that is no text, between the markup that ends a run and that begins the next."""
        if element.name in self._names.breaks:
            yield from mark(before + markup(element) + after, Role.LINE_BREAK)
        elif element.has(self._names.paragraph):
            yield Start(before + element.tag, element.closing + after, Role.SEPARATE, seen=True)
            for child in element.elements:
                yield from self._walk(child)
            yield End()
        else:
            yield from mark(before + markup(element) + after, seen=element.name not in self._names.unseen)


def local(name: str) -> str:
    """A name without prefix."""
    return name.rpartition(":")[2]


def is_properties(element: Element) -> bool:
    """Whether an element has properties of the one around it."""
    return element.name.endswith("Pr") and local(element.name) != "rPr"


def formatting(properties: str) -> str:
    """The visible properties, to compare them."""
    compared = LANGUAGE_ATTRIBUTES.sub("", NOT_FORMATTING.sub("", properties))
    return "" if re.fullmatch(r"<([^\s/>]+)\s*(?:/>|></\1>)", compared) else compared


def without_empty_runs(xml: str, names: RunNames) -> str:
    """A part without empty runs, which result from two adjacent tags."""
    run, properties, text = (rf"(?:[\w.-]+:)?{local(name)}" for name in (names.run, names.properties, names.text))
    formatted = rf"(?:<{properties}(?:\s[^<>]*)?(?:/>|(?<!/)>(?:(?!</{properties}>).)*</{properties}>))?"
    return re.sub(
        rf"<{run}>{formatted}<{text}{re.escape(names.text_attributes)}></{text}></{run}>", "", xml, flags=re.DOTALL
    )
