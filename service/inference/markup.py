"""HTML texts (`format: html`): character references are decoded and encoded again; tags are rejected."""

import html
import re

from service.problems import Problem, excerpt

# Start of a tag, comment or declaration (HTML, 13.2.5.6, the tag open state); any other `<` is text.
MARKUP = re.compile(r"<[A-Za-z/!?][^\s>]*>?")
LONG_REFERENCE = re.compile(r"&#([0-9]{8,});?")  # html.unescape raises ValueError for numbers of thousands of digits
MAX_DIGITS = 7  # of a character's number, without leading zeros
INLINE_HTML_CHARACTERS = 1000  # characters decoded in less time than it takes to wake a thread


def unescape_html(text: str, field: str) -> str:
    """The text of HTML without tags. Raises Problem, which names the field, if it has tags."""
    if markup := MARKUP.search(text):
        raise Problem.in_field(
            field,
            f"has markup, {excerpt(markup[0])}, which is not translated: send its text, where &lt; and &amp; may stand",
        )
    return html.unescape(LONG_REFERENCE.sub(_shorten_reference, text))


def _shorten_reference(reference: "re.Match[str]") -> str:
    """The reference without leading zeros, or U+FFFD if its number is not that of a character (HTML, 13.2.5.80)."""
    digits = reference[1].lstrip("0") or "0"
    return f"&#{digits};" if len(digits) <= MAX_DIGITS else "\ufffd"


def escape_html(text: str) -> str:
    """A text as HTML: &, < and > become character references."""
    return html.escape(text, quote=False)
