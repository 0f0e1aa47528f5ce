"""The bounds of a placeholder in a message, with the characters around it that have no meaning without it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from interlinear.documents.messages.icu import Argument
from interlinear.documents.protection import is_combining
from interlinear.generation.terms.placeholders import LETTER

AROUND = {
    "(": ")",
    "<": ">",
    "[": "]",
    '"': '"',
    "'": "'",
    "„": "“",
    "“": "”",
    "«": "»",
    "»": "«",
    "‚": "‘",
    "‘": "’",
    "「": "」",
}
JOINED = re.compile(r"[^\s\w]{0,3}|[A-Za-z]|\s?[,/–-]\s")  # joins placeholders to one: "%dx%d", "%s, %s"
# Of a placeholder: "%ds", "{n}px", "{n}GB", "{x}'s"; not "{br}Neu", "{x}und".
UNIT = re.compile(rf"(?:{LETTER}{{1,2}}|min|rem|dpi|rpm|sec|mph|kWh|[KMG]iB|fps|kcal)(?![\w'’])|%(?!\w)|['’]s(?!\w)")
PREFIX = re.compile(r"(?<![^\s(\[„“«\"])[A-Za-z#$€£~+-]{1,2}\Z")  # "v{version}"


@dataclass(frozen=True)
class Piece:
    """A part [start, end) of a message that is not text: its kind, and the argument of an ICU message."""

    start: int
    end: int
    kind: str
    argument: Argument | None = None


def widened(text: str, pieces: Sequence[Piece], start: int, end: int) -> list[Piece]:
    """The pieces, with placeholders widened by the characters that have no meaning without them: brackets and quotes
    around them, a unit, the comma between two, and characters that join several."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        is_pair = last is not None and last.kind == piece.kind == "placeholder"
        if last and is_pair and JOINED.fullmatch(text, last.end, piece.start):
            joined[-1] = replace(last, end=piece.end)
        else:
            joined.append(piece)
    stops = [*(piece.start for piece in joined[1:]), end]
    done = start
    result: list[Piece] = []
    for piece, stop in zip(joined, stops, strict=False):
        if piece.kind == "placeholder":
            begin, stop = widen(text, piece.start, piece.end, done, stop)
            piece = replace(piece, start=begin, end=stop)
        result.append(piece)
        done = piece.end
    return result


def widen(text: str, start: int, end: int, least: int, most: int) -> tuple[int, int]:
    """The bounds of a placeholder with the characters that belong to it, within [least, most)."""
    glued = start > least and (
        text[start - 1].isalpha() or is_combining(text[start - 1])
    )  # the letters after it are then no unit: "Hund{x}da"
    unit = None if glued else UNIT.match(text, end, most)
    if unit and not is_combining(text[unit.end() : unit.end() + 1]):
        end = unit.end()
    if prefix := PREFIX.search(text, max(least, start - 2), start):
        start = prefix.start()
    while start > least and end < most and AROUND.get(text[start - 1]) == text[end]:
        start, end = start - 1, end + 1
    if start - 2 >= least and text[start - 2 : start] == ", " and text[end : min(end + 1, most)] == ",":
        start -= 2
    return start, end
