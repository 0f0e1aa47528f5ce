"""Random documents of every format: what they say is drawn once, and a function of each format writes it.

A block is a paragraph, cell, message or cue. `variant` is any number: a format's writer takes from it which element,
quotes or escapes it writes. What a writer gets as `case` is a function of the words: `str` for the source, `str.upper`
for its translation in capitals. So a translated file can be compared with the one that should come out.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal

from hypothesis import strategies as st

from interlinear.documents.protection import UNSPACED

Case = Callable[[str], str]
# Words that no placeholder beside them takes as its unit (`{n}px`), and which are no keywords of a format.
WORDS = [
    "Hund", "schläft", "Größe", "Do\u00adnau\u00addampfer", "כלב־ים", "نمی\u200cدانم", "犬が走る", "Привет", "Katze,",
    "groß.", "„Pferd“", "(Affe)", "l’eau", "it's", "AT&T", "5 < 7 Tiere", '"Esel"', "100 % Wolle", "C:\\Tiere",
    "e\u0301tait",
    "Hund/Katze", "Tier-Arzt", "datei.name Vogel", "Ziege!", "Maus?", "हिन्दी", "inkl. Igel", "* Stern", "# Raute",
    "x_y_z Biene",
]  # fmt: skip
SIGNS = ["5", "12:30", "😀", "—", "±", "👩\u200d👩\u200d👧", "1.", "§ 3", "•", "3,5 %"]
KEPT = ["{name}", "{0}", "{{ x }}", "{{{x}}}", "${hund}", "%{hund}", "{n, number}", "#{hund}"]  # words may touch them
SPACED = [
    "%s",
    "%1$s",
    "%(hund)d",
    "%d",
    "https://example.org/hund?a=b",
    "hund@example.org",
    "@hund",
    ":hund:",
    "$t(hund)",
]
SPACES = [" ", " ", " ", "", "  ", "\u00a0"]


@dataclass(frozen=True)
class Piece:
    """A part of a block: words, a sign or a placeholder with its text; an element with its content; a line break, or
    a mark without content. `space`: before it."""

    kind: Literal["words", "sign", "kept", "element", "break", "mark"]
    variant: int
    space: str = " "
    text: str = ""
    content: tuple["Piece", ...] = ()


@dataclass(frozen=True)
class Block:
    """The pieces of a paragraph; they begin with words."""

    variant: int
    pieces: tuple[Piece, ...]


VARIANTS = st.integers(0, 11)
space = st.sampled_from(SPACES)
words = st.builds(lambda n, text, space: Piece("words", n, space, text), VARIANTS, st.sampled_from(WORDS), space)
signs = st.builds(lambda n, text: Piece("sign", n, " ", text), VARIANTS, st.sampled_from(SIGNS))
kept = st.builds(lambda n, text: Piece("kept", n, " ", text), VARIANTS, st.sampled_from(KEPT + SPACED))
touching = st.builds(lambda n, text: Piece("kept", n, "", text), VARIANTS, st.sampled_from(KEPT))
marks = st.builds(Piece, st.sampled_from(["break", "mark"]), VARIANTS, st.sampled_from([" ", ""]))
leaves = st.one_of(words, words, signs, kept, touching, marks)


def elements(inner: st.SearchStrategy[Piece]) -> st.SearchStrategy[Piece]:
    return st.builds(
        lambda n, space, first, rest: Piece("element", n, space, content=(first, *rest)),
        VARIANTS, space, words, st.lists(inner, max_size=3),
    )  # fmt: skip


def separated(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """The pieces with a space where a tag would stand inside a word, which it then encloses as a whole if the word is
    another one in the translation, or where a placeholder would not end before a word."""
    last, result = None, []
    for piece in pieces:
        ends = last and (last.text in [*SPACED, "3,5 %"] or UNSPACED.search(last.text + piece.text))
        touches_mark = last is not None and last.kind == "mark" and piece.kind in ("kept", "words")
        if last and not piece.space and (ends or touches_mark or "element" in (last.kind, piece.kind)):
            piece = replace(piece, space=" ")
        result.append(replace(piece, content=separated(piece.content)))
        last = piece
    return tuple(result)


pieces = st.recursive(leaves, elements, max_leaves=4)
blocks = st.builds(
    lambda n, first, rest: Block(n, separated((Piece("words", 0, "", "Der"), first, *rest))),
    VARIANTS, st.builds(Piece, st.just("words"), st.just(0), st.just(" "), st.sampled_from(WORDS)),
    st.lists(pieces, max_size=6),
)  # fmt: skip
documents = st.lists(blocks, min_size=1, max_size=4)


@dataclass(frozen=True)
class Markup:
    """How a format writes pieces. text: escapes. element: tags around, and whether the content is translated."""

    text: Callable[[str], str]
    element: Sequence[tuple[str, str, bool]]
    line_break: Sequence[str]
    mark: Sequence[str]

    def write(self, pieces: Sequence[Piece], case: Case) -> str:
        """The pieces as they are written."""
        written = ""
        for piece in pieces:
            written += self.text(piece.space) if written else ""
            if piece.kind == "element":
                opening, closing, translated = choice(self.element, piece.variant)
                written += opening + self.write(piece.content, case if translated else str) + closing
            elif piece.kind in ("break", "mark"):
                written += choice(self.line_break if piece.kind == "break" else self.mark, piece.variant)
            else:
                written += self.text(case(piece.text) if piece.kind == "words" else piece.text)
        return written


def choice(options: Sequence[Any], variant: int) -> Any:
    return options[variant % len(options)]


HTML = Markup(
    lambda text: escape(text, quote=False).replace("\u00a0", "&nbsp;").replace("Ö", "&Ouml;"),
    [("<b>", "</b>", True), ('<i class="x" data-x="a=1&amp;b">', "</i>", True), ("<span>", "</span>", True),
     ("<code>", "</code>", False), ("<span translate=no>", "</span>", False)],
    ["<br>", "<br />"], ["<img src=x>", "<!-- Hund -->", "<wbr>", "<sup>1</sup>", "<?php echo 'Hund' ?>"],
)  # fmt: skip
XML = Markup(
    lambda text: escape(text, quote=False),
    [("<b>", "</b>", True), ('<a href="x&amp;y">', "</a>", True), ('<i translate="no">', "</i>", False)],
    ["<br/>"], ["<img src='x'/>", "<!-- Hund -->", "<?php Hund ?>"],
)  # fmt: skip
MESSAGE = Markup(
    str, [("<b>", "</b>", True), ('<a href="x">', "</a>", True), ("<0>", "</0>", True)], ["<br>", "\n"],
    ["<icon/>", "<1/>"],
)  # fmt: skip
XLIFF_1 = Markup(
    XML.text,
    [('<g id="1">', "</g>", True), ('<bpt id="1">&lt;b&gt;</bpt>', '<ept id="1">&lt;/b&gt;</ept>', True),
     ('<mrk mtype="protected">', "</mrk>", False), ("&lt;b&gt;", "&lt;/b&gt;", True)],
    ['<x id="1" ctype="lb"/>', "<ph id='2'>&lt;br/></ph>"], ['<x id="3"/>', '<ph id="4">{Hund}</ph>'],
)  # fmt: skip
XLIFF_2 = Markup(
    XML.text,
    [('<pc id="1">', "</pc>", True), ('<sc id="1"/>', '<ec startRef="1"/>', True),
     ('<mrk id="m" translate="no">', "</mrk>", False)],
    ['<ph id="1" type="fmt" subType="xlf:lb"/>'], ['<ph id="3"/>', '<cp hex="0001"/>'],
)  # fmt: skip
TMX_MARKUP = Markup(
    XML.text, [('<bpt i="1">&lt;b&gt;</bpt>', '<ept i="1">&lt;/b&gt;</ept>', True), ("<hi>", "</hi>", True)],
    ["<ph>\n</ph>"], ["<ph>{Hund}</ph>"],
)  # fmt: skip
ANDROID = Markup(
    lambda text: XML.text(text.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"')),
    [("<b>", "</b>", True), ('<xliff:g id="x">', "</xliff:g>", False)], ["\\n"], ["<br/>"],
)  # fmt: skip
OPENDOCUMENT = Markup(
    XML.text,
    [('<text:span text:style-name="T1">', "</text:span>", True), ("<text:a text:style-name='x'>", "</text:a>", True)],
    ["<text:line-break/>", "<text:tab/>", '<text:s text:c="4"/>'],
    ['<text:bookmark text:name="Hund"/>',
     '<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation></text:note>'],
)  # fmt: skip
SUBTITLES = Markup(str, [("<i>", "</i>", True), ("<b>", "</b>", True)], ["\n"], ["<u></u>"])
SPECIAL = frozenset("\\`*_{}[]()#+-.!|<>&~:\"'@")
MARKDOWN = Markup(
    lambda text: text if text in KEPT + SPACED else "".join(f"\\{c}" if c in "\\`*_[]#<>~|&" else c for c in text),
    [("**", "**", True), ("*", "*", True), ("~~", "~~", True)], ["  \n", "\\\n", "<br>"],
    ["`Hund`", "[^1]", "<https://example.org>", "<kbd>"],
)  # fmt: skip
