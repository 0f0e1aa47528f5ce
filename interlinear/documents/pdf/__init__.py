"""PDF: the text of its pages, by PDFium, as a page of HTML."""
