"""Files that other programs wrote: kept ones (tests/data/documents/programs), and those of packages."""

import io
from pathlib import Path

import docx
import pptx
from docx.enum.text import WD_BREAK

FOLDER = Path(__file__).parents[2] / "data" / "documents" / "programs"


def python_docx() -> bytes:
    document = docx.Document()
    document.add_heading("Der Hund im Garten", 0)
    paragraph = document.add_paragraph("Der ")
    paragraph.add_run("kleine").bold = True
    paragraph.add_run(" Hund").add_break(WD_BREAK.LINE)
    paragraph.add_run("schläft\tim Garten.").italic = True
    document.add_paragraph("Der zweite Punkt", style="List Bullet")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Zahl der Beine", "4"
    document.sections[0].header.paragraphs[0].text = "Kopf der Seite"
    return saved(document)


def python_pptx() -> bytes:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "Der Hund im Garten"
    frame = slide.placeholders[1].text_frame
    frame.text = "Der zweite Punkt\vnoch eine Zeile"
    run = frame.add_paragraph().add_run()
    run.text, run.font.bold, run.hyperlink.address = "Zahl der Beine", True, "https://example.org/"
    slide.notes_slide.notes_text_frame.text = "Eine Notiz"
    table = slide.shapes.add_table(1, 1, 0, 0, 999999, 999999).table
    table.cell(0, 0).text = "Eine Zelle"
    return saved(presentation)


def saved(document) -> bytes:
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


MADE = {"python-docx.docx": python_docx, "python-pptx.pptx": python_pptx}
NAMES = [*sorted(path.name for path in FOLDER.iterdir() if path.suffix != ".md"), *MADE]


def file_of_program(name: str) -> bytes:
    return MADE[name]() if name in MADE else (FOLDER / name).read_bytes()
