"""Lines of one file written as those of another: several corpora can be one only if they are written alike."""

import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Literal

from seq2seq.errors import DataError

NormalizationStep = Literal["moses", "jieba", "lower", "digits"]
TOKENIZING_STEPS: frozenset[NormalizationStep] = frozenset(["moses", "jieba"])  # the steps that cut a line into words

HAN = "\u3400-\u4dbf\u4e00-\u9fff"


def build_normalizer(
    steps: Sequence[NormalizationStep], language: str | None, unknown: str | None
) -> Callable[[str], str]:
    """The steps in their order as one function of a line. Raises DataError where a segmenter is not installed."""
    made: dict[NormalizationStep, Callable[[], Callable[[str], str]]] = {
        "moses": lambda: moses_tokenizer(language or "en"),
        "jieba": lambda: jieba_segmenter(unknown),
        "lower": lambda: str.lower,
        "digits": lambda: mask_digits,
    }
    functions = [made[step]() for step in steps]
    return lambda line: reduce(lambda text, function: function(text), functions, line)


def moses_tokenizer(language: str) -> Callable[[str], str]:
    """Words and punctuation separated by spaces, as Moses does; the same is done to raw text that a model is given."""
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(language)
    return lambda line: " ".join(tokenizer.tokenize(line, escape=False))


def jieba_segmenter(unknown: str | None) -> Callable[[str], str]:
    """Chinese in jieba's words, whatever words it was in before; the symbol for unknown words stays whole."""
    try:
        from rjieba import cut
    except ImportError:
        raise DataError(
            "jieba", "Chinese is segmented by rjieba, which is not installed", "pip install 'interlinear[chinese]'"
        ) from None
    between = re.compile(rf"(?<=[{HAN}]) +(?=[{HAN}])")

    def segmented(line: str) -> str:
        parts = between.sub("", line).split()
        return " ".join(word for part in parts for word in ([part] if part == unknown else cut(part)))

    return segmented


def mask_digits(line: str) -> str:
    """Every digit written as `#`, as headline corpora have it."""
    return re.sub(r"\d", "#", line)
