"""Anchors of headings in Markdown, which are made of their text: links to a heading follow its translation."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from urllib.parse import quote, unquote

from markdown_it.token import Token

from interlinear.documents.markdown.markdown_parser import MarkdownParser
from interlinear.documents.masks import RUN, Masks

BEGIN, END = "\ufdd0", "\ufdd1"  # around the fragment of a link while a file is written: no characters (Unicode, 23.7)
MARKED = re.compile(f"{BEGIN}([^{BEGIN}{END}]*){END}")
LINK = re.compile(r"(\]\(\s*<?#)([^\s)>]+)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]\n]+\]:[ \t]*<?#([^\s>]+)", re.MULTILINE)
HREF = re.compile(r"""(href=["']#)([^"'\s>]+)""")


def marked_link(closing: str) -> str:
    """The markup after the text of a link, with its fragment marked if the target is only a fragment."""
    return LINK.sub(rf"\1{BEGIN}\2{END}", closing, count=1)


def marked_html(tag: str) -> str:
    """A tag of HTML with the fragment of its link marked."""
    return HREF.sub(rf"\1{BEGIN}\2{END}", tag)


def slug(text: str) -> str:
    """The anchor of a heading, as GitHub makes it: lower case, without punctuation, and - for a space."""
    return re.sub(r"[^\w\- ]", "", RUN.sub("", text).strip().lower()).replace(" ", "-")


def numbered(slugs: Sequence[str]) -> list[str]:
    """The anchors of headings in order: equal ones are numbered."""
    seen: Counter[str] = Counter()
    anchors = []
    for each in slugs:
        anchors.append(f"{each}-{seen[each]}" if seen[each] else each)
        seen[each] += 1
    return anchors


def displayed(heading: Token) -> str:
    """The text of a heading without its markup."""
    children = heading.children or []
    return "".join(" " if child.type == "softbreak" else child.content for child in children if is_text(child))


def is_text(token: Token) -> bool:
    return token.type in ("text", "text_special", "code_inline", "softbreak")


def first_line(token: Token) -> int:
    """The line in which a block begins."""
    return token.map[0] if token.map else 0


class Anchors:
    """The anchors of a file's headings.

    definitions: the places of the fragments of link definitions.
    """

    def __init__(self, text: str, tokens: Sequence[Token], masks: Masks) -> None:
        openings = [n for n, token in enumerate(tokens) if token.type == "heading_open"]
        self._lines = [first_line(tokens[n]) for n in openings if tokens[n + 1].content]
        self._headings = [displayed(tokens[n + 1]) for n in openings if tokens[n + 1].content]
        self._implicit = [not masks.unmask(heading).rstrip().endswith("}") for heading in self._headings]
        code = {line for token in tokens if token.type in ("fence", "code_block") for line in range(*(token.map or ()))}
        starts = [match.end() for match in re.finditer("\n", text)]
        self.definitions = [
            match.span(1) for match in REFERENCE.finditer(text) if bisect_right(starts, match.start()) not in code
        ]

    def marked(self, fragment: str) -> str:
        """The fragment of a definition, marked."""
        return f"{BEGIN}{fragment}{END}"

    def renamed(self, translations: Mapping[int, str]) -> Callable[[str], str]:
        """Writes the marked fragments of a file: fragments of headings become the anchors of their translations, by the
        line of the heading; others stay."""
        parser = MarkdownParser()
        new = [
            displayed(parser.parseInline(translations[line])[0]) if line in translations else heading
            for line, heading in zip(self._lines, self._headings, strict=True)
        ]
        made = [[slug(text) for text in compress(texts, self._implicit)] for texts in (self._headings, new)]
        names = dict(zip(*map(numbered, made), strict=True))

        def fragment(found: "re.Match[str]") -> str:
            written, plain = found[1], unquote(found[1]).lower()
            name = names.get(plain, plain)
            return written if name == plain else quote(name) if "%" in written else name

        return lambda text: MARKED.sub(fragment, text)
