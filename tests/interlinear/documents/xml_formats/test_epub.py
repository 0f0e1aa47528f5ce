"""E-books: chapters are XHTML with its roles and attributes; the table of contents; copy protection is refused."""

import pytest

from interlinear.documents.files import parse_file
from interlinear.errors import DataError
from tests.interlinear.documents.packages import archive, epub, parts_of
from tests.interlinear.documents.translations import backwards
from tests.interlinear.documents.translations_of_files import texts, translated

CHAPTER = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">
<html xmlns="http://www.w3.org/1999/xhtml"><head><title>Ein Titel</title><style>p {{ a: b }}</style></head>
<body>{}</body></html>
"""
NCX = '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navLabel><text>Kapitel eins</text></navLabel></ncx>'


def test_chapters_and_contents():
    data = epub(
        CHAPTER.format('<p>Ein <b>Hund</b>&nbsp;da<br/>zwei <img src="x.png" alt="Ein Bild"/></p>'), **{"toc.ncx": NCX}
    )
    assert texts(data, "a.epub") == ["Ein Titel", "Ein Bild", "Ein Hund\xa0da\nzwei", "Kapitel eins"]
    written = parts_of(translated(data, "a.epub", backwards))
    assert '<img src="x.png" alt="Bild Ein"/>' in written["OEBPS/chapter.xhtml"]
    assert (
        "<b>Hund</b> Ein<br/>" in written["OEBPS/chapter.xhtml"] and "<text>eins Kapitel</text>" in written["toc.ncx"]
    )


def book(items: str, *names: str, **parts: str) -> bytes:
    """An e-book whose manifest in OPS/ has these items; its parts of these names in OPS/ are chapters."""
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OPS/book.opf"/></rootfiles></container>'
    )
    package = f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest></package>'
    chapters = {f"OPS/{name}": CHAPTER.format(f"<p>{name}</p>").replace("Ein Titel", "1") for name in names}
    written = {"META-INF/container.xml": container, "OPS/book.opf": package, **chapters, **parts}
    return archive({"mimetype": "application/epub+zip", **written})


XHTML, CONTENTS = "application/xhtml+xml", "application/x-dtbncx+xml"


def test_chapters_are_those_of_the_manifest():
    items = (
        f'<item href="text/eins.xml" media-type="{XHTML}"/><item media-type="{XHTML}" href="zwei%20drei"/>'
        f'<item href="../toc.xml" media-type="{CONTENTS}"/><item href="vier.html" media-type="text/html"/>'
        '<item href="data.xml" media-type="application/xml"/>'
    )
    names = ("text/eins.xml", "zwei drei", "vier.html", "data.xml")
    data = book(items, *names, **{"toc.xml": NCX, "__MACOSX/OPS/._vier.html": "\0\0"})
    assert texts(data, "a.epub") == ["text/eins.xml", "zwei drei", "vier.html", "Kapitel eins"]
    assert "<p>drei zwei</p>" in parts_of(translated(data, "a.epub", backwards))["OPS/zwei drei"]


@pytest.mark.parametrize(
    "parts",
    [
        {"META-INF/container.xml": "<container>"},
        {"META-INF/container.xml": "<container/>"},
        {"OPS/book.opf": "<package"},
        {"OPS/book.opf": f'<package><manifest><item href="b.xml" media-type="{XHTML}"/></manifest></package>'},
    ],
)
def test_chapters_are_found_without_a_manifest_of_them(parts):
    data = book("", "a.xhtml", **parts)
    assert texts(data, "a.epub") == ["a.xhtml"]


@pytest.mark.parametrize(
    ("body", "found", "expected"),
    [
        (
            "<pre>nein da</pre><p translate='no'>nein da</p><p>ja <code>nein</code></p>",
            ["ja"],
            "<pre>nein da</pre><p translate='no'>nein da</p><p>ja <code>nein</code></p>",
        ),
        (
            '<p>Hier <button title="Ein Titel da">Antwort <b>zeigen</b><br/>da</button> klicken</p>',
            ["Ein Titel da", "Antwort zeigen\nda", "Hier klicken"],
            '<button title="da Titel Ein"><b>zeigen</b> Antwort<br/>da</button>',
        ),
        ("<p>da</p><button>Nein da</button>", ["da", "Nein da"], "<button>da Nein</button></body>"),
        (
            '<p>Wahl <select><option label="Ein Name">ein Hund</option></select></p>',
            ["Ein Name", "ein Hund", "Wahl"],
            '<p>Wahl <select><option label="Name Ein">Hund ein</option></select></p>',
        ),
        ('<p>da <button translate="no">nein</button></p>', ["da"], '<p>da <button translate="no">nein</button></p>'),
        *(
            (f"<p>Ein Hund {kept} hier</p>", ["Ein Hund hier"], kept)
            for kept in (
                '<span translate="no">Nein <b>da</b></span>',
                '<i class="notranslate">Nein</i>',
                '<img translate="no" alt="Nein"/>',
            )
        ),
        (
            '<p>Ein <code translate="yes">Hund <b>da</b></code></p>',
            ["Ein Hund da"],
            '<p><code translate="yes"><b>da</b> Hund</code> Ein</p>',
        ),
        ('<p><img alt="Un caf&eacute; ferm&eacute;"/></p>', ["Un café fermé"], '<p><img alt="fermé café Un"/></p>'),
        (
            """<img xmlns:x="u" xmlns:y="v" x:alt="n" y:alt="n" src='a' alt='deux &amp;\n&Eacute;&#x74;&eacute;s'/>""",
            ["deux & Étés"],
            """<img xmlns:x="u" xmlns:y="v" x:alt="n" y:alt="n" src='a' alt="Étés &amp; deux"/>""",
        ),
        (
            """<img id_="a title='non'" title="un &eacute;t&eacute;"/>""",
            ["un été"],
            """<img id_="a title='non'" title="été un"/>""",
        ),
    ],
)
def test_texts_of_a_chapter(body, found, expected):
    """What is a text by itself, what is not to be translated, and named characters in attributes."""
    data = epub(CHAPTER.format(body))
    assert texts(data, "a.epub") == ["Ein Titel", *found]
    assert expected in parts_of(translated(data, "a.epub", backwards))["OEBPS/chapter.xhtml"]


@pytest.mark.parametrize("element", ["code", "video", "span"])
def test_titles_of_elements_in_a_text(element):
    data = epub(CHAPTER.format(f'<p>da <{element} title="Ein Name">x1</{element}></p>'))
    assert texts(data, "a.epub")[1] == "Ein Name"
    written = parts_of(translated(data, "a.epub", backwards))["OEBPS/chapter.xhtml"]
    assert f'<{element} title="Name Ein">x1</{element}>' in written


def test_copy_protection_is_refused_and_obfuscated_fonts_are_not():
    encryption = (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><EncryptedData '
        'xmlns="http://www.w3.org/2001/04/xmlenc#"><EncryptionMethod Algorithm="{}"/></EncryptedData></encryption>'
    )
    fonts = {"META-INF/encryption.xml": encryption.format("http://www.idpf.org/2008/embedding")}
    assert texts(epub(CHAPTER.format("<p>da</p>"), **fonts), "a.epub") == ["Ein Titel", "da"]
    protected = {"META-INF/encryption.xml": encryption.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc")}
    with pytest.raises(DataError, match="copy protection"):
        texts(epub(CHAPTER.format("<p>da</p>"), **protected), "a.epub")


HTML5 = CHAPTER.replace(CHAPTER.splitlines()[1], "<!DOCTYPE html>").replace("<title>Ein Titel</title>", "<title/>")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<p>Ein&nbsp;<b>Hund</b></p>", "<p><b>Hund</b> Ein</p>"),
        ("<p>Ein Hund<br>da hier</p>", "<p>Hund Ein<br>hier da</p>"),
        ("<p>eins & zwei</p>", "<p>zwei &amp; eins</p>"),
        ('<p><a id="x"/>Ein <b>Hund<p>da hier', "<b>hier da</b>"),
        ('<p>Ein <img src=x.png alt="Ein Bild"></p><hr>', '<img src=x.png alt="Bild Ein">'),
        ('<script src="x"/><p>Ein Hund<br/></b></p>', '<script src="x"></script><p>Hund Ein<br/></p>'),
    ],
)
def test_a_chapter_that_is_not_well_formed_is_read_as_html(body, expected):
    chapter = HTML5.format(body)
    data = epub(chapter, **{"OEBPS/other.xhtml": CHAPTER.format("<p>zwei drei</p>")})
    (warning,) = parse_file(data, "a.epub").warnings
    assert warning.startswith("The chapter OEBPS/chapter.xhtml is not well-formed XML at line")
    assert warning.endswith("; it is read as HTML.")
    written = parts_of(translated(data, "a.epub", backwards))
    assert expected in written["OEBPS/chapter.xhtml"] and "<p>drei zwei</p>" in written["OEBPS/other.xhtml"]
    assert written["OEBPS/chapter.xhtml"].startswith(chapter.partition("<title")[0])
    assert written["OEBPS/chapter.xhtml"].endswith("</html>\n")


def test_a_table_of_contents_that_is_not_well_formed_stays():
    broken = NCX.replace("</text>", " & mehr</text>")
    data = epub(CHAPTER.format("<p>zwei drei</p>"), **{"toc.ncx": broken})
    assert "it stays" in parse_file(data, "a.epub").warnings[0]
    assert parts_of(translated(data, "a.epub", backwards))["toc.ncx"] == broken


def test_a_chapter_that_declares_entities_is_refused():
    with pytest.raises(DataError, match="declares entities"):
        parse_file(epub('<!DOCTYPE html [<!ENTITY a "b">]><html><body><p>&a; Hund<br></p></body></html>'), "a.epub")
