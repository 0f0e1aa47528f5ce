"""Normalization of text lines, so that corpora with different conventions can be combined."""

import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Literal

from interlinear.errors import DataError
from interlinear.installation import how_to_install

NormalizationStep = Literal["moses", "jieba", "lower", "digits"]
TOKENIZING_STEPS: frozenset[NormalizationStep] = frozenset(["moses", "jieba"])  # steps that split a line into words

HAN = "\u3400-\u4dbf\u4e00-\u9fff"


def build_normalizer(
    steps: Sequence[NormalizationStep], language: str | None, unknown: str | None
) -> Callable[[str], str]:
    """One function that applies the steps to a line, in order. Raises DataError if a segmenter is not installed."""
    builders: dict[NormalizationStep, Callable[[], Callable[[str], str]]] = {
        "moses": lambda: moses_tokenizer(language or "en"),
        "jieba": lambda: jieba_segmenter(unknown),
        "lower": lambda: str.lower,
        "digits": lambda: mask_digits,
    }
    functions = [builders[step]() for step in steps]
    return lambda line: reduce(lambda text, function: function(text), functions, line)


def moses_tokenizer(language: str) -> Callable[[str], str]:
    """Moses tokenization: words and punctuation separated by spaces. Inference applies the same tokenization to raw
    text."""
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(language)
    return lambda line: " ".join(tokenizer.tokenize(line, escape=False))


def jieba_segmenter(unknown: str | None) -> Callable[[str], str]:
    """Segment Chinese text into words with jieba; an existing segmentation is removed first. The symbol for unknown
    words is not split."""
    try:
        from rjieba import cut
    except ImportError:
        raise DataError(
            "jieba", "Chinese is segmented by rjieba, which is not installed", how_to_install("chinese")
        ) from None
    spaces = re.compile(rf"(?<=[{HAN}]) +(?=[{HAN}])")

    def segment(line: str) -> str:
        parts = spaces.sub("", line).split()
        return " ".join(word for part in parts for word in ([part] if part == unknown else cut(part)))

    return segment


def mask_digits(line: str) -> str:
    """Replace each digit with `#`, as in headline corpora."""
    return re.sub(r"\d", "#", line)
