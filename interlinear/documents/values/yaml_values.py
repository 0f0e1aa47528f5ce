"""YAML: the strings that are values are translated; keys, comments, anchors and everything else stay unchanged."""

import re
from dataclasses import dataclass, replace
from functools import partial

import yaml

from interlinear.documents.document import DocumentFile
from interlinear.documents.formats import ReadOptions, document_format
from interlinear.documents.reading.encoding import decode_text
from interlinear.documents.values.values import Value, chosen, file_of_values
from interlinear.errors import DataError

MAX_DEPTH = 200  # collections inside each other; the time that libyaml takes grows with their square
STRING = "tag:yaml.org,2002:str"
PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")  # an anchor and a tag, before the value
# A text that needs no quotes in YAML: it neither begins like another construct, nor has ": " or " #".
PLAIN = re.compile(r"(?!\.\.\.)[^\s,\[\]{}#&*!|>'\"%@`?:-](?:[^\s:]|:(?!\Z| )| +(?![\s#]|\Z))*")
SPECIAL_IN_FLOW = re.compile(r"[,\[\]{}:]")
TO_ESCAPE = re.compile('["\\\\]|[^\\x20-\\x7e\\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]')
SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[A-Z][a-z]{3})?(?:[-_](?:[A-Z]{2}|\d{3}))?")


@document_format(".yaml", ".yml", has_keys=True)
def read_yaml(data: bytes, where: str, options: ReadOptions) -> DocumentFile:
    """A YAML file, or several documents in one. Where its only key is a language, as in Rails, it becomes the language
    of the translation. Raises DataError."""
    decoded = decode_text(data, where)
    scalars = Scalars(decoded.text, where)
    try:
        for event in yaml.parse(decoded.text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            scalars.read(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        said = str(getattr(error, "problem", "") or "it has characters that YAML does not allow")
        raise DataError(where, f"is not valid YAML{place}: {said}", "correct it there") from None
    return file_of_values(decoded, chosen(scalars.values, options.keys, where), scalars.language())


@dataclass
class Collection:
    """An open mapping or sequence. key: in a mapping, the key whose value comes next; None before a key. stays: whether
    its content stays unchanged, because it is a part of a key."""

    is_mapping: bool
    in_flow: bool
    stays: bool
    key: str | None = None
    keys: int = 0


class Scalars:
    """Reads the events of a file: the strings that are values, with the keys around them."""

    def __init__(self, text: str, where: str) -> None:
        self._text, self._where = text, where
        self._open: list[Collection] = []
        self._root: list[tuple[Value, bool]] = []  # the keys of the outermost mappings; whether each has a mapping
        self.values: list[Value] = []

    def language(self) -> Value | None:
        """The only key of the file, if it is a language with texts under it."""
        if len(self._root) != 1 or not self._root[0][1] or not LANGUAGE.fullmatch(self._root[0][0].text):
            return None
        return self._root[0][0]

    def read(self, event: yaml.Event) -> None:
        """Read the next event. Raises DataError."""
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._node("*")
        elif isinstance(event, yaml.CollectionStartEvent):
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            if len(self._open) == 1 and self._root and is_mapping:
                self._root[-1] = (self._root[-1][0], True)
            around = self._open[-1] if self._open else Collection(False, False, False)
            stays = self._is_key() or around.stays
            self._node("")
            self._open.append(Collection(is_mapping, event.flow_style or around.in_flow, stays))
            if len(self._open) > MAX_DEPTH:
                raise DataError(self._where, f"has more than {MAX_DEPTH} collections inside each other", "flatten it")
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
            if self._is_key():
                self._open[-1].key = None

    def _is_key(self) -> bool:
        return bool(self._open) and self._open[-1].is_mapping and self._open[-1].keys % 2 == 0

    def _node(self, text: str) -> None:
        """Count a node of the mapping around it: keys and values take turns."""
        if self._open and self._open[-1].is_mapping:
            if self._is_key():
                self._open[-1].key = text
            self._open[-1].keys += 1

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        assert event.start_mark and event.end_mark
        written = self._text[event.start_mark.index : event.end_mark.index]
        properties = PROPERTIES.match(written)
        start = event.start_mark.index + (properties.end() if properties else 0)
        keys = tuple(collection.key for collection in self._open if collection.key)
        in_flow = bool(self._open) and self._open[-1].in_flow
        text = event.value.rstrip("\n") if event.style in ("|", ">") else event.value
        value = Value(start, event.end_mark.index, text, lambda _: "", keys)
        if self._is_key() and len(self._open) == 1:
            self._root.append((replace(value, write=partial(write_line, in_flow=in_flow)), False))
        elif not self._is_key() and not (self._open and self._open[-1].stays) and is_string(event):
            source = self._text[start : event.end_mark.index]
            self.values.append(replace(value, write=partial(write, source=source, old=event.value, in_flow=in_flow)))
        self._node(event.value)


def is_string(event: yaml.ScalarEvent) -> bool:
    """Whether a scalar is a string: it says so, is in quotes, or is neither a number nor another thing."""
    if event.tag not in (None, "!", STRING):
        return False
    return event.tag is not None or not event.implicit[0] or is_plain_string(event.value)


def is_plain_string(text: str) -> bool:
    """Whether a text without quotes is a string in YAML 1.1: not `no`, `12`, `2026-11-29`, `~`."""
    return bool(RESOLVER.resolve(yaml.ScalarNode, text, (True, False)) == STRING)


RESOLVER = yaml.resolver.Resolver()


def write(text: str, source: str, old: str, in_flow: bool) -> str:
    """A text in place of a scalar, in its style if it can be: plain, in quotes, or a block of lines."""
    if source[:1] in ("|", ">"):
        return write_block(text, source, old)
    if source.startswith('"'):
        return in_double_quotes(text, source)
    if source.startswith("'") and not TO_ESCAPE.search(text.replace('"', "").replace("\\", "")):
        return in_single_quotes(text)
    return write_line(text, in_flow)


def write_line(text: str, in_flow: bool = False) -> str:
    """A text as a scalar on one line."""
    if PLAIN.fullmatch(text) and is_plain_string(text) and not (in_flow and SPECIAL_IN_FLOW.search(text)):
        return text
    if TO_ESCAPE.search(text.replace('"', "").replace("\\", "")):
        return in_double_quotes(text)
    return in_single_quotes(text)


def in_single_quotes(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def in_double_quotes(text: str, source: str = "") -> str:
    """A text in double quotes; in ASCII if what stood there was, with escapes of other characters."""
    as_ascii = source.isascii() and re.search(r"\\[xuU]", source) is not None

    def escape(match: re.Match[str]) -> str:
        code = ord(match.group())
        return SHORT.get(match.group()) or (f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}")

    escaped = TO_ESCAPE.sub(escape, text)
    return '"' + (re.sub("[^\x00-\x7f]", escape, escaped) if as_ascii else escaped) + '"'


def write_block(text: str, source: str, old: str) -> str:
    """A text in place of a block of lines: indented as it was, with the line ends after it. In a folded block, a line
    end is an empty line."""
    header, _, body = source.partition("\n")
    line_end = "\r\n" if header.endswith("\r") else "\n"
    after = body[len(body.rstrip()) :]
    first, first_old = (next((line for line in part.split("\n") if line.strip()), "") for part in (body, old))
    indent = first[: len(first) - len(first.lstrip(" ")) - (len(first_old) - len(first_old.lstrip(" ")))]
    lines = text.split("\n")
    if not text.strip() or text[0].isspace() or not lines[-1] or TO_ESCAPE.search(re.sub(r'["\\\n\t]', "", text)):
        return in_double_quotes(text + old[len(old.rstrip("\n")) :]) + after
    is_folded = header[0] == ">" and not any(line[:1] in ("", " ", "\t") for line in lines)
    if header[0] == ">" and not is_folded:
        header = f"|{header[1:]}"
    separator = line_end * 2 if is_folded else line_end
    return f"{header}\n{separator.join(indent + line if line else '' for line in lines)}{after}"
