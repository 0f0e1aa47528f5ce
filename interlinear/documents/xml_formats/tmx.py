"""TMX 1.4 (.tmx): a translation unit in one language gets a variant in the target language."""

import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from interlinear.documents.document import DocumentFile
from interlinear.documents.events import Event, Role
from interlinear.documents.formats import document_format
from interlinear.documents.messages.messages import message_block
from interlinear.documents.reading.xml_tree import Element, escape_xml, markup, read_xml
from interlinear.documents.text_formats.plain_text import file_of
from interlinear.documents.xml_formats.trees import MixedText, on_one_line, structure, verbatim, xml_document
from interlinear.documents.xml_formats.xliff import is_line_break, paired
from interlinear.errors import DataError

UNIT, VARIANT, SEGMENT = "tu", "tuv", "seg"
EMPTY_TAG = re.compile(r"\s*/>$")


@document_format(".tmx", declares_encoding=True)
def read_tmx(data: bytes, where: str) -> DocumentFile:
    """A translation memory. A unit that has a text in one language gets it in the language of the translation, in the
    place of a variant in this language whose text is empty if there is one; others stay. Raises DataError."""
    file = read_xml(data, where, {}, doctype=True)
    if file.root.name != "tmx":
        raise DataError(where, f"is not TMX: its root is <{file.root.name[:80]}>", "check its suffix")
    units = Units()
    read = file_of(file.decoded, xml_document(file, units.walk(file.root)))
    return replace(read, in_language=units.written, warnings=tuple(units.warnings))


@dataclass(frozen=True)
class EmptyVariant:
    """A variant without text: its language, its index in the unit, and the markup before and after its text."""

    language: str
    place: int
    opening: str
    closing: str


@dataclass(frozen=True)
class Unit:
    """A unit with a text in one language.

    children: its nodes, as written. source: the index of the variant with the text.
    """

    children: Sequence[str]
    source: int
    empty: Sequence[EmptyVariant]

    def translated(self, text: str, target: str) -> str:
        """Its children with a text in a language, which replaces a variant of exactly this language rather than of a
        related one."""
        empty = next((variant for key in (str.lower, primary) for variant in self.empty
                      if key(variant.language) == key(target)), None)  # fmt: skip
        if empty:
            at, after, variant = empty.place, empty.place + 1, f"{empty.opening}{text}{empty.closing}"
        else:
            at = after = self.source + 1
            variant = f'<tuv xml:lang="{target}"><seg>{text}</seg></tuv>'
        return "".join([*self.children[:at], variant, *self.children[after:]])


class Units:
    """Reads the units of a file, and writes them when the language of the translation is known."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self._units: list[Unit] = []
        self._edge = f"unit-{secrets.token_hex(8)}"  # stands before and after each text, alone for all of its unit

    def walk(self, element: Element) -> Iterator[Event]:
        """An element of the file: a unit, or what is around units."""
        if element.name != UNIT:
            yield from structure(element, self.walk)
            return
        variants = [child for child in element.elements if child.name == VARIANT]
        written = [variant for variant in variants if text_of(variant)]
        if len(written) != 1:
            yield from verbatim(markup(element))
            return
        source = written[0]
        empty = [
            empty_variant(element, variant) for variant in variants if variant is not source and variant.find(SEGMENT)
        ]
        self._units.append(Unit([markup(child) for child in element.children], element.children.index(source), empty))
        text = source.find(SEGMENT)
        assert text is not None
        opening, closing = element.tag + self._edge, self._edge + element.closing
        content = on_one_line(TEXT.content(paired(text.children)))
        yield from message_block(opening, closing, content, escape_xml, warn=self.warnings.append)

    def written(self, rendered: str, target: str) -> str:
        """The file as it is rendered, with each text in its unit."""
        parts = rendered.split(self._edge)
        parts[1::2] = [unit.translated(text, target) for unit, text in zip(self._units, parts[1::2], strict=True)]
        return "".join(parts)


def text_of(variant: Element) -> str:
    """The text of a variant's segment."""
    segment = variant.find(SEGMENT)
    return segment.text().strip() if segment else ""


def empty_variant(unit: Element, variant: Element) -> EmptyVariant:
    """A variant of a unit whose segment is empty."""
    segment = variant.find(SEGMENT)
    assert segment is not None
    at = variant.children.index(segment)
    before, after = ("".join(map(markup, part)) for part in (variant.children[:at], variant.children[at + 1 :]))
    return EmptyVariant(
        language=variant.attributes.get("xml:lang") or variant.attributes.get("lang", ""),  # the latter in TMX 1.1
        place=unit.children.index(variant),
        opening=f"{variant.tag}{before}{EMPTY_TAG.sub('>', segment.tag)}",
        closing=f"</{SEGMENT}>{after}{variant.closing}",
    )


def primary(language: str) -> str:
    """The primary subtag of a language: en of en-GB."""
    return language.partition("-")[0].lower()


def role_of(element: Element) -> Role:
    """How an element takes part in the text of a segment."""
    if is_line_break(element):
        return Role.LINE_BREAK
    return Role.INLINE if element.name in ("g", "hi") else Role.VERBATIM  # `paired` makes `g` of two codes


TEXT = MixedText(role_of, lambda element: verbatim(markup(element)))
