"""Splits of long sentences, made by joining neighbouring lines."""

from pathlib import Path

import pytest
import yaml

from interlinear.errors import DataError
from training.data.dataset import Dataset, open_dataset, read_lines, read_rows

FILES = [[f"{letter}{i}" for i in range(size)] for letter, size in (("a", 50), ("b", 31))]
WORDS_PER_LINE = 3


def dataset(folder: Path, **joined: object) -> Dataset:
    """A test split of two files a side, with three words to every source line, and two references."""
    for number, names in enumerate(FILES):
        sources = [" ".join([name, *["x"] * (WORDS_PER_LINE - 1)]) for name in names]
        (folder / f"{number}.de").write_text("".join(f"{line}\n" for line in sources))
        for kind in ("en", "ref"):
            (folder / f"{number}.{kind}").write_text("".join(f"{kind}-{name}\n" for name in names))
    target = {"files": ["0.en", "1.en"], "references": [["0.ref", "1.ref"]]}
    content = {
        "task": "translation",
        "about": "Short lines",
        "licence": "none",
        "languages": {"source": "de", "target": "en"},
        "splits": {"test": {"source": ["0.de", "1.de"], "target": target}},
        "joined": {"test_joined": {"split": "test", "over": 6, "up_to": 12, "seed": 1, **joined}},
    }
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    return open_dataset(str(path))


def pairs(data: Dataset) -> list[tuple[str, ...]]:
    return [row.texts for row in read_rows(data, "test_joined", ("source", "target"))]


def test_neighbours_of_one_file_are_joined_until_the_source_is_long_enough(tmp_path: Path):
    joined = pairs(dataset(tmp_path))
    used: list[str] = []
    for source, target in joined:
        lines = [word for word in source.split() if word != "x"]
        assert 6 < WORDS_PER_LINE * len(lines) < 12 + WORDS_PER_LINE
        assert target == " ".join(f"en-{name}" for name in lines)  # the same lines on both sides
        assert len({name[0] for name in lines}) == 1  # of one file
        used += lines
    positions = [[int(name[1:]) for name in used if name[0] == letter] for letter in "ab"]
    for own, names in zip(positions, FILES, strict=True):
        assert own == list(range(len(own)))  # neighbours, in order, each used once
        assert len(names) - len(own) < 12 / WORDS_PER_LINE  # only what is too short for one more is left out
    assert len({len(source.split()) for source, _ in joined}) > 1  # lengths are drawn


def test_every_reference_is_joined_alike(tmp_path: Path):
    data = dataset(tmp_path)
    target, reference = (list(read_lines(field)) for field in data.field("test_joined", "target").reference_fields())
    assert [line.replace("ref-", "en-") for line in reference] == target == [texts[1] for texts in pairs(data)]


def test_the_seed_decides_the_lengths_and_the_fingerprint(tmp_path: Path):
    first, names = dataset(tmp_path), ("source", "target")
    one, mark = pairs(first), first.fingerprint("test_joined", names)
    assert pairs(dataset(tmp_path)) == one and dataset(tmp_path).fingerprint("test_joined", names) == mark
    other = dataset(tmp_path, seed=2)
    assert pairs(other) != one and other.fingerprint("test_joined", names) != mark


def test_a_line_that_is_long_enough_stays_alone(tmp_path: Path):
    assert [source for source, _ in pairs(dataset(tmp_path, over=0, up_to=3))] == [
        f"{name} x x" for names in FILES for name in names
    ]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"over": 12}, "up_to is 12, and must be more than over, 12"),
        ({"split": "tset"}, "joined.test_joined: there is no split 'tset' with a text 'source'"),
        ({"seed": None}, "joined.test_joined.seed"),
    ],
)
def test_a_wrong_join_is_named(tmp_path: Path, wrong: dict[str, object], says: str):
    with pytest.raises(DataError, match=says):
        dataset(tmp_path, **wrong)


def test_lines_that_are_too_few_for_one_sentence_are_an_error(tmp_path: Path):
    with pytest.raises(DataError, match="no lines of one file make a sentence of over 500 words"):
        pairs(dataset(tmp_path, over=500, up_to=501))


def test_sides_of_different_lengths_are_an_error(tmp_path: Path):
    data = dataset(tmp_path)
    (tmp_path / "1.en").write_text("one line\n")
    with pytest.raises(DataError, match=r"1\.de has 31 lines, .*1\.en has 1 lines"):
        pairs(data)
