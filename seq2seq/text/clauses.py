"""Division of sentences that are longer than a model reads: at the ends of clauses, else at spaces."""

import re
from collections.abc import Callable, Iterator

CLAUSE_END = re.compile(r"[,;:–—)»”、，；：]\s*")
SPACE = re.compile(r"\s+")


def divide(text: str, start: int, end: int, fits: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """The spans of parts of text[start:end] that fit, each about half of a longer one, without white space around."""
    pending = [(start, end)]
    while pending:
        start, end = pending.pop()
        part = text[start:end]
        cut = None if fits(part) else place_to_divide(part)
        if cut is None:
            yield start, end
            continue
        after = cut + len(part[cut:]) - len(part[cut:].lstrip())
        before = len(part[:cut].rstrip())
        pending += [(start + after, end), (start, start + before)]


def place_to_divide(text: str) -> int | None:
    """The offset nearest to the middle after which a part may begin; None if there is none."""
    for pattern, begin, end in ((CLAUSE_END, len(text) // 4, 3 * len(text) // 4), (SPACE, 0, len(text))):
        places = [match.end() for match in pattern.finditer(text) if begin < match.end() < end and match.start() > 0]
        if places:
            return min(places, key=lambda place: abs(place - len(text) // 2))
    return None
