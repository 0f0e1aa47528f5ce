"""The measured systems, at two sizes, with random weights; and random inputs with the lengths of a real corpus, so that
a measurement needs no corpus."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from interlinear.bundle import Bundle, ModelCard
from interlinear.config import ImageGrid
from interlinear.generation.request import Request
from interlinear.images.decode import blank_image
from interlinear.models.model import Model, build
from interlinear.search import SearchOptions
from interlinear.text import SPECIAL, TextConfig, Tokenizer
from training.recipe import Recipe, load_recipe

Size = Literal["reference", "paper", "tiny"]

REFERENCE = str(Path(__file__).parents[1] / "reference.yaml")
# Each system's recipe with the sizes of its paper. The multimodal recipe has its own: its paper states none for texts
# as short.
PAPER = {
    "rnnsearch": "paper/rnnsearch_2",
    "contextual_gates": "paper/contextual_gates_2",
    "interactive_attention": "paper/interactive_attention_80",
    "uam": "paper/uam",
    "multimodal_hierarchical": "multimodal_hierarchical",
}
SYSTEMS = tuple(PAPER)
VOCABULARY = {"reference": 8000, "paper": 8000, "tiny": 60}

# Words and punctuation marks of a sentence of Multi30k: logarithm's mean and standard deviation; shortest and longest.
LOG_MEAN, LOG_DEVIATION, SHORTEST, LONGEST = 2.5, 0.32, 3, 40
# The logarithm of the ratio of a target's length to its source's has this standard deviation.
RATIO_DEVIATION = 0.15

LETTERS = str.maketrans("0123456789", "abcdefghij")


@dataclass(frozen=True)
class System:
    """A system at a size. tiny: for a run that only shows that everything runs."""

    name: str
    size: Size

    @property
    def vocabulary(self) -> int:
        return VOCABULARY[self.size]

    @property
    def recipe(self) -> Recipe:
        """The recipe; at the size `reference`, with the sizes of benchmarks/reference.yaml."""
        if self.size == "paper":
            return load_recipe(PAPER[self.name])
        recipe = load_recipe(self.name)
        sizes = load_recipe(REFERENCE).model.model_dump(include={"layers", "embedding", "hidden", "dropout"})
        if self.size == "tiny":
            sizes = {"layers": 1, "embedding": 16, "hidden": 16, "dropout": 0.0}
        return recipe.model_copy(update={"model": recipe.model.model_copy(update=sizes)})

    def build(self) -> Model:
        """The model on the CPU."""
        recipe = self.recipe
        torch.manual_seed(1)
        return build(recipe.model_for(dict.fromkeys([*recipe.sources, "target"], self.vocabulary), {}))

    def bundle(self, model: Model) -> Bundle[Model]:
        """The model as a bundle that is not on disk."""
        tokenizers = dict.fromkeys([*model.config.texts, "target"], numbered_words(self.vocabulary))
        return Bundle(model, tokenizers, ModelCard(model=model.config), Path("nowhere"))

    def request(self, model: Model, source: int, target: int, beam: int, random: np.random.Generator) -> Request:
        """A search of a random sentence of `source` words, whose output has `target` words."""
        assert max(source, target) <= LONGEST
        config = model.config
        words = len(SPECIAL) + random.integers(0, self.vocabulary - len(SPECIAL), (len(config.texts), source))
        return Request(
            {name: " ".join(map(numbered_word, row)) for name, row in zip(config.texts, words.tolist(), strict=True)},
            SearchOptions(beam=beam, min_length=target, max_length=target, repetition_guard=False),
            images={name: random_image(grid, random) for name, grid in config.images.items()},
        )


@cache
def numbered_words(vocabulary: int) -> Tokenizer:
    """A tokenizer whose words are numbered by their ids."""
    config = TextConfig(units="words", vocabulary=vocabulary)
    return Tokenizer(config, [*SPECIAL, *map(numbered_word, range(len(SPECIAL), vocabulary))])


def numbered_word(number: int) -> str:
    """The word with this id, in letters: a text of digits is not searched."""
    return str(number).translate(LETTERS)


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
