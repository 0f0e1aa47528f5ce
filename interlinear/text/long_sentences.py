"""Division of sentences that are longer than a model reads: at the end of a clause, else between words, else between
characters."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter

from interlinear.text.words import Span, is_unspaced

CLAUSE_END = re.compile(r"[,;:)»”](?=\s)\s*|[、，；：]\s*|\s[-–—]\s+|—\s*")
SPACE = re.compile(r"\s+")
WORD_END = re.compile(r"[^\w\s](?=\w)")
JOINERS = "\u200c\u200d\ufe0f"  # belong to the character before them

REACH = 200  # characters on both sides of the middle where a place to divide is sought first
LONGEST_MATCH = 100  # characters of white space or marks at which a match can begin before its end

LONGEST_TOKEN = 50  # upper bound of the characters of a token, far above any vocabulary's longest
BYTE_TOKENS = 2  # maximum tokens of a byte: one, and one for the beginning of a word


def is_surely_within(text: str, limit: int) -> bool:
    """Whether a text has at most `limit` tokens with any vocabulary, which is true for most sentences: decides without
    encoding."""
    if len(text) * BYTE_TOKENS > limit:
        return False
    written = unicodedata.normalize("NFC", text).encode("utf-8", "surrogatepass")
    return len(written) * BYTE_TOKENS <= limit


def is_surely_beyond(text: str, limit: int) -> bool:
    """Whether a text has more than `limit` tokens by its length alone: decides without encoding."""
    return len(text) > LONGEST_TOKEN * limit


def divide(text: str, span: Span, fits: Callable[[Span], bool], kept: Sequence[Span] = ()) -> list[Span]:
    """The spans of parts of a sentence that fit, each about half of a longer one, without white space around.

    span: the sentence in the text. kept: spans that are never divided, of terms; a part that cannot be divided may be
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
    half, whole = (start + quarter, end - quarter), (start + 1, end - 1)
    for places, within in (
        (partial(ends_of, CLAUSE_END, text, span), half),
        (partial(ends_of, SPACE, text, span), half),
        (
            lambda near: (i for i in range(near[0], near[1] + 1) if start < i < end and is_between_unspaced(text, i)),
            half,
        ),
        (partial(ends_of, SPACE, text, span), whole),
        (partial(ends_of, WORD_END, text, span), whole),
        (lambda near: (i for i in range(near[0], near[1] + 1) if begins_character(text, i)), whole),
    ):
        place = nearest(places, within, (start + end) // 2, kept)
        if place is not None:
            return place
    return None


def nearest(places: Callable[[Span], Iterable[int]], within: Span, middle: int, kept: Sequence[Span]) -> int | None:
    """The place nearest to the middle outside all kept spans; None if there is none.

    The search widens step by step around the middle, so that texts of any length are divided in linear time.
    """
    reach = REACH
    while within[0] <= within[1]:
        near = max(within[0], middle - reach), min(within[1], middle + reach)
        allowed = [i for i in places(near) if not is_inside(i, kept)]
        if allowed:
            return min(allowed, key=lambda i: abs(i - middle))
        if near == within:
            break
        reach *= 4
    return None


def is_inside(place: int, spans: Sequence[Span]) -> bool:
    """Whether a place is inside one of the spans, which are in the order of the text and do not overlap."""
    i = bisect_right(spans, place, key=itemgetter(1))
    return i < len(spans) and spans[i][0] < place


def ends_of(pattern: "re.Pattern[str]", text: str, span: Span, within: Span) -> Iterator[int]:
    """The ends of a pattern's matches inside a span, between two offsets."""
    for match in pattern.finditer(text, max(span[0], within[0] - LONGEST_MATCH), span[1]):
        if match.end() > within[1]:
            return
        if match.start() > span[0] and within[0] <= match.end() < span[1]:
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
    """The fewest spans of neighbouring sentences that fit, from the first on; a sentence that does not fit stays
    alone."""
    groups: list[Span] = []
    for start, end in spans:
        if groups and fits((groups[-1][0], end)):
            groups[-1] = (groups[-1][0], end)
        else:
            groups.append((start, end))
    return groups
