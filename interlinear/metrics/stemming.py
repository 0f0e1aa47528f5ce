"""Stemming as in ROUGE-1.5.5 with `-m`: WordNet's exception lists for irregular forms, Porter's algorithm otherwise."""

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files

SHORTEST = 4  # letters; shorter words are not stemmed

# A stem's measure m (Porter 1980) is the number of vowel-consonant sequences in it. A capital Y stands for a y at the
# beginning of a word, which is a consonant.
_CONSONANT, _VOWEL = "[^aeiou]", "[aeiouy]"
_CONSONANTS, _VOWELS = f"{_CONSONANT}[^aeiouy]*", f"{_VOWEL}[aeiou]*"
_MEASURE_OVER_0 = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}")  # m > 0
_MEASURE_1 = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}({_VOWELS})?$")  # m = 1
_MEASURE_OVER_1 = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}{_VOWELS}{_CONSONANTS}")  # m > 1
_HAS_VOWEL = re.compile(f"^({_CONSONANTS})?{_VOWEL}")
_SHORT_SYLLABLE = re.compile(f"^{_CONSONANTS}{_VOWEL}[^aeiouwxy]$")  # consonants, one vowel, one consonant: hop, fil

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ou", "ism", "ate", "iti", "ous", "ive", "ize",
)  # fmt: skip


def _ending_pattern(endings: Iterable[str]) -> re.Pattern[str]:
    """A pattern whose search finds the longest of these endings: the one that starts first."""
    return re.compile(f"({'|'.join(endings)})$")


_ENDING_2, _ENDING_3, _ENDING_4 = _ending_pattern(_STEP_2), _ending_pattern(_STEP_3), _ending_pattern(_STEP_4)


@lru_cache(maxsize=1)
def irregular_forms() -> dict[str, str]:
    """Maps irregular forms to their base forms."""
    text = (files(__package__) / "wordnet_exceptions.txt").read_text(encoding="ascii")
    return dict(line.split() for line in text.splitlines() if not line.startswith("#"))


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """Stem of a word that consists of lower-case letters a-z and digits."""
    if len(word) < SHORTEST:
        return word
    return irregular_forms().get(word) or porter(word)


def porter(word: str) -> str:
    """Porter's stem, with his program's departures from the paper: `bli` and `logi` in step 2, a longer step 4."""
    if word.startswith("y"):
        word = "Y" + word[1:]
    word = _step_1a(word)
    word = _step_1b(word)
    if word.endswith("y") and _HAS_VOWEL.match(word[:-1]):
        word = word[:-1] + "i"
    for ending, replacements in ((_ENDING_2, _STEP_2), (_ENDING_3, _STEP_3)):
        match = ending.search(word)
        if match and _MEASURE_OVER_0.match(word[: match.start()]):
            word = word[: match.start()] + replacements[match[1]]
    word = _step_5(_step_4(word))
    return word.lower()


def _step_1a(word: str) -> str:
    """Step 1a removes plural endings: caresses, ponies, cats."""
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if len(word) > 1 and word.endswith("s") and word[-2] != "s" else word


def _step_1b(word: str) -> str:
    """Step 1b shortens -eed, removes -ed and -ing, then repairs the stem: conflat(e), hop(p), fil(e)."""
    if word.endswith("eed"):
        return word[:-1] if _MEASURE_OVER_0.match(word[:-3]) else word
    stem = word.removesuffix("ed") if word.endswith("ed") else word.removesuffix("ing")
    if stem == word or not _HAS_VOWEL.match(stem):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if len(stem) > 1 and stem[-1] == stem[-2] and stem[-1] not in "aeiouylsz":
        return stem[:-1]
    return stem + "e" if _SHORT_SYLLABLE.match(stem) else stem


def _step_4(word: str) -> str:
    """Step 4 removes endings where m > 1. A word that kept `ement` can still lose `ment`, and then `ent`."""
    match = _ENDING_4.search(word)
    if match and _MEASURE_OVER_1.match(word[: match.start()]):
        word = word[: match.start()]
    if word.endswith("ment") and _MEASURE_OVER_1.match(word[:-4]):
        word = word[:-4]
    if word.endswith("ent"):
        return word[:-3] if _MEASURE_OVER_1.match(word[:-3]) else word
    return word[:-3] if word.endswith(("sion", "tion")) and _MEASURE_OVER_1.match(word[:-3]) else word


def _step_5(word: str) -> str:
    """Step 5 removes a final e and reduces a final ll: rate, cease; controll."""
    if word.endswith("e"):
        stem = word[:-1]
        if _MEASURE_OVER_1.match(stem) or (_MEASURE_1.match(stem) and not _SHORT_SYLLABLE.match(stem)):
            word = stem
    return word[:-1] if word.endswith("ll") and _MEASURE_OVER_1.match(word) else word
