"""ICU MessageFormat: finds the branches of plural, select, selectordinal and choice in a message.

Syntax: https://unicode-org.github.io/icu/userguide/format_parse/messages/; also as Angular and FormatJS write it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from interlinear.generation.terms.placeholders import PLACEHOLDER

COMPLEX = re.compile(r"\{\s*[\w.-]{1,100}\s*,\s*(plural|select|selectordinal|choice)\s*,")
SELECTOR = re.compile(r"\s*(?:=\d{1,10}|[\w-]{1,100})\s*\{")
OFFSET = re.compile(r"\s*offset\s*:\s*\d{1,10}")
END = re.compile(r"\s*\}")
LIMIT = re.compile(r"\s*-?(?:[\d.]{1,20}|∞)\s*[#<≤]")  # of a choice, which java.text.ChoiceFormat has
TOKEN = re.compile(r"[{}'|]")
SIMPLE = re.compile(PLACEHOLDER)
MAX_DEPTH = 20  # of arguments inside each other; programs have two or three


class IcuError(ValueError):
    """A message that looks like an ICU message has invalid syntax; says why."""


@dataclass(frozen=True)
class Branch:
    """The text [start, end) of a branch, and the arguments with branches in it."""

    start: int
    end: int
    arguments: Sequence["Argument"]


@dataclass(frozen=True)
class Argument:
    """An argument with branches at [start, end), its braces included. `is_plural`: `#` stands for its number."""

    start: int
    end: int
    is_plural: bool
    branches: Sequence[Branch]


def parse_arguments(text: str) -> list[Argument]:
    """The arguments with branches of a message, in order. Raises IcuError."""
    arguments, end = read_text(text, 0, 0)
    if end < len(text):
        raise IcuError("a brace is closed that was not opened")
    return arguments


def read_text(text: str, position: int, depth: int, of_choice: bool = False) -> tuple[list[Argument], int]:
    """The arguments up to the brace that closes the surrounding text, or the end, and its position. A branch of a
    choice also ends before a bar."""
    arguments: list[Argument] = []
    while token := TOKEN.search(text, position):
        position = token.start()
        if token.group() == "}" or (of_choice and token.group() == "|"):
            return arguments, position
        if token.group() == "|":
            position += 1
        elif token.group() == "'":
            position = after_quote(text, position)
        elif COMPLEX.match(text, position):
            arguments.append(read_argument(text, position, depth + 1))
            position = arguments[-1].end
        elif simple := SIMPLE.match(text, position):
            position = simple.end()
        else:
            raise IcuError("a brace has no argument")
    return arguments, len(text)


def after_quote(text: str, position: int) -> int:
    """The position after an apostrophe, or after the text that it quotes."""
    if text[position + 1 : position + 2] not in ("{", "}"):
        return position + 1 + text.startswith("''", position)
    end = text.find("'", position + 2)
    return len(text) if end < 0 else end + 1


def read_argument(text: str, start: int, depth: int) -> Argument:
    """The argument that begins here."""
    head = COMPLEX.match(text, start)
    assert head is not None
    if depth > MAX_DEPTH:
        raise IcuError("arguments are nested too deeply")
    if head[1] == "choice":
        return read_choice(text, start, head.end(), depth)
    offset = OFFSET.match(text, head.end())
    position = offset.end() if offset else head.end()
    branches: list[Branch] = []
    while selector := SELECTOR.match(text, position):
        arguments, end = read_text(text, selector.end(), depth)
        if end == len(text):
            raise IcuError("a brace is not closed")
        branches.append(Branch(selector.end(), end, arguments))
        position = end + 1
    end_of_argument = END.match(text, position)
    if not branches or end_of_argument is None:
        raise IcuError("an argument is not closed" if branches else "an argument has no branches")
    return Argument(start, end_of_argument.end(), head[1] != "select", branches)


def read_choice(text: str, start: int, position: int, depth: int) -> Argument:
    """The choice whose branches begin at a position: each has a limit."""
    branches: list[Branch] = []
    while limit := LIMIT.match(text, position):
        arguments, end = read_text(text, limit.end(), depth, of_choice=True)
        branches.append(Branch(limit.end(), end, arguments))
        if text[end : end + 1] == "}":
            return Argument(start, end + 1, False, branches)
        position = end + 1
    raise IcuError("a choice has no limit, or is not closed")
