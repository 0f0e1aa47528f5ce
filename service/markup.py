"""Texts in HTML (`format: html`): character references are read, and written again; tags are refused."""

import html
import re

from service.problems import Problem, shown
from service.requests import TextsRequest

# What begins a tag, a comment or a declaration (HTML, 13.2.5.6, the tag open state); any other `<` is text.
MARKUP = re.compile(r"<[A-Za-z/!?][^\s>]*>?")


def read_html(text: str, place: str) -> str:
    """The text that HTML without tags stands for. Raises Problem, which names `place`, for one with tags."""
    if found := MARKUP.search(text):
        raise Problem.in_field(
            place,
            f"has markup, {shown(found[0])}, which is not translated: send its text, where &lt; and &amp; may stand",
        )
    return html.unescape(text)


def escaped(text: str) -> str:
    """A text as HTML: the three characters that cannot stand there are written as references."""
    return html.escape(text, quote=False)


def texts_of(request: TextsRequest) -> list[str]:
    """The texts of a request, as the model is to read them. Raises Problem."""
    if not request.html:
        return request.texts
    places = [f"{request.field}[{i}]" if request.many else request.field for i in range(len(request.texts))]
    texts = [read_html(text, place) for text, place in zip(request.texts, places, strict=True)]
    if not any(text.strip() for text in texts):
        raise Problem.in_field(request.field, "must not be blank")
    return texts
