"""Presentations (.pptx): the text of slides and notes."""

from functools import partial

from interlinear.documents.document import DocumentFile
from interlinear.documents.formats import document_format
from interlinear.documents.xml_formats.package import PackageFormat, open_package
from interlinear.documents.xml_formats.runs import RunNames, without_empty_runs
from interlinear.documents.xml_formats.word import walker

DRAWING = RunNames(
    paragraph="a:p",
    run="a:r",
    properties="a:rPr",
    text="a:t",
    breaks=frozenset(["a:br"]),
    first=frozenset(["a:pPr"]),
    last=frozenset(["a:endParaRPr"]),
)
PPTX = PackageFormat(
    kind="a presentation (.pptx)",
    main="presentationml.presentation.main+xml",
    texts=("presentationml.slide+xml", "presentationml.notesSlide+xml"),
    namespaces={
        "http://schemas.openxmlformats.org/drawingml/2006/main": "a",
        "http://purl.oclc.org/ooxml/drawingml/main": "a",
    },
    finish=partial(without_empty_runs, names=DRAWING),
)


@document_format(".pptx", is_archive=True)
def read_pptx(data: bytes, where: str) -> DocumentFile:
    """A presentation. Raises DataError."""
    return open_package(data, where, PPTX).document_file(walker(DRAWING))
