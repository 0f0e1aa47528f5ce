"""Markdown (CommonMark, GitHub's additions, front matter): the blocks name their lines, and all else stays."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it.token import Token

from interlinear.documents.builder import build_document
from interlinear.documents.document import Document, DocumentFile
from interlinear.documents.events import End, Event, Role, Start, Text
from interlinear.documents.formats import document_format
from interlinear.documents.markdown.anchors import BEGIN, Anchors, first_line, marked_html, marked_link
from interlinear.documents.markdown.markdown_parser import MarkdownParser
from interlinear.documents.masks import Masks
from interlinear.documents.messages.messages import protected
from interlinear.documents.reading.encoding import decode_text
from interlinear.documents.text_formats.spans import replace_spans
from interlinear.documents.untranslated import KEPT, TEMPLATE_TAG
from interlinear.generation.terms.placeholders import ADDRESS, FAMILIES

# Tags of templates, comments of MDX, lists of attributes (`{#id .class}`, `{: key=value}`), and formulas.
MASKED = re.compile(
    rf"{TEMPLATE_TAG}|{FAMILIES['sigils']}|{FAMILIES['braces']}"
    r"|\{/\*(?:[^*{]|\*(?!/\})|\{(?!/\*))*\*/\}|\{:[^{}\n]*\}|\{ ?(?:[#.][\w-]|[\w-]+=)[^{}\n]*\}"
    r"|\$\$[^$]{1,2000}\$\$|(?<![\w$])\$(?=[^\s$])(?=[^$\n]{0,200}[\\^_={}])[^$\n]{1,200}(?<=\S)\$(?![\w{])"
)

FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n.*?^\1[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
SPECIAL = re.compile(
    r"([`\[\]]|\\(?=[!-/:-@\[-`{-~]|\Z)|<(?=[A-Za-z/!?]|\Z)|~~|&(?=#?\w+;)"
    r"|\*(?!\s)|(?<!\s)\*|(?<![^\W_])_|_(?![^\W_]))"  # beside a word or, for _, not inside one
)
# A heading, list item, underline or quote.
BEGINS_BLOCK = re.compile(r"^([ \t]*(?:\d{1,9}(?=[.)]))?)([#+=.)-](?=[\s#=-]|$)|\*(?=\s|$)|>)", re.MULTILINE)
ENDS_HEADING = re.compile(r"(^|\s)(#+)$")


@dataclass(frozen=True)
class InlinePart:
    """The inline content of a block.

    start, end: its span in the text. prefix: the text before each line but the first: markers of quotes, and
    indentation.
    block: the token that opens the block.
    tokens: its content.
    """

    start: int
    end: int
    prefix: str
    block: Token
    tokens: Sequence[Token]

    def read(self) -> Document:
        """The content as a document."""
        events = [Start("", "", Role.BLOCK), *inline_events(self.tokens), End()]
        return build_document(events, escape_markdown, escape_markdown)

    def write(self, translation: str) -> str:
        """The content with its translation, so that the block stays what it is."""
        if self.block.type in ("th_open", "td_open"):
            return translation.replace("|", "\\|")  # also in code: cells are divided first
        if self.block.markup.startswith("#"):
            return ENDS_HEADING.sub(r"\1\\\2", translation)
        return BEGINS_BLOCK.sub(r"\1\\\2", translation).replace("\n", f"\n{self.prefix}")


@document_format(".md", ".markdown", ".mdx")
def read_markdown(data: bytes, where: str) -> DocumentFile:
    """A Markdown file. Code, HTML blocks, front matter and the targets of links stay unchanged, except links to
    headings of the file, which follow them (`Anchors`). Raises DataError."""
    decoded = decode_text(data, where)
    masks = Masks()
    text = MASKED.sub(lambda tag: masks.mask(tag.group()), decoded.text.replace("\r\n", "\n"))
    line_end = "\r\n" if "\r\n" in decoded.text else "\n"
    tokens = parse(text)
    anchors = Anchors(text, tokens, masks)
    parts = [(part, part.read()) for part in inline_parts(text, tokens)]
    translated = [(part, document) for part, document in parts if document.segments]
    spans = [(part.start, part.end) for part, _ in translated]
    definitions = [span for span in anchors.definitions if span[0] not in dict(spans)]

    def assemble(rendered: Sequence[str]) -> bytes:
        written = [
            text[part.start : part.end]
            if translation == document.unchanged and BEGIN not in translation
            else part.write(translation)
            for (part, document), translation in zip(translated, rendered, strict=True)
        ]
        headings = zip((part.block for part, _ in translated), written, strict=True)
        new_anchors = anchors.renamed(
            {first_line(block): new for block, new in headings if block.type == "heading_open"}
        )
        replaced = sorted(
            [*zip(spans, written, strict=True), *((span, anchors.marked(text[slice(*span)])) for span in definitions)]
        )
        result = replace_spans(text, [span for span, _ in replaced], [part for _, part in replaced])
        return decoded.encode(masks.unmask(new_anchors(result)).replace("\n", line_end))

    return DocumentFile(tuple(document for _, document in translated), assemble)


def parse(text: str) -> list[Token]:
    """The tokens of a text. Front matter is read as empty lines, so that the numbers of lines stay."""
    front = FRONT_MATTER.match(text)
    begin = front.end() if front else 0
    return MarkdownParser().parse("\n" * text[:begin].count("\n") + text[begin:])


def escape_markdown(text: str) -> str:
    """A text without characters that would be inline markup."""
    return SPECIAL.sub(r"\\\1", text)


def inline_parts(text: str, tokens: Sequence[Token]) -> Iterator[InlinePart]:
    """The inline contents in document order; one that cannot be found as it stands is left out."""
    starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text)]
    done = 0
    block = Token("", "", 0)
    for token in tokens:
        if token.nesting == 1:
            block = token
        if token.type not in ("inline", "mark") or token.map is None or not token.content:
            continue
        first, last = token.map
        region = starts[min(last, len(starts) - 1)]
        lines = find_lines(text, token.content, max(done, starts[first]), region)
        if lines:
            done = lines[-1][1]
            if token.type == "inline":
                prefix = text[text.rfind("\n", 0, lines[1][0]) + 1 : lines[1][0]] if len(lines) > 1 else ""
                yield InlinePart(lines[0][0], done, prefix, block, token.children or [])


def find_lines(text: str, content: str, start: int, end: int) -> list[tuple[int, int]]:
    """The positions of the lines of a content; markers of quotes, and indentation, may precede each. [] if one is
    missing."""
    found: list[tuple[int, int]] = []
    for line in content.split("\n"):
        candidates = (line.strip(), line.strip().replace("|", "\\|"))
        place = next(((at, at + len(c)) for c in candidates if (at := text.find(c, start, end)) >= 0), None)
        if place is None:
            return []
        found.append(place)
        start = place[1]
    return found


def inline_events(tokens: Sequence[Token]) -> Iterator[Event]:
    """The events of inline tokens."""
    n = 0
    while n < len(tokens):
        token = tokens[n]
        if token.type == "text":
            yield from text_events(token.content)
        elif token.type == "softbreak":
            yield Text("\n" if n and is_break(tokens[n - 1]) else " ")
        elif token.markup == "autolink":
            yield from mark(token.meta["source"], Role.VERBATIM)
            n += 2
        elif token.nesting == 1:
            opening = "[" if token.type == "link_open" else token.markup
            yield Start(opening, marked_link(token.meta.get("closing", token.markup)), Role.INLINE)
        elif token.nesting == -1:
            yield End()
        else:
            yield from leaf(token)
        n += 1


def text_events(text: str) -> Iterator[Event]:
    """A text, in which addresses, mentions and the like stay unchanged; an address has no markup."""
    done = 0
    for kept in KEPT.finditer(text):
        yield Text(text[done : kept.start()])
        is_address = re.fullmatch(ADDRESS, kept.group())
        yield from protected(kept.group(), None if is_address else escape_markdown(kept.group()))
        done = kept.end()
    yield Text(text[done:])


def leaf(token: Token) -> Iterator[Event]:
    """A token without others in it."""
    source = token.meta["source"]
    if token.type == "hardbreak":
        yield from mark("\\\n" if source.startswith("\\") else "  \n", Role.LINE_BREAK)
    elif token.type == "image":
        yield Start("![", token.meta["closing"], Role.SEPARATE, seen=True)
        yield from inline_events(token.children or [])
        yield End()
    else:
        yield from mark(marked_html(source.replace("\n", " ")), Role.LINE_BREAK if is_break(token) else Role.VERBATIM)


def is_break(token: Token) -> bool:
    """Whether a token is the line break of HTML."""
    return token.type == "html_inline" and re.fullmatch(r"<br\s*/?>", token.content, re.IGNORECASE) is not None


def mark(markup: str, role: Role) -> Iterator[Event]:
    """Markup that stays unchanged, beside the word that it stood beside, or that breaks a line."""
    yield Start(markup, "", role, seen=True)
    yield End()
