"""Texts in HTML (`format: html`): character references are read, and written again; tags are refused."""

import html
import re

from service.engine.admission import Reservation
from service.engine.preparation import PreparationPool
from service.http.requests import TextsRequest
from service.problems import Problem, excerpt

# What begins a tag, a comment or a declaration (HTML, 13.2.5.6, the tag open state); any other `<` is text.
MARKUP = re.compile(r"<[A-Za-z/!?][^\s>]*>?")
LONG_NUMBER = re.compile(r"&#([0-9]{8,});?")  # of a reference; Python makes no number of thousands of digits
MOST_DIGITS = 7  # of a number that can be a character's
SHORT = 1000  # characters that are read in less time than a thread takes to wake


def unescape_html(text: str, place: str) -> str:
    """The text that HTML without tags stands for. Raises Problem, which names `place`, for one with tags."""
    if found := MARKUP.search(text):
        raise Problem.in_field(
            place,
            f"has markup, {excerpt(found[0])}, which is not translated: send its text, where &lt; and &amp; may stand",
        )
    return html.unescape(LONG_NUMBER.sub(_shortened, text))


def _shortened(reference: "re.Match[str]") -> str:
    """The same reference without leading zeros; one that is no character's stands for U+FFFD (HTML, 13.2.5.80)."""
    digits = reference[1].lstrip("0") or "0"
    return f"&#{digits};" if len(digits) <= MOST_DIGITS else "\ufffd"


def escape_html(text: str) -> str:
    """A text as HTML: the three characters that cannot stand there are written as references."""
    return html.escape(text, quote=False)


async def read_texts(preparation: PreparationPool, reserved: Reservation, request: TextsRequest) -> list[str]:
    """The texts of a request, as the model is to read them. Raises Problem."""
    if not request.html:
        return request.texts
    places = [f"{request.text_field}[{i}]" if request.many else request.text_field for i in range(len(request.texts))]
    pairs = list(zip(request.texts, places, strict=True))
    texts = await preparation.map(reserved.caller, lambda pair: unescape_html(*pair), pairs, _characters_of, SHORT)
    if not any(text.strip() for text in texts):
        raise Problem.in_field(request.text_field, "must not be blank")
    return texts


def _characters_of(pair: tuple[str, str]) -> int:
    return len(pair[0])
