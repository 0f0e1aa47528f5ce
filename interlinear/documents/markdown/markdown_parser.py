"""The parser of Markdown: markdown-it, with footnotes, alerts, admonitions, and lines that are no text."""

import re
from collections.abc import Callable

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline, autolink, backtick, escape, html_inline, image, link, newline
from markdown_it.token import Token

from interlinear.documents.untranslated import MASKED

FOOTNOTE = re.compile(r"\[\^[^\s\[\]]+\](?!\()")
DEFINITION = re.compile(r"(\[\^[^\s\[\]]+\]:)[ \t]*")
TASK = re.compile(r"(\[[ xX]\])(?:\s+|\Z)")
ALERT = re.compile(r"(\[![A-Za-z]+\][+-]?)[ \t]*(?P<title>[^\n]*)(?:\n|\Z)")  # the title is Obsidian's
INDENT = 4  # columns of the lines that belong to a footnote or an admonition
# `::: note Title`, `:::note[Title]`, `:::{note} Title` (markdown-it, Docusaurus, MyST), `!!! note "Title"`, `??? note`,
# `=== "Title"` (MkDocs).
CONTAINER = re.compile(rf"(:{{3,}}[ \t]*(?:{MASKED}|[A-Za-z][\w-]*)?[ \t]*\[?)(?P<title>[^\n\]]*)")
ADMONITION = re.compile(
    r'((?:(?:!!!|\?\?\?\+?)[ \t]+[\w-][\w -]*|===[!+]?[ \t]+)")(?P<title>[^"\n]*)"[ \t]*$'
    r"|((?:!!!|\?\?\?\+?)[ \t]+[\w-]+)[ \t]*$"
)
# Masked tags alone, tables of contents, labels of MyST.
NO_TEXT = re.compile(rf"(?:{MASKED}[ \t]*)+|\[{{1,2}}_?TOC_?\]{{1,2}}[ \t]*|\([\w:.-]+\)=[ \t]*", re.IGNORECASE)
MODULE = re.compile(  # MDX: up to the next empty line
    r"import\s+(?:[\w{*][^\n]*\sfrom\s+)?[\"'][^\n]+|import\s*\{[^}\n]*"
    r"|export\s+(?:(?:default|const|let|var|function|class|async|type|interface)\b|[{*])[^\n]*"
)

InlineRule = Callable[[StateInline, bool], bool]


class MarkdownParser(MarkdownIt):
    """Parses CommonMark with tables, strikethrough, footnotes, tasks, alerts and admonitions into tokens.

    A token `mark` stands before the text of a footnote, task, alert or admonition, or for lines that are no text; its
    content is the mark as written. Inline
    tokens that are markup by themselves have their source in `meta["source"]`, links and images also what is written
    after their text in `meta["closing"]`.
    """

    def __init__(self) -> None:
        super().__init__("commonmark")
        self.enable(["table", "strikethrough"])
        self.block.ruler.before("reference", "footnote", footnote, {"alt": ["paragraph", "reference"]})
        alternatives: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
        self.block.ruler.before("fence", "no_text", no_text, alternatives)
        self.block.ruler.before("fence", "admonition", admonition, alternatives)
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
    state.blkIndent += INDENT
    state.bMarks[first], state.tShift[first], state.sCount[first] = match.end(), 0, state.blkIndent
    state.parentType = "footnote"
    state.md.block.tokenize(state, first, last)
    state.bMarks[first], state.tShift[first], state.sCount[first], state.parentType = before
    state.blkIndent -= INDENT
    return True


def line_of(state: StateBlock, line: int) -> str:
    """A line without its indentation."""
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def no_text(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Lines that are no text: tags of templates, lists of attributes, modules of MDX."""
    line = line_of(state, first)
    end = first + 1
    if not line or state.is_code_block(first):
        return False
    if silent and line_of(state, first - 1).endswith("\\"):
        return False  # the backslash breaks a line, if the paragraph continues
    if not state.level and state.parentType == "root" and MODULE.fullmatch(line):
        while end < last and not state.isEmpty(end):
            end += 1
    elif not NO_TEXT.fullmatch(line):
        return False
    if not silent:
        add_mark(state, line, first)
        state.line = end
    return True


def add_mark(state: StateBlock, content: str, line: int) -> None:
    """Add a mark, and where it stands."""
    token = state.push("mark", "", 0)
    token.content, token.map = content, [line, line + 1]


def admonition(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """The first line of an admonition, or the last, with its title; and the indented lines after it, where they are
    its content."""
    line = line_of(state, first)
    is_indented = not line.startswith(":")
    match = (ADMONITION if is_indented else CONTAINER).match(line)
    if match is None or state.is_code_block(first):
        return False
    if silent:
        return True
    title = match["title"] or ""
    add_mark(state, line[: match.start("title")] if title else line, first)
    add_title(state, title.strip(), first)
    state.line = first + 1
    if is_indented and state.line < last:
        state.blkIndent += INDENT
        state.md.block.tokenize(state, state.line, last)
        state.blkIndent -= INDENT
    return True


def add_title(state: StateBlock, title: str, line: int) -> None:
    """Add the title of an admonition as a separate text."""
    if title:
        state.push("title_open", "", 1)
        token = state.push("inline", "", 0)
        token.content, token.map, token.children = title, [line, line + 1], []
        state.push("title_close", "", -1)


def cut_marks(state: StateCore) -> None:
    """Cut the marks of tasks and alerts off the texts that they begin."""
    tokens: list[Token] = []
    for token in state.tokens:
        around = [opening.type for opening in tokens[-2:]]
        pattern = {"list_item_open": TASK, "blockquote_open": ALERT}.get(around[0]) if len(around) == 2 else None
        if token.type == "inline" and pattern and (match := pattern.match(token.content)):
            tokens.append(Token("mark", "", 0, content=match[1], map=token.map))
            if title := match.groupdict().get("title"):
                tokens.append(Token("inline", "", 0, content=title.strip(), map=token.map, children=[]))
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
    """The markup after the text of a link or image that begins at a bracket and has been parsed: its target or label.
    If the text is also the label, the label is added, since the text is translated."""
    end = state.md.helpers.parseLinkLabel(state, bracket)
    closing = state.src[end : state.pos]
    written = f"][{state.src[bracket + 1 : end]}]" if closing in ("]", "][]") else closing
    return written.replace("\n", " ")
