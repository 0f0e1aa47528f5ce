"""Plurals that a bar divides: `one apple | {n} apples` (Vue I18n), `{0} None|[1,19] Some|[20,*] Many` (Laravel and
Symfony), `car |||| cars` (Polyglot). A bar in prose (`Home | My shop`) does not divide a plural."""

import re
from collections.abc import Sequence
from itertools import pairwise

from interlinear.documents.messages.icu import Argument, Branch

BAR = re.compile(r"\{[^{}]*\}|(?P<bar>\|{4}|(?<!\|)\|(?!\|))")  # not in braces
BOUND = r"[+-]?(?:\d{1,10}|[Ii]nf)|\*"
RANGE = re.compile(rf"\s*(?:\{{\d{{1,10}}\}}|[\[\]](?:{BOUND})\s?,\s?(?:{BOUND})[\[\]])")
COUNT = re.compile(r"\{\{?\s?(?:n|count|num|number|total|amount)\s?\}|:count\b|%\{?(?:count|smart_count)\b|%count%|%d")
MAX_LENGTH = 2000  # characters
MAX_FORMS = 6
MAX_WORDS, STEM = 3, 3  # of forms without number: words, and letters that they begin with


def plural_forms(text: str) -> list[Argument]:
    """The forms of a plural as branches of an argument that spans the whole text; empty if the text is not a plural."""
    if "|" not in text or len(text) > MAX_LENGTH:
        return []
    bars = [bar.span() for bar in BAR.finditer(text) if bar["bar"]]
    edges = [(0, 0), *bars, (len(text), len(text))]
    spans = [(before[1], after[0]) for before, after in pairwise(edges)]
    forms = [text[start:end] for start, end in spans]
    if not 2 <= len(forms) <= MAX_FORMS or not is_plural(text, forms):
        return []
    ranges = [RANGE.match(text, start, end) for start, end in spans]
    branches = [
        Branch(found.end() if found else start, end, ()) for found, (start, end) in zip(ranges, spans, strict=True)
    ]
    return [Argument(0, len(text), False, branches)]


def is_plural(text: str, forms: Sequence[str]) -> bool:
    """Whether forms name their numbers, one of them contains the number, or they are forms of one word."""
    if RANGE.match(forms[0]) or "||||" in text:
        return True
    words = [form.split() for form in forms]
    if not all(words):
        return False
    if COUNT.search(forms[-1]):
        return True
    is_short = max(map(len, words)) <= MAX_WORDS
    begins = {form[0][:STEM].casefold() for form in words}
    return is_short and len(begins) == 1 and all(len(begin) == STEM and begin.isalpha() for begin in begins)
