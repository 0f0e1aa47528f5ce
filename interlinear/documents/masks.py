"""Masks parts of a source that its parser must not read, such as instructions of PHP, by private-use characters."""

import re

FIRST, LAST = 0xF0000, 0x10FFFD
RUN = re.compile(r"([\U000F0000-\U0010FFFD])\1*")


class Masks:
    """Parts of a source by the character that masks them.

    A mask is as long as its part, so that offsets in the source stay, and repeats one character, which no script has.
    """

    def __init__(self) -> None:
        self._characters: dict[str, str] = {}
        self._parts: dict[str, str] = {}  # by character

    def mask(self, part: str) -> str:
        """The mask of a part; the part itself where too many are masked."""
        if part not in self._characters:
            if FIRST + len(self._parts) > LAST:
                return part
            character = chr(FIRST + len(self._parts))
            self._characters[part], self._parts[character] = character, part
        return self._characters[part] * len(part)

    def unmask(self, text: str) -> str:
        """The text with the parts in place of their masks."""
        if not self._parts or text.isascii():
            return text
        return RUN.sub(self._unmasked, text)

    def _unmasked(self, run: "re.Match[str]") -> str:
        part = self._parts.get(run[1], run[1])
        times, rest = divmod(len(run.group()), len(part))
        return run.group() if rest else part * times
