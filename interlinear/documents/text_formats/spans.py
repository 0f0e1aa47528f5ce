"""Parts of a text in place of others."""

from collections.abc import Iterable


def replace_spans(text: str, spans: Iterable[tuple[int, int]], written: Iterable[str]) -> str:
    """The text with a replacement for the characters [start, end) of each span; spans are in order."""
    parts: list[str] = []
    done = 0
    for (start, end), part in zip(spans, written, strict=True):
        parts += [text[done:start], part]
        done = end
    return "".join(parts) + text[done:]
