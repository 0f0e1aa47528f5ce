"""The generated world: a small bilingual corpus, and passages with headlines, both with gold word alignments."""

from pathlib import Path
from typing import Literal

from training.demo import corpus, headlines

Generated = Literal["demo", "demo-headline"]


def generate(name: Generated, generated: Path) -> Path:
    """The folder that holds a generated data set, made below `generated` if it is not there. Raises DataError."""
    if name == "demo":
        return corpus.made_once(name, generated, corpus.DEMO, corpus.make_demo)
    return corpus.made_once(name, generated, headlines.HEADLINES, headlines.make_headlines)
