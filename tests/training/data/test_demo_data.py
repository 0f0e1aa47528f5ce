"""The demo data sets: text that ships beside its descriptions, with gold alignments that count words as we do."""

from pathlib import Path

import pytest

from interlinear.text import TextConfig, Tokenizer
from training.data.dataset import open_dataset, read_rows
from training.yaml_files import resource_folder


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("demo", {"train": 12_000, "dev": 500, "test": 1_000}),
        ("demo-headline", {"train": 10_000, "dev": 500, "test": 1_000}),
        ("demo-image", {"train": 5_000, "dev": 300, "test": 300}),
        ("demo-postedit", {"train": 6_000, "dev": 400, "test": 400}),
    ],
)
def test_a_demo_set_needs_no_other_files(name: str, sizes: dict[str, int], tmp_path: Path):
    dataset = open_dataset(name, tmp_path)
    for split, size in sizes.items():
        rows = [row.texts for row in read_rows(dataset, split, dataset.fields(split))]
        assert len(rows) == size and all(all(texts[:2]) for texts in rows)
    shipped = {path.relative_to(dataset.path.parent).as_posix() for path in (dataset.path.parent / name).iterdir()}
    assert shipped == set(dataset.paths)  # and no other file ships


def test_the_demos_text_is_small():
    assert sum(path.stat().st_size for path in resource_folder("corpora").glob("demo*/*")) <= 1_600_000


@pytest.mark.parametrize("name", ["demo", "demo-headline"])
def test_gold_alignments_count_words_as_a_tokenizer_does(name: str):
    """Every word is linked but commas, and in a headline `to`."""
    dataset = open_dataset(name)
    rows = [row.texts for row in read_rows(dataset, "test", ("source", "target", "alignment"))]
    tokenised = dataset.field("test", "source").tokenised
    config = TextConfig(units="words", vocabulary=5000, tokenised=tokenised)
    tokenizer = Tokenizer.train([text for row in rows for text in row[:2]], config)
    unlinked: set[str] = set()
    for source, target, alignment in rows:
        sources, targets = ([text[start:end] for start, end in tokenizer.word_spans(text)] for text in (source, target))
        links = [tuple(map(int, link.split("-"))) for link in alignment.split()]
        assert {i for i, _ in links} <= set(range(len(sources)))
        assert {j for _, j in links} <= set(range(len(targets)))
        assert len(set(links)) == len(links)
        unlinked |= {word for j, word in enumerate(targets) if j not in {j for _, j in links}}
        if name == "demo":
            unlinked |= {word for i, word in enumerate(sources) if i not in {i for i, _ in links}}
            assert (len(sources) - 1, len(targets) - 1) in links  # the final punctuation
    assert unlinked == ({","} if name == "demo" else {",", "to"})
