"""HTML is divided into texts, and written again with their translations: what a reader and a browser see."""

import pytest

from interlinear.documents import AlignedText, parse_html
from interlinear.errors import DataError
from research.quality.markup import TagReader, expected_tags
from tests.interlinear.documents.translations import backwards, by_word, in_capitals, rendered, same
from tests.parameters import slow_but

WORDS = {
    "Der": "The",
    "Hund": "dog",
    "läuft": "runs",
    "nicht": "not",
    "Drücken": "Press",
    "zum": "to",
    "Halten": "stop",
}


def texts(html: str) -> list[str]:
    return [segment.text for segment in parse_html(html).segments]


def backward(html: str) -> str:
    return rendered(parse_html(html), backwards)


@pytest.mark.parametrize(
    "html",
    [
        "Ein Hund läuft.",
        "<p>Ein <b>Hund</b> läuft.</p>",
        "<p class='a b' data-x=1 >Ein <A HREF=\"?a&amp;b\">Hund</A> läuft.</p >",
        '<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.01//EN" "http://www.w3.org/TR/html4/strict.dtd">\n'
        "<html lang=de><head><meta charset=utf-8><title>Ein Hund</title></head>\n<body>\n  <p>Da</p>\n</body></html>",
        "<p>Eins<br />\n   zwei<br>drei</p>",
        "<ul>\n  <li>Hund</li>\n  <li>Katze</li>\n</ul>",
        "<!--[if IE]><p>x</p><![endif]--><p>Ein<!-- da --> Hund</p>",
        "<td>Hund</td><td>Katze</td>",
        "<?xml version='1.0'?><p>Hund</p>",
        "<p>1 &lt; 2 &amp; Hund</p>",
        "<pre>\n\n  Ein  Hund\n</pre><textarea>\nHund &amp; <b></textarea>",
        "<script>if (a<b && c) '<p>Hund</p>'</script><style>a>b{}</style>",
        "<svg viewBox='0 0 1 1'><path d='M0'/><text>Hund</text></svg><math><mi>x</mi></math>",
        "<template><p>Ein <b>Hund</b></p></template>",
        "<p><a href=x><img src=y alt=''></a> Hund</p>",
        "<table><tr><td>Hund</td></tr></table>",
    ],
)
def test_a_document_whose_words_stay_is_written_as_it_was(html):
    assert rendered(parse_html(html), same) == html


def test_white_space_inside_a_text_is_as_displayed_and_around_it_as_written():
    written = rendered(parse_html("<p>\n  Ein\n\t<b> Hund\n</b> <!-- da --> läuft\n</p>"), in_capitals)
    assert written == "<p>\n  EIN <b>HUND</b><!-- da --> LÄUFT\n</p>"


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>Ein <b>Hund</b> läuft</p>", ["Ein Hund läuft"]),
        ("<p>Ein\n   Hund</p>\n<p>läuft", ["Ein Hund", "läuft"]),
        ("Ein<br>Hund", ["Ein\nHund"]),
        ("<div>Eins<p>zwei</p>drei</div>", ["Eins", "zwei", "drei"]),
        ("<a href=x><div>Eins</div><div>zwei</div></a>", ["Eins", "zwei"]),
        ("<ul><li>Eins<li>zwei</ul>", ["Eins", "zwei"]),
        ("Ein <button>Knopf <b>da</b></button> hier", ["Knopf da", "Ein hier"]),
        ("<p>&nbsp;</p><p>12,5 %</p><p> &ndash; </p>", []),
        ("<p>Ein&nbsp;Hund &eacute; &#x1F600;</p>", ["Ein\u00a0Hund é 😀"]),
        ("<p translate=no>Eins <b>zwei</b></p><p>drei</p>", ["drei"]),
        ("<div translate=no>Eins<p translate=yes>zwei</p></div>", ["zwei"]),
        ("<div class='x notranslate'>Eins</div><script>zwei</script><style>drei</style><pre>vier</pre>", []),
        ("<p>Der Befehl <code>ls -l</code> geht, <kbd>Esc</kbd> auch</p>", ["Der Befehl geht, auch"]),
        ("<p><code>ls</code></p>", []),
        ("<img alt='Ein Hund' title=da src=x>", ["Ein Hund", "da"]),
        ("<input placeholder=Name value=Hans><input type=submit value=Senden>", ["Name", "Senden"]),
        ("<button aria-label='Zu machen'>x</button><a title='5'>1</a>", ["Zu machen", "x"]),
        ("<meta name=description content='Ein Hund'><meta name=viewport content=width>", ["Ein Hund"]),
        ("<title>Ein Hund</title><h1>Der Hund</h1>", ["Ein Hund", "Der Hund"]),
        ("<select><option>Eins<option label=Zwei>zwei</select>", ["Eins", "Zwei", "zwei"]),
        ("<p>Ein <ruby>Hund<rt>hunt</rt></ruby></p>", ["Ein Hund"]),
        ("<svg><title>Ein Hund</title></svg>", []),
        ("<p>Hund</p></p><b>", ["Hund"]),
    ],
)
def test_what_is_translated(html, expected):
    assert texts(html) == expected


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>Hund <b>läuft nicht</b></p>", "<p><b>nicht läuft</b> Hund</p>"),
        ("a <b>b <i>c</i></b> <u>d</u>", "<u>d</u> <b><i>c</i> b</b> a"),
        ("eins zwei <a href=x>drei</a>, vier", "vier , <a href=x>drei</a> zwei eins"),
        ("eins <img src=x> zwei", "zwei eins <img src=x>"),
        ("eins zwei<br>drei <b>vier</b>", "zwei eins<br><b>vier</b> drei"),
        ("<b>eins zwei</b>", "<b>zwei eins</b>"),
        ("eins <b></b>zwei", "<b></b>zwei eins"),
        ("eins<!-- da --> zwei", "zwei eins<!-- da -->"),
        ("<p>eins <code>a  b</code> zwei</p>", "<p>zwei eins <code>a  b</code></p>"),
        ("eins <button title=t>zwei drei</button> vier", "vier eins <button title=t>drei zwei</button>"),
        ("Hund<b>es</b> da", "da Hund<b>es</b>"),
        ("<i>H<sub>2</sub>O</i> ist da", "da ist <i>H<sub>2</sub>O</i>"),
        ("<a>eins</a><a>zwei</a> drei", "drei <a>eins</a><a>zwei</a>"),
        ("eins <label>zwei <input></label>", "<label>zwei <input></label> eins"),
    ],
)
def test_tags_follow_their_words(html, expected):
    assert backward(html) == expected


def test_a_tag_with_an_edge_inside_a_word_encloses_the_translated_word():
    def translate(text: str) -> AlignedText:
        return by_word(text, lambda word: {"Hundes": "dog", "des": "the", "HundKatze": "pets"}.get(word, word))

    assert rendered(parse_html("des Hund<b>es</b> da"), translate) == "the <b>dog</b> da"
    assert rendered(parse_html("<b>Hund</b><i>Katze</i> da"), translate) == "<b>pets</b><i></i> da"


def test_white_space_stands_outside_of_tags_and_marks_stay_close():
    document = parse_html("<p>Der<b> Hund </b>läuft, <i>nicht</i>.</p>")
    text = document.segments[0].text
    assert text == "Der Hund läuft, nicht."
    assert rendered(document, in_capitals) == "<p>DER <b>HUND</b> LÄUFT, <i>NICHT</i>.</p>"


def test_what_is_not_translated_is_set_off_as_it_was():
    document = parse_html("<p>Drücken <kbd>Esc</kbd> zum Halten</p>")
    assert document.segments[0].text == "Drücken zum Halten"
    assert rendered(document, lambda text: by_word(text, lambda word: WORDS.get(word, word))) == (
        "<p>Press <kbd>Esc</kbd> to stop</p>"
    )
    assert rendered(parse_html("Nur (<code>x</code>) und <code>y</code>, oder"), same) == (
        "Nur (<code>x</code>) und <code>y</code>, oder"
    )


def test_what_is_not_translated_does_not_touch_a_word_that_comes_behind_it():
    """A mark stood there, and is linked to a word."""
    document = parse_html("<p>Sie tippt <code>ls</code>.</p>")
    source, target = [(0, 3), (4, 9), (9, 10)], [(0, 3), (4, 9), (10, 12), (12, 13)]
    translation = AlignedText("She types it.", source, target, [(0, 0), (1, 1), (2, 2)])
    assert document.render([translation]) == "<p>She types <code>ls</code> it.</p>"


def test_text_is_escaped_in_content_and_in_attributes():
    document = parse_html('<p title="Hund &quot;da&quot;">Hund &lt;b&gt;</p>')
    written = rendered(document, lambda text: by_word(text, str.upper))
    assert written == '<p title="HUND &quot; DA &quot;">HUND &lt; B &gt;</p>'


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<b>eins <i>zwei</b> drei</i>", "<i>drei</i> <b><i>zwei</i> eins</b>"),
        ("<p>eins <b>zwei", "<p><b>zwei</b> eins</p>"),
        ("<p>eins<p>zwei</div>", "<p>eins</p><p>zwei</p>"),
        ("eins </b> zwei", "zwei eins"),
        ("eins < zwei", "zwei &lt; eins"),
        ("eins <b title='zwei", "eins "),
        ("<table><b>eins<tr><td>zwei</table>", "<b>eins</b><table><tr><td>zwei</td></tr></table>"),
        ("ei\0ns", "ns \ufffd ei"),
    ],
)
def test_malformed_markup_is_read_as_a_browser_does(html, expected):
    assert backward(html) == expected


TAGS = ["b", "div", "a", "table", "svg", "template", "button", "ul><li", "font size=1"]


@pytest.mark.parametrize("tag", slow_but(["b", "table"], TAGS))
def test_ten_thousand_nested_tags(tag):
    html = f"<{tag}>" * 10_000 + "Hund läuft"
    written = backward(html)
    assert written.count("<" + tag.partition(">")[0]) == 10_000
    read = TagReader(written, is_xml=False)
    assert read.balanced and read.tags == expected_tags(html, is_xml=False)
    assert ("läuft Hund" in written) == (tag != "svg")  # which is not translated


def test_hostile_sizes():
    attribute = "x" * 1_000_000
    assert backward(f"<p data-a='{attribute}'>Ein Hund</p>") == f"<p data-a='{attribute}'>Hund Ein</p>"
    many = "<b>a</b> " * 5_000
    assert backward(many).count("<b>a</b>") == 5_000


def unclosed(tags: int, paragraphs: str) -> str:
    """Text in different `<b>` that are never closed: a browser opens all of them again in every paragraph."""
    return "<p>" + "".join(f"<b data-n={n}>" for n in range(tags)) + paragraphs


@pytest.mark.parametrize(
    "html",
    [
        unclosed(200, "<p>Hund" * 300),
        unclosed(1, "<p>Hund" * 300).replace("data-n", f"data-n={'x' * 2000}"),
        unclosed(200, "<ul>" + "<li>Hund" * 300),
        f"<!doctype html><body>{unclosed(200, '<p>Hund' * 300)}",
    ],
)
def test_a_text_whose_unclosed_tags_would_be_written_again_and_again_is_refused(html):
    with pytest.raises(DataError, match=r"^page\.html: has unclosed tags .* Close every tag"):
        parse_html(html, "page.html")


@pytest.mark.parametrize(
    "html",
    [
        unclosed(20, "<p>Hund"),
        unclosed(5, f"<p>{'Ein Hund läuft. ' * 4}" * 300),
        "<p><font face='Verdana, Arial' size=2 color='#333333'><b>Ein Hund läuft im Park" * 300,
        "<table>" + "<tr><td><b><i>1" * 1000,
        "<ul>" + "<li>Hund</p>" * 1000,
    ],
)
def test_unclosed_tags_are_opened_again_as_by_a_browser(html):
    read = TagReader(backward(html), is_xml=False)
    assert read.balanced and read.tags == expected_tags(html, is_xml=False)
