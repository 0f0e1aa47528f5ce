r"""Text that a translation must not change, found by patterns (Moses calls them protected patterns):

- URLs and e-mail addresses
- placeholders of templates and formats: `{name}`, `{0}`, `{{ x }}`, `${x}`, `%s`, `%(x)d`, `%1$s`, `%{x}`
- inline tags: `<x id="1"/>`, `<b>`, `</g>`
- emoji, and runs of them
- numbers with their unit or currency: `5 km`, `3,5 %`, `$20`, `10-15 °C`
- plain numbers, dates, times, versions and codes: `27`, `12.05.2023`, `12:30`, `v2.1`, `COVID-19`. The model translates
  the ones that its vocabularies have as words: "2 Hunde" becomes "two dogs" (`RequestEncoder`)

Every pattern takes time linear in the text.
"""

import re
from typing import NamedTuple

from interlinear.generation.terms.placeholders import ADDRESS, PLACEHOLDER, TAG
from interlinear.text.words import UNSPACED_RANGES

MARKUP = rf"{PLACEHOLDER}|(?=<)(?:{TAG})"

SKIN, JOINER, PRESENTATION = "\U0001f3fb-\U0001f3ff", "\u200d", "\ufe0f"
PICTOGRAPH = (
    "[\u203c\u2049\u2139\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u2600-\u27bf\u2b05-\u2b07\u2b1b\u2b1c\u2b50"
    "\u2b55\U0001f000-\U0001f0ff\U0001f170-\U0001f251\U0001f300-\U0001faff]"
)
ONE_EMOJI = rf"(?:[\U0001f1e6-\U0001f1ff]{{2}}|[0-9#*]{PRESENTATION}?\u20e3|{PICTOGRAPH}[{SKIN}{PRESENTATION}]*)"
EMOJI = rf"{ONE_EMOJI}(?:{JOINER}?{ONE_EMOJI})*"

UNITS = (
    "km/h m/s kbit/s Mbit/s Gbit/s kWh MWh kW MW GW kV mAh mV kHz MHz GHz Hz hPa kPa MPa bar mm² cm² km² m² mm³ cm³ m³ "
    "µm nm mm cm dm km mi ft yd px dpi rpm mph mg µg kg lb oz ml cl dl kB MB GB TB KiB MiB GiB kcal kJ dB lm "
    "ms µs min °C °F ° % ‰ € £ ¥ $ ₽ ₴ EUR USD GBP CHF JPY m g l L t h W V K"
).split()
UNIT = "|".join(map(re.escape, sorted(UNITS, key=len, reverse=True)))
DIGITS = r"\d{1,20}(?:[.,'’]\d{1,20}|[ \u00a0\u202f]\d{3}(?!\d)){0,6}"
ONE_SPACE = r"[^\S\r\n\v\f\x1c-\x1e\x85\u2028\u2029]?"  # within a line: the next may begin with a bullet or a unit
RANGE = rf"{DIGITS}(?:{ONE_SPACE}[-–—]{ONE_SPACE}{DIGITS})?"
NUMBER = rf"(?<![\w.,])[+−-]?(?:{RANGE}{ONE_SPACE}(?:{UNIT})(?![\w])|[$€£¥]{ONE_SPACE}{RANGE}(?!\w))"

# Not a part of a word: the "24" of "24-Stunden-Dienst", and the "80" of "80er".
LETTER = rf"[^\W{UNSPACED_RANGES}]"
CODE = r"[A-Z]{0,8}\d[\dA-Zx]{0,30}"
PLAIN = (
    rf"(?:(?<!\S)[+−-])?(?<!{LETTER})(?<!{LETTER}[-–'’])(?:[A-Z]{{1,8}}[-–])?v?{CODE}"
    rf"(?:[.,:/'’–-]{CODE}|[ \u00a0\u202f]\d{{2,20}}){{0,12}}(?!{LETTER}|[-–'’%]{LETTER})"
)

PROTECTED = re.compile("|".join(f"({one})" for one in (ADDRESS, MARKUP, EMOJI, NUMBER, PLAIN)))
PLAIN_GROUP = 5


class ProtectedSpan(NamedTuple):
    """The characters [start, end) of a text that must not change, and whether they are a plain number or code."""

    start: int
    end: int
    plain_number: bool = False


def protected_spans(text: str) -> list[ProtectedSpan]:
    """The spans that must not change, in the order of the text; they do not overlap."""
    return [ProtectedSpan(*match.span(), match.lastindex == PLAIN_GROUP) for match in PROTECTED.finditer(text)]
