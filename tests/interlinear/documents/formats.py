"""A small document of every format, with one sentence as its text."""

from tests.interlinear.documents.packages import docx, epub, odt, pdf, pptx, run, xlsx

XLIFF = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="de" '
    'target-language="en" datatype="plaintext" original="x"><body><trans-unit id="1"><source>{}</source></trans-unit>'
    "</body></file></xliff>"
)
TMX = (
    '<tmx version="1.4"><header srclang="de" segtype="sentence" adminlang="en" o-tmf="x" datatype="plaintext" '
    'creationtool="x" creationtoolversion="1"/><body><tu><tuv xml:lang="de"><seg>{}</seg></tuv></tu></body></tmx>'
)
PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "{}"\nmsgstr ""\n'
CHAPTER = '<html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body><p>{}</p></body></html>'
CELL = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
SHEET = f"<table:table><table:table-row>{CELL}</table:table-row></table:table>"


def document(suffix: str, sentence: str) -> bytes:
    """A document of the format with this suffix."""
    match suffix:
        case ".docx":
            return docx(f"<w:p>{run(sentence)}</w:p>")
        case ".pptx":
            return pptx(f"<a:p><a:r><a:t>{sentence}</a:t></a:r></a:p>")
        case ".xlsx":
            return xlsx(f"<si><t>{sentence}</t></si>")
        case ".odt":
            return odt(f"<text:p>{sentence}</text:p>")
        case ".odp":
            return odt(f"<text:p>{sentence}</text:p>", kind="presentation")
        case ".ods":
            return odt(SHEET.format(sentence), kind="spreadsheet")
        case ".epub":
            return epub(CHAPTER.format(sentence))
        case ".json" | ".arb":
            return f'{{"a": "{sentence}"}}'.encode()
        case ".yaml" | ".yml":
            return f"a: {sentence}\n".encode()
        case ".csv":
            return f"id,text\n1,{sentence}\n".encode()
        case ".tsv":
            return f"id\ttext\n1\t{sentence}\n".encode()
        case ".properties":
            return f"a={sentence}\n".encode()
        case ".strings":
            return f'"a" = "{sentence}";\n'.encode()
        case ".xml":
            return f'<resources><string name="a">{sentence}</string></resources>'.encode()
        case ".resx":
            return f'<root><data name="a" xml:space="preserve"><value>{sentence}</value></data></root>'.encode()
        case ".pdf":
            return pdf([[(72, 700, 11, sentence)]])
        case ".srt":
            return f"1\n00:00:01,000 --> 00:00:02,000\n{sentence}\n".encode()
        case ".vtt":
            return f"WEBVTT\n\n00:01.000 --> 00:02.000\n{sentence}\n".encode()
        case ".po" | ".pot":
            return PO.format(sentence).encode()
        case ".xlf" | ".xliff":
            return XLIFF.format(sentence).encode()
        case ".tmx":
            return TMX.format(sentence).encode()
        case ".html" | ".htm":
            return f"<p>{sentence}</p>".encode()
        case _:
            return f"{sentence}\n".encode()
