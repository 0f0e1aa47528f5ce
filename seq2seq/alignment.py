"""Word alignments as sets of links, and the gold that people made."""

import re
from dataclasses import dataclass

from seq2seq.errors import DataError

Link = tuple[int, int]  # a source word and a target word, from 0


@dataclass(frozen=True)
class Gold:
    """Links that people made: `sure` ones, and further `possible` ones, which a model may have or not."""

    sure: frozenset[Link]
    possible: frozenset[Link] = frozenset()


def read_gold(line: str, where: str, source: int, target: int) -> Gold:
    """A line of links, `0-1` sure and `0?1` possible, over so many words. Raises DataError, beginning with `where`."""
    sure: set[Link] = set()
    possible: set[Link] = set()
    for entry in line.split():
        match = re.fullmatch(r"(\d+)([-?])(\d+)", entry, re.ASCII)
        if match is None:
            raise DataError(where, f"'{entry}' is no link", "links are written 0-1 (sure) or 0?1 (possible)")
        link = int(match[1]), int(match[3])
        if link[0] >= source or link[1] >= target:
            raise DataError(
                where,
                f"'{entry}' points outside the pair, which has {source} and {target} words",
                "words are counted from 0",
            )
        (sure if match[2] == "-" else possible).add(link)
    return Gold(frozenset(sure), frozenset(possible - sure))
