"""Workbooks: texts of cells however they are written; headers of tables stay, and what names texts is warned of."""

from pathlib import Path

import pytest

from interlinear.documents.files import parse_file
from tests.interlinear.documents.packages import S, parts_of, xlsx
from tests.interlinear.documents.translations import backwards
from tests.interlinear.documents.translations_of_files import texts, translated

DATA = Path("tests/data/documents")
SHEET, STRINGS = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"


def table(reference: str, *columns: str, attributes: str = "", content: str = "") -> str:
    names = "".join(f'<tableColumn id="{n}" name="{name}"/>' for n, name in enumerate(columns, start=1))
    columns = f"<tableColumns>{names}</tableColumns>"
    return f'<table xmlns="{S}" ref="{reference}"{attributes}>{content}{columns}</table>'


def rows(*cells: str) -> str:
    """A sheet with each cell in a row of its own."""
    return f"<sheetData>{''.join(f'<row>{cell}</row>' for cell in cells)}</sheetData>"


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ('<c r="A1" t="str"><v>Ein Hund</v></c>', '<c r="A1" t="str"><v>Hund Ein</v></c>'),
        (
            '<c t="str"><v xml:space="preserve">a &amp; {x}</v></c>',
            '<c t="str"><v xml:space="preserve">&amp; a {x}</v></c>',
        ),
        ('<c t="str"><f>A2</f><v>Ein Hund</v></c>', None),
        ('<c t="str"><f/><v>Ein Hund</v></c>', None),
        ('<c t="e"><v>#NAME da</v></c>', None),
        ('<c t="str"><v></v></c>', None),
        ('<c t="str"><v/></c>', None),
        ('<c t="str"/>', None),
    ],
)
def test_a_value_that_is_a_text_and_not_computed_is_translated(cell, expected):
    data = xlsx("<si><t>da hier</t></si>", rows(cell))
    assert parts_of(translated(data, "a.xlsx", backwards))[SHEET] == parts_of(data)[SHEET].replace(
        cell, expected or cell
    )


def test_a_workbook_of_sheetjs():
    assert texts((DATA / "sheetjs.xlsx").read_bytes(), "a.xlsx") == ["Der Hund schläft.", "Die Katze"]


def test_the_header_of_a_table_stays_and_equal_texts_elsewhere_do_not():
    sheets = [
        parts_of(translated((DATA / "table.xlsx").read_bytes(), "a.xlsx", backwards))[f"xl/worksheets/sheet{n}.xml"]
        for n in (1, 2)
    ]
    assert "<is><t>Hund</t></is>" in sheets[0] and "<is><t>Preis</t></is>" in sheets[0]
    found = texts((DATA / "table.xlsx").read_bytes(), "a.xlsx")
    assert "Hund" in found and found.count("Zustand") == 1 and "Preis" not in found


SHARED = (
    '<c r="B2" s="3" t="s"><v>0</v></c>',
    '<c r="B3" t="s"><v>1</v></c>',
    '<c r="B4" t="s"><v>0</v></c>',
)


def test_a_header_that_shares_its_text_with_another_cell_gets_its_own():
    string = "<si><r><t>Ein </t></r><r><rPr><b/></rPr><t>Hund</t></r></si>"
    data = xlsx(f"{string}<si><t>da hier</t></si>", rows(*SHARED), table("B2:B4", "Ein Hund"))
    assert texts(data, "a.xlsx") == ["Ein Hund", "da hier"]
    written = parts_of(translated(data, "a.xlsx", backwards))
    own = '<c r="B2" s="3" t="inlineStr"><is><r><t>Ein </t></r><r><rPr><b/></rPr><t>Hund</t></r></is></c>'
    assert written[SHEET] == parts_of(data)[SHEET].replace(SHARED[0], own)
    assert "hier da" in written[STRINGS] and string not in written[STRINGS]


@pytest.mark.parametrize(
    ("reference", "attributes", "found"),
    [
        ("B2:B4", "", ["da hier"]),
        ("$B$2:$B$4", "", ["da hier"]),
        ("B2", "", ["da hier"]),
        ("A1:B4", "", ["Ein Hund", "da hier"]),
        ("B2:B4", ' headerRowCount="0"', ["Ein Hund", "da hier"]),
        ("nonsense", "", ["Ein Hund", "da hier"]),
    ],
)
def test_only_cells_in_the_first_row_of_a_table_are_headers(reference, attributes, found):
    strings = "<si><t>Ein Hund</t></si><si><t>da hier</t></si>"
    data = xlsx(strings, rows(*SHARED[:2]), table(reference, "Ein Hund", attributes=attributes))
    assert texts(data, "a.xlsx") == found


@pytest.mark.parametrize("cell", ['<c t="str"><v>Ein Hund</v></c>', '<c t="inlineStr"><is><t>Ein Hund</t></is></c>'])
def test_headers_that_have_texts_of_their_own_and_no_references(cell):
    data = xlsx("<si><t>da hier</t></si>", rows(cell, cell), table("A1:A2", "Ein Hund"))
    written = parts_of(translated(data, "a.xlsx", backwards))[SHEET]
    assert written == parts_of(data)[SHEET].replace(
        f"{cell}</row></s", f"{cell.replace('Ein Hund', 'Hund Ein')}</row></s"
    )


EXTENSION = (
    '<extLst><x:ext xmlns:x="x14"><x:dataValidation><x:f>"rot,Ein Hund"</x:f><x:sqref>D9</x:sqref>'
    "</x:dataValidation></x:ext></extLst>"
)


@pytest.mark.parametrize(
    ("content", "kind", "place"),
    [
        (rows('<c r="A1"><f>IF(B2="Ein Hund",1,0)</f></c>'), "formulas", "Blatt!A1"),
        (rows('<c r="A1"><f>COUNTIF(B:B,"*ein hund*")</f></c>'), "formulas", "Blatt!A1"),
        ('<dataValidation type="list" sqref="A1:A9"><formula1>"rot,Ein Hund"</formula1></dataValidation>',
         "validation lists", "Blatt!A1:A9"),
        (EXTENSION, "validation lists", "Blatt!D9"),
        ('<conditionalFormatting sqref="B1"><cfRule type="containsText" text="Ein Hund"><formula>1</formula></cfRule>'
         "</conditionalFormatting>", "conditional formats", "Blatt!B1"),
        ('<conditionalFormatting sqref="B1"><cfRule><formula>$B1="Ein Hund"</formula></cfRule></conditionalFormatting>',
         "conditional formats", "Blatt!B1"),
        ('<autoFilter ref="A1:B2"><filterColumn colId="0"><filters><filter val="Ein Hund"/></filters></filterColumn>'
         "</autoFilter>", "filters", "Blatt!A1:B2"),
        ('<autoFilter ref="A1"><customFilters><customFilter val="Ein Hund*"/></customFilters></autoFilter>',
         "filters", "Blatt!A1"),
    ],
)  # fmt: skip
def test_what_names_a_translated_text_stays_and_is_warned_of(content, kind, place):
    strings = "<si><t>Ein Hund</t></si>"
    data = xlsx(strings, content)
    (warning,) = parse_file(data, "a.xlsx").warnings
    assert (
        warning.startswith(f"{kind.capitalize()} name texts")
        and f": {place} (" in warning
        and "ein hund" in warning.lower()
    )
    assert parts_of(translated(data, "a.xlsx", backwards))[SHEET] == parts_of(data)[SHEET]
    assert parse_file(xlsx("<si><t>da hier</t></si>", content), "a.xlsx").warnings == ()


def test_names_and_tables_that_name_a_translated_text():
    names = '<definedName name="Arten">{"Hund","Ein Hund"}</definedName><definedName name="x">Blatt!$A$1</definedName>'
    filtered = (
        '<autoFilter ref="A1:A9"><filterColumn><filters><filter val="ein Hund"/></filters></filterColumn></autoFilter>'
    )
    data = xlsx("<si><t>Ein Hund</t></si>", table=table("A1:A9", content=filtered), names=names)
    assert parse_file(data, "a.xlsx").warnings == (
        "Filters name texts that are translated in cells, and stay: A1:A9 (ein Hund).",
        "Defined names name texts that are translated in cells, and stay: Arten (Ein Hund).",
    )


def test_a_warning_names_ten_places():
    cells = [f'<c r="A{n}"><f>B{n}="Ein Hund"</f></c>' for n in range(1, 31)]
    (warning,) = parse_file(xlsx("<si><t>Ein Hund</t></si>", rows(*cells)), "a.xlsx").warnings
    assert "Blatt!A10" in warning and "Blatt!A11" not in warning and warning.endswith(" and 20 more.")
