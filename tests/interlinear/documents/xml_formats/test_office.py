"""Word, PowerPoint, Excel: paragraphs are texts, formatting goes with its words, nothing else changes."""

import random
import re
from collections import Counter
from xml.etree import ElementTree as ET

import pytest

from tests.interlinear.documents.packages import archive, docx, parts_of, pptx, run, xlsx
from tests.interlinear.documents.translations import backwards, same
from tests.interlinear.documents.translations_of_files import texts, translated

BOLD = "<w:rPr><w:b/></w:rPr>"
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def body_after(body: str, translate=backwards) -> str:
    """The body of a Word document after a translation."""
    document = parts_of(translated(docx(body), "a.docx", translate))["word/document.xml"]
    ET.fromstring(document)
    return document.partition("<w:body>")[2].partition("<w:sectPr/>")[0]


def paragraph(*runs: str, properties: str = "") -> str:
    return f"<w:p>{properties}{''.join(runs)}</w:p>"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (paragraph(run("Ein Hund")), paragraph(run("Hund Ein"))),
        (paragraph(run("Ein "), run("Hu", BOLD), run("nd", BOLD)), paragraph(run("Hund", BOLD), run(" Ein"))),
        (paragraph(run("Hu"), "<w:proofErr/>", run("nd da")), paragraph(run("da Hund"))),
        (
            paragraph(run("Ein "), '<w:hyperlink r="1">', run("Hund"), "</w:hyperlink>", run(" hier")),
            paragraph(run("hier "), '<w:hyperlink r="1">', run("Hund"), "</w:hyperlink>", run(" Ein")),
        ),
        (
            paragraph(run("eins zwei"), "<w:r><w:tab/></w:r>", run("drei vier")),
            paragraph(run("zwei eins"), "<w:r><w:tab/></w:r>", run("vier drei")),
        ),
        (
            paragraph(run("Ein Hund"), '<w:r><w:footnoteReference w:id="2"/></w:r>', run(" da")),
            paragraph(run("da Hund"), '<w:r><w:footnoteReference w:id="2"/></w:r>', run(" Ein")),
        ),
        (
            paragraph("<w:bookmarkStart/>", run("Ein"), "<w:bookmarkEnd/>", run(" Hund"), properties="<w:pPr/>"),
            paragraph("<w:bookmarkStart/>", run("Hund Ein"), "<w:bookmarkEnd/>", properties="<w:pPr/>"),
        ),
        (
            paragraph(run("Ein Hund"), "<w:del><w:r><w:delText>weg</w:delText></w:r></w:del>"),
            paragraph(run("Hund Ein"), "<w:del><w:r><w:delText>weg</w:delText></w:r></w:del>"),
        ),
        (paragraph(run("a &lt; &amp; b")), paragraph(run("b &amp; &lt; a"))),
    ],
)
def test_paragraphs(body, expected):
    assert body_after(body) == expected


def field(instruction: str, result: str) -> str:
    character = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
    code = f"<w:r><w:instrText>{instruction}</w:instrText></w:r>"
    return "".join((character.format("begin"), code, character.format("separate"), result, character.format("end")))


def test_fields_stay_whole_and_links_are_translated():
    page = field("PAGE", run("Seite"))
    assert body_after(paragraph(run("Ein Hund "), page)) == paragraph(run("Hund Ein "), page)
    link = 'HYPERLINK "http://x.de"'
    assert body_after(paragraph(run("da "), field(link, run("Ein Hund")))) == paragraph(
        field(link, run("Hund Ein")), run(" da")
    )


def simple_field(instruction: str, result: str) -> str:
    return f'<w:fldSimple w:instr="{instruction}">{result}</w:fldSimple>'


@pytest.mark.parametrize("instruction", [" HYPERLINK &quot;http://x.de&quot; ", "hyperlink \\l x"])
def test_a_link_that_is_a_simple_field_is_translated(instruction):
    body = paragraph(run("eins "), simple_field(instruction, run("zwei drei")), run(" vier"))
    assert body_after(body) == paragraph(run("vier "), simple_field(instruction, run("drei zwei")), run(" eins"))


def test_other_simple_fields_stay():
    page = simple_field(" PAGE ", run("Seite da"))
    assert body_after(paragraph(run("Ein Hund "), page)) == paragraph(run("Hund Ein "), page)


CHARACTERS = {kind: f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")}
CODE = "<w:r><w:instrText> HYPERLINK x </w:instrText></w:r>"
LINK_BEGIN = CHARACTERS["begin"] + CODE + CHARACTERS["separate"]


@pytest.mark.parametrize(
    "link",
    [
        f"<w:ins>{LINK_BEGIN}{run('zwei drei')}{CHARACTERS['end']}</w:ins>",
        f"<w:ins>{LINK_BEGIN}</w:ins>{run('zwei drei')}<w:ins>{CHARACTERS['end']}</w:ins>",
        f"<w:ins>{LINK_BEGIN}{run('zwei ')}</w:ins>{run('drei')}{CHARACTERS['end']}",
        f"{LINK_BEGIN}<w:ins>{run('zwei ')}</w:ins>{run('drei')}{CHARACTERS['end']}",
        f"<w:hyperlink><w:ins>{run('zwei')}</w:ins>{run(' drei')}</w:hyperlink>",
        f"<w:ins><w:hyperlink>{run('zwei drei')}</w:hyperlink></w:ins>",
    ],
)
def test_links_over_tracked_insertions_are_translated(link):
    body = paragraph(run("eins "), link, run(" vier"))
    assert texts(docx(body), "a.docx") == ["eins zwei drei vier"]
    written = body_after(body)
    begin, end = (
        written.find(mark)
        for mark in (
            ("<w:hyperlink", "</w:hyperlink") if "hyperlink" in link else (CHARACTERS["begin"], CHARACTERS["end"])
        )
    )
    inside, outside = written[begin:end], written[:begin] + written[end:]
    assert begin < end and "zwei" in inside and "drei" in inside and "eins" in outside and "vier" in outside
    assert written.count("fldChar") == body.count("fldChar")


def test_a_table_of_contents_of_one_entry_is_translated():
    entry = f"<w:hyperlink>{run('Ein Kapitel')}<w:r><w:tab/></w:r>{field('PAGEREF x', run('7'))}</w:hyperlink>"
    body = paragraph(field("TOC \\o &quot;1-3&quot;", entry))
    assert [text.strip() for text in texts(docx(body), "a.docx")] == ["Ein Kapitel"]
    written = body_after(body)
    assert "Kapitel Ein" in written and field("PAGEREF x", run("7")) in written


def ruby(base: str) -> str:
    return (
        f"<w:r><w:ruby><w:rubyPr/><w:rt><w:r><w:t>wau</w:t></w:r></w:rt><w:rubyBase>{base}</w:rubyBase></w:ruby></w:r>"
    )


@pytest.mark.parametrize("properties", ["", BOLD])
def test_the_base_of_ruby_is_a_part_of_the_text_and_its_reading_stays(properties):
    body = paragraph(run("eins "), ruby(run("zwei drei", properties)), run(" vier"))
    assert texts(docx(body), "a.docx") == ["eins zwei drei vier"]
    assert body_after(body) == paragraph(run("vier "), ruby(run("drei zwei", properties)), run(" eins"))


def test_text_boxes_are_translated_by_themselves_and_their_settings_are_not():
    box = "<w:r><w:drawing><align>left</align><w:txbxContent>{}</w:txbxContent></w:drawing></w:r>"
    body = paragraph(run("Ein Hund "), box.format(paragraph(run("im Rahmen"))))
    assert texts(docx(body), "a.docx") == ["im Rahmen", "Ein Hund"]
    assert box.format(paragraph(run("Rahmen im"))) in body_after(body)


def test_tables_headers_and_notes_but_not_comments():
    table = f"<w:tbl><w:tr><w:tc>{paragraph(run('eine Zelle'))}</w:tc></w:tr></w:tbl>"
    notes = {"footnotes": f"<w:footnote>{paragraph(run('eine Note'))}</w:footnote>"}
    data = docx(table, header=paragraph(run("der Kopf")), comments=paragraph(run("kein Text")), **notes)
    assert texts(data, "a.docx") == ["eine Zelle", "der Kopf", "eine Note"]
    before, after = parts_of(data), parts_of(translated(data, "a.docx", backwards))
    assert list(before) == list(after)
    changed = [name for name in before if before[name] != after[name]]
    assert changed == ["word/document.xml", "word/header.xml", "word/footnotes.xml"]


def test_a_paragraph_without_text_is_as_it_was():
    body = '<w:p w:rsidR="1"><w:r><w:rPr><w:lang w:val="de"/></w:rPr><w:t>12 %</w:t></w:r></w:p>' + paragraph(run("da"))
    assert body_after(body, same) == body


def test_other_prefixes_are_understood():
    data = docx(paragraph(run("Ein "), run("Hund", BOLD)))
    other = {name: re.sub(r"(?<=[</ ])w:|xmlns:w", rename, part) for name, part in parts_of(data).items()}
    written = parts_of(translated(archive(other), "a.docx", backwards))["word/document.xml"]
    words = [element.text for element in ET.fromstring(written).iter(f"{W}t")]
    assert words == ["Hund", " Ein"]


def rename(match: re.Match[str]) -> str:
    """The prefix that Python's ElementTree writes."""
    return "xmlns:ns0" if match[0] == "xmlns:w" else "ns0:"


def test_slides():
    text = "<a:r>{}<a:t>{}</a:t></a:r>"
    bold = '<a:rPr lang="de" b="1"/>'
    runs = f"{text.format('', 'Ein ')}{text.format(bold, 'Hund')}<a:br/>{text.format('', 'zwei drei')}"
    slide = f"<a:p><a:pPr/>{runs}<a:endParaRPr/></a:p>"
    written = parts_of(translated(pptx(slide), "a.pptx", backwards))["ppt/slides/slide1.xml"]
    assert (
        f"<a:p><a:pPr/>{text.format(bold, 'Hund')}{text.format('', ' Ein')}<a:br/>{text.format('', 'drei zwei')}"
        "<a:endParaRPr/></a:p>"
    ) in written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\teins zwei\tdrei vier", "\tzwei eins\tvier drei"),
        ("eins zwei\t\t&lt;drei vier\t", "zwei eins\t\tvier drei &lt;\t"),
        ("eins\nzwei", "zwei eins"),
    ],
)
def test_tabs_in_texts_of_slides_and_documents_stay_between_the_texts_beside_them(text, expected):
    slide = "<a:p><a:r><a:t>{}</a:t></a:r></a:p>"
    written = translated(pptx(slide.format(text)), "a.pptx", backwards)
    assert slide.format(expected) in parts_of(written)["ppt/slides/slide1.xml"]
    assert body_after(paragraph(run(text))) == paragraph(run(expected))


def test_a_tab_in_formatted_text_is_formatted():
    assert body_after(paragraph(run("eins zwei drei\t"), run("vier fünf\tsechs", BOLD))) == paragraph(
        run("drei zwei eins\t"), run("fünf vier\tsechs", BOLD)
    )


def test_cells():
    strings = (
        "<si><t>Ein {x} Hund</t></si><si><r><t>eins </t></r><r><rPr><b/></rPr><t>zwei</t></r></si><si><t>12</t></si>"
    )
    data = xlsx(strings)
    assert texts(data, "a.xlsx") == ["Ein Hund", "eins zwei"]
    written = parts_of(translated(data, "a.xlsx", backwards))["xl/sharedStrings.xml"]
    assert "<t>Hund Ein {x}</t>" in written
    assert (
        '<si><r><rPr><b/></rPr><t xml:space="preserve">zwei</t></r><r><t xml:space="preserve"> eins</t></r></si>'
        in written
    )


def test_formatted_cells_keep_line_ends_placeholders_and_tags():
    cell = (
        '<si><r><rPr><b/></rPr><t xml:space="preserve">{}\n</t></r>'
        '<r><t xml:space="preserve">{}\n{}&#10;\n{}</t></r></si>'
    )
    data = xlsx(cell.format("Ein Kopf", "eins zwei", "drei {name} &lt;b&gt;vier&lt;/b&gt;", "fünf &amp;amp; sechs"))
    assert texts(data, "a.xlsx") == ["Ein Kopf\neins zwei\ndrei vier\n\nfünf sechs"]
    written = parts_of(translated(data, "a.xlsx", backwards))["xl/sharedStrings.xml"]
    third, last = "&lt;b&gt;vier&lt;/b&gt; drei {name}", "sechs fünf &amp;amp;"
    assert cell.format("Kopf Ein", "zwei eins", third, last).replace("&#10;", "\n") in written


@pytest.mark.parametrize(
    ("cell", "text", "expected"),
    [
        ("<t>eins zwei_x000D_\ndrei vier</t>", "eins zwei\ndrei vier", "<t>zwei eins_x000D_\nvier drei</t>"),
        ("<t>eins zwei_x000d__x000a_drei</t>", "eins zwei\ndrei", "<t>zwei eins_x000d__x000a_drei</t>"),
        ("<t>eins_x0009_zwei _x0007_</t>", "eins\nzwei", "<t>eins_x0009_zwei _x0007_</t>"),
        ("<t>Ein _x005F_x0041_ da</t>", "Ein da", "<t>da Ein _x005F_x0041_</t>"),
        (
            "<t>{x} &lt;b&gt;eins zwei&lt;/b&gt;_x000D_</t>",
            "eins zwei",
            "<t>{x} &lt;b&gt;zwei eins&lt;/b&gt;_x000D_</t>",
        ),
    ],
)
def test_characters_that_a_cell_writes_as_codes_stay_and_are_not_read(cell, text, expected):
    data = xlsx(f"<si>{cell}</si>")
    assert [found.strip() for found in texts(data, "a.xlsx")] == [text]
    assert f"<si>{expected}</si>" in parts_of(translated(data, "a.xlsx", backwards))["xl/sharedStrings.xml"]


def test_line_ends_in_a_cell_with_formatting_stay_and_are_not_read():
    run, bold = '<r>{}<t xml:space="preserve">{}</t></r>', "<rPr><b/></rPr>"
    cell = run.format("", "eins zwei_x000D_\ndrei ") + run.format(bold, "vier")
    data = xlsx(f"<si>{cell}</si>")
    assert texts(data, "a.xlsx") == ["eins zwei\ndrei vier"]
    written = parts_of(translated(data, "a.xlsx", backwards))["xl/sharedStrings.xml"]
    runs = (("", "zwei eins_x000D_\n"), (bold, "vier"), ("", " drei"))
    assert f"<si>{''.join(run.format(*each) for each in runs)}</si>" in written


PROPERTIES = ("", "", BOLD, "<w:rPr><w:i/></w:rPr>", '<w:rPr><w:lang w:val="de"/></w:rPr>')
MARKS = ("<w:tab/>", "<w:br/>", '<w:footnoteReference w:id="2"/>', "<w:drawing><a>da</a></w:drawing>", "<w:sym/>")


def random_runs(draw: random.Random, depth: int = 0) -> str:
    """Runs with words, marks, fields, and containers around more of them."""
    pieces = []
    for _ in range(draw.randint(1, 5)):
        kind = draw.random()
        text = draw.choice(["eins ", "zwei", " drei, ", "vier.", "4 % "])
        if kind < 0.6:
            pieces.append(run(text, draw.choice(PROPERTIES)))
        elif kind < 0.75:
            pieces.append(f"<w:r>{draw.choice(PROPERTIES)}{draw.choice(MARKS)}</w:r>")
        elif kind < 0.85:
            pieces.append(field(draw.choice(["PAGE", "HYPERLINK x"]), run(text)))
        elif depth < 3:
            container = draw.choice(["w:hyperlink", "w:ins", "w:smartTag"])
            pieces.append(f"<{container}>{random_runs(draw, depth + 1)}</{container}>")
    return "".join(pieces)


def test_random_paragraphs_stay_valid_and_keep_all_that_is_not_text():
    draw = random.Random(1)
    for _ in range(150):
        body = paragraph(run("ein Wort "), random_runs(draw))
        before, after = (ET.fromstring(f'<a xmlns:w="{W[1:-1]}">{xml}</a>') for xml in (body, body_after(body)))
        for element in after.iter():
            assert element.tag != f"{W}r" or not element.findall(f".//{W}r")
            assert element.tag == f"{W}r" or element.find(f"{W}t") is None
        assert kept(after) == kept(before)
        assert sorted(words(after)) == sorted(words(before))


def kept(tree: ET.Element) -> Counter[str]:
    """The elements that are no runs, and their attributes."""
    formatting = ("r", "t", "rPr", "b", "i", "lang")
    return Counter(f"{e.tag} {e.attrib}" for e in tree.iter() if e.tag not in {f"{W}{name}" for name in formatting})


def words(tree: ET.Element) -> list[str]:
    """The characters of all text, without white space, which translations of words in another order change."""
    return [character for text in tree.itertext() for character in text if not character.isspace()]
