"""Markdown (CommonMark, tables, front matter), by markdown-it-py, whose blocks name their lines: all else stays."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

from documents.builder import build_document
from documents.document_file import DocumentFile
from documents.events import End, Event, Role, Start, Text
from documents.reading.encoding import decode_text

FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n.*?^\1[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
SPECIAL = re.compile(r"([\\`*\[\]<>|]|(?<!\w)_|_(?!\w)|~~|&(?=#?\w+;))")
BEGINS_BLOCK = re.compile(r"^(\s*(?:\d{1,9}(?=[.)]))?)([#+=.)-])(?=[\s#=-]|$)")  # a heading, list item or underline


@dataclass(frozen=True)
class InlinePart:
    """The inline content of a block: where it stands in the text, and its tokens."""

    start: int
    end: int
    tokens: Sequence[Token]


def read_markdown(data: bytes, where: str) -> DocumentFile:
    """A Markdown file. Code, HTML blocks, front matter and the targets of links stay as they are. Raises DataError."""
    decoded = decode_text(data, where)
    text = decoded.text.replace("\r\n", "\n")
    events: list[Event] = []
    done = 0
    for part in inline_parts(text):
        events += verbatim(text[done : part.start])
        events += [Start("", "", Role.BLOCK), *inline_events(part.tokens), End()]
        done = part.end
    events += verbatim(text[done:])
    document = build_document(events, escape_markdown, escape_markdown)
    line_end = "\r\n" if "\r\n" in decoded.text else "\n"
    return DocumentFile((document,), lambda rendered: decoded.encode(rendered[0].replace("\n", line_end)))


def verbatim(markup: str) -> list[Event]:
    """Markup between the inline contents."""
    return [Start(markup, "", Role.VERBATIM_BLOCK), End()]


def escape_markdown(text: str) -> str:
    """A text without characters that would be markup."""
    return BEGINS_BLOCK.sub(r"\1\\\2", SPECIAL.sub(r"\\\1", text))


def inline_parts(text: str) -> Iterator[InlinePart]:
    """The inline contents in document order; one that cannot be found as it stands is left out."""
    front = FRONT_MATTER.match(text)
    begin = front.end() if front else 0
    # Front matter is read as empty lines, so that the numbers of lines stay.
    blank = "\n" * text[:begin].count("\n")
    starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text)]
    done = begin
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(blank + text[begin:]):
        if token.type != "inline" or token.map is None or not token.content:
            continue
        first, last = token.map
        region = starts[min(last, len(starts) - 1)]
        if (span := find_lines(text, token.content, max(done, starts[first]), region)) is not None:
            done = span[1]
            yield InlinePart(*span, token.children or [])


def find_lines(text: str, content: str, start: int, end: int) -> tuple[int, int] | None:
    """Where a content of one or more lines stands; before each line may be markers of quotes, and indentation."""
    first: int | None = None
    for line in content.split("\n"):
        candidates = (line.strip(), line.strip().replace("|", "\\|"))
        found = next(((at, c) for c in candidates if (at := text.find(c, start, end)) >= 0), None)
        if found is None:
            return None
        first = found[0] if first is None else first
        start = found[0] + len(found[1])
    return None if first is None else (first, start)


def inline_events(tokens: Sequence[Token]) -> Iterator[Event]:
    """The events of inline tokens."""
    closings: list[str] = []
    n = 0
    while n < len(tokens):
        token = tokens[n]
        if token.type in ("text", "text_special"):
            yield Text(token.content)
        elif token.type == "softbreak":
            yield Text("\n")
        elif token.markup == "autolink":
            yield from mark(f"<{tokens[n + 1].content}>", Role.VERBATIM)
            n += 2
        elif token.nesting == 1:
            closings.append(closing_markup(token))
            yield Start("[" if token.type == "link_open" else token.markup, closings[-1], Role.INLINE)
        elif token.nesting == -1:
            closings.pop()
            yield End()
        else:
            yield from leaf(token)
        n += 1


def leaf(token: Token) -> Iterator[Event]:
    """A token without others in it."""
    if token.type == "hardbreak":
        yield from mark("\\\n", Role.LINE_BREAK)
    elif token.type == "code_inline":
        code = f" {token.content} " if token.content[:1] == "`" or token.content[-1:] == "`" else token.content
        yield from mark(f"{token.markup}{code}{token.markup}", Role.VERBATIM)
    elif token.type == "image":
        yield Start("![", link_target(token, "src"), Role.SEPARATE, seen=True)
        yield Text(token.content)
        yield End()
    else:
        is_break = re.fullmatch(r"<br\s*/?>", token.content, re.IGNORECASE)
        yield from mark(token.content, Role.LINE_BREAK if is_break else Role.VERBATIM)


def mark(markup: str, role: Role) -> Iterator[Event]:
    """Markup that stays as it is, beside the word that it stood beside, or that breaks a line."""
    yield Start(markup, "", role, seen=True)
    yield End()


def closing_markup(token: Token) -> str:
    """What closes an inline token. A link is written with its target, also where it was a reference."""
    return link_target(token, "href") if token.type == "link_open" else token.markup


def link_target(token: Token, attribute: str) -> str:
    """The end of a link or image: `](target "title")`."""
    target, title = str(token.attrGet(attribute) or ""), str(token.attrGet("title") or "")
    if not target or re.search(r"[\s()<>]", target):
        target = f"<{target}>"
    quoted = title.replace("\\", "\\\\").replace('"', '\\"')
    return f"]({target}" + (f' "{quoted}")' if title else ")")
