"""Formats of XML, alone or in an archive: office documents, e-books, XLIFF, TMX."""
