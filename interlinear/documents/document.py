"""A document as segments of text to translate, and the markup around them, which stays unchanged."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from interlinear.documents.events import Finish
from interlinear.documents.inline import AlignedText, InlineTag, Template, is_edge_inside
from interlinear.documents.invisible import with_invisible
from interlinear.documents.placement import place_tags


@dataclass(frozen=True)
class Segment:
    """One text that is translated separately: the text of a block, or of an attribute.

    text: the text of a block as displayed: white space between words is one space, and a line feed is a line break,
    which has a tag. The value of an attribute is as written.
    tags: the inline tags, in the order in which they open.
    attribute: the name of the attribute whose value this is; None for the text of a block.
    forms: words as the document writes them with characters that are not displayed, such as soft hyphens.
    finish: changes the pieces of its translation before they are written. around: the markup before and after its
    translation, such as white space. source: its original markup, which is written if its translation equals the text.
    """

    text: str
    tags: tuple[InlineTag, ...] = ()
    attribute: str | None = None
    forms: Mapping[str, str] = field(default_factory=dict)
    finish: Finish | None = None
    around: tuple[str, str] = ("", "")
    source: Template = ()

    @cached_property
    def edges(self) -> list[int]:
        """The offsets in the text at which tags open, close or stand alone, in order."""
        return sorted({edge for tag in self.tags for edge in (tag.start, tag.end)})

    def has_edge_inside(self, start: int, end: int) -> bool:
        """Whether a tag opens, closes or stands alone between the words in the characters [start, end) of the text, so
        that its place in the translation depends on word alignment. Before the first and after the last word it does
        not."""
        return is_edge_inside(self.text, self.edges, start, end)


@dataclass(frozen=True)
class Document:
    """A parsed document.

    segments: the texts to translate; each has letters. A segment comes after the segments inside its tags.
    template: the whole document, with places for its segments.
    escape: writes text as content of the format; escape_attribute: as a value in double quotes.
    warnings: for the document's writer, a sentence each.
    """

    segments: tuple[Segment, ...]
    template: Template
    escape: Callable[[str], str]
    escape_attribute: Callable[[str], str]
    warnings: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        """The texts of all segments, each on its own line."""
        return "\n".join(segment.text for segment in self.segments)

    @cached_property
    def unchanged(self) -> str:
        """The document rendered without changes."""
        return self.render([AlignedText(segment.text) for segment in self.segments])

    def render(self, translations: Sequence[AlignedText]) -> str:
        """The document with the translations of `segments`, in their order.

        Every tag is written once, in balance, its attributes as they were. An inline tag encloses the words that are
        linked to the words it enclosed in the source (`alignment.projection.project`); a tag without words stays beside
        the translation of its neighbouring word.
        """
        written: list[str] = []
        for segment, translation in zip(self.segments, translations, strict=True):
            escape = self.escape if segment.attribute is None else self.escape_attribute
            written.append(render_text(segment, translation, escape, written))
        return fill(self.template, written)


def render_text(
    segment: Segment, translation: AlignedText, escape: Callable[[str], str], written: Sequence[str]
) -> str:
    """The translation of a segment with its tags, which contain other segments as `written`."""
    if segment.source and translation.text == segment.text:
        return fill(segment.source, written)
    parts: list[str] = [segment.around[0]]
    extra_space = ""  # written where there is a space again
    pieces = place_tags(segment.text, segment.tags, translation)
    for piece in segment.finish(pieces, segment.tags) if segment.finish else pieces:
        if isinstance(piece, str):
            text = escape(with_invisible(piece, segment.forms))
            parts.append(f" {extra_space}{text[1:]}" if text.startswith(" ") else text)
            extra_space = ""
            continue
        tag, opens = piece
        written_tag = fill(tag.opening, written) if opens else tag.closing
        if tag.extra_space:
            extra_space += written_tag
        else:
            parts.append(written_tag)
    return "".join([*parts, segment.around[1]])


def fill(template: Sequence[str | int], written: Sequence[str]) -> str:
    """The template with the written segments."""
    return "".join(part if isinstance(part, str) else written[part] for part in template)


@dataclass(frozen=True)
class DocumentFile:
    """A parsed file.

    parts: its texts: one document for a text file, one for each part of an archive or for each message of a catalogue.
    assemble: makes the bytes of the file from its rendered parts, in order. in_language: adapts a rendered part to the
    language of the translation, a BCP 47 tag. warnings: for the file's writer after the translation, a sentence each.
    """

    parts: tuple[Document, ...]
    assemble: Callable[[Sequence[str]], bytes]
    in_language: Callable[[str, str], str] = lambda rendered, target: rendered
    warnings: tuple[str, ...] = ()

    @property
    def segments(self) -> list[Segment]:
        """The texts to translate, of all parts in order."""
        return [segment for part in self.parts for segment in part.segments]

    def render(self, translations: Sequence[AlignedText], target: str = "und") -> bytes:
        """The file with the translations of `segments`, in their order. `target` is their language, a BCP 47 tag."""
        remaining = iter(translations)
        rendered = [part.render(list(islice(remaining, len(part.segments)))) for part in self.parts]
        if next(remaining, None) is not None:
            raise ValueError("more translations than segments")
        return self.assemble([self.in_language(part, target) for part in rendered])
