"""What standard parsers read in files: markup and text in order, without white space, and the words of the text."""

import csv
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import PurePath

import polib
import yaml
from lxml import etree
from markdown_it import MarkdownIt

from interlinear.documents.invisible import without_invisible

Part = tuple[str, str]  # "tag", "mark" or "text", and what it is
# Elements in whose place there is no space between words. Others may get one.
INLINE = frozenset("b i a span em strong del g bpt ept mrk pc sc ec hi w:r text:span text:a xliff:g wbr".split())

PAIRED_TAG = re.compile(r"</?(?:b|a|i|0)(?: [^<>]*)?>")  # that are text, in messages and subtitles
LONE_TAG = re.compile(r"</?\w[^<>]*>")
MAY_BE_LEFT_OUT = frozenset(("li", "td", "tr", "p"))  # their end tags


def content(data: bytes, name: str) -> tuple[list[str], list[str]]:
    """The parts of a file with the text between them as one, without white space; and its words, in order."""
    parts = list(PARSERS[PurePath(name).suffix](data))
    joined: list[str] = []
    for kind, value in parts:
        value = "".join(without_invisible(value).split()) if kind == "text" else f"\0{without_invisible(value)}"
        if value and joined and kind == "text" and not joined[-1].startswith("\0"):
            joined[-1] += value
        elif value:
            joined.append(value)
    displayed = "".join(value if kind == "text" else "" if kind == "inline" else " " for kind, value in parts)
    return joined, LONE_TAG.sub(" ", PAIRED_TAG.sub("", without_invisible(displayed))).split()


class HtmlParts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Part] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = [(name, without_invisible(value or "")) for name, value in attrs]
        self.parts.append(("inline" if tag in INLINE else "tag", f"<{tag} {said}>"))

    def handle_endtag(self, tag: str) -> None:
        may_be_left_out = ("text", " ") if tag in MAY_BE_LEFT_OUT else None
        self.parts.append(may_be_left_out or ("inline" if tag in INLINE else "tag", f"</{tag}>"))

    def handle_data(self, data: str) -> None:
        self.parts.append(("text", data))

    def handle_comment(self, data: str) -> None:
        self.parts.append(("inline", f"<!--{data}-->"))

    def handle_pi(self, data: str) -> None:
        self.parts.append(("tag", f"<?{data}>"))


def html_parts(data: bytes | str) -> list[Part]:
    reader = HtmlParts()
    reader.feed(data if isinstance(data, str) else data.decode())
    reader.close()
    return reader.parts


def xml_parts(data: bytes) -> Iterator[Part]:
    root = etree.fromstring(data)
    events = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, element in events:
        if event in ("comment", "pi"):
            yield "inline" if event == "comment" else "tag", str(element)
        else:
            name = etree.QName(element).localname
            prefix = f"{element.prefix}:" if element.prefix else ""
            kind = "inline" if prefix + name in INLINE else "tag"
            if event == "start":
                yield kind, f"<{prefix}{name} {dict(element.attrib)}>"
                yield "text", element.text or ""
                continue
            yield kind, f"</{name}>"
        if element is not root:
            yield "text", element.tail or ""


def runs(data: bytes) -> Iterator[Part]:
    """A part of Office: paragraphs, and in them each character with the properties of its run."""
    for event, element in etree.iterwalk(etree.fromstring(data), events=("start", "end")):
        name = etree.QName(element).localname
        properties = (
            next((each for each in element.getparent() if each.tag.endswith("rPr")), None) if name == "t" else None
        )
        if name == "t" and event == "start":
            shown = "" if properties is None else "".join(etree.QName(each).localname for each in properties)
            for character in element.text or "":
                if not character.isspace() and without_invisible(character):
                    yield "inline", shown
                yield "text", character
        elif (
            name == "hyperlink"
            or name.startswith("bookmark")
            or etree.QName(element.getparent() if element.getparent() is not None else element).localname == "rPr"
        ):
            continue
        elif name not in ("r", "rPr", "t", "proofErr"):
            yield "tag", f"{event} {name}"


def parts_in_archive(data: bytes, reader: Callable[[bytes], Iterator[Part]]) -> Iterator[Part]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        for name in file.namelist():
            yield "tag", name
            part = file.read(name)
            if PurePath(name).suffix in (".xml", ".xhtml", ".rels") and part:
                yield from (xml_parts if "meta" in name.lower() else reader)(part)


def values(data: object) -> Iterator[Part]:
    """The values of JSON, YAML and others, each as what it is."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield "tag", key
            yield from values(value)
    elif isinstance(data, list):
        for value in data:
            yield "tag", "-"
            yield from values(value)
    elif isinstance(data, str):
        yield "text", data
        yield "tag", ""
    else:
        yield "tag", repr(data)


def rows(data: bytes, delimiter: str) -> Iterator[Part]:
    return values(list(map(list, csv.reader(io.StringIO(data.decode(), newline=""), delimiter=delimiter, strict=True))))


def messages(data: bytes) -> Iterator[Part]:
    for entry in polib.pofile(f"\n{data.decode()}"):
        yield "tag", f"{entry.msgctxt} {entry.flags} {entry.occurrences} {entry.msgid} {entry.msgid_plural}"
        yield from values([entry.msgstr, *entry.msgstr_plural.values()])


def cues(data: bytes) -> Iterator[Part]:
    """The times, and all texts together: words may be in another cue."""
    lines = data.decode().split("\n")
    timing = [n for n, line in enumerate(lines) if "-->" in line]
    yield "tag", "".join(lines[n] for n in timing)
    for n, line in enumerate(lines):
        if n not in timing and n + 1 not in timing:
            yield "text", f"{line}\n"


def markdown_parts(data: bytes) -> list[Part]:
    text = data.decode()
    front, _, rest = text.partition("\n---\n")
    return [("tag", front), *html_parts(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(rest))]


def lines_of_values(data: bytes) -> Iterator[Part]:
    """The lines of .properties and .strings, with their escapes as JSON has them."""
    for line in data.decode().splitlines():
        yield from values(json.loads('"' + line.replace('\\"', '"').replace('"', '\\"') + '"'))


PARSERS: dict[str, Callable[[bytes], Iterator[Part] | Sequence[Part]]] = {
    ".txt": lambda data: [("text", data.decode())],
    ".md": markdown_parts,
    ".html": html_parts,
    ".srt": cues,
    ".vtt": cues,
    ".po": messages,
    ".json": lambda data: values(json.loads(data)),
    ".arb": lambda data: values(json.loads(data)),
    ".yaml": lambda data: values(yaml.safe_load(data)),
    ".csv": lambda data: rows(data, ","),
    ".tsv": lambda data: rows(data, "\t"),
    ".properties": lines_of_values,
    ".strings": lines_of_values,
    ".docx": lambda data: parts_in_archive(data, runs),
    ".pptx": lambda data: parts_in_archive(data, runs),
    ".xlsx": lambda data: parts_in_archive(data, runs),
    **dict.fromkeys((".xlf", ".tmx", ".xml", ".resx"), xml_parts),
    **dict.fromkeys((".odt", ".odp", ".ods", ".epub"), lambda data: parts_in_archive(data, xml_parts)),
}
