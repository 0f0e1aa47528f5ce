"""The parser of Markdown: GitHub's additions as rules for markdown-it, and the source of inline markup."""

import re
from collections.abc import Callable

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline, autolink, backtick, escape, html_inline, image, link, newline
from markdown_it.token import Token

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
