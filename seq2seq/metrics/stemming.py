"""Words to stems as ROUGE-1.5.5 does it with `-m`: irregular forms by WordNet's lists, the rest by Porter's rules."""

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files

SHORTEST = 4  # letters: shorter words stay as they are

# Porter (1980) counts a stem's measure m: how often vowels are followed by consonants. Capital Y is a y that begins a
# word: a consonant.
_CONSONANT, _VOWEL = "[^aeiou]", "[aeiouy]"
_CONSONANTS, _VOWELS = f"{_CONSONANT}[^aeiouy]*", f"{_VOWEL}[aeiou]*"
_SOME = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}")  # m > 0
_ONE = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}({_VOWELS})?$")  # m = 1
_SEVERAL = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}{_VOWELS}{_CONSONANTS}")  # m > 1
_HAS_VOWEL = re.compile(f"^({_CONSONANTS})?{_VOWEL}")
_SHORT = re.compile(f"^{_CONSONANTS}{_VOWEL}[^aeiouwxy]$")  # consonants, one vowel, one consonant: hop, fil

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ou", "ism", "ate", "iti", "ous", "ive", "ize",
)  # fmt: skip


def _ending(endings: Iterable[str]) -> re.Pattern[str]:
    """Finds the longest of these endings: the one that begins first."""
    return re.compile(f"({'|'.join(endings)})$")


_ENDING_2, _ENDING_3, _ENDING_4 = _ending(_STEP_2), _ending(_STEP_3), _ending(_STEP_4)


@lru_cache(maxsize=1)
def irregular_forms() -> dict[str, str]:
    """Irregular forms and what stands for them."""
    text = (files(__package__) / "wordnet_exceptions.txt").read_text(encoding="ascii")
    return dict(line.split() for line in text.splitlines() if not line.startswith("#"))


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """The stem of a word of lower-case letters a-z and digits."""
    if len(word) < SHORTEST:
        return word
    return irregular_forms().get(word) or porter(word)


def porter(word: str) -> str:
    """Porter's stem, with the original's departures from the paper: `bli` and `logi` in step 2, and step 4 goes on."""
    if word.startswith("y"):
        word = "Y" + word[1:]
    word = _plural(word)
    word = _participle(word)
    if word.endswith("y") and _HAS_VOWEL.match(word[:-1]):
        word = word[:-1] + "i"
    for ending, becomes in ((_ENDING_2, _STEP_2), (_ENDING_3, _STEP_3)):
        found = ending.search(word)
        if found and _SOME.match(word[: found.start()]):
            word = word[: found.start()] + becomes[found[1]]
    word = _last(_suffix(word))
    return word.lower()


def _plural(word: str) -> str:
    """Step 1a: caresses, ponies, cats."""
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if len(word) > 1 and word.endswith("s") and word[-2] != "s" else word


def _participle(word: str) -> str:
    """Step 1b: agreed, plastered, motoring; and what is left is mended: conflat(e), hopp, fil(e)."""
    if word.endswith("eed"):
        return word[:-1] if _SOME.match(word[:-3]) else word
    stem = word.removesuffix("ed") if word.endswith("ed") else word.removesuffix("ing")
    if stem == word or not _HAS_VOWEL.match(stem):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if len(stem) > 1 and stem[-1] == stem[-2] and stem[-1] not in "aeiouylsz":
        return stem[:-1]
    return stem + "e" if _SHORT.match(stem) else stem


def _suffix(word: str) -> str:
    """Step 4: endings taken off where m > 1. What `ement` is not taken from may still lose `ment`, and then `ent`."""
    found = _ENDING_4.search(word)
    if found and _SEVERAL.match(word[: found.start()]):
        word = word[: found.start()]
    if word.endswith("ment") and _SEVERAL.match(word[:-4]):
        word = word[:-4]
    if word.endswith("ent"):
        return word[:-3] if _SEVERAL.match(word[:-3]) else word
    return word[:-3] if word.endswith(("sion", "tion")) and _SEVERAL.match(word[:-3]) else word


def _last(word: str) -> str:
    """Step 5: rate, cease; controll."""
    if word.endswith("e"):
        stem = word[:-1]
        if _SEVERAL.match(stem) or (_ONE.match(stem) and not _SHORT.match(stem)):
            word = stem
    return word[:-1] if word.endswith("ll") and _SEVERAL.match(word) else word
