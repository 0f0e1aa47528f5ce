"""Packages as programs write them: names in any case or with backslashes, types by suffix."""

import re

import pytest

from interlinear.documents.files import parse_file
from interlinear.errors import DataError
from tests.interlinear.documents.formats import document
from tests.interlinear.documents.packages import archive, docx, parts_of, run, xlsx
from tests.interlinear.documents.translations import backwards
from tests.interlinear.documents.translations_of_files import texts, translated

PARAGRAPH = f"<w:p>{run('Ein Hund')}</w:p>"
TYPES, RELATIONS = "[Content_Types].xml", "_rels/.rels"


def by_suffix(data: bytes, kind: str) -> bytes:
    """The package without the type of a part by its name: it is that of the suffix."""
    parts = parts_of(data)
    types, found = re.subn(rf'<Override [^>]*ContentType="([^"]*{kind}\+xml)"/>', "", parts[TYPES])
    assert found == 1
    default = f'<Default Extension="XML" ContentType="application/vnd.openxmlformats-officedocument.{kind}+xml"/>'
    return archive(parts | {TYPES: types.replace("</Types>", f"{default}</Types>")})


def renamed(data: bytes, rename) -> bytes:
    """The archive with other names of its parts, but for that of its type, which comes first."""
    return archive({name if name == "mimetype" else rename(name): part for name, part in parts_of(data).items()})


@pytest.mark.parametrize(
    "target", ["word/document.xml", "/word/document.xml", "./Word/document.xml", "word\\document.xml"]
)
def test_the_main_part_may_have_its_type_by_its_suffix(target):
    data = by_suffix(docx(PARAGRAPH, header=PARAGRAPH), "wordprocessingml.document.main")
    parts = parts_of(data)
    comments = {"word/comments.xml": parts["word/header.xml"]}
    data = archive(parts | comments | {RELATIONS: parts[RELATIONS].replace("word/document.xml", target)})
    assert texts(data, "a.docx") == ["Ein Hund", "Ein Hund"], "the main part and the header, but not the comments"
    written = parts_of(translated(data, "a.docx", backwards))
    assert "Hund Ein" in written["word/document.xml"] and "Ein Hund" in written["word/comments.xml"]


def test_other_parts_may_have_their_type_by_their_suffix():
    assert texts(by_suffix(xlsx("<si><t>Ein Hund</t></si>"), "spreadsheetml.sharedStrings"), "a.xlsx") == ["Ein Hund"]


def test_a_type_by_suffix_does_not_make_a_main_part_of_any():
    data = by_suffix(docx(PARAGRAPH), "wordprocessingml.document.main")
    for relations in ({}, {RELATIONS: parts_of(data)[RELATIONS].replace("word/document.xml", "word/other.xml")}):
        parts = {name: part for name, part in parts_of(data).items() if name != RELATIONS} | relations
        with pytest.raises(DataError, match="is not a Word document"):
            parse_file(archive(parts), "a.docx")


@pytest.mark.parametrize("suffix", [".docx", ".pptx", ".xlsx", ".odt", ".ods", ".epub"])
@pytest.mark.parametrize("rename", [str.upper, str.lower, lambda name: name.replace("/", "\\")])
def test_names_of_parts_in_any_case_and_with_backslashes(suffix, rename):
    data = renamed(document(suffix, "Ein Hund"), rename)
    assert texts(data, f"a{suffix}") == ["Ein Hund"]
    written = parts_of(translated(data, f"a{suffix}", backwards))
    assert list(written) == list(parts_of(data))
    assert any("Hund Ein" in part for part in written.values())


@pytest.mark.parametrize("name", ["..\\bb", "aa\\..\\..\\bb", "\\bb", "C:\\bb"])
def test_backslashes_do_not_lead_out_of_the_archive(name):
    with pytest.raises(DataError, match="unsafe name"):
        parse_file(archive(parts_of(docx(PARAGRAPH)) | {name: "x"}), "a.docx")


def test_macros_are_found_by_any_name_and_type():
    types = '<Default Extension="bin" ContentType="application/vnd.ms-office.vbaProject"/></Types>'
    parts = parts_of(docx(PARAGRAPH))
    by_type = parts | {TYPES: parts[TYPES].replace("</Types>", types), "word/other.bin": "x"}
    for macros in (by_type, parts | {"word\\VBAPROJECT.BIN": "x"}):
        with pytest.raises(DataError, match="has macros"):
            parse_file(archive(macros), "a.docx")
