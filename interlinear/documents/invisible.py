"""Characters that are not displayed, such as soft hyphens: they are not translated, and stay in words that stay."""

import re
from collections.abc import Mapping

# Soft hyphen, zero-width space, marks of direction, word joiner, byte order mark. The zero-width joiner and non-joiner
# are spelling in Persian and in scripts of India, and hold emoji together.
INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u2060\ufeff]+")
WORD = re.compile(r"[\w\u00ad\u200b\u200e\u200f\u2060\ufeff]+")


def without_invisible(text: str) -> str:
    """The text without them."""
    return text if text.isascii() else INVISIBLE.sub("", text)


def invisible_forms(text: str) -> dict[str, str]:
    """The words of a text that have such characters, by the word without them."""
    if text.isascii() or not INVISIBLE.search(text):
        return {}
    written = {without_invisible(word): word for word in WORD.findall(text)}
    return {word: form for word, form in written.items() if word and word != form}


def with_invisible(text: str, forms: Mapping[str, str]) -> str:
    """A text whose words have these forms, where they have one."""
    return re.sub(r"\w+", lambda word: forms.get(word.group(), word.group()), text) if forms else text
