"""TMX 1.4 (.tmx): a translation unit in one language gets a variant in the target language."""

import re
import secrets
from collections.abc import Iterator
from dataclasses import replace

from documents.document_file import DocumentFile
from documents.events import End, Event, Role, Start
from documents.reading.xml_tree import Element, markup, read_xml
from documents.text_formats.plain_text import file_of
from documents.xml_formats.trees import MixedText, structure, verbatim, xml_document
from documents.xml_formats.xliff import paired
from seq2seq.errors import DataError

UNIT, VARIANT, SEGMENT = "tu", "tuv", "seg"
EMPTY_TAG = re.compile(r"\s*/>$")


def read_tmx(data: bytes, where: str) -> DocumentFile:
    """A translation memory. A unit that has a text in one language gets it in the language of the translation, in the
    place of a variant whose text is empty if there is one; others stay. Raises DataError."""
    file = read_xml(data, where, {}, doctype=True)
    if file.root.name != "tmx":
        raise DataError(where, f"is not TMX: its root is <{file.root.name[:80]}>", "check its suffix")
    units = Units(f"language-{secrets.token_hex(8)}")
    return replace(file_of(file.decoded, xml_document(file, units.walk(file.root))), target_mark=units.language)


class Units:
    """Reads the units of a file. `language` stands for that of new variants."""

    def __init__(self, language: str) -> None:
        self.language = language

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
        empty = next((v for v in variants if v is not written[0] and v.find(SEGMENT)), None)
        yield from self._unit(element, written[0], empty)

    def _unit(self, unit: Element, source: Element, empty: Element | None) -> Iterator[Event]:
        """A unit with a new variant: in place of the empty one, else after that of the source."""
        at = unit.children.index(empty or source)
        before = unit.children[:at] if empty else unit.children[: at + 1]
        opening, closing = variant_tags(empty) if empty else (f'<tuv xml:lang="{self.language}"><seg>', "</seg></tuv>")
        text = source.find(SEGMENT)
        assert text is not None
        yield from verbatim(unit.tag + "".join(map(markup, before)))
        yield Start(opening, closing, Role.BLOCK, translate=True)
        yield from TEXT.content(paired(text.children))
        yield End()
        yield from verbatim("".join(map(markup, unit.children[at + 1 :])) + unit.closing)


def text_of(variant: Element) -> str:
    """The text of a variant's segment."""
    segment = variant.find(SEGMENT)
    return segment.text().strip() if segment else ""


def variant_tags(empty: Element) -> tuple[str, str]:
    """What stands before and after the text of an empty variant."""
    segment = empty.find(SEGMENT)
    assert segment is not None
    at = empty.children.index(segment)
    before, after = ("".join(map(markup, part)) for part in (empty.children[:at], empty.children[at + 1 :]))
    return f"{empty.tag}{before}{EMPTY_TAG.sub('>', segment.tag)}", f"</{SEGMENT}>{after}{empty.closing}"


def role_of(element: Element) -> Role:
    """How an element takes part in the text of a segment."""
    return Role.INLINE if element.name in ("g", "hi") else Role.VERBATIM  # `paired` makes `g` of two codes


TEXT = MixedText(role_of, lambda element: verbatim(markup(element)))
