"""Word documents (.docx): text, tables, headers, footers, footnotes, endnotes and text boxes. Comments stay."""

from collections.abc import Iterator
from functools import partial

from interlinear.documents.document import DocumentFile
from interlinear.documents.events import Event
from interlinear.documents.formats import document_format
from interlinear.documents.reading.xml_tree import Element
from interlinear.documents.xml_formats.package import PackageFormat, open_package
from interlinear.documents.xml_formats.runs import RunNames, RunParagraph, Walk, without_empty_runs
from interlinear.documents.xml_formats.trees import structure

WORDPROCESSING = RunNames(
    paragraph="w:p",
    run="w:r",
    properties="w:rPr",
    text="w:t",
    containers=frozenset("w:hyperlink w:ins w:moveTo w:smartTag w:sdt w:sdtContent w:customXml w:dir w:bdo".split()),
    breaks=frozenset("w:br w:cr w:tab w:ptab".split()),
    dropped=frozenset("w:proofErr w:lastRenderedPageBreak w:softHyphen".split()),
    first=frozenset(
        "w:pPr w:bookmarkStart w:commentRangeStart w:permStart w:moveFromRangeStart w:moveToRangeStart "
        "w:customXmlInsRangeStart w:customXmlDelRangeStart".split()
    ),
    last=frozenset(
        "w:bookmarkEnd w:commentRangeEnd w:permEnd w:moveFromRangeEnd w:moveToRangeEnd w:customXmlInsRangeEnd "
        "w:customXmlDelRangeEnd".split()
    ),
    unseen=frozenset(
        "w:footnoteReference w:endnoteReference w:commentReference w:fldChar w:instrText w:del w:moveFrom".split()
    ),
    characters=(("w:noBreakHyphen", "\u2011"),),
    text_attributes=' xml:space="preserve"',
)
DOCX = PackageFormat(
    kind="a Word document (.docx)",
    main="wordprocessingml.document.main+xml",
    texts=tuple(
        f"wordprocessingml.{part}+xml" for part in ("document.main", "header", "footer", "footnotes", "endnotes")
    ),
    namespaces={
        "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w",
        "http://purl.oclc.org/ooxml/wordprocessingml/main": "w",
    },
    finish=partial(without_empty_runs, names=WORDPROCESSING),
)


@document_format(".docx", is_archive=True)
def read_docx(data: bytes, where: str) -> DocumentFile:
    """A Word document. Raises DataError."""
    return open_package(data, where, DOCX).document_file(walker(WORDPROCESSING))


def walker(names: RunNames) -> Walk:
    """The function that reads an element of a part: a paragraph, or what is around paragraphs."""

    def walk(element: Element) -> Iterator[Event]:
        if element.name == names.paragraph:
            yield from RunParagraph(names, element, walk).events()
        else:
            yield from structure(element, walk)

    return walk
