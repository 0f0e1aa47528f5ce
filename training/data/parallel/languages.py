"""Language codes in options, file names and TMX: comparison and recognition."""

import re
from collections.abc import Iterable

CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")  # BCP 47's form, accepted for any code
SHORT_CODE = re.compile(r"[a-z]{2}(?:[-_][A-Za-z]{2,4})?")  # ISO 639-1, recognized in names

LanguagePair = tuple[str, str]


def recognized_code(name: str) -> str | None:
    """A name that is a language code, also in capitals; None for another word."""
    code = name.lower() if name.isupper() else name
    return code if SHORT_CODE.fullmatch(code) else None


def normal_code(code: str) -> str:
    """A code in the form in which codes are compared."""
    return code.replace("_", "-").casefold()


def primary_code(code: str) -> str:
    """The language of a code, without script and region."""
    return normal_code(code).partition("-")[0]


def match_code(wanted: str, codes: Iterable[str]) -> str | None:
    """The first code that equals `wanted`; else the first that is a variety of it, or vice versa; else None."""
    normal = {code: normal_code(code) for code in codes}
    target = normal_code(wanted)
    for code, known in normal.items():
        if known == target:
            return code
    for code, known in normal.items():
        if known.startswith(f"{target}-") or target.startswith(f"{known}-"):
            return code
    return None
