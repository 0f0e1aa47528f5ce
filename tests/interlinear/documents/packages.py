"""Small office documents, e-books and archives, written part by part, so that a test says what is in them."""

import io
import zipfile
from collections.abc import Mapping, Sequence

TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
APPLICATION = "application/vnd.openxmlformats-officedocument."
DECLARATION = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
OASIS = "urn:oasis:names:tc:opendocument:xmlns:"


def archive(parts: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive of these parts, in their order, and without the time at which it is made."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", compression) as file:
        for name, content in parts.items():
            file.writestr(zipfile.ZipInfo(name), content, compression)
    return written.getvalue()


def parts_of(data: bytes) -> dict[str, str]:
    """The parts of an archive as text."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name).decode() for name in file.namelist()}


def package(main: str, kinds: Mapping[str, str], parts: Mapping[str, str]) -> bytes:
    """A package of Office Open XML: `main` is the name of its main part, `kinds` the content type of each part."""
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="{APPLICATION}{kind}+xml"/>' for name, kind in kinds.items()
    )
    default = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    relation = f'<Relationship Id="rId1" Type="{OFFICE}/officeDocument" Target="{main}"/>'
    return archive(
        {
            "[Content_Types].xml": f'{DECLARATION}<Types xmlns="{TYPES}">{default}{overrides}</Types>',
            "_rels/.rels": f'{DECLARATION}<Relationships xmlns="{RELATIONS}">{relation}</Relationships>',
            **parts,
        }
    )


def docx(body: str, **parts: str) -> bytes:
    """A Word document; further parts by kind, such as `footnotes`."""
    kinds = {"word/document.xml": "wordprocessingml.document.main"}
    kinds |= {f"word/{kind}.xml": f"wordprocessingml.{kind}" for kind in parts}
    document = f'{DECLARATION}<w:document xmlns:w="{W}"><w:body>{body}<w:sectPr/></w:body></w:document>'
    return package(
        "word/document.xml",
        kinds,
        {"word/document.xml": document}
        | {f"word/{kind}.xml": f'<w:{kind} xmlns:w="{W}">{content}</w:{kind}>' for kind, content in parts.items()},
    )


def run(text: str, properties: str = "") -> str:
    """A run of a Word document."""
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def pptx(paragraphs: str) -> bytes:
    """A presentation whose one slide has these paragraphs."""
    kinds = {
        "ppt/presentation.xml": "presentationml.presentation.main",
        "ppt/slides/slide1.xml": "presentationml.slide",
    }
    return package(
        "ppt/presentation.xml",
        kinds,
        {"ppt/presentation.xml": "<presentation/>", "ppt/slides/slide1.xml": f'<sld xmlns:a="{A}">{paragraphs}</sld>'},
    )


def xlsx(strings: str, sheet: str = "", table: str = "", names: str = "") -> bytes:
    """A workbook with these shared strings, and one sheet `Blatt` with this content, table and defined names."""
    kinds = {
        "xl/workbook.xml": "spreadsheetml.sheet.main",
        "xl/sharedStrings.xml": "spreadsheetml.sharedStrings",
        "xl/worksheets/sheet1.xml": "spreadsheetml.worksheet",
        "xl/tables/table1.xml": "spreadsheetml.table",
    }
    relations = {"worksheet": "worksheets/sheet1.xml", "table": "../tables/table1.xml"}
    to_sheet, to_table = (
        f'<Relationships xmlns="{RELATIONS}"><Relationship Id="r1" Type="{OFFICE}/{kind}" Target="{target}"/>'
        "</Relationships>"
        for kind, target in relations.items()
    )
    return package(
        "xl/workbook.xml",
        kinds,
        {
            "xl/workbook.xml": (
                f'<workbook xmlns="{S}" xmlns:r="{OFFICE}"><sheets><sheet name="Blatt" sheetId="1" r:id="r1"/></sheets>'
                f"<definedNames>{names}</definedNames></workbook>"
            ),
            "xl/_rels/workbook.xml.rels": to_sheet,
            "xl/sharedStrings.xml": f'<sst xmlns="{S}">{strings}</sst>',
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{S}">{sheet}</worksheet>',
            "xl/worksheets/_rels/sheet1.xml.rels": to_table,
            "xl/tables/table1.xml": table or f'<table xmlns="{S}"/>',
        },
    )


def odt(body: str, kind: str = "text", **parts: str) -> bytes:
    """An OpenDocument file of a kind; further parts by name."""
    namespaces = " ".join(
        f'xmlns:{prefix}="{OASIS}{name}:1.0"'
        for prefix, name in (("office", "office"), ("text", "text"), ("draw", "drawing"), ("table", "table"))
    )
    content = (
        f'{DECLARATION}<office:document-content {namespaces} office:version="1.3"><office:body><office:text>{body}'
        "</office:text></office:body></office:document-content>"
    )
    manifest = (
        f'<manifest:manifest xmlns:manifest="{OASIS}manifest:1.0" manifest:version="1.3">'
        '<manifest:file-entry manifest:full-path="/" manifest:media-type="application/vnd.oasis.opendocument.text"/>'
        '<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/></manifest:manifest>'
    )
    mimetype = f"application/vnd.oasis.opendocument.{kind}"
    return archive({"mimetype": mimetype, "content.xml": content, "META-INF/manifest.xml": manifest, **parts})


def epub(chapter: str, **parts: str) -> bytes:
    """An e-book of one chapter."""
    return archive({"mimetype": "application/epub+zip", "OEBPS/chapter.xhtml": chapter, **parts})


PICTURE = "q 100 0 0 100 72 600 cm /I Do Q"


def pdf(pages: Sequence[Sequence[tuple[float, float, float, str]] | None], trailer: str = "") -> bytes:
    """A PDF of A4 pages with these texts: left edge, base line, size (negative: bold), text. A page None is a
    picture."""
    objects = {
        1: "<</Type/Catalog/Pages 2 0 R>>",
        3: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        4: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold/Encoding/WinAnsiEncoding>>",
        5: stream("\x7f", "/Type/XObject/Subtype/Image/Width 1/Height 1/BitsPerComponent 8/ColorSpace/DeviceGray"),
    }
    for n, texts in enumerate(pages):
        shown = [
            f"BT /{'B' if size < 0 else 'F'} {abs(size)} Tf {x} {y} Td ({text}) Tj ET"
            for x, y, size, text in texts or ()
        ]
        resources = "<</Font<</F 3 0 R/B 4 0 R>>/XObject<</I 5 0 R>>>>"
        page = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources{resources}/Contents {7 + 2 * n} 0 R>>"
        objects |= {6 + 2 * n: page, 7 + 2 * n: stream("\n".join(shown) if texts is not None else PICTURE)}
    kids = " ".join(f"{6 + 2 * n} 0 R" for n in range(len(pages)))
    objects[2] = f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>"
    written, places = b"%PDF-1.4\n", {}
    for number in sorted(objects):
        places[number] = len(written)
        written += f"{number} 0 obj\n{objects[number]}\nendobj\n".encode("cp1252")
    table = "".join(f"{places[number]:010} 00000 n \n" for number in sorted(objects))
    size = len(objects) + 1
    end = f"trailer<</Size {size}/Root 1 0 R{trailer}>>\nstartxref\n{len(written)}\n%%EOF\n"
    return written + f"xref\n0 {size}\n0000000000 65535 f \n{table}{end}".encode()


def stream(content: str, entries: str = "") -> str:
    """A stream of a PDF."""
    return f"<<{entries}/Length {len(content.encode('cp1252'))}>>\nstream\n{content}\nendstream"
