"""Generated corpora: German-English sentences, headlines, images with ambiguous captions, and errors to post-edit."""

from pathlib import Path
from typing import Literal

from training.demo import corpus, headlines, postedit, scenes

GeneratedName = Literal["demo", "demo-headline", "demo-image", "demo-postedit"]


def generate(name: GeneratedName, generated: Path) -> Path:
    """The folder of a generated corpus, written below `generated` if it does not exist. Raises DataError."""
    match name:
        case "demo":
            return corpus.generate_once(name, generated, corpus.DEMO, corpus.make_demo)
        case "demo-headline":
            return corpus.generate_once(name, generated, headlines.HEADLINES, headlines.make_headlines)
        case "demo-image":
            return corpus.generate_once(name, generated, scenes.SCENES, scenes.make_scenes)
        case "demo-postedit":
            return corpus.generate_once(name, generated, postedit.POSTEDIT, postedit.make_postedit)
