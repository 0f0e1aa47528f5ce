"""Parallel text in TMX (Translation Memory eXchange 1.4b): streamed, so that memory does not grow with the file.

expat is used directly: the file is parsed in chunks without a tree. It reads no external file unless it is told to, and
declarations of entities, with which a small file can expand to a huge one, are refused here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from xml.parsers import expat

from interlinear.errors import DataError
from training.data.parallel.languages import LanguagePair, match_code, primary_code
from training.data.parallel.pair_file import Pair
from training.data.text_lines import clean_text, convert_read_errors, open_decompressed

CHUNK = 1 << 16  # bytes parsed at a time
UNITS_TO_INFER = 1000  # units from which the languages of a file are inferred
# Elements inside a segment that hold codes of the original format, which are no text. `hi` marks text.
CODES = frozenset(["bpt", "ept", "it", "ph", "ut"])

Unit = dict[str, str]  # the text of a translation unit in each language, by its code as written


@dataclass(frozen=True)
class TmxFile:
    """A TMX file, from which two languages are read. `de` also reads `de-AT`; the first variant of a unit is taken."""

    path: Path
    languages: LanguagePair

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    def pairs(self) -> Iterator[Pair]:
        """A pair for each unit. Raises DataError: not a TMX, no unit with both languages."""
        found, complete = dict[str, None](), False
        for unit in TmxParser(self.path).units():
            source, target = (match_code(language, unit) for language in self.languages)
            complete = complete or (source is not None and target is not None)
            if not complete:
                found |= dict.fromkeys(unit)
            yield unit.get(source or "", ""), unit.get(target or "", "")
        if not found and not complete:
            raise no_text_error(self.path)
        if not complete:
            raise DataError(
                str(self.path),
                f"has no unit with {' and '.join(self.languages)}, only {', '.join(found)}",
                "name two of its languages with --languages",
            )


def infer_languages(path: Path) -> LanguagePair | None:
    """The two languages of a file, with the header's source language first; None if its first units have more or fewer.
    Raises DataError."""
    parser = TmxParser(path)
    units = list(islice(parser.units(), UNITS_TO_INFER))
    codes = list(dict.fromkeys(primary_code(code) for unit in units for code in unit))
    if not codes:
        raise no_text_error(path)
    if len(codes) != 2:
        return None
    if codes[1] == primary_code(parser.source_language):
        codes.reverse()
    return codes[0], codes[1]


def no_text_error(path: Path) -> DataError:
    """The error for a file without a unit that has text."""
    return DataError(str(path), "no unit has a <seg>, the element with its text", "export the TMX with its texts")


class TmxParser:
    """Reads one file; collects units as expat reports elements and text."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source_language = ""  # from the header
        self.complete_units: list[Unit] = []
        self.unit: Unit = {}
        self.language = ""
        self.segment: list[str] | None = None  # text of the open segment
        self.code_depth = 0
        self.elements = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start_element
        self.parser.EndElementHandler = self.end_element
        self.parser.CharacterDataHandler = self.add_text
        self.parser.EntityDeclHandler = self.refuse_entity
        self.parser.SkippedEntityHandler = self.refuse_skipped_entity

    def units(self) -> Iterator[Unit]:
        """Parse the file once. Raises DataError with the line."""
        with open_decompressed(self.path) as (file, _), convert_read_errors(self.path):
            try:
                while chunk := file.read(CHUNK):
                    self.parser.Parse(chunk, False)
                    yield from self.complete_units
                    self.complete_units.clear()
                self.parser.Parse(b"", True)
            except expat.ExpatError as error:
                raise DataError(
                    f"{self.path}, line {error.lineno}",
                    f"is not well-formed XML: {expat.ErrorString(error.code)}",
                    "export the TMX again",
                ) from None

    def start_element(self, name: str, attributes: dict[str, str]) -> None:
        self.elements += 1
        if self.elements == 1 and name != "tmx":
            raise DataError(str(self.path), f"is no TMX: its root is <{name}>", "a TMX begins with <tmx>")
        if name == "header":
            self.source_language = attributes.get("srclang", "")
        elif name == "tu":
            self.unit = {}
        elif name == "tuv":
            self.language = attributes.get("xml:lang") or attributes.get("lang") or ""
        elif name == "seg":
            self.segment, self.code_depth = [], 0
        elif self.segment is not None and name in CODES:
            self.code_depth += 1

    def end_element(self, name: str) -> None:
        if name == "tu":
            self.complete_units.append(self.unit)
        elif name == "seg" and self.segment is not None:
            self.unit.setdefault(self.language, clean_text("".join(self.segment)))
            self.segment = None
        elif self.segment is not None and name in CODES:
            self.code_depth -= 1

    def add_text(self, text: str) -> None:
        if self.segment is not None and not self.code_depth:
            self.segment.append(text)

    def refuse_entity(self, name: str, *_declaration: object) -> None:
        raise DataError(
            f"{self.path}, line {self.parser.CurrentLineNumber}",
            f"declares the entity '{name}', and declarations are refused because they can expand without limit",
            "export the TMX without a DTD of its own",
        )

    def refuse_skipped_entity(self, name: str, _is_parameter: bool) -> None:
        raise DataError(
            f"{self.path}, line {self.parser.CurrentLineNumber}",
            f"uses the entity '&{name};', which it does not declare",
            "write the character itself",
        )
