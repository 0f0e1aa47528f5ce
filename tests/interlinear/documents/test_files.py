"""Files that are hostile, damaged or not what they say: each is refused with a sentence that names the cause."""

import html
import io
import json
import random
import struct
import zipfile

import pytest

from interlinear.components import DOCUMENT_FORMATS
from interlinear.documents import AlignedText, formats
from interlinear.documents.files import parse_file, read_file
from interlinear.documents.formats import ReadOptions
from interlinear.documents.reading import archive as limits
from interlinear.errors import DataError
from tests.interlinear.documents.formats import document
from tests.interlinear.documents.packages import archive, docx, odt, parts_of, pdf, run, xlsx
from tests.interlinear.documents.translations import backwards, same

PARAGRAPH = f"<w:p>{run('Ein Hund')}</w:p>"
ENTITY = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
BILLION = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
XLIFF = '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><source>&x;</source></xliff>'


def with_parts(data: bytes, **parts: str) -> bytes:
    """A package with further parts, or others in their place; `__` in a name is a slash, and `_` a full stop."""
    return archive(parts_of(data) | {name.replace("__", "/").replace("_", "."): part for name, part in parts.items()})


def encrypted(data: bytes) -> bytes:
    """The archive with the flag of encryption in every entry."""
    changed = bytearray(data)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = changed.find(signature)
        while at >= 0:
            changed[at + offset] |= 1
            at = changed.find(signature, at + 4)
    return bytes(changed)


def renamed(data: bytes, old: str, new: str) -> bytes:
    """The archive with a name of the same length in place of another, which zipfile would not write."""
    assert len(old) == len(new)
    return data.replace(old.encode(), new.encode())


ENCRYPTION = f"/ID[<00><00>]/Encrypt<</Filter/Standard/V 1/R 2/P -4/O<{'00' * 32}>/U<{'00' * 32}>>>"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)
MACROS = parts_of(docx(PARAGRAPH))["[Content_Types].xml"].replace("document.main+xml", "document.macroEnabled.main+xml")
TWO_PARTS = with_parts(docx(PARAGRAPH), aa__bb="x", cc__bb="y")
NESTED = "<w:sdt>" * 5000 + PARAGRAPH + "</w:sdt>" * 5000


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a.txt", b" \n\t ", "is empty"),
        ("a.docx", b"", "is empty"),
        ("a.docx", docx("<w:p/>"), "no text to translate"),
        ("a.txt", b"12 %\n", "no text to translate"),
        ("a.docx", OLE + "EncryptedPackage".encode("utf-16-le"), "encrypted with a password"),
        ("a.docx", OLE, "old binary format"),
        ("a.docx", encrypted(docx(PARAGRAPH)), "encrypted with a password"),
        ("a.odt", odt("<text:p>da</text:p>", **{"META-INF/manifest.xml": (
            '<manifest xmlns="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><encryption-data/></manifest>'
        )}), "encrypted with a password"),
        ("a.docx", b"Ein Hund", "no zip archive"),
        ("a.docx", odt("<text:p>da</text:p>"), "it has no part [Content_Types].xml"),
        ("a.docx", xlsx("<si><t>da</t></si>"), "is not a Word document"),
        ("a.odt", docx(PARAGRAPH), "it has no part mimetype"),
        ("a.odt", odt("<text:p>da</text:p>", kind="graphics"), "is not an OpenDocument text"),
        ("a.txt", docx(PARAGRAPH), "not a text file, but a zip archive"),
        ("a.md", b"%PDF-1.7 ...", "not a text file, but a PDF"),
        ("a.txt", b"Ein \xff Hund", "is not text in utf-8: see byte 4"),
        ("a.txt", b"Ein\0Hund", "bytes of zero"),
        ("a.html", b"<meta charset=zlib_codec>Ein Hund", "encoding 'zlib_codec'"),
        ("a.srt", b"Ein Hund", "no subtitles"),
        ("a.json", b'{"a": Hund}', "line 1, column 7"),
        ("a.json", b"[" * 100_000, "JSON"),
        ("a.po", b'msgid "Ein Hund\nHund', "not a gettext catalogue"),
        ("a.xlf", (ENTITY + XLIFF).encode(), "declares entities"),
        ("a.xlf", (BILLION + XLIFF).encode(), "declares entities"),
        ("a.xlf", XLIFF.encode(), "undefined entity"),
        ("a.docx", with_parts(docx(""), word__document_xml=f"{ENTITY}<a>&x;</a>"), "declares entities"),
        ("a.docx", with_parts(docx(""), word__document_xml="<a>Hund"), "word/document.xml: is not well-formed"),
        ("a.docx", docx(NESTED), "more than 200 elements inside each other"),
        ("a.odt", odt("", **{"content.xml": f"{ENTITY}<a>&x;</a>"}), "declares entities"),
        ("a.docm", docx(PARAGRAPH), "may have macros"),
        ("a.docx", archive(parts_of(docx(PARAGRAPH)) | {"[Content_Types].xml": MACROS}), "has macros"),
        ("a.docx", archive(parts_of(docx(PARAGRAPH)) | {"word/vbaProject.bin": "x"}), "has macros"),
        ("a.odt", odt("<text:p>da</text:p>", **{"Basic/script-lc.xml": "x"}), "has macros"),
        ("a.docx", docx(PARAGRAPH)[:-60], "damaged archive"),
        ("a.docx", docx(PARAGRAPH).replace(b"word/document.xml", b"word/document.xmk", 1), "damaged archive"),
        ("a.docx", renamed(TWO_PARTS, "aa/bb", "../bb"), "unsafe name, '../bb'"),
        ("a.docx", renamed(TWO_PARTS, "aa/bb", "/a/bb"), "unsafe name, '/a/bb'"),
        ("a.docx", renamed(TWO_PARTS, "aa/bb", "cc/bb"), "two parts of one name"),
        ("a.docx", archive(parts_of(docx(PARAGRAPH)), zipfile.ZIP_BZIP2), "in a way that documents do not"),
        ("a.pdf", b"Ein Hund", "is not a PDF"),
        ("a.pdf", b"%PDF-1.7 Ein Hund", "is a damaged PDF"),
        ("a.pdf", pdf([[(72, 700, 11, "Ein Hund")]], ENCRYPTION), "encrypted with a password"),
        ("a.pdf", pdf([None]), "its pages are pictures"),
        ("a.pdf", pdf([[]]), "no text to translate"),
        ("a.xyz", b"Ein Hund", "unknown format: .xyz"),
        ("a.yml", b"a: [Hund", "is not valid YAML at line 2"),
        ("a.yml", b"[" * 100_000, "more than 200 collections inside each other"),
        ("a.csv", b'a;b\n"Ein Hund;x', "a cell in quotes without end, at line 2"),
        ("a.xml", b"<a>Ein Hund</a>", "its root is <a>"),
        ("a.xml", (ENTITY + "<resources>&x;</resources>").encode(), "declares entities"),
        ("a.resx", b"<resources><string>Hund</string></resources>", "its root is <resources>"),
        ("a.doc", b"Ein Hund", "format that is not read: .doc"),
        ("Makefile", b"Ein Hund", "no suffix"),
    ],
)  # fmt: skip
def test_what_is_refused(name, data, problem):
    with pytest.raises(DataError) as error:
        parse_file(data, name)
    assert problem in str(error.value)
    assert error.value.where.startswith(name) and error.value.remedy


def test_a_part_that_is_damaged_is_found_when_it_is_read():
    data = bytearray(docx(PARAGRAPH))
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        info = file.getinfo("word/document.xml")
    at = info.header_offset + 30 + len(info.filename) + 10
    data[at : at + 8] = b"\xff" * 8
    with pytest.raises(DataError, match="damaged archive"):
        parse_file(bytes(data), "a.docx")


def test_zip_bombs_are_refused_by_what_their_directory_says_and_never_expanded():
    bomb = archive(parts_of(docx(PARAGRAPH)) | {"word/header1.xml": b" " * 30_000_000})
    assert len(bomb) < 100_000
    types = parts_of(docx(PARAGRAPH, header=PARAGRAPH))["[Content_Types].xml"].replace("header.xml", "header1.xml")
    part = archive(parts_of(bomb) | {"[Content_Types].xml": types})
    with pytest.raises(DataError, match=r"a part of 30 MB, word/header1\.xml"):
        parse_file(part, "a.docx")


@pytest.mark.parametrize(("behind", "says"), [(0, "a part of 3 MB"), (200_000, "damaged archive"), (10**9, "damaged")])
def test_a_part_that_lies_about_its_packed_size_is_refused(behind, says):
    """By a size that reaches over what is behind the packed part its ratio would be a normal one."""
    long = parts_of(docx(PARAGRAPH))["word/document.xml"] + " " * 3_000_000
    parts = parts_of(docx(PARAGRAPH)) | {"word/document.xml": long, "picture.png": random.Random(1).randbytes(300_000)}
    data = bytearray(archive(parts))
    entry = data.rindex(b"PK\1\2", 0, data.rindex(b"word/document.xml"))
    (packed,) = struct.unpack_from("<I", data, entry + 20)
    struct.pack_into("<I", data, entry + 20, packed + behind)
    with pytest.raises(DataError, match=says):
        parse_file(bytes(data), "a.docx")


def test_all_parts_together_are_bounded(monkeypatch):
    monkeypatch.setattr(limits, "MAX_EXPANDED", 100)
    with pytest.raises(DataError, match="expands to more than"):
        parse_file(docx(PARAGRAPH), "a.docx")
    monkeypatch.setattr(limits, "MAX_ENTRIES", 2)
    with pytest.raises(DataError, match="has 3 parts, and at most 2"):
        parse_file(docx(PARAGRAPH), "a.docx")


def test_a_file_of_200_mb_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "a.docx"
    with path.open("wb") as file:
        file.truncate(200_000_000)
    with pytest.raises(DataError, match=r"has 200\.0 MB, and at most 50 MB are read"):
        read_file(path)
    with pytest.raises(DataError, match="at most 10 MB"):
        parse_file(b"a" * (formats.MAX_TEXT_BYTES + 1), "a.txt")


def test_every_suffix_has_its_reader():
    for suffix in DOCUMENT_FORMATS:
        with pytest.raises(DataError):
            parse_file(b"\xff\xfe\xff", f"a{suffix}")


def test_keys_and_encodings_are_of_some_formats():
    with pytest.raises(DataError, match="neither keys nor columns"):
        parse_file(b"Ein Hund", "a.txt", ReadOptions(keys=("a",)))
    with pytest.raises(DataError, match="says its encoding itself"):
        parse_file(docx(PARAGRAPH), "a.docx", ReadOptions(encoding="cp1251"))
    with pytest.raises(DataError, match="'zlib_codec'"):
        parse_file(b"Ein Hund", "a.txt", ReadOptions(encoding="zlib_codec"))


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.json", "a.yml", "a.csv", "a.properties"])
def test_an_old_file_keeps_the_encoding_that_is_named_or_is_in_utf_8(name):
    suffix = name[1:]
    options = ReadOptions(encoding="cp1251")
    data = document(suffix, "Привет мир").decode().encode("cp1251")
    file = parse_file(data, name, options)
    assert [segment.text for segment in file.segments] == ["Привет мир"]
    assert file.render([same("Привет мир")]) == data
    written = file.render([AlignedText("Größe")])
    assert "Größe" in html.unescape(written.decode("cp1251" if suffix == ".html" else "utf-8"))


def test_a_file_is_rendered_with_as_many_translations_as_it_has_texts():
    file = parse_file(json.dumps(["Ein Hund", "zwei"]).encode(), "a.json")
    with pytest.raises(ValueError):
        file.render([])


SAMPLES = {
    "a.docx": docx(f"<w:p>{run('Ein ')}{run('Hund', '<w:rPr><w:b/></w:rPr>')}</w:p>"),
    "a.odt": odt("<text:p>ein <text:span>Satz</text:span><text:tab/>da</text:p>"),
    "a.md": b"# Ein *Hund*\n\n- [eins](x) `y`\n\n|a|b|\n|-|-|\n|c|d|\n",
    "a.srt": b"1\n00:00:01,000 --> 00:00:02,000\nEin <i>Hund\n\n2\n00:00:02,000 --> 00:00:03,000\nda</i> hier.\n",
    "a.json": b'{"a": ["Ein {x} Hund", "<b>da</b> \\u00e4"]}',
    "a.yml": b"de:\n  a: \"Ein Hund\" # x\n  b: |\n    eine Zeile\n    zwei\n  c: [da, 'er da']\n",
    "a.csv": b'id;text\n1;Ein Hund\n2;"da; ""hier"""\n',
    "a.properties": b"a=Ein \\\n  Hund\\u00e4\nb: da hier\n",
    "a.strings": b'"a" = "Ein \\"Hund\\" da";\n',
    "a.xml": b'<resources><string name="a">Ein <b>Hund</b></string><string name="b">er\\\'s da</string></resources>',
    "a.resx": b'<root><data name="a"><value>Ein Hund &lt;da&gt;</value></data></root>',
    "a.po": b'msgid "Ein %s Hund"\nmsgid_plural "%d da"\nmsgstr[0] ""\nmsgstr[1] ""\n',
}


def mutated(data: bytes, draw: random.Random) -> bytes:
    """The bytes with some of them changed, lost, doubled or moved."""
    for _ in range(draw.randint(1, 4)):
        start, other = draw.randrange(len(data)), draw.randrange(len(data))
        end = start + draw.randint(1, 12)
        piece = draw.choice([b"", data[start:end] * 2, bytes([draw.randrange(256)]), data[other : other + 20], b"<b>"])
        data = (data[:start] + piece + data[end:]) or b"x"
    return data


@pytest.mark.parametrize("name", SAMPLES)
def test_a_damaged_file_is_refused_or_written_so_that_it_can_be_read(name):
    draw = random.Random(1)
    rendered = 0
    for n in range(100):
        parts = parts_of(SAMPLES[name]) if name in ("a.docx", "a.odt") and n % 2 else {}
        if parts:
            part = draw.choice(sorted(parts))
            data = archive(parts | {part: mutated(parts[part].encode(), draw)})
        else:
            data = mutated(SAMPLES[name], draw)
        try:
            file = parse_file(data, name)
            written = file.render([backwards(segment.text) for segment in file.segments])
        except DataError:
            continue
        rendered += 1
        try:
            parse_file(written, name)
        except DataError as error:
            assert "no text to translate" in error.problem
    assert rendered
