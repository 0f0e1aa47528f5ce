"""A file with text to translate: documents, and how they make the file again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from documents.document import Document, Segment
from documents.inline import AlignedText


@dataclass(frozen=True)
class DocumentFile:
    """A parsed file.

    parts: its texts: one document for a text file, one for each part of an archive or for each message of a catalogue.
    assemble: the bytes of the file, from its parts as they are rendered, in their order.
    in_language: a rendered part as it is written for a language of the translation, a BCP 47 tag.
    """

    parts: tuple[Document, ...]
    assemble: Callable[[Sequence[str]], bytes]
    in_language: Callable[[str, str], str] = lambda rendered, target: rendered

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
