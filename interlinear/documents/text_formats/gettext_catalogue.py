"""gettext catalogues (.po), by polib: a small library without dependencies, which writes gettext's own layout."""

import re
from collections.abc import Sequence

import polib

from interlinear.documents.document import DocumentFile
from interlinear.documents.formats import document_format
from interlinear.documents.messages.messages import read_message
from interlinear.documents.messages.written_messages import PERCENT
from interlinear.documents.reading.encoding import DecodedText, decode_text
from interlinear.errors import DataError

CHARSET = re.compile(r"charset=([\w.:-]+)", re.ASCII)


@document_format(".po", ".pot", declares_encoding=True)
def read_gettext(data: bytes, where: str) -> DocumentFile:
    """A catalogue: messages without translation are translated, others stay. Raises DataError.

    The file keeps its charset if that has all characters of the translations, otherwise it is written in UTF-8 and
    declares it. The first form of a plural is the translation of the singular, all others the translation of the
    plural; a single form is the translation of the plural.
    """
    charset = CHARSET.search(data[:4096].decode("latin-1"))
    is_template = charset is not None and charset[1] == "CHARSET"
    decoded = decode_text(data, where, charset[1] if charset and not is_template else None)
    try:
        # polib would take a text that is the path of a file as such: none begins with a line feed.
        catalogue = polib.pofile(f"\n{decoded.text}", encoding="utf-8")
    except (OSError, ValueError, UnicodeError) as error:
        line = re.search(r"line (\d+)", str(error))
        place = f" at line {max(int(line[1]) - 1, 1)}" if line else ""
        raise DataError(where, f"is not a gettext catalogue{place}", "check it with `msgfmt --check`") from None
    entries = [entry for entry in catalogue if not entry.obsolete and not is_translated(entry) and entry.msgid]
    messages = [
        read_message(text, mnemonics="&_~", syntax=syntax_of(entry))
        for entry in entries
        for text in source_texts(entry)
    ]

    def assemble(rendered: Sequence[str]) -> bytes:
        remaining = iter(rendered)
        for entry in entries:
            fill_entry(entry, [next(remaining) for _ in source_texts(entry)])
        written = f"{catalogue}".removesuffix("\n") + "\n"
        if not is_template and decoded.has_characters_of(written):
            return decoded.encode(written)
        return DecodedText(written).encode(CHARSET.sub("charset=UTF-8", written, count=1))

    return DocumentFile(tuple(messages), assemble)


def syntax_of(entry: polib.POEntry) -> str:
    """The format of printf that its message has, as gettext calls it; "" for others."""
    return next((flag for flag in entry.flags if flag in PERCENT), "")


def is_translated(entry: polib.POEntry) -> bool:
    """Whether an entry has a translation, also one that is marked as fuzzy."""
    return bool(entry.msgstr) or any(entry.msgstr_plural.values())


def source_texts(entry: polib.POEntry) -> list[str]:
    """The texts of an entry: its message, and its plural if it has one."""
    return [entry.msgid, entry.msgid_plural] if entry.msgid_plural else [entry.msgid]


def fill_entry(entry: polib.POEntry, translations: Sequence[str]) -> None:
    """Write the translations of an entry's texts."""
    if not entry.msgid_plural:
        entry.msgstr = translations[0]
        return
    singular, plural = translations
    forms = sorted(entry.msgstr_plural) or [0, 1]
    entry.msgstr_plural = {form: singular if form == 0 and len(forms) > 1 else plural for form in forms}
