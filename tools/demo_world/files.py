"""The files of the demo data sets: one per field of a split, compressed with gzip."""

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.demo_world.corpus import demo_corpus
from tools.demo_world.headlines import headline_corpus
from tools.demo_world.pairs import pharaoh
from tools.demo_world.postedit import postedit_corpus
from tools.demo_world.scenes import index_row, scene_corpus
from tools.demo_world.text import join_words


def demo_world() -> Iterator[tuple[str, Sequence[str]]]:
    """The path of every file below the folder of the descriptions, and its lines."""
    for split, pairs in demo_corpus().items():
        yield f"demo/{split}.de", [join_words(pair.de) for pair in pairs]
        yield f"demo/{split}.en", [join_words(pair.en) for pair in pairs]
        yield f"demo/{split}.align", [pharaoh(pair.links) for pair in pairs]
    for split, stories in headline_corpus().items():
        yield f"demo-headline/{split}.passage", [" ".join(story.passage) for story in stories]
        yield f"demo-headline/{split}.headline", [" ".join(story.headline) for story in stories]
        yield f"demo-headline/{split}.align", [pharaoh(story.links) for story in stories]
    index: list[str] = []
    for split, scenes in scene_corpus().items():
        yield f"demo-image/{split}.en", [scene.en for scene in scenes]
        yield f"demo-image/{split}.de", [scene.de for scene in scenes]
        yield (
            f"demo-image/{split}.reading",
            [scene.reading.json_line() if scene.reading else "null" for scene in scenes],
        )
        index += [index_row(split, line, scene.image) for line, scene in enumerate(scenes) if scene.image]
    yield "demo-image/scenes.tsv", index
    for split, edits in postedit_corpus().items():
        yield f"demo-postedit/{split}.source", [join_words(edit.source) for edit in edits]
        yield f"demo-postedit/{split}.mt", [join_words(edit.mt) for edit in edits]
        yield f"demo-postedit/{split}.target", [join_words(edit.target) for edit in edits]
        yield f"demo-postedit/{split}.corruptions", [edit.json_line() for edit in edits]


def write_demo_world(folder: Path) -> None:
    """Write every file below `folder`, with `.gz` after its name; the same lines give the same bytes."""
    for name, lines in demo_world():
        path = folder / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{line}\n" for line in lines).encode()
        path.write_bytes(gzip.compress(text, compresslevel=9, mtime=0))
