"""Random documents as files of every format."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

import polib
import yaml

from tests.interlinear.documents.formats import CHAPTER, TMX, XLIFF
from tests.interlinear.documents.packages import docx, epub, odt, pptx, xlsx
from tests.interlinear.documents.random_documents import (
    ANDROID,
    HTML,
    MARKDOWN,
    MESSAGE,
    OPENDOCUMENT,
    SUBTITLES,
    TMX_MARKUP,
    XLIFF_1,
    XLIFF_2,
    XML,
    Block,
    Case,
    Markup,
    Piece,
    choice,
)

Around = Sequence[tuple[str, str]]
OASIS = "urn:oasis:names:tc:xliff:document:"


def in_blocks(blocks: Sequence[Block], case: Case, markup: "Markup | Runs", around: Around) -> str:
    """The blocks, each between two of the tags around."""
    chosen = [choice(around, block.variant) for block in blocks]
    return "".join(
        opening + markup.write(block.pieces, case) + closing
        for block, (opening, closing) in zip(blocks, chosen, strict=True)
    )


def html(blocks: Sequence[Block], case: Case) -> bytes:
    around = [
        ("<p><a href=x?a=1&amp;b>", "</a></p>"), ("<h2 id=x>", "</h2>\n"), ("<ul>\n<li>", "</li></ul>"),
        ("<table><tbody><tr><td>", "</td><td>5</td></tr></tbody></table>"),
        ("<blockquote>\n  ", "\n</blockquote>"), ("<div><!-- Hund --><p>", "</p>5</div>"),
        ("<script>Hund</script><p>", "</p>"), ("<pre>\nHund</pre><section>", "</section>"),
    ]  # fmt: skip
    title = f'<p title="{escape(case(blocks[0].pieces[1].text))}">5</p>'
    body = in_blocks(blocks, case, HTML, around)
    return f"<!doctype html>\n<html>\n<head><title>5</title></head>\n<body>{title}{body}\n</body>\n</html>\n".encode()


def xml(blocks: Sequence[Block], case: Case) -> bytes:
    around = [
        ("<p>", "</p>"), ("<list>\n  <item>", "</item>\n</list>"), ("<x-tag a='Hund'><p>", "</p><n>5</n></x-tag>"),
    ]  # fmt: skip
    return f"<?xml version='1.0'?>\n<doc>{in_blocks(blocks, case, XML, around)}</doc>".encode()


def chapter(blocks: Sequence[Block], case: Case) -> bytes:
    around = [("<p>", "</p>"), ("<h2>", "</h2>\n"), ("<ul><li>", "</li></ul>"), ("<div>\n<!-- Hund -->", "</div>")]
    return epub(CHAPTER.replace("<p>{}</p>", in_blocks(blocks, case, XML, around)))


def text(blocks: Sequence[Block], case: Case) -> bytes:
    ends = ["\n", "\r\n", "\n\n", "\t", "    5    "]
    written = (re.sub(r"\s{2,}|\n", " ", message(block, case)) for block in blocks)
    return "".join(text + choice(ends, block.variant) for text, block in zip(written, blocks, strict=True)).encode()


def message(block: Block, case: Case) -> str:
    """A message; some have branches."""
    written = MESSAGE.write(block.pieces, case)
    if block.variant > 9 and not any(sign in written for sign in ("'", "{{", "${", "%{", "#{")):
        return f"{{n, plural, one {{{written}}} =5 {{5}} other {{# {written}}}}}"
    return written


def messages(blocks: Sequence[Block], case: Case) -> list[str]:
    return [message(block, case) for block in blocks]


def values(blocks: Sequence[Block], case: Case) -> dict[str, object]:
    texts = messages(blocks, case)
    return {"id": "x1", "n": 5, "list": [*texts, None], "nested": {"hund": texts[0]}}


def json_file(blocks: Sequence[Block], case: Case) -> bytes:
    n = blocks[0].variant
    return json.dumps(values(blocks, case), ensure_ascii=n % 2 == 0, indent=n % 3 or None).encode()


def yaml_file(blocks: Sequence[Block], case: Case) -> bytes:
    n = blocks[0].variant
    style = choice([None, "'", '"', "|", ">"], n)
    return yaml.safe_dump(
        values(blocks, case), default_style=style, allow_unicode=n % 2 == 0, default_flow_style=n % 3 == 0
    ).encode()


def csv_file(blocks: Sequence[Block], case: Case, delimiter: str = ",") -> bytes:
    written = io.StringIO()
    n = blocks[0].variant
    quoting = csv.QUOTE_ALL if n % 2 else csv.QUOTE_MINIMAL
    writer = csv.writer(written, delimiter=delimiter, quoting=quoting, lineterminator=choice(["\n", "\r\n"], n))
    writer.writerow(["id", "text", "n"])
    writer.writerows([f"x{n}", text, 5] for n, text in enumerate(messages(blocks, case)))
    return written.getvalue().encode()


def tsv_file(blocks: Sequence[Block], case: Case) -> bytes:
    return csv_file(blocks, case, "\t")


def properties(blocks: Sequence[Block], case: Case) -> bytes:
    return "".join(lines_of_properties(blocks, case)).encode()


def lines_of_properties(blocks: Sequence[Block], case: Case) -> Iterator[str]:
    for n, (block, written) in enumerate(zip(blocks, messages(blocks, case), strict=True)):
        value = written.replace("\\", "\\\\").replace("\n", "\\n")
        if block.variant % 2:
            value = "".join(character if character.isascii() else utf_16(character) for character in value)
        yield f"# Hund\nkey.{n}{choice(['=', ' = ', ': ', ' '], n)}{value}\n"


def utf_16(character: str) -> str:
    written = character.encode("utf-16-be").hex()
    return "".join(f"\\u{written[n : n + 4]}" for n in range(0, len(written), 4))


def strings(blocks: Sequence[Block], case: Case) -> bytes:
    values = [text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') for text in messages(blocks, case)]
    return "".join(f'/* "Hund" = x; */\n"key {n}" = "{value}";\n' for n, value in enumerate(values)).encode()


def android(blocks: Sequence[Block], case: Case) -> bytes:
    around = [
        ('<string name="a">', "</string>\n"), ('<plurals name="b"><item quantity="other">', "</item></plurals>"),
        ('<string-array name="c">\n<item>', "</item></string-array>"),
        ('<string name="d" translatable="false">Hund</string><string name="e">', "</string>"),
    ]  # fmt: skip
    return f'<resources xmlns:xliff="{OASIS}1.2">{in_blocks(blocks, case, ANDROID, around)}</resources>'.encode()


def resx(blocks: Sequence[Block], case: Case) -> bytes:
    data = "".join(
        f'<data name="a{n}" xml:space="preserve"><value>{XML.text(text)}</value><comment>Hund</comment></data>\n'
        for n, text in enumerate(messages(blocks, case))
    )
    return f"<root>{data}</root>".encode()


def po(blocks: Sequence[Block], case: Case) -> bytes:
    catalogue = polib.POFile()
    catalogue.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Plural-Forms": "nplurals=2; plural=n != 1;"}
    catalogue.extend(map(entry, range(len(blocks)), blocks, [case] * len(blocks)))
    return f"{catalogue}".encode()


def entry(n: int, block: Block, case: Case) -> polib.POEntry:
    source, target = ("" if case is str else MESSAGE.write(block.pieces, each) for each in (str, case))
    source = MESSAGE.write(block.pieces, str)
    written = polib.POEntry(msgid=source, msgctxt=f"{n}", occurrences=[("hund.c", "5")])
    if block.variant % 3:
        written.msgstr = target
    else:
        written.msgid_plural = f"{source} Affen"
        written.msgstr_plural = {0: target, 1: target and f"{target} {case('Affen')}"}
    if block.variant % 4 == 1 and not re.search(r"%(?!\w|[(%])", source):
        written.flags = ["python-format"]
    return written


def xliff(blocks: Sequence[Block], case: Case) -> bytes:
    unit = '<trans-unit id="1"><source>{}</source></trans-unit>'
    return XLIFF.replace(unit, in_units(blocks, case, XLIFF_1, "trans-unit")).encode()


def xliff_2(blocks: Sequence[Block], case: Case) -> bytes:
    units = in_units(blocks, case, XLIFF_2, "segment")
    return (
        f'<xliff version="2.0" srcLang="de" trgLang="en" xmlns="{OASIS}2.0"><file id="f"><unit id="u">{units}</unit>'
        "</file></xliff>"
    ).encode()


def in_units(blocks: Sequence[Block], case: Case, markup: Markup, unit: str) -> str:
    return "".join(
        f'<{unit} id="{n}"><source>{markup.write(block.pieces, str)}</source>'
        f"{'' if case is str else f'<target>{markup.write(block.pieces, case)}</target>'}</{unit}>\n"
        for n, block in enumerate(blocks)
    )


def tmx(blocks: Sequence[Block], case: Case) -> bytes:
    unit = '<tu><tuv xml:lang="de"><seg>{}</seg></tuv></tu>'
    written = [unit.format(TMX_MARKUP.write(block.pieces, str)) for block in blocks]
    if case is not str:
        target = '</tuv><tuv xml:lang="und"><seg>{}</seg></tuv></tu>'
        written = [
            source.removesuffix("</tuv></tu>") + target.format(TMX_MARKUP.write(block.pieces, case))
            for source, block in zip(written, blocks, strict=True)
        ]
    return TMX.replace(unit, "".join(written)).encode()


def srt(blocks: Sequence[Block], case: Case, point: str = ",") -> bytes:
    return "".join(
        f"{n}\n00:00:0{n}{point}000 --> 00:00:0{n}{point}900\n{lines(SUBTITLES.write(block.pieces, case))}\n\n"
        for n, block in enumerate(blocks, start=1)
    ).encode()


def lines(text: str) -> str:
    """A text without empty lines, that ends as a sentence: each is in one cue."""
    return "\n".join(filter(None, map(str.strip, text.split("\n")))) + "."


def vtt(blocks: Sequence[Block], case: Case) -> bytes:
    return b"WEBVTT\n\nNOTE Hund\n\n" + srt(blocks, case, ".")


def markdown(blocks: Sequence[Block], case: Case) -> bytes:
    around = [
        ("", ""), ("## ", ""), ("- ", ""), ("> ", ""), ("| ", " | 5 |\n|---|---|\n"), ("```\nHund\n```\n\n", ""),
    ]  # fmt: skip
    written = []
    for block in blocks:
        before, after = choice(around, block.variant)
        content = MARKDOWN.write(block.pieces, case).replace("\n~~~~", " ~~~~")  # or it begins a code block
        if before in ("## ", "| "):
            content = content.replace("  \n", "<br>").replace("\\\n", "<br>")
        written.append(before + content.replace("\n", f"\n{before}" if before == "> " else "\n") + after)
    return ("---\nhund: Hund\n---\n" + "\n\n".join(written) + "\n\n[^1]: 5\n").encode()


@dataclass(frozen=True)
class Runs:
    """How a format of Office writes pieces as runs: a run with its properties and content, and text in one."""

    run: str
    text: str
    properties: Sequence[str]
    line_break: Sequence[str]
    mark: Sequence[str]

    def write(self, pieces: Sequence[Piece], case: Case, formatting: str = "") -> str:
        """The pieces; some words are divided among two runs."""
        written = ""
        for piece in pieces:
            if piece.kind == "element":
                inner = formatting + choice(self.properties, piece.variant)
                written += self.runs(piece.space, formatting) + self.write(piece.content, case, inner)
            elif piece.kind in ("break", "mark"):
                written += choice(self.line_break if piece.kind == "break" else self.mark, piece.variant)
            else:
                text = case(piece.text) if piece.kind == "words" else piece.text
                half = len(text) // 2 if piece.variant % 3 == 0 and piece.kind == "words" else 0
                written += self.runs(piece.space + text[:half], formatting) + self.runs(text[half:], formatting)
        return written

    def runs(self, text: str, formatting: str) -> str:
        return self.run.format(formatting, self.text.format(XML.text(text))) if text else ""


WORD = Runs(
    "<w:r><w:rPr>{}</w:rPr>{}</w:r>", '<w:t xml:space="preserve">{}</w:t>', ["<w:b/>", "<w:i/>", '<w:sz w:val="5"/>'],
    ["<w:r><w:br/></w:r>", "<w:r><w:tab/></w:r>"],
    ['<w:bookmarkStart w:id="5"/><w:bookmarkEnd w:id="5"/>', "<w:proofErr/>",
     '<w:r><w:footnoteReference w:id="5"/></w:r>'],
)  # fmt: skip
SLIDES = Runs(
    "<a:r><a:rPr>{}</a:rPr>{}</a:r>", "<a:t>{}</a:t>", ["<a:latin/>", "<a:cs/>"], ["<a:br/>"],
    ['<a:fld id="x" type="slidenum"><a:t>5</a:t></a:fld>'],
)  # fmt: skip
CELL = Runs(
    "<r><rPr>{}</rPr>{}</r>", '<t xml:space="preserve">{}</t>', ["<b/>", "<i/>"], ["<r><t>\n</t></r>"], [""]
)  # fmt: skip
PLAIN_CELL = Markup(XML.text, [("", "", True)], ["\n"], [""])


def word(blocks: Sequence[Block], case: Case) -> bytes:
    around = [
        ("<w:p>", "</w:p>"), ("<w:tbl><w:tr><w:tc><w:p><w:pPr/>", "</w:p></w:tc></w:tr></w:tbl>"),
        ('<w:p><w:hyperlink w:anchor="x">', "</w:hyperlink></w:p>"),
    ]  # fmt: skip
    return docx(in_blocks(blocks, case, WORD, around), footnotes=f"<w:p>{WORD.write(blocks[0].pieces, case)}</w:p>")


def slides(blocks: Sequence[Block], case: Case) -> bytes:
    return pptx(in_blocks(blocks, case, SLIDES, [("<a:p>", "</a:p>"), ("<a:p><a:pPr/>", "</a:p>")]))


def workbook(blocks: Sequence[Block], case: Case) -> bytes:
    strings = "".join(
        f"<si>{CELL.write(block.pieces, case)}</si>"
        if block.variant % 2
        else f"<si><t>{PLAIN_CELL.write(block.pieces, case)}</t></si>"
        for block in blocks
    )
    cells = "".join(f'<row><c t="s"><v>{n}</v></c><c><v>5</v></c></row>' for n in range(len(blocks)))
    return xlsx(strings, f"<sheetData>{cells}</sheetData>")


PARAGRAPHS = [
    ("<text:p>", "</text:p>"), ("<text:h>", "</text:h>"),
    ("<text:list><text:list-item><text:p>", "</text:p></text:list-item></text:list>"),
    ("<office:annotation><text:p>Hund</text:p></office:annotation><text:p>", "</text:p>"),
]  # fmt: skip


def opendocument(blocks: Sequence[Block], case: Case) -> bytes:
    return odt(in_blocks(blocks, case, OPENDOCUMENT, PARAGRAPHS))


def presentation(blocks: Sequence[Block], case: Case) -> bytes:
    around = [(f"<draw:page>{opening}", f"{closing}</draw:page>") for opening, closing in PARAGRAPHS]
    return odt(in_blocks(blocks, case, OPENDOCUMENT, around), kind="presentation")


def spreadsheet(blocks: Sequence[Block], case: Case) -> bytes:
    cells = in_blocks(blocks, case, OPENDOCUMENT, [("<table:table-cell><text:p>", "</text:p></table:table-cell>")])
    return odt(f"<table:table><table:table-row>{cells}</table:table-row></table:table>", kind="spreadsheet")


WRITERS: dict[str, Callable[[Sequence[Block], Case], bytes]] = {
    ".txt": text, ".md": markdown, ".html": html, ".srt": srt, ".vtt": vtt, ".po": po, ".xlf": xliff,
    ".xlf (2)": xliff_2, ".tmx": tmx, ".json": json_file, ".arb": json_file, ".yaml": yaml_file, ".csv": csv_file,
    ".tsv": tsv_file, ".properties": properties, ".strings": strings, ".xml": android, ".resx": resx, ".docx": word,
    ".pptx": slides, ".xlsx": workbook, ".odt": opendocument, ".odp": presentation, ".ods": spreadsheet,
    ".epub": chapter, "format=xml": xml,
}  # fmt: skip
