"""Word classes of English and German words, by the Hanover Tagger (Wartena 2019; package HanTa)."""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

MODELS = {"en": "morphmodel_en.pgz", "de": "morphmodel_ger.pgz"}

# Classes by the beginnings of tags, the first that fits: of CLAWS 5 (English) and of STTS (German).
CLASSES = {
    "en": {
        "name": ("NP0",), "noun": ("N",), "auxiliary": ("VM", "VB", "VD", "VH"), "verb": ("V",), "adjective": ("AJ",),
        "adverb": ("AV", "XX0"), "number": ("CRD", "ORD"), "determiner": ("AT0", "D", "POS"), "pronoun": ("PN", "EX0"),
        "preposition": ("PR", "TO0"), "conjunction": ("CJ",), "punctuation": ("PU",),
    },
    "de": {
        "name": ("NE",), "noun": ("N",), "auxiliary": ("VA", "VM"), "verb": ("V",), "adjective": ("ADJ",),
        "adverb": ("ADV", "PTKNEG", "PAV", "PROAV"), "number": ("CARD",),
        "determiner": ("ART", "PDAT", "PIAT", "PPOSAT"), "preposition": ("AP", "PTKZU"), "conjunction": ("KO",),
        "pronoun": ("P",), "punctuation": ("$",),
    },
}  # fmt: skip


def tagger_languages() -> list[str]:
    """The languages with word classes."""
    return sorted(CLASSES)


def has_tagger() -> bool:
    """Whether HanTa is installed."""
    return find_spec("HanTa") is not None


def word_classes(words: Sequence[str], language: str) -> list[str]:
    """The class of each word of a sentence; `other` for tags outside the classes."""
    tags = [tag for _, _, tag in load_tagger(language).tag_sent(list(words))] if words else []
    return [class_of(tag, language) for tag in tags]


def class_of(tag: str, language: str) -> str:
    for name, beginnings in CLASSES[language].items():
        if tag.startswith(beginnings):
            return name
    return "other"


@cache
def load_tagger(language: str) -> Any:
    from HanTa.HanoverTagger import HanoverTagger

    return HanoverTagger(MODELS[language])
