"""Markdown (CommonMark, GitHub's additions, front matter): the blocks name their lines, and all else stays."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline, autolink, backtick, escape, html_inline, image, link, newline
from markdown_it.token import Token

from documents.builder import build_document
from documents.document import Document, DocumentFile
from documents.events import End, Event, Role, Start, Text
from documents.reading.encoding import decode_text
from documents.text_formats.messages import ADDRESS, protected
from documents.text_formats.spans import replace_spans

FOOTNOTE = re.compile(r"\[\^[^\s\[\]]+\](?!\()")
DEFINITION = re.compile(r"(\[\^[^\s\[\]]+\]:)[ \t]*")
TASK = re.compile(r"(\[[ xX]\])(?:\s+|\Z)")
ALERT = re.compile(r"(\[![A-Za-z]+\])[ \t]*(?:\n|\Z)")
FOOTNOTE_INDENT = 4  # columns of the lines that belong to a footnote

InlineRule = Callable[[StateInline, bool], bool]


class MarkdownParser(MarkdownIt):
    """Parses CommonMark with tables, strikethrough, footnotes, tasks and alerts into tokens.

    A token `mark` stands before the text of a footnote, task or alert; its content is the mark as it is written. Inline
    tokens that are markup by themselves have their source in `meta["source"]`, links and images also what is written
    after their text in `meta["closing"]`.
    """

    def __init__(self) -> None:
        super().__init__("commonmark")
        self.enable(["table", "strikethrough"])
        self.block.ruler.before("reference", "footnote", footnote, {"alt": ["paragraph", "reference"]})
        self.core.ruler.after("block", "marks", cut_marks)
        self.inline.ruler.before("link", "footnote", footnote_reference)
        rules: dict[str, InlineRule] = {
            "newline": newline,
            "escape": escape,
            "backticks": backtick,
            "footnote": footnote_reference,
            "link": link,
            "image": image,
            "autolink": autolink,
            "html_inline": html_inline,
        }
        for name, rule in rules.items():
            self.inline.ruler.at(name, with_source(rule))

    def validateLink(self, url: str) -> bool:
        """Whether a link may be one: always, since its target is not shown but stays in the document."""
        return True


def footnote(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """A block that begins with `[^name]:`, with the indented lines after it."""
    begin = state.bMarks[first] + state.tShift[first]
    match = DEFINITION.match(state.src, begin, state.eMarks[first])
    if match is None or state.parentType == "footnote" or state.is_code_block(first):
        return False
    if silent:
        return True
    state.push("mark", "", 0).content = match[1]
    state.tokens[-1].map = [first, first + 1]
    before = state.bMarks[first], state.tShift[first], state.sCount[first], state.parentType
    state.blkIndent += FOOTNOTE_INDENT
    state.bMarks[first], state.tShift[first], state.sCount[first] = match.end(), 0, state.blkIndent
    state.parentType = "footnote"
    state.md.block.tokenize(state, first, last)
    state.bMarks[first], state.tShift[first], state.sCount[first], state.parentType = before
    state.blkIndent -= FOOTNOTE_INDENT
    return True


def cut_marks(state: StateCore) -> None:
    """Cut the marks of tasks and alerts off the texts that they begin."""
    tokens: list[Token] = []
    for token in state.tokens:
        around = [opening.type for opening in tokens[-2:]]
        pattern = {"list_item_open": TASK, "blockquote_open": ALERT}.get(around[0]) if len(around) == 2 else None
        if token.type == "inline" and pattern and (match := pattern.match(token.content)):
            tokens.append(Token("mark", "", 0, content=match[1], map=token.map))
            token.content = token.content[match.end() :]
        tokens.append(token)
    state.tokens = tokens


def footnote_reference(state: StateInline, silent: bool) -> bool:
    """The mark `[^name]` in a text."""
    match = FOOTNOTE.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.push("footnote", "", 0)
    state.pos = match.end()
    return True


def with_source(rule: InlineRule) -> InlineRule:
    """The rule, which also keeps the source of the token that it makes."""

    def keep_source(state: StateInline, silent: bool) -> bool:
        start, count = state.pos, len(state.tokens)
        if not rule(state, silent):
            return False
        made = (token for token in state.tokens[count:] if token.type != "text" and "source" not in token.meta)
        if (token := next(made, None)) is not None:
            token.meta["source"] = state.src[start : state.pos]
            if token.type in ("link_open", "image") and token.markup != "autolink":
                token.meta["closing"] = closing_markup(state, state.src.index("[", start))
        return True

    return keep_source


def closing_markup(state: StateInline, bracket: int) -> str:
    """What stands after the text of a link or image that begins at a bracket and has been read: its target or label.
    Where the text is the label too, the label is added, since the text is translated."""
    end = state.md.helpers.parseLinkLabel(state, bracket)
    closing = state.src[end : state.pos]
    written = f"][{state.src[bracket + 1 : end]}]" if closing in ("]", "][]") else closing
    return written.replace("\n", " ")


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

    start, end: where it stands in the text.
    prefix: what stands before each line but the first: markers of quotes, and indentation.
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


def read_markdown(data: bytes, where: str) -> DocumentFile:
    """A Markdown file. Code, HTML blocks, front matter and the targets of links stay as they are. Raises DataError."""
    decoded = decode_text(data, where)
    text = decoded.text.replace("\r\n", "\n")
    line_end = "\r\n" if "\r\n" in decoded.text else "\n"
    parts = [(part, part.read()) for part in inline_parts(text)]
    translated = [(part, document) for part, document in parts if document.segments]
    spans = [(part.start, part.end) for part, _ in translated]

    def assemble(rendered: Sequence[str]) -> bytes:
        written = [part.write(translation) for (part, _), translation in zip(translated, rendered, strict=True)]
        return decoded.encode(replace_spans(text, spans, written).replace("\n", line_end))

    return DocumentFile(tuple(document for _, document in translated), assemble)


def escape_markdown(text: str) -> str:
    """A text without characters that would be inline markup."""
    return SPECIAL.sub(r"\\\1", text)


def inline_parts(text: str) -> Iterator[InlinePart]:
    """The inline contents in document order; one that cannot be found as it stands is left out."""
    front = FRONT_MATTER.match(text)
    begin = front.end() if front else 0
    # Front matter is read as empty lines, so that the numbers of lines stay.
    blank = "\n" * text[:begin].count("\n")
    starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text)]
    done = begin
    block = Token("", "", 0)
    for token in MarkdownParser().parse(blank + text[begin:]):
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
    """Where the lines of a content stand; before each may be markers of quotes, and indentation. [] if one is not
    there."""
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
            yield Start(opening, token.meta.get("closing", token.markup), Role.INLINE)
        elif token.nesting == -1:
            yield End()
        else:
            yield from leaf(token)
        n += 1


def text_events(text: str) -> Iterator[Event]:
    """A text, in which addresses stay as they are."""
    done = 0
    for address in re.finditer(ADDRESS, text):
        yield Text(text[done : address.start()])
        yield from protected(address.group())
        done = address.end()
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
        yield from mark(source.replace("\n", " "), Role.LINE_BREAK if is_break(token) else Role.VERBATIM)


def is_break(token: Token) -> bool:
    """Whether a token is the line break of HTML."""
    return token.type == "html_inline" and re.fullmatch(r"<br\s*/?>", token.content, re.IGNORECASE) is not None


def mark(markup: str, role: Role) -> Iterator[Event]:
    """Markup that stays as it is, beside the word that it stood beside, or that breaks a line."""
    yield Start(markup, "", role, seen=True)
    yield End()
