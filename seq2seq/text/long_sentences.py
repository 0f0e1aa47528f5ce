"""Division of sentences that are longer than a model reads: at the end of a clause, else between words, else between
characters."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from seq2seq.text.config import Span
from seq2seq.text.segmentation import is_unspaced

CLAUSE_END = re.compile(r"[,;:)»”](?=\s)\s*|[、，；：]\s*|\s[-–—]\s+|—\s*")
SPACE = re.compile(r"\s+")
WORD_END = re.compile(r"[^\w\s]+(?=\w)")
JOINERS = "\u200c\u200d\ufe0f"  # belong to the character before them

BYTE_TOKENS = 2  # most tokens of a byte: one, and one for the begin of a word


def is_surely_within(text: str, limit: int) -> bool:
    """Whether a text has at most `limit` tokens whatever the vocabulary, as most sentences have: it need not be encoded
    to know."""
    if len(text) * BYTE_TOKENS > limit:
        return False
    written = unicodedata.normalize("NFC", text).encode("utf-8", "surrogatepass")
    return len(written) * BYTE_TOKENS <= limit


def divide(text: str, span: Span, fits: Callable[[Span], bool], kept: Sequence[Span] = ()) -> list[Span]:
    """The spans of parts of a sentence that fit, each about half of a longer one, without white space around.

    span: the sentence in the text. kept: spans that are never divided, of terms; a part that cannot be divided is
    longer than what fits.
    """
    parts: list[Span] = []
    pending = [span]
    while pending:
        start, end = pending.pop()
        place = None if fits((start, end)) else place_to_divide(text, (start, end), kept)
        if place is None:
            parts.append((start, end))
            continue
        before, after = text[start:place].rstrip(), text[place:end].lstrip()
        pending += [(end - len(after), end), (start, start + len(before))]
    return parts


def place_to_divide(text: str, span: Span, kept: Sequence[Span] = ()) -> int | None:
    """The offset at which a part may begin that is nearest to the middle; None if there is none.

    The end of a clause in the middle half is preferred, then a space there, then a place between characters of a
    script without spaces, then a space anywhere, then the end of a mark inside a word, then any character.
    """
    start, end = span
    quarter = (end - start) // 4
    middle = (start + end) // 2
    half, whole = (start + quarter, end - quarter), (start + 1, end - 1)
    for places in (
        ends_of(CLAUSE_END, text, span, half),
        ends_of(SPACE, text, span, half),
        (i for i in range(half[0], half[1] + 1) if start < i < end and is_between_unspaced(text, i)),
        ends_of(SPACE, text, span, whole),
        ends_of(WORD_END, text, span, whole),
        (i for i in range(whole[0], whole[1] + 1) if begins_character(text, i)),
    ):
        allowed = [i for i in places if not any(a < i < b for a, b in kept)]
        if allowed:
            return min(allowed, key=lambda i: abs(i - middle))
    return None


def ends_of(pattern: "re.Pattern[str]", text: str, span: Span, within: Span) -> Iterator[int]:
    """The ends of a pattern's matches inside a span, of those from one offset to another."""
    for match in pattern.finditer(text, *span):
        if match.start() > span[0] and within[0] <= match.end() <= within[1] and match.end() < span[1]:
            yield match.end()


def is_between_unspaced(text: str, place: int) -> bool:
    """Whether a place is at a character of a script without spaces, and before no mark that ends what precedes."""
    beside = is_unspaced(text[place - 1]) or is_unspaced(text[place])
    return beside and begins_character(text, place) and unicodedata.category(text[place])[0] != "P"


def begins_character(text: str, place: int) -> bool:
    """Whether the character at a place does not belong to the one before it."""
    joined = text[place] in JOINERS or text[place - 1] == "\u200d"
    return not joined and unicodedata.category(text[place])[0] != "M" and not text[place].isspace()


def grouped(spans: Sequence[Span], fits: Callable[[Span], bool]) -> list[Span]:
    """As few spans of neighbouring sentences as fit, from the first on; a sentence that does not fit stays alone."""
    groups: list[Span] = []
    for start, end in spans:
        if groups and fits((groups[-1][0], end)):
            groups[-1] = (groups[-1][0], end)
        else:
            groups.append((start, end))
    return groups
