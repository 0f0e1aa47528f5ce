"""Divides text with tags among cues of subtitles, and into lines, at spaces."""

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

from documents.text_formats.messages import NAME, TAG

LINE_LENGTH = 42  # characters, the customary limit of subtitles for television and streaming
TOKEN = re.compile(rf"({TAG})|(\s+)|([^\s<{{]+|.)", re.DOTALL)


def divide(text: str, lengths: Sequence[int]) -> list[str]:
    """The text in as many parts as there are lengths, each with about its share of the characters and, where there
    are enough words, with one at least. Tags that are open at the end of a part are closed there and opened again."""
    words = split_words(text)
    ends = list(accumulate(visible_length(word) + 1 for word in words))
    middles = [(start + end) / 2 for start, end in pairwise([0, *ends])]
    parts: list[str] = []
    used = 0
    for n, share in enumerate(accumulate(lengths), start=1):
        left = len(lengths) - n  # parts after this one, which need a word each
        boundary = sum(middle <= ends[-1] * share / sum(lengths) for middle in middles) if left else len(words)
        end = min(max(boundary, used + 1), max(len(words) - left, used + 1), len(words))
        parts.append(" ".join(words[used:end]))
        used = end
    return reopen_tags(parts)


def wrap(text: str) -> str:
    """The text in as few lines of at most LINE_LENGTH characters as it needs, of about the same length."""
    words = split_words(text)
    count = -(-visible_length(text) // LINE_LENGTH)
    if count < 2:
        return text
    aim = visible_length(text) / count
    lines: list[str] = []
    for word in words:
        candidate = f"{lines[-1]} {word}" if lines else word
        length = visible_length(candidate)
        fits = length <= LINE_LENGTH and (length - visible_length(word) / 2 <= aim or len(lines) >= count)
        if lines and fits:
            lines[-1] = candidate
        else:
            lines.append(word)
    return "\n".join(lines)


def split_words(text: str) -> list[str]:
    """The words of a text, with the tags beside them; a space in a tag separates none."""
    words = [""]
    for match in TOKEN.finditer(text):
        if match[2]:
            words.append("")
        else:
            words[-1] += match.group()
    return [word for word in words if word]


def visible_length(text: str) -> int:
    """Characters without tags."""
    return len(re.sub(TAG, "", text))


def reopen_tags(parts: Sequence[str]) -> list[str]:
    """The parts of a text, each with its tags in balance."""
    closed = {tag_name(tag) for part in parts for tag in re.findall(TAG, part) if tag.startswith("</")}
    open_tags: list[str] = []
    balanced = []
    for part in parts:
        before = "".join(open_tags)
        for tag in re.findall(TAG, part):
            if not tag.startswith("</"):
                open_tags += [tag] if tag_name(tag) in closed else []
            elif open_tags and tag_name(open_tags[-1]) == tag_name(tag):
                open_tags.pop()
        after = "".join(f"</{tag_name(tag)}>" for tag in reversed(open_tags))
        balanced.append(before + part + after if part else "")
    return balanced


def tag_name(tag: str) -> str:
    """The name of a start or end tag; "" for the codes of subtitles."""
    name = NAME.match(tag)
    return name[1] if name else ""
