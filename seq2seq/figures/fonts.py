"""The fonts of a picture: every letter of its words has a glyph, or the picture is refused."""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from seq2seq.errors import FigureError

WORDS, PLAIN = "DejaVu Serif", "DejaVu Sans"  # they come with matplotlib: a picture looks the same everywhere
EAST_ASIAN = "notojp_matplotlib"  # the package with Noto Sans CJK, one font with the letters of China, Japan and Korea

FALLBACK_FONT = "Last Resort"  # comes with matplotlib: a box with its number for every letter there could be

INVISIBLE_CATEGORIES = ("Cc", "Cf", "Zs", "Zl", "Zp")  # categories of letters that need no glyph
VARIANTS = range(0xFE00, 0xFE10)  # say how the letter before looks
MAX_NAMED = 8  # missing letters that an error names


def font_families(texts: Iterable[str], font: Path | None = None, first: str = WORDS) -> list[str]:
    """The font families that texts are set in: a letter comes from the first family that has it.

    `font` is a font's file, and then the only one. Otherwise: `first`, matplotlib's own, Noto Sans CJK, and whatever
    else is installed and needed. Raises FigureError, which names the letters that have no glyph, and for no font.
    """
    missing = {letter for text in texts for letter in text if needs_glyph(letter)}
    if font is not None:
        if missing := missing_glyphs(font, missing):
            raise FigureError(
                str(font), f"the font has no glyph for {format_letters(missing)}", "name a font that has them"
            )
        return [register_font(font)]
    from matplotlib.font_manager import findfont

    families = list(dict.fromkeys((first, WORDS, PLAIN)))
    for family in families:
        missing = missing_glyphs(Path(findfont(family)), missing)
    if missing and (carried := east_asian_font()):
        families.append(register_font(carried))
        missing = missing_glyphs(carried, missing)
    while missing and (found := find_installed_font(missing)):
        families.append(register_font(found))
        missing = missing_glyphs(found, missing)
    if missing:
        raise FigureError(
            "the picture's words",
            f"no installed font has a glyph for {format_letters(missing)}",
            "install one that has them (notofonts.github.io has one for every script), or name its file: --font",
        )
    return families


def needs_glyph(letter: str) -> bool:
    """Whether a letter needs a glyph."""
    return unicodedata.category(letter) not in INVISIBLE_CATEGORIES and ord(letter) not in VARIANTS


def format_letters(letters: Iterable[str]) -> str:
    """Letters for an error: as they are, and by their numbers, since a terminal may lack them too."""
    ordered = sorted(letters)
    some = ", ".join(f"'{letter}' (U+{ord(letter):04X})" for letter in ordered[:MAX_NAMED])
    return f"{some} and {len(ordered) - MAX_NAMED} more" if len(ordered) > MAX_NAMED else some


def missing_glyphs(font: Path, letters: set[str]) -> set[str]:
    """Those letters that a font's file does not have. Raises FigureError for a file that is no font."""
    from matplotlib.ft2font import FT2Font

    try:
        face = FT2Font(str(font))
    except (OSError, RuntimeError) as error:
        raise FigureError(str(font), f"cannot be read as a font ({error})", "name a .ttf or .otf file") from None
    return {letter for letter in letters if not face.get_char_index(ord(letter))}


@lru_cache
def register_font(font: Path) -> str:
    """Let matplotlib know a font's file; returns its family."""
    from matplotlib.font_manager import fontManager
    from matplotlib.ft2font import FT2Font

    if all(Path(known.fname) != font for known in fontManager.ttflist):
        fontManager.addfont(font)
    return str(FT2Font(str(font)).family_name)


@lru_cache
def east_asian_font() -> Path | None:
    """The file of Noto Sans CJK. Its package is not imported, since that would change matplotlib's settings."""
    package = find_spec(EAST_ASIAN)
    if package is None or not package.submodule_search_locations:
        return None
    return next(Path(package.submodule_search_locations[0], "fonts").glob("*.otf"), None)


def find_installed_font(letters: set[str]) -> Path | None:
    """Of the upright fonts on this machine the one with most of these letters; None where no font has any."""
    from matplotlib.font_manager import fontManager

    best: tuple[int, Path] | None = None
    known = {Path(f.fname) for f in fontManager.ttflist if f.style == "normal" and not f.name.startswith(FALLBACK_FONT)}
    for path in sorted(known):
        try:
            found = len(letters) - len(missing_glyphs(path, letters))
        except FigureError:  # pictures of letters, as in some fonts of emoji, cannot be drawn
            continue
        if found and (best is None or found > best[0]):
            best = found, path
    return best[1] if best else None
