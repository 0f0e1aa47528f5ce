"""Writes the translation of a message: characters in the message's written form, printf arguments in an order that the
program understands, and the key of a menu."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from interlinear.documents.inline import InlineTag
from interlinear.documents.messages.character_references import Source
from interlinear.documents.placement import Piece
from interlinear.text.words import is_unspaced

UNNUMBERED = re.compile(
    r"%%|%(?!\d{1,2}\$|\(|<(?!PRI))[-+ #0']{0,5}[\d.*]{0,8}[hlqjztLI0-9]{0,3}(?:[A-Za-mo-z@]|<PRI\w+>)|\{\}"
)
QUOTED = re.compile(r"''|'[{}][^']*'")  # in an ICU message
NUMBERING = frozenset(("c-format", "objc-format", "php-format", "java-printf-format"))  # that know %1$s
PERCENT = frozenset(("c-format", "objc-format", "php-format", "java-printf-format", "python-format"))  # with %% for %
SHORT = 40  # characters of an item of a menu
MARKS = {
    "&": r"(?<![&\w])(?P<mark>&&?)(?=\w)(?!&)|(?<=[^\W\d_])&(?=[a-zß-ÿ])",
    "_": r"(?<![_\w])_(?=[^\W_])|(?<=[^\W\d_])_(?=[a-zß-ÿ])",
    "~": r"(?<![~\w])~(?=[^\W\d_])|(?<=[^\W\d_])~(?=[a-zß-ÿ])",
}


@dataclass(frozen=True)
class Mnemonic:
    """The mark before the letter of a key, its place, and the letter."""

    mark: str
    letter: str
    place: int = 0


def find_mnemonic(text: str, marks: str) -> Mnemonic | None:
    """The mnemonic of a message that is at most as long as a menu item, and has one of these marks once."""
    is_label = len(text) <= SHORT and not re.search(r"[.!?](?<!\.\.\.)\s*$", text)
    for mark in marks if is_label else "":
        found = list(re.finditer(MARKS[mark], text))
        count = len(re.findall(f"{mark}+(?![\\s{mark}])", text))
        if len(found) == count == 1 and not re.search(r"[&_~](?:\w+;)", text):
            match = found[0]
            return Mnemonic(match.group(), text[match.end()], match.start())
    return None


@dataclass(frozen=True)
class MessageWriter:
    """Finishes the translation of a message.

    characters: the written forms of some characters. numbered: whether the program knows %1$s; otherwise the order of
    arguments stays.
    """

    characters: Mapping[str, str]
    mnemonic: Mnemonic | None = None
    numbered: bool = False

    @staticmethod
    def of(source: Source, is_icu: bool, mnemonic: Mnemonic | None, syntax: str) -> "MessageWriter":
        """For a message, by the name of its program's format."""
        characters = dict(source.references)
        if is_icu:
            characters |= {"{": "'{'", "}": "'}'"}
            if "'" not in QUOTED.sub("", source.text):
                characters["'"] = "''"
        if syntax in PERCENT:
            characters["%"] = "%%"
        return MessageWriter(characters, mnemonic, syntax in NUMBERING)

    def __call__(self, pieces: Sequence[Piece], tags: Sequence[InlineTag]) -> list[Piece]:
        """The pieces of a translation in their written form."""
        written = in_order(pieces, tags, self.numbered)
        if self.characters:
            written = [part for piece in written for part in self._characters(piece)]
        return with_mnemonic(written, self.mnemonic) if self.mnemonic else written

    def _characters(self, piece: Piece) -> list[Piece]:
        """A piece of text in parts; characters with another written form are markup."""
        if not isinstance(piece, str):
            return [piece]
        parts = re.split(f"([{re.escape(''.join(self.characters))}])", piece)
        return [
            (InlineTag(0, 0, (self.characters[part],)), True) if n % 2 else part for n, part in enumerate(parts) if part
        ]


def unnumbered(tag: InlineTag) -> list[str]:
    """The arguments of a placeholder that are identified by their order."""
    if not tag.protected:
        return []
    written = "".join(part for part in tag.opening if isinstance(part, str))
    if "://" in written:  # its %20 is a character
        return []
    return [match.group() for match in UNNUMBERED.finditer(written) if match.group() != "%%"]


def in_order(pieces: Sequence[Piece], tags: Sequence[InlineTag], numbered: bool) -> list[Piece]:
    """The pieces, with unnumbered arguments that left the source's order either numbered, or returned to that order."""
    counts = {id(tag): arguments for tag in tags if (arguments := unnumbered(tag))}
    order = [id(piece[0]) for piece in pieces if not isinstance(piece, str) and piece[1] and id(piece[0]) in counts]
    source = [id(tag) for tag in tags if id(tag) in counts]
    if order == source:
        return list(pieces)
    by_id = {id(tag): tag for tag in tags}
    if numbered and not any(
        "*" in argument or argument == "{}" for arguments in counts.values() for argument in arguments
    ):
        changed = with_numbers([by_id[key] for key in source])
    else:
        changed = {place: by_id[key] for place, key in zip(order, source, strict=True)}
        changed = {key: replace(by_id[key], opening=tag.opening) for key, tag in changed.items()}
    return [
        piece
        if isinstance(piece, str) or not piece[1] or id(piece[0]) not in changed
        else (changed[id(piece[0])], True)
        for piece in pieces
    ]


def with_numbers(tags: Sequence[InlineTag]) -> dict[int, InlineTag]:
    """Numbered placeholders, by the identity of the unnumbered ones."""
    number = 0

    def numbered(match: "re.Match[str]") -> str:
        nonlocal number
        if match.group() == "%%":
            return "%%"
        number += 1
        return f"%{number}${match.group()[1:]}"

    return {
        id(tag): replace(tag, opening=tuple(UNNUMBERED.sub(numbered, f"{part}") for part in tag.opening))
        for tag in tags
    }


def with_mnemonic(pieces: Sequence[Piece], mnemonic: Mnemonic) -> list[Piece]:
    """The pieces with the mark before the same letter, at the begin of a word if there is one, else before the first
    letter, as checks of catalogues require one; in a script without spaces behind the text."""
    texts = [(n, piece) for n, piece in enumerate(pieces) if isinstance(piece, str)]
    letter, result = re.escape(mnemonic.letter), list(pieces)
    for pattern in (rf"(?<!\w){letter}", letter, r"[^\W\d_]"):
        for n, text in texts:
            found = re.search(pattern, text, re.IGNORECASE)
            if found is None:
                continue
            if is_unspaced(found.group()) and found.group() != mnemonic.letter:
                end = len(text.rstrip(" .…:"))
                result[n] = f"{text[:end]}({mnemonic.mark}{mnemonic.letter.upper()}){text[end:]}"
            else:
                result[n] = text[: found.start()] + mnemonic.mark + text[found.start() :]
            return result
    return result
