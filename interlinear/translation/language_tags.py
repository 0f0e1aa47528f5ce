"""Language tags (BCP 47): English names, and the served language for a requested tag."""

from collections.abc import Iterable
from functools import lru_cache

import langcodes

MAX_TAG = 35  # longest tag that is parsed, in characters (RFC 5646, 4.4.1)
SAME_LANGUAGE = 1  # largest CLDR distance of two codes that are taken for one language, as nb and no, or cmn and zh
LIBRETRANSLATE_CODES = {"pb": "pt-BR", "zt": "zh-Hant"}  # LibreTranslate's former codes, which it still accepts
VARIANTS = {"Hans": "simplified", "Hant": "traditional", "Latn": "Latin", "Cyrl": "Cyrillic", "BR": "Brazil"}

NAMES = {
    "af": "Afrikaans", "am": "Amharic", "an": "Aragonese", "ar": "Arabic", "as": "Assamese", "az": "Azerbaijani",
    "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali", "br": "Breton", "bs": "Bosnian", "ca": "Catalan",
    "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "dz": "Dzongkha", "el": "Greek", "en": "English",
    "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish",
    "fo": "Faroese", "fr": "French", "ga": "Irish", "gl": "Galician", "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "ht": "Haitian", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "is": "Icelandic",
    "it": "Italian", "ja": "Japanese", "jv": "Javanese", "ka": "Georgian", "kk": "Kazakh", "km": "Khmer",
    "kn": "Kannada", "ko": "Korean", "ku": "Kurdish", "ky": "Kyrgyz", "la": "Latin", "lb": "Luxembourgish", "lo": "Lao",
    "lt": "Lithuanian", "lv": "Latvian", "mg": "Malagasy", "mk": "Macedonian", "ml": "Malayalam", "mn": "Mongolian",
    "mr": "Marathi", "ms": "Malay", "mt": "Maltese", "nb": "Norwegian Bokmål", "ne": "Nepali", "nl": "Dutch",
    "nn": "Norwegian Nynorsk", "no": "Norwegian", "oc": "Occitan", "or": "Odia", "pa": "Punjabi", "pl": "Polish",
    "ps": "Pashto", "pt": "Portuguese", "qu": "Quechua", "ro": "Romanian", "ru": "Russian", "rw": "Kinyarwanda",
    "se": "Northern Sami", "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian",
    "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish",
    "ug": "Uyghur", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "vo": "Volapük", "wa": "Walloon",
    "xh": "Xhosa", "yi": "Yiddish", "zh": "Chinese", "zu": "Zulu",
}  # fmt: skip


def language_name(code: str) -> str:
    """The English name of a language, with its script or region, such as "Chinese (traditional)"; its code if it is
    unknown."""
    base, *variants = code.replace("_", "-").split("-")
    name = NAMES.get(base.lower())
    if name is None:
        return code
    return f"{name} ({', '.join(VARIANTS.get(part, part) for part in variants)})" if variants else name


def closest_language(tag: str, served: Iterable[str]) -> str | None:
    """The served language that a tag means: itself, else the closest variant of the same language; None if there is
    none.

    Case, `_` for `-`, deprecated and three-letter codes do not matter. A variant means its base language and vice
    versa (`pt-BR` and `pt`), and one variant another (`en-GB` and `en-US`). Other languages never match, however
    close they are.
    """
    codes = list(served)
    if tag in codes:
        return tag
    distances = [(distance, i) for i, code in enumerate(codes) if (distance := tag_distance(tag, code)) is not None]
    return codes[min(distances)[1]] if distances else None


@lru_cache(maxsize=4096)
def tag_distance(tag: str, served: str) -> int | None:
    """CLDR's distance of two tags (0: the same); None if they are not of one language, or not valid."""
    if max(len(tag), len(served)) > MAX_TAG:
        return None
    try:
        requested, other = (
            langcodes.standardize_tag(LIBRETRANSLATE_CODES.get(one.lower(), one)) for one in (tag, served)
        )
        distance = int(langcodes.tag_distance(requested, other))
        same = langcodes.Language.get(requested).language == langcodes.Language.get(other).language
    except ValueError:  # of which LanguageTagError is one
        return None
    return distance if (same or distance <= SAME_LANGUAGE) and langcodes.tag_is_valid(requested) else None
