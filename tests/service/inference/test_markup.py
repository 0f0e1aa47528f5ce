"""`format: html` and `xml`: tags keep their places; character references are decoded, and written again."""

import asyncio
import html
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

import interlinear
from interlinear.documents import AlignedText, parse_html
from interlinear.generation.bundle_translator import BundleTranslator
from interlinear.generation.request import Request
from interlinear.search import SearchOptions
from interlinear.translation.detection import LanguageGuess
from interlinear.translation.split_input import SplitInput
from interlinear.translation.splitting import SplitOptions
from research.quality.markup import TagReader, expected_tags, fragments
from service.app import create_app
from service.inference import segmentation
from service.inference.markup import escape_html, read_source, unescape
from service.models import ServedModel
from tests.service.conftest import busy, until
from tests.service.http.test_streaming import EVENTS, read

UNTRANSLATED = "<p translate=no>Ein Hund läuft.</p><pre>\nEin  Hund</pre>"
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
    ("given_html", "expected"),
    [
        ("<p>Ein Hund läuft.</p>", "<p>A dog is running.</p>"),
        ("<p>Ein Hund läuft.</p>\n<p>Eine Frau sitzt.</p>", "<p>A dog is running.</p>\n<p>A woman is sitting.</p>"),
        ("Ein Hund läuft.<br />Eine Frau sitzt.", "A dog is running.<br />A woman is sitting."),
        ("<b>Ein Hund läuft.</b> <i>Eine Frau sitzt.</i>", "<b>A dog is running.</b> <i>A woman is sitting.</i>"),
        ("<ul><li>Ein Mann läuft.<li>Ein Kind.</ul>", "<ul><li>A man is running.</li><li>"),
        ("<img alt='Ein Hund läuft.' src=x>", '<img alt="A dog is running." src=x>'),
        ("<!-- x --><p>Ein <!-- Hund --></p", "<!-- x --><p>"),
        (UNTRANSLATED, UNTRANSLATED),
        ("<p>1 &lt; 2</p><td>&nbsp;", "<p>1 &lt; 2</p>\u00a0"),
    ],
)  # fmt: skip
def test_a_document_is_translated_in_its_markup(client, given_html, expected):
    answer = client.post("/translate", json={**ASK, "q": given_html})
    assert (answer.status_code, answer.json()["translatedText"].startswith(expected)) == (200, True), answer.json()


@pytest.mark.parametrize("tagged", ["Im Park läuft <b>ein Hund</b>.", "<a href=x>Im Park</a> <i>läuft</i> ein Kind."])
def test_inline_tags_stand_where_the_explanation_links_their_words(client, tagged):
    document = parse_html(tagged)
    plain = client.post("/translate", json={**ASK, "q": document.text, "explain": True}).json()
    source, target = (
        [(word["start"], word["end"]) for word in plain["explanations"][0][side]] for side in ("source", "target")
    )
    links = [(i, j) for i, j in plain["explanations"][0]["alignment"]]
    expected = document.render([AlignedText(plain["translatedText"], source, target, links)])
    assert client.post("/translate", json={**ASK, "q": tagged}).json()["translatedText"] == expected
    assert "<" in expected.removeprefix("<")


def test_tags_and_references_in_plain_text_are_read(client):
    plain = {**ASK, "format": "text"}
    tagged = client.post("/translate", json={**plain, "q": "Im Park l&auml;uft <b>ein Hund</b>."}).json()
    untagged = client.post("/translate", json={**plain, "q": "Im Park läuft ein Hund."}).json()
    written = tagged["translatedText"]
    assert written.count("<b>") == written.count("</b>") == 1 and "<b></b>" not in written and "&auml;" not in written
    assert written.replace("<b>", "").replace("</b>", "") == untagged["translatedText"]


def test_alternatives_are_documents_with_the_same_tags(client):
    request = {**ASK, "q": "<p>Im Park läuft <b>ein Hund</b>. <i>Eine Katze</i> schläft.</p>", "alternatives": 3}
    answer = client.post("/translate", json=request).json()
    assert len(answer["alternatives"]) == 3 and len(answer["scores"]) == 4
    assert len({answer["translatedText"], *answer["alternatives"]}) == 4
    for written in (answer["translatedText"], *answer["alternatives"]):
        tags = Tags()
        tags.feed(written)
        assert sorted(tags.seen) == ["b", "b", "i", "i", "p", "p"]


def test_random_documents_keep_their_tags(client):
    for html_text in fragments(12, seed=8):
        written = client.post("/translate", json={**ASK, "q": html_text}).json()["translatedText"]
        read = TagReader(written, is_xml=False)
        assert read.balanced and read.tags == expected_tags(html_text, is_xml=False), (html_text, written)


def test_xml_is_translated_too(client):
    request = {**ASK, "format": "xml", "q": ["<s>Ein Hund läuft.</s>", "Eine Frau &amp; sitzt", "<s>12</s>", ""]}
    written = client.post("/translate", json=request).json()["translatedText"]
    assert (written[0], written[2:]) == ("<s>A dog is running.</s>", ["<s>12</s>", ""])
    refused = client.post("/translate", json={**request, "q": ["Ein Hund.", "<s>Ein Hund."]})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "q[1]")
    assert refused.json()["detail"].startswith("q[1] is not well-formed XML")


def test_soft_hyphens_do_not_reach_the_model(client):
    """In plain text and in HTML; in a word that stays they come back."""
    for q, markup in (
        ("Ein Hu\u00adnd läuft.", "text"),
        ("Ein Hu&shy;nd läuft.", "html"),
        ("Ein <b>Hu&shy;nd</b> läuft.", "html"),
    ):
        text = client.post("/translate", json={**ASK, "q": q, "format": markup}).json()["translatedText"]
        assert text.replace("<b>", "").replace("</b>", "") == "A dog is running."


def test_only_sentences_with_tags_between_their_words_are_aligned(bundles):
    model = ServedModel("de-en", "1", (), BundleTranslator(interlinear.load(bundles.de_en), 4, 5))
    request = Request({"source": ""}, SearchOptions())
    document = parse_html("<p><b>Ein Hund läuft.</b> Eine <i>Frau</i> sitzt. <u>Da.</u></p><p>Ein Hund.</p>")
    split = SplitInput.of_markup(model, request, document, SplitOptions(lambda *_: True))
    assert [(each.request.texts["source"], each.request.explain) for each in split.searches] == [
        ("Ein Hund läuft.", False), ("Eine Frau sitzt.", True), ("Da.", False), ("Ein Hund.", False),
    ]  # fmt: skip


def test_explanations_are_of_texts_without_tags(client):
    refused = client.post("/translate", json={**ASK, "q": ["Ein Hund.", "<p>Ein Hund.</p>"], "explain": True})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "explain")


def test_the_language_of_the_displayed_text_is_detected(client):
    request = {"source": "auto", "target": "en", "format": "html"}
    q = "<p class='the dog is running in the park'>Ein Hund läuft auf der Straße.</p>"
    assert client.post("/translate", json={**request, "q": q}).json()["detectedLanguage"]["language"] == "de"


def test_a_document_is_streamed_once_it_is_complete(client):
    request = {**ASK, "q": ["<p>Ein Hund läuft.</p>", "Eine Frau sitzt."]}
    plain = client.post("/translate", json=request).json()
    *prefixes, (_, data) = read(client.post("/translate", json=request, headers=EVENTS).text)
    assert data == plain
    assert {prefix["index"] for _, prefix in prefixes} == {1}


def test_the_sentences_of_all_blocks_are_counted(client):
    refused = client.post("/translate", json={**ASK, "q": "<p>a" * 1100})
    assert (refused.status_code, "more than 1000 sentences" in refused.json()["detail"]) == (400, True)


def test_a_text_whose_unclosed_tags_are_opened_again_in_every_paragraph_is_refused(client):
    """In five thousand characters, 250,000 tags."""
    unclosed = "<p>" + "".join(f"<b a{n}>" for n in range(300)) + "<p>a" * 600
    refused = client.post("/translate", json={**ASK, "q": ["Ein Hund.", unclosed]})
    assert refused.status_code == 400, refused.text
    assert (refused.json()["errors"][0]["field"], "unclosed tags" in refused.json()["detail"]) == ("q[1]", True)


def test_many_tags_are_placed_off_the_event_loop(one_model):
    """Around one sentence, so that it needs no explanation."""
    app = create_app(one_model)
    with TestClient(app):
        engine = app.state.service.engine
        model = app.state.service.models.translation_path("de", "en", None).first
        threads: list[threading.Thread] = []

        def escape(text: str) -> str:
            threads.append(threading.current_thread())
            return text

        async def ask(tags: int) -> bool:
            """Whether the event loop's thread writes a sentence in so many tags."""
            document = replace(parse_html("<b>" * tags + "Ein Hund läuft."), escape=escape)
            request = Request({"source": ""}, SearchOptions())
            text = SplitInput.of_markup(model, request, document, SplitOptions(ServedModel.fits))
            with engine.admit("somebody", [document.text]) as reservation:
                (answer,) = await segmentation.search(engine, reservation, [text])
            assert answer.candidates[0].text.count("<b>") == tags
            return threads[-1] is threading.current_thread()

        assert asyncio.run(ask(2))
        assert not asyncio.run(ask(500))


def test_the_text_of_an_image_may_be_html(client):
    request = {"source": "en", "target": "de"}
    of_text = client.post("/translate/multimodal", json={**request, "q": "The ball."}).json()
    of_html = client.post("/translate/multimodal", json={**request, "q": "The&#32;ball.", "format": "html"}).json()
    assert of_html == of_text
    refused = client.post("/translate/multimodal", json={**request, "q": "<b>The ball.", "format": "html"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "q")


def test_html_is_decoded_off_the_event_loop_and_lines_are_counted_before_detection(one_model):
    """While both threads are busy a long text waits; then references that decode to line ends are too many lines."""
    app = create_app(one_model)
    with TestClient(app) as client:
        preparation = app.state.service.engine.preparation
        detected: list[str] = []
        guesses = app.state.service.detector.guesses

        def listen(text: str) -> list[LanguageGuess]:
            detected.append(text)
            return guesses(text)

        with ThreadPoolExecutor(1) as caller, pytest.MonkeyPatch.context() as patch:
            patch.setattr(app.state.service.detector, "guesses", listen)
            many = ASK | {"source": "auto", "q": ["a&#10;" * 800] * 100}
            with busy(preparation):
                asking = caller.submit(client.post, "/translate", json=many)
                until(lambda: preparation.waiting > 2)
                assert not asking.done()
            refused = asking.result()
        assert (refused.status_code, "more than 1000 sentences" in refused.json()["detail"]) == (400, True)
        assert not detected


@given(st.text())
def test_escaped_text_decodes_to_the_original(text):
    written = escape_html(text)
    assert unescape(written) == text
    assert "<" not in written and ">" not in written


@given(st.text(alphabet="&#;0189x\n", max_size=40) | st.from_regex(r"a&#0{0,9}[0-9]{6,9};?1?", fullmatch=True))
def test_references_are_decoded_as_html_specifies(text):
    assert unescape(text) == html.unescape(text)


@given(st.text(alphabet="<>&;/!?# ltgamp39xa\n"))
def test_text_that_is_no_document_has_no_tag(text):
    source = read_source(text, "q", "html")
    if source.document is None:
        parser = Tags()
        parser.feed(text)
        parser.close()
        assert parser.seen == []
        assert source.text == html.unescape(text)


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
