"""The generated world: a small bilingual corpus with gold word alignments."""

from training.demo.corpus import generate

__all__ = ["generate"]
