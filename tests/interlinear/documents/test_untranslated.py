"""What is not translated stays, in every format, and no model reads it: what has no letters, addresses, template tags,
mentions; and words that only a mark divides are not one."""

import json
import re
import time

import pytest

from interlinear.documents import AlignedText, parse_html, parse_xml
from interlinear.documents.files import parse_file
from interlinear.text.sentences import split_sentences_by_line
from tests.interlinear.documents.formats import TMX, XLIFF
from tests.interlinear.documents.packages import docx, parts_of, run
from tests.interlinear.documents.translations import backwards, by_word, in_capitals, rendered, same
from tests.interlinear.documents.translations_of_files import texts, translated


def html_texts(html):
    return [segment.text for segment in parse_html(html).segments]


def word(xml):
    return docx(f"<w:p>{xml}</w:p>")


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<p>Der Hund<sup><a href="#r">1</a></sup> sieht.</p>', "Der Hund sieht."),
        ("<p>Der Hund schläft.<sup>[<b>2</b>]</sup> Die Katze.</p>", "Der Hund schläft. Die Katze."),
        ("<p>Er hat 5 m<sup>3</sup> und CO<sub>2</sub>, 10<sup>6</sup> Hunde.</p>", "Er hat 5 m und CO, 10 Hunde."),
        ("<p>Hund<sup>®</sup> und Katze<span>™</span></p>", "Hund und Katze"),
        ("<p><sup>3</sup>Und der Hund schläft.</p>", "Und der Hund schläft."),
        ("<p><b>1.</b> Der Hund</p>", "Der Hund"),
        ("<p>H<sub>2</sub>O ist da</p>", "H2O ist da"),
        ("<p>Im Jahr <b>2023</b> da<b>.</b> <i>5</i> Hunde<i>!</i></p>", "Im Jahr 2023 da. 5 Hunde!"),
        ("<p>Hund<br>da<br>12:30<br>Katze</p>", "Hund\nda\n\nKatze"),
        ("<p>Hund<img src=x>da, Fein<wbr>staub<b></b>e</p>", "Hund da, Feinstaube"),
    ],
)
def test_elements_without_letters_stay_beside_their_word(html, expected):
    assert html_texts(html) == [expected]
    assert rendered(parse_html(html), same) == html


def test_an_element_without_letters_goes_with_its_word():
    html = '<p>Der Hund<sup><a title=x href="#r">1</a></sup> sieht</p>'
    assert rendered(parse_html(html), backwards) == '<p>sieht Hund<sup><a title=x href="#r">1</a></sup> Der</p>'


def test_numbers_of_lists_notes_and_pages_in_word():
    superscript = '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr>'
    tab = "<w:r><w:tab/></w:r>"
    note = word(run("Der Hund") + f"<w:r>{superscript}<w:t>1</w:t></w:r>" + run(" sieht."))
    assert texts(note, "a.docx") == ["Der Hund sieht."]
    listed = word(run("1.") + tab + run("Der Hund") + tab + run("12"))
    assert texts(listed, "a.docx") == ["\nDer Hund\n"]
    written = parts_of(translated(listed, "a.docx", lambda text: by_word(text, str.upper)))["word/document.xml"]
    assert [written.index(each) for each in ("1.", "DER HUND", "12")] == sorted(
        written.index(each) for each in ("1.", "DER HUND", "12")
    )


def test_a_table_of_contents_of_one_entry_is_translated():
    def character(kind):
        return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'

    instruction = "<w:r><w:instrText>{}</w:instrText></w:r>"
    page = character("begin") + instruction.format("PAGEREF _a") + character("separate") + run("7") + character("end")
    contents = run("Der Hund") + "<w:r><w:tab/></w:r>" + page
    toc = character("begin") + instruction.format('TOC \\o "1-3"') + character("separate") + contents + character("end")
    assert texts(word(toc), "a.docx") == ["Der Hund\n"]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ('{"a": "Der Hund<br>schläft", "b": "Der Hund<br/>schläft"}', "a.json"),
        (XLIFF.format('Der Hund<x id="1" ctype="lb"/>schläft'), "a.xlf"),
        (XLIFF.format('Der Hund<ph id="1">&lt;br/&gt;</ph>schläft'), "a.xlf"),
        (TMX.format("Der Hund<ph>\n</ph>schläft"), "a.tmx"),
    ],
)
def test_a_line_break_is_one(data, name):
    assert set(texts(data, name)) == {"Der Hund\nschläft"}
    written = translated(data, name, backwards).decode()
    assert "Hund Der<" in written and ">schläft" in written


def test_a_line_break_in_xml_is_one():
    assert rendered(parse_xml("Der Hund<br/>schläft da"), backwards) == "Hund Der<br/>da schläft"


def test_words_that_only_a_mark_divides_are_not_one_word():
    messages = '{"a": "Hund<icon/>da", "b": "Hund{x}da", "c": "Der Hund <icon/> da", "d": "Der <x id=\'1\'/>Hund"}'
    assert texts(messages, "a.json") == ["Hund da", "Hund da", "Der Hund da", "Der Hund"]
    assert translated(messages, "a.json", same).decode() == messages
    written = translated(messages, "a.json", backwards).decode()
    assert '"da <icon/> Hund Der"' in written or '"da Hund <icon/> Der"' in written


def test_a_mark_before_a_full_stop_does_not_touch_the_word_that_the_stop_becomes():
    document = parse_html("<p>Es blüht <img src=x>.</p>")
    source, target = [(0, 2), (3, 8), (8, 9)], [(0, 2), (3, 10), (10, 11)]
    translation = AlignedText("It bloomed.", source, target, [(0, 0), (1, 0), (2, 1)])
    assert document.render([translation]) == "<p>It <img src=x> bloomed.</p>"


MENTION = (
    '<p><span class="h-card"><a href="https://x.example/@hund">@<span>hund</span></a></span> Der Hund sieht. '
    '<a href="https://x.example/tags/hund" rel="tag">#<span>HundeLiebe</span></a></p>'
)
ADDRESS = (
    '<p>Der Hund da. <a href="https://x.example/der/hund"><span class="invisible">https://www.</span>'
    '<span class="ellipsis">x.example/der</span><span class="invisible">/hund</span></a></p>'
)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (MENTION, ["Der Hund sieht."]),
        (ADDRESS, ["Der Hund da."]),
        ('<p><a class="mention" href="/u/hund">Hund</a> sieht <a class=hashtag>#Tag</a> :smile:</p>', ["sieht"]),
        ("<p>Hallo @hund@x.example und :thumbs_up: 12:30:15</p>", ["Hallo und 12:30:15"]),
        ('<p><img class=emoji alt=":hund:" title=":hund:" src=x> Hund</p>', ["Hund"]),
        ("<p>Der <notranslate>Hund da</notranslate> sieht <x>Max</x></p>", ["Der sieht"]),
        ('<p>Der <x id="1"/> Hund <ph-1/>sieht</p>', ["Der Hund sieht"]),
        ("<p>C# und der #1 im Park (50 % der Hunde) :-) a@b</p>", ["C# und der #1 im Park (50 % der Hunde) :-) a@b"]),
    ],
)
def test_mentions_addresses_and_marked_names_stay(html, expected):
    assert html_texts(html) == expected
    assert rendered(parse_html(html), same) == html


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>Der Hund <?php echo $name; ?> schläft.</p>", ["Der Hund schläft."]),
        ('<?php if ($a > 3) { ?><p <?= $x["a>b"] ?>>Hund</p><?php } ?>', ["Hund"]),
        ('<a href="<?= $x->url ?>" title="<?= $t["x"] ?> Hund">da</a>', ["Hund", "da"]),
        ("<table>{% for x in y if a < b && c %}<tr><td>{{ x & y }} Hund</td></tr>{% endfor %}</table>", ["Hund"]),
        ("{% block hund %}<p>Hund</p>{% endblock %}{# der Hund #}", ["Hund"]),
        ("<title>{{ hund }} da</title><p><%= hund.name %> schläft {{x}}{{y}}</p>", ["da", "schläft"]),
        ("<div>\n<![CDATA[ Hund > <b>da</b> ]]>\n</div><p>Hund</p>", ["Hund"]),
        ("<svg><desc><![CDATA[ a > b ]]></desc></svg><p>Hund</p>", ["Hund"]),
        ("<script>x = '<?php hund ?>' < 3</script><!-- {{ x --><p>Hund {{</p>", ["Hund {{"]),
        ("<p>Hund</p>\n<?php\necho 'Hund' > 3;\n", ["Hund"]),
    ],
)
def test_instructions_in_html_stay_byte_for_byte(html, expected):
    assert html_texts(html) == expected
    assert rendered(parse_html(html), same) == html


def test_soft_hyphens_stay_in_words_that_stay():
    written = "Der Do\u00adnau\u00addampfer sieht Kran\u00adken\u200bhaus"
    for data, name in ((f"<p>{written}</p>", "a.html"), (f'{{"a": "{written}"}}', "a.json"), (written, "a.md")):
        assert texts(data, name) == ["Der Donaudampfer sieht Krankenhaus"]
        assert translated(data, name, same).decode() == data
        looked_up = translated(data, name, lambda text: by_word(text, lambda word: word.replace("Kranken", "hos")))
        assert "Do\u00adnau\u00addampfer" in looked_up.decode() and "hoshaus" in looked_up.decode()
    assert html_texts('<a title="Kran&shy;ken">Hu&shy;nd</a>') == ["Kranken", "Hund"]
    assert html_texts("<p>نمی\u200cدانم</p>") == ["نمی\u200cدانم"]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("1. Der Hund schläft.", ["Der Hund schläft."]),
        ("😆 Die Katze sieht. 😆 Der Hund 🐕", ["Die Katze sieht.", "Der Hund"]),
        ("12:30\nDer Hund\n***", ["Der Hund"]),
        ("(1) Der Hund • da", ["Der Hund • da"]),
        ("24. Dezember - 5 Hunde", ["24. Dezember - 5 Hunde"]),
        ("***", ["***"]),
    ],
)
def test_what_has_no_letters_is_in_no_sentence(text, sentences):
    assert [text[start:end] for start, end in split_sentences_by_line(text, "de")] == sentences


@pytest.mark.parametrize(
    "piece",
    [
        "{%",
        "{{",
        "{#",
        "<?php ",
        "<%",
        "<![CDATA[",
        "@a.",
        "#1",
        ":a",
        "<b <?= ",
        "{a",
        "[b]",
        "[url=",
        "[%",
        "*|a",
        "__A",
        "{'",
        "a  b",
        "|{",
        "\\n",
        "$a_",
        "a|",
        "{\\",
        "<p>",
        "http://a(",
    ],
)
def test_what_is_never_closed_takes_time_linear_in_the_text(piece):
    start = time.process_time()
    for name in ("a.html", "a.txt"):
        parse_file(f"<p>Hund {piece * 40_000}".encode(), name)
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("Der Hund {n}में da", "Der Hund में da"),
        ("Der {name}e\u0301tait da", "Der e\u0301tait da"),
        ("Der {name}نمی\u200cدانم", "Der نمی\u200cدانم"),
        ("Der {name}Do\u00adnau", "Der Donau"),
        ("हिन्दी में{x}में हिन्दी", "हिन्दी में में हिन्दी"),
        ("Bonjour {name} !", "Bonjour !"),
    ],
)
def test_a_letter_with_its_marks_is_in_one_word_beside_a_placeholder(message, text):
    data = json.dumps({"a": message}, ensure_ascii=False)
    assert texts(data, "a.json") == [text]
    assert json.loads(translated(data, "a.json", in_capitals)) == {"a": upper_outside(message)}


def upper_outside(message):
    """The message in capitals, except its placeholders; soft hyphens are not in a changed word."""
    return "".join(
        part if n % 2 else part.upper().replace("\u00ad", "") for n, part in enumerate(re.split(r"(\{\w+\})", message))
    )


def test_an_element_without_letters_stays_at_a_word_that_ends_in_a_mark():
    html = "<p>में<sup>1</sup> हिन्दी</p>"
    assert html_texts(html) == ["में हिन्दी"]
    assert rendered(parse_html(html), in_capitals) == html


def test_a_mark_beside_a_no_break_space_stays_on_its_side():
    html = "<p>Der&nbsp;<img src=x><br>{{ x }}&nbsp;<b>Hund</b></p>"
    written = rendered(parse_html(html), in_capitals)
    assert written == "<p>DER\u00a0<img src=x><br>{{ x }}\u00a0<b>HUND</b></p>"


def test_three_braces_in_html_are_one_placeholder():
    assert rendered(parse_html("<p>Der Hund {{{x}}} da {{ {a: 1} }}</p>"), in_capitals) == (
        "<p>DER HUND {{{x}}} DA {{ {a: 1} }}</p>"
    )


def test_white_space_behind_a_line_break_that_ends_an_element_is_behind_the_element():
    """No emphasis of Markdown ends behind a space."""
    assert translated("*Hund<br>* da\n", "a.md", in_capitals) == b"*HUND<br>* DA\n"


def test_a_placeholder_with_spaces_is_not_divided_over_lines_of_subtitles():
    words = "eins zwei drei vier fünf sechs sieben " + "{n, number} " * 6
    data = f"1\n00:00:01,000 --> 00:00:02,000\n{words}\n"
    assert translated(data, "a.srt", in_capitals).decode().count("{n, number}") == 6


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (
            "a.html",
            "<!doctype html>\n<title>Der  Hund</title><p title='Ein &quot;Hund&quot;'>Der<b> Hund </b>\n da</p>",
        ),
        ("a.md", "# Der \\* Hund __da__ +\n\n1.  Der\n    Hund &amp; hier\n"),
        ("a.tmx", TMX.format("Der  <hi> Hund</hi>&#228; da")),
        ("a.xml", "<resources><string name='a'>Der  <b> Hund</b>\\u0020da</string></resources>"),
    ],
)
def test_a_text_whose_translation_is_the_text_itself_is_written_as_it_stood(name, data):
    written = translated(data, name, same).decode()
    if name == "a.tmx":
        assert written.count("<seg>Der  <hi> Hund</hi>&#228; da</seg>") == 2
    else:
        assert written == data
