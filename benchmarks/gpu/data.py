"""Random sentences and images with the lengths of a real corpus, so that a measurement needs no corpus."""

from dataclasses import dataclass

import numpy as np

from seq2seq.config import ImageGrid
from seq2seq.images.inputs import blank_image

# Words and punctuation marks of a sentence of Multi30k: logarithm's mean and standard deviation; shortest and longest.
LOG_MEAN, LOG_DEVIATION, SHORTEST, LONGEST = 2.5, 0.32, 3, 40
# The logarithm of the ratio of a target's length to its source's has this standard deviation.
RATIO_DEVIATION = 0.15
FIRST_WORD = 4  # smaller ids are special symbols


def random_image(grid: ImageGrid, random: np.random.Generator) -> np.ndarray:
    """A random image with the shape and dtype that a model reads."""
    like = blank_image(grid)
    values = random.normal(size=like.shape) if grid.network is None else random.integers(0, 256, like.shape)
    return values.astype(like.dtype)


@dataclass(frozen=True)
class Lengths:
    """Lengths of sentence pairs in words, without end symbols."""

    source: np.ndarray
    target: np.ndarray


def random_lengths(sentences: int, seed: int = 1) -> Lengths:
    """Lengths of so many pairs."""
    random = np.random.default_rng(seed)
    source = random.lognormal(LOG_MEAN, LOG_DEVIATION, sentences)
    target = source * random.lognormal(0.0, RATIO_DEVIATION, sentences)
    return Lengths(*(np.clip(np.rint(lengths), SHORTEST, LONGEST).astype(int) for lengths in (source, target)))
