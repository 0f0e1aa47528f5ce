"""Makes the edges of an output like its source's: marks at the beginning and end, and the case of the first letter.

For `preserve_formatting` (DeepL's parameter), and for parts of a divided sentence, which a model writes as sentences.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from interlinear.text.tokenizer import Tokenizer
from interlinear.text.words import Span

# A mark and its equivalents in other scripts.
SAME_MARKS = {".": "。", "!": "！", "?": "？؟", ",": "，、،", ";": "；؛", ":": "：", "…": ""}
PLAIN = {form: mark for mark, forms in SAME_MARKS.items() for form in forms}
WRITTEN = {  # languages with their own form
    "zh": {".": "。", "!": "！", "?": "？", ",": "，", ";": "；", ":": "："},
    "ja": {".": "。", "!": "！", "?": "？", ",": "、", ";": "；", ":": "："},
    "ar": {"?": "؟", ",": "،", ";": "؛"},
    "fa": {"?": "؟", ",": "،", ";": "؛"},
}
MARKS = "".join(SAME_MARKS) + "".join(PLAIN)
BEGIN_MARKS = re.compile(r"(?:[-–—*•·]\s+|…\s*|\.\.\.\s*)?")
OPENING = re.compile(r"[\"'“”„«»‘’(\[{¿¡]*")
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class FormattedText:
    """An output of which the characters [start, end) are kept; in `text` they begin at `offset`."""

    text: str
    start: int
    end: int
    offset: int


@dataclass(frozen=True)
class Edges:
    """The edges that an output copies from its source."""

    begin: bool = True
    end: bool = True

    def certain(self, output: str) -> str:
        """The beginning of an output that will not change with more text: without marks at its end, and nothing until
        its first word is complete."""
        if self.end:
            output = output[: split_end(output)[0]]
        if not self.begin:
            return output
        content = output[found(BEGIN_MARKS.match(output)).end() :]
        content = content[found(OPENING.match(content)).end() :]
        word = WORD.match(content)
        return output if word is not None and word.end() < len(content) else ""

    def apply(
        self,
        source: str,
        output: str,
        is_small: Callable[[str], bool],
        language: str | None,
        kept: Sequence[Span] = (),
    ) -> FormattedText:
        """The output with these edges. A letter becomes small only if the word usually is.

        is_small: whether a word of the output's language usually is (`is_usually_small`). kept: spans of the output
        that do not change, of terms.
        """
        start, end, prefix, suffix = 0, len(output), "", ""
        if self.begin:
            start, prefix = begin_of(source, output)
        if self.end:
            end, suffix = end_of(source, output, language)
        if any(a < start for a, _ in kept):
            start, prefix = 0, ""
        if any(b > end for _, b in kept):
            end, suffix = len(output), ""
        if start >= end:
            return FormattedText(output, 0, len(output), 0)
        content = output[start:end]
        if self.begin:
            place = start + found(OPENING.match(content)).end()
            if place < end and not any(a <= place < b for a, b in kept):
                letter = first_letter(source, output[place:end], is_small)
                content = content[: place - start] + letter + output[place + 1 : end]
        return FormattedText(prefix + content + suffix, start, end, len(prefix))


def found(match: re.Match[str] | None) -> re.Match[str]:
    """The match of a pattern that matches every text, also with an empty match."""
    assert match is not None
    return match


def edges_of_parts(count: int, ends_too: bool = False) -> list[Edges]:
    """For each part of a divided sentence the edges inside the sentence; `ends_too`: and the edges of the sentence
    itself."""
    return [Edges(begin=i > 0 or ends_too, end=i + 1 < count or ends_too) for i in range(count)]


def begin_of(source: str, output: str) -> tuple[int, str]:
    """The number of characters to replace at the output's beginning, and their replacement: the source's dash, bullet
    or dots, or none."""
    wanted, present = found(BEGIN_MARKS.match(source)), found(BEGIN_MARKS.match(output))
    if wanted[0].strip() == present[0].strip():
        return 0, ""
    return present.end(), wanted[0]


def end_of(source: str, output: str, language: str | None) -> tuple[int, str]:
    """The character from which the output's end is replaced, and the replacement: the marks at the source's end, in the
    language's form."""
    (_, wanted), (start, present) = split_end(source), split_end(output)
    if wanted == present:
        return len(output), ""
    forms = WRITTEN.get((language or "").lower().split("-")[0], {})
    return start, "".join(forms.get(mark, mark) for mark in wanted)


def split_end(text: str) -> tuple[int, str]:
    """The position of the marks at the end of a text, with the space before them, and the marks in their plain
    forms."""
    content = text.rstrip(MARKS)
    return len(content.rstrip()), "".join(PLAIN.get(mark, mark) for mark in text[len(content) :])


def first_letter(source: str, output: str, is_small: Callable[[str], bool]) -> str:
    """The first character of an output, in the case that the source's first letter has."""
    bare = source[found(BEGIN_MARKS.match(source)).end() :]
    wanted = bare[found(OPENING.match(bare)).end() :][:1]
    letter = output[0]
    if wanted.isupper() and letter.islower():
        return letter.upper() if len(letter.upper()) == 1 else letter
    if wanted.islower() and letter.isupper() and len(letter.lower()) == 1:
        word = WORD.match(output)
        if word and is_small(word[0]):
            return letter.lower()
    return letter


def is_usually_small(word: str, tokenizer: Tokenizer, language: str | None) -> bool:
    """Whether a word is written with a small letter inside a sentence, as far as its language's vocabulary knows.

    Vocabularies are sorted by frequency: for a German noun, or a name, the capitalised form comes first, or is the only
    one.
    """
    if word[1:] != word[1:].lower() or (word == "I" and (language or "en").lower().split("-")[0] == "en"):
        return False
    begin = "▁" if tokenizer.config.subwords else ""
    small, capital = (tokenizer.piece_ids.get(begin + form) for form in (word.lower(), word))
    return small is not None and (len(word) == 1 or capital is None or small < capital)
