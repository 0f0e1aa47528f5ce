"""Characters and words of raw text. Imports nothing of the vocabularies, so that reading a document starts fast."""

import re
import unicodedata

from tokenizers import Regex, pre_tokenizers

Span = tuple[int, int]  # the characters [start, end) of a text

# Unicode noncharacters, reserved for internal use; input text must not contain them.
LITERAL_MARK = "\ufdd0"  # represents a `▁` in the input text
UNKNOWN_MARK = "\ufdd1"  # represents a word that the input text marks as unknown
RESERVED = re.compile(f"[^\\S ]|[\ud800-\udfff▁{LITERAL_MARK}{UNKNOWN_MARK}]")

# A word is a run of letters, digits and combining marks with inner apostrophes, hyphens and joiners. Scripts without
# spaces are split into single characters. Any other character is its own token, with its modifiers.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ーｰ"
LETTER = rf"[[\p{{L}}\p{{N}}\p{{M}}]&&[^{UNSPACED}]]"
WORD = rf"{LETTER}+(?:['’‐‑\-\x{{AD}}\x{{200C}}\x{{200D}}]{LETTER}+)*"
IDEOGRAPH = rf"[{UNSPACED}]\p{{M}}*"
MARK = r"[^\s▁\p{L}\p{N}\p{M}](?:[\p{M}\x{1F3FB}-\x{1F3FF}]|\x{200D}[^\s▁])*"
WORDS = pre_tokenizers.Split(Regex(rf"{WORD}|{IDEOGRAPH}|{MARK}"), "removed", invert=True)

UNSPACED_RANGES = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
UNSPACED_CHARACTER = re.compile(f"[{UNSPACED_RANGES}]")


def is_unspaced(character: str) -> bool:
    """Whether a character is of a script without spaces."""
    return UNSPACED_CHARACTER.fullmatch(character) is not None


def continues_word(piece: str) -> bool:
    """Whether a piece without a space before it continues a word of a script with spaces: it begins with a letter, a
    digit or a combining mark."""
    return unicodedata.category(piece[0])[0] in "LNM" and not is_unspaced(piece[0])


def word_spans(text: str) -> list[Span]:
    """Spans of the words and punctuation marks of raw text.

    A word is a maximal run of letters, digits and combining marks, with single inner apostrophes and hyphens. A Han or
    Kana character is a word, and so is any other non-space character with its modifying marks.
    """
    return [span for _, span in WORDS.pre_tokenize_str(substitute_reserved(text))]


def spaced_spans(text: str) -> list[Span]:
    """Spans of the text between spaces: the words of tokenised text."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def substitute_reserved(text: str) -> str:
    """Replace reserved and invalid characters, and other white space by spaces, one for one."""
    if text.isprintable() and "▁" not in text:  # the common case, faster than the regular expression
        return text
    return RESERVED.sub(substitute, text)


def substitute(match: re.Match[str]) -> str:
    character = match.group()
    return " " if character.isspace() else LITERAL_MARK if character == "▁" else "\ufffd"
