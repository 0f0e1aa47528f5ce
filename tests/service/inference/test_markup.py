"""`format: html`: character references are decoded and encoded; tags are refused."""

import asyncio
import html
import threading
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from service.app import create_app
from service.inference.detection import LanguageGuess
from service.inference.markup import escape_html, unescape_html
from service.problems import Problem
from tests.service.engine.test_engine import until
from tests.service.http.test_streaming import EVENTS, read

ASK = {"source": "de", "target": "en", "format": "html"}


@pytest.mark.parametrize(
    ("given_html", "plain"),
    [
        ("Ein Hund l&auml;uft.", "Ein Hund läuft."),
        ("Ein Hund l&#228;uft.", "Ein Hund läuft."),
        ("Ein Hund l&#xE4;uft.", "Ein Hund läuft."),
        ("Ein&nbsp;Hund l&aumluft.", "Ein\u00a0Hund läuft."),  # a browser decodes this one too
        ("Ein Hund läuft &amp; spielt.", "Ein Hund läuft & spielt."),
        ("Ein Hund &lt;b&gt; läuft.", "Ein Hund <b> läuft."),
        ("Ein Hund läuft. 1 < 2 & 3 > 2", "Ein Hund läuft. 1 < 2 & 3 > 2"),
        ("Ein Hund &quot;läuft&#39;.", "Ein Hund \"läuft'."),
        ("Ein Hund l&#" + "0" * 4400 + "228;uft.", "Ein Hund läuft."),  # more digits than Python converts to a number
        ("Ein Hund läuft. &#" + "9" * 4400 + ";", "Ein Hund läuft. \ufffd"),
    ],
)
def test_html_without_tags_is_answered_like_its_text(client, given_html, plain):
    request = {**ASK, "alternatives": 1, "explain": True}
    of_text = client.post("/translate", json={**request, "q": plain, "format": "text"}).json()
    of_html = client.post("/translate", json={**request, "q": given_html}).json()
    assert of_html["translatedText"] == html.escape(of_text["translatedText"], quote=False)
    assert of_html["alternatives"] == [html.escape(text, quote=False) for text in of_text["alternatives"]]
    assert of_html["explanations"] == of_text["explanations"]  # the text after decoding
    assert html.unescape(of_html["translatedText"]) == of_text["translatedText"]


def test_unchanged_text_is_escaped_too(client):
    answer = client.post("/translate", json={**ASK, "q": ["Ein Hund läuft.", "&nbsp;", "", " &#x9; "]})
    assert answer.json()["translatedText"] == ["A dog is running.", "\u00a0", "", " \t "]
    for blank in ("&nbsp;", ["&#32;", ""]):
        refused = client.post("/translate", json={**ASK, "q": blank})
        assert (refused.status_code, refused.json()["detail"]) == (400, "q must not be blank")


def test_streamed_text_is_escaped_too(client):
    request = {**ASK, "q": "Ein Hund läuft &lt;b&gt; im Park. Eine Katze schläft &amp; spielt."}
    plain = client.post("/translate", json=request).json()
    *prefixes, (_, data) = read(client.post("/translate", json=request, headers=EVENTS).text)
    assert data == plain and prefixes
    for _, prefix in prefixes:
        assert data["translatedText"].startswith(prefix["text"])
    texts = [html.unescape(prefix["text"]) for _, prefix in prefixes] + [html.unescape(data["translatedText"])]
    assert [escape_html(text) for text in texts[:-1]] == [prefix["text"] for _, prefix in prefixes]


@pytest.mark.parametrize(
    "tagged",
    ["<p>Ein Hund.</p>", "Ein <Hund", "Ein Hund.</p>", "a<!-- b -->", "<?xml?>", "<!DOCTYPE html>", "</3 Hund"],
)
@pytest.mark.parametrize("many", [False, True])
def test_tags_are_refused_with_their_field(client, tagged, many):
    answer = client.post("/translate", json={**ASK, "q": ["Ein Hund läuft.", tagged] if many else tagged})
    field = "q[1]" if many else "q"
    assert answer.status_code == 400
    assert [problem["field"] for problem in answer.json()["errors"]] == [field]
    assert answer.json()["detail"].startswith(f"{field} has markup")


def test_the_text_of_an_image_may_be_html(client):
    request = {"source": "en", "target": "de"}
    of_text = client.post("/translate/multimodal", json={**request, "q": "The ball."}).json()
    of_html = client.post("/translate/multimodal", json={**request, "q": "The&#32;ball.", "format": "html"}).json()
    assert of_html == of_text
    refused = client.post("/translate/multimodal", json={**request, "q": "<b>The ball.", "format": "html"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "q")


def test_html_is_decoded_off_the_event_loop_and_lines_are_counted_before_detection(settings):
    """While both threads are busy a long text waits; then references that decode to line ends are too many lines."""
    app = create_app(settings)
    with TestClient(app) as client:
        preparation, goes_on = app.state.service.engine.preparation, threading.Event()
        detected: list[str] = []
        guesses = app.state.service.detector.guesses

        def listen(text: str) -> list[LanguageGuess]:
            detected.append(text)
            return guesses(text)

        with ThreadPoolExecutor(2) as callers, pytest.MonkeyPatch.context() as patch:
            patch.setattr(app.state.service.detector, "guesses", listen)
            held = callers.submit(
                lambda: asyncio.run(preparation.map("me", lambda _: goes_on.wait(), [1] * 4, lambda _: 10**6))
            )
            until(lambda: preparation.waiting == 2)
            many = ASK | {"source": "auto", "q": ["a&#10;" * 800] * 100}
            asking = callers.submit(client.post, "/translate", json=many)
            until(lambda: preparation.waiting > 2)
            assert not asking.done()
            goes_on.set()
            assert held.result() == [True] * 4
            refused = asking.result()
        assert (refused.status_code, "more than 1000 sentences" in refused.json()["detail"]) == (400, True)
        assert not detected


@given(st.text())
def test_escaped_text_decodes_to_the_original(text):
    written = escape_html(text)
    assert unescape_html(written, "q") == text
    assert "<" not in written and ">" not in written


@given(st.text(alphabet="&#;0189x\n", max_size=40) | st.from_regex(r"a&#0{0,9}[0-9]{6,9};?1?", fullmatch=True))
def test_references_are_decoded_as_html_specifies(text):
    assert unescape_html(text, "q") == html.unescape(text)


@given(st.text(alphabet="<>&;/!?# ltgamp39xa\n"))
def test_decoded_text_has_no_tag(text):
    try:
        plain = unescape_html(text, "q")
    except Problem as problem:
        assert problem.fields[0].field == "q"
        return
    parser = Tags()
    parser.feed(text)
    parser.close()
    assert parser.seen == []
    assert plain == html.unescape(text)


class Tags(HTMLParser):
    """Everything except text that Python's own parser finds."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    handle_endtag = handle_comment = handle_decl = handle_pi = unknown_decl = lambda self, found: self.seen.append(
        found
    )
