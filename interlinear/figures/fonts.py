"""Font selection for figures: every letter of a text needs a glyph, or an error is raised."""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from matplotlib.font_manager import findfont, fontManager
from matplotlib.ft2font import FT2Font

from interlinear.errors import FigureError

WORDS, PLAIN = "DejaVu Serif", "DejaVu Sans"  # included in matplotlib, so that figures look the same on every machine
EAST_ASIAN = "notojp_matplotlib"  # package with Noto Sans CJK, a font for Chinese, Japanese and Korean

FALLBACK_FONT = "Last Resort"  # included in matplotlib: draws a placeholder box for every code point

INVISIBLE_CATEGORIES = ("Cc", "Cf", "Zs", "Zl", "Zp")  # Unicode categories without a glyph
VARIANTS = range(0xFE00, 0xFE10)  # variation selectors, which modify the preceding letter
MAX_NAMED = 8  # missing letters listed in an error message


def font_families(texts: Iterable[str], font: Path | None = None, first: str = WORDS) -> list[str]:
    """Font families for these texts; a letter is drawn in the first family that has it.

    `font`: path of a font file, which is then the only font. Otherwise: `first`, matplotlib's fonts, Noto Sans CJK, and
    other installed fonts as needed. Raises FigureError, which lists the letters without a glyph, or if `font` is not a
    font file.
    """
    missing = {letter for text in texts for letter in text if needs_glyph(letter)}
    if font is not None:
        if missing := missing_glyphs(font, missing):
            raise FigureError(
                str(font), f"the font has no glyph for {format_letters(missing)}", "name a font that has them"
            )
        return [register_font(font)]
    families = list(dict.fromkeys((first, WORDS, PLAIN)))
    for family in families:
        missing = missing_glyphs(Path(findfont(family)), missing)
    if missing and (east_asian := east_asian_font()):
        families.append(register_font(east_asian))
        missing = missing_glyphs(east_asian, missing)
    while missing and (installed := find_installed_font(missing)):
        families.append(register_font(installed))
        missing = missing_glyphs(installed, missing)
    if missing:
        raise FigureError(
            "the picture's words",
            f"no installed font has a glyph for {format_letters(missing)}",
            "install one that has them (notofonts.github.io has one for every script), or name its file: --font",
        )
    return families


def printable(text: str) -> str:
    """The text with U+FFFD in place of control characters and surrogates, which no SVG may have; line ends stay."""
    return "".join(
        "\ufffd" if unicodedata.category(letter) in ("Cc", "Cs") and letter != "\n" else letter for letter in text
    )


def needs_glyph(letter: str) -> bool:
    """Whether a letter needs a glyph."""
    return unicodedata.category(letter) not in INVISIBLE_CATEGORIES and ord(letter) not in VARIANTS


def format_letters(letters: Iterable[str]) -> str:
    """Lists letters for an error message, with code points, since a terminal may lack the glyphs too."""
    ordered = sorted(letters)
    listed = ", ".join(f"'{letter}' (U+{ord(letter):04X})" for letter in ordered[:MAX_NAMED])
    return f"{listed} and {len(ordered) - MAX_NAMED} more" if len(ordered) > MAX_NAMED else listed


def missing_glyphs(font: Path, letters: set[str]) -> set[str]:
    """The letters without a glyph in a font file. Raises FigureError if the file is not a font."""
    try:
        face = FT2Font(str(font))
    except (OSError, RuntimeError) as error:
        raise FigureError(str(font), f"cannot be read as a font ({error})", "name a .ttf or .otf file") from None
    return {letter for letter in letters if not face.get_char_index(ord(letter))}


@lru_cache
def register_font(font: Path) -> str:
    """Registers a font file with matplotlib; returns the font's family."""
    if all(Path(known.fname) != font for known in fontManager.ttflist):
        fontManager.addfont(font)
    return str(FT2Font(str(font)).family_name)


@lru_cache
def east_asian_font() -> Path | None:
    """Path of Noto Sans CJK, or None. Its package is not imported, since that would change matplotlib's settings."""
    package = find_spec(EAST_ASIAN)
    if package is None or not package.submodule_search_locations:
        return None
    return next(Path(package.submodule_search_locations[0], "fonts").glob("*.otf"), None)


def find_installed_font(letters: set[str]) -> Path | None:
    """The installed upright font with the most of these letters; None if no font has any."""
    best: tuple[int, Path] | None = None
    paths = {Path(f.fname) for f in fontManager.ttflist if f.style == "normal" and not f.name.startswith(FALLBACK_FONT)}
    for path in sorted(paths):
        try:
            count = len(letters) - len(missing_glyphs(path, letters))
        except FigureError:  # bitmap fonts, such as some emoji fonts, cannot be drawn
            continue
        if count and (best is None or count > best[0]):
            best = count, path
    return best[1] if best else None
