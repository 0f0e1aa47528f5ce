"""Documents as public reports have them: what is translated, and that all else stays as it is."""

import io
import zipfile
from pathlib import Path

import pytest

from interlinear.documents import AlignedText
from interlinear.documents.files import parse_file
from interlinear.text import word_spans

FOLDER = Path(__file__).parents[2] / "data" / "documents"
# For each file its texts, and what its translation in capitals has.
REPORTED: dict[str, tuple[list[str], str]] = {
    "line-breaks/a.docx": (["Der Hund schläft.\nDie Katze schläft."], "<w:br/></w:r><w:r><w:t xml:space="),
    "line-breaks/b.po": (["Der Hund schläft.\n"], 'msgstr "DER HUND SCHLÄFT.\\n"'),
    "line-breaks/c.html": (["Der Hund schläft.\nDie Katze schläft."], "<p>DER HUND SCHLÄFT.<br>DIE KATZE SCHLÄFT.</p>"),
    "line-breaks/d.xlsx": (["Der Hund schläft.\nDie Katze schläft."], "<t>DER HUND SCHLÄFT.\nDIE KATZE SCHLÄFT.</t>"),
    "line-breaks/e.json": (["Der Hund schläft.\nDie Katze schläft."], '"DER HUND SCHLÄFT.\\nDIE KATZE SCHLÄFT."'),
    "entities-cut-words/a.json": (
        ["Der Hund\xa0schläft.", "Die Kränkte schläft.", "Größe"],
        '"a": "DER HUND&nbsp;SCHLÄFT."',
    ),
    "br-glues-words/a.json": (["Der Hund\nschläft."] * 2, 'HUND<br>SCHLÄFT.", "b": "DER HUND<br/>SCHLÄFT."}'),
    "space-before-lone-tag/a.json": (["Der Pilot sieht im Garten."] * 2, "SIEHT <icon/> IM GARTEN."),
    "printf-order/a.po": (["Einen Apfel mit Ringen gibt dem Hund."], "MIT %d RINGEN GIBT %s DEM HUND."),
    "printf-forms/a.po": (
        ["Der Ring ist groß.", "Der Hund schläft.", "Der Pilot sieht Hunde."],
        'msgstr "DER HUND SCHLÄFT %ds."',
    ),
    "framework-placeholders/a.json": (
        [
            "Der Pilot sieht im Garten.",
            "Der Pilot sieht im Garten.",
            "Der müde Pilot füttert den kleinen Hund.",
            "Der Pilot sieht im Garten.",
        ],
        '"react": "DER <0>MÜDE</0> PILOT FÜTTERT DEN <1>KLEINEN HUND</1>."',
    ),
    "icu/a.json": (
        ["Der Hund schläft.", "Hunde schlafen."],
        "{count, plural, one {DER HUND SCHLÄFT.} other {# HUNDE SCHLAFEN.}}",
    ),
    "triple-braces/a.json": (["Der Pilot sieht im Garten."] * 2, 'SIEHT {{{name}}} IM GARTEN.", "b": "DER'),
    "digits-in-inline-element/a.html": (
        ["Der Hund sieht die Katze."],
        '<p>DER HUND<sup><a href="#r">1</a></sup> SIEHT DIE KATZE.</p>',
    ),
    "digits-in-inline-element/b.docx": (["Der Hund sieht die Katze."], "DER HUND</w:t></w:r><w:r><w:rPr><w:vertAlign"),
    "parts-without-letters/a.docx": (["\nDer Hund schläft."], '<w:t xml:space="preserve">1.</w:t></w:r><w:r><w:tab/>'),
    "srt-blank-line/a.srt": (["Die Katze sieht den Hund.", "Der Affe schläft."], ",000\n\nDIE KATZE SIEHT DEN HUND.\n"),
    "cue-grouping/a.srt": (["Der Hund schläft.", "Die Katze schläft."], "\n1984\n"),
    "vtt-times/a.vtt": (["Der Hund schläft."], "<v Anna>DER HUND SCHLÄFT.</v>"),
    "xlsx-t-str/a.xlsx": (["Der Hund schläft.", "Die Katze"], 't="str"><v>DER HUND SCHLÄFT.</v>'),
    "default-content-type/a.docx": (["Der Hund schläft."], "DER HUND SCHLÄFT."),
    "backslash-names/a.xlsx": (["Der Hund schläft."], "DER HUND SCHLÄFT."),
    "epub-one-bad-chapter/a.epub": (["Der Hund", "Der Hund schläft.", "Der Hund", "Der\xa0Hund schläft."], "DER\xa0"),
    "epub-one-bad-chapter/b.epub": (["Der Hund", "Der Hund schläft.", "Der Hund", "Der Hund schläft.\n"], ".<br></p>"),
    "odt-spaces/a.odt": (
        ["Der Hund schläft.", "Der Hund\nschläft."],
        '<text:s text:c="4"/>DER HUND SCHLÄFT.</text:p><text:p>DER HUND<text:s text:c="5"/>SCHLÄFT.',
    ),
    "php-instruction/a.html": (["Der Hund schläft."], "<p>DER HUND <?php echo $name; ?> SCHLÄFT.</p>"),
    "template-tags/b.docx": (["Der Hund schläft."], "{% for x in hunde %}</w:t>"),
    "template-tags/c.html": (["Der Hund schläft."], "{% block hund %}<p>DER HUND SCHLÄFT.</p>{% endblock %}"),
    "soft-hyphen/a.html": (["Der Hund sieht die Krankenschwester."], "<p>DER HUND SIEHT DIE KRANKENSCHWESTER.</p>"),
    "mastodon-mentions/a.html": (["Der Pilot sieht den Hund."], "<span>hund</span></a></span> DER PILOT SIEHT DEN"),
    "url-over-spans/a.html": (
        ["Der Hund schläft."],
        '<span class="invisible">https://www.</span><span class="ellipsis">example.org/der/hund/schl</span>',
    ),
    "escaped-tags/a.xlf": (["Der Hund schläft."], "<target>DER &lt;b&gt;HUND&lt;/b&gt; SCHLÄFT.</target>"),
    "fldsimple-link/a.docx": (["Der Pilot sieht den Hund heute."], 'DEN HUND</w:t></w:r></w:fldSimple>'),
    "docx-ruby/a.docx": (["Der Hund sieht die Katze im Garten."], "DIE KATZE</w:t></w:r></w:rubyBase>"),
    "xliff-state-new/a.xlf": (["Der Hund schläft."], "<target>DER HUND SCHLÄFT.</target>"),
    "emoji-first/a.txt": (["😆 Die Katze sieht den Hund."], "😆 DIE KATZE SIEHT DEN HUND."),
    "angle-brackets/a.txt": (["<Der Hund schläft.>"], "<DER HUND SCHLÄFT.>"),
}  # fmt: skip
# With its texts as they were, what a file's writer changes: a target or a translation is new, an unknown entity of a
# chapter is read, a string's attribute, `&shy;` is written as the character.
CHANGED = {
    "line-breaks/b.po", "printf-order/a.po", "printf-forms/a.po", "escaped-tags/a.xlf", "xliff-state-new/a.xlf",
    "xlsx-t-str/a.xlsx", "epub-one-bad-chapter/a.epub",
    "soft-hyphen/a.html",
}  # fmt: skip


def translated(text: str, capitals: bool) -> AlignedText:
    words = word_spans(text)
    return AlignedText(
        text.upper() if capitals and "ß" not in text else text, words, words, [(i, i) for i in range(len(words))]
    )


def displayed(data: bytes) -> str:
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return data.decode()
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return "\n".join(file.read(name).decode(errors="replace") for name in file.namelist())


@pytest.mark.parametrize("name", REPORTED)
def test_texts_are_translated_in_their_places(name):
    texts, written = REPORTED[name]
    file = parse_file((FOLDER / name).read_bytes(), name)
    assert [segment.text for segment in file.segments] == texts
    assert written in displayed(file.render([translated(text, True) for text in texts], "en"))


@pytest.mark.parametrize("name", sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*/?.*")))
def test_what_is_not_translated_stays_byte_for_byte(name):
    data = (FOLDER / name).read_bytes()
    file = parse_file(data, name)
    same = file.render([translated(segment.text, False) for segment in file.segments]) == data
    assert same != (name in CHANGED)
