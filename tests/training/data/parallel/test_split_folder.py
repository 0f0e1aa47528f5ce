"""A data set made of a user's text: nothing of dev and test is in train, and it is made once and never overwritten."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from interlinear.errors import DataError, InterlinearError, UsageError
from training.data.dataset import open_dataset, read_rows
from training.data.parallel import (
    SplitCounts,
    SplitFolder,
    SplitOptions,
    SplitSize,
    find_parallel_text,
    make_dataset,
)
from training.data.parallel.near_duplicates import NearDuplicateIndex, normalized_words

Pair = tuple[str, str]
OPTIONS = SplitOptions(SplitSize(fraction=0.05), SplitSize(fraction=0.05), seed=1)
SYLLABLES = [f"{a}{b}" for a in "bdfgklmnprst" for b in "aeiou"]


def random_pairs(count: int, seed: int = 1) -> list[Pair]:
    chance = random.Random(seed)

    def sentence() -> str:  # of eight words: with another last one it is a near-duplicate
        words = ["".join(chance.choices(SYLLABLES, k=2)) for _ in range(8)]
        return f"{' '.join(words).capitalize()}."

    return [(sentence(), sentence()) for _ in range(count)]


def write_pairs(folder: Path, pairs: list[Pair]) -> tuple[Path, Path]:
    paths = folder / "all.de", folder / "all.en"
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def make(folder: Path, pairs: list[Pair], options: SplitOptions = OPTIONS) -> tuple[SplitCounts, bool]:
    text = find_parallel_text(write_pairs(folder, pairs), None)
    return make_dataset(text, SplitFolder(folder / "mine"), options, "translation", lambda items, *_: iter(items))


def splits_of(folder: Path) -> dict[str, list[Pair]]:
    dataset = open_dataset(str(folder / "mine" / "mine.yaml"))
    return {
        split: [(row.texts[0], row.texts[1]) for row in read_rows(dataset, split, ("source", "target"))]
        for split in dataset.splits
    }


def test_no_side_of_dev_and_test_is_in_train(tmp_path: Path):
    pairs = random_pairs(300)
    repeated = [("Hallo!", "Hello!")] * 9 + [(source.upper(), "Another translation") for source, _ in pairs[:40]]
    other_numbers = [(f"{number} Euro", f"{number} euros") for number in range(20)]
    one_sided = [("", "empty"), ("x", " \t")]
    everything = pairs + repeated + other_numbers + one_sided
    random.Random(2).shuffle(everything)
    counts, new = make(tmp_path, everything)
    assert new and counts.empty == 2
    splits = splits_of(tmp_path)
    assert {split: len(found) for split, found in splits.items()} == counts.splits
    assert counts.splits["dev"] == counts.splits["test"] == 18  # 5% of those with two sides
    aside = splits["dev"] + splits["test"]
    assert not set(aside) - set(pairs[40:])  # neither side occurs again, whatever its case and numbers
    for side in (0, 1):
        occurring = Counter(tuple(normalized_words(pair[side])) for pair in splits["train"] + aside)
        assert all(occurring[tuple(normalized_words(pair[side]))] == 1 for pair in aside)
    order = {pair: number for number, pair in enumerate(everything)}
    numbers = [order[pair] for pair in splits["train"] if pair != ("Hallo!", "Hello!")]
    assert numbers == sorted(numbers)


def test_near_duplicates_are_left_out_of_train(tmp_path: Path):
    pairs = random_pairs(400)
    near = [(f"{source.rpartition(' ')[0]} xyz", "Entirely other") for source, _ in pairs]
    counts, _ = make(tmp_path, pairs + near)
    splits = splits_of(tmp_path)
    aside = splits["dev"] + splits["test"]
    index = NearDuplicateIndex(normalized_words(source) for source, _ in aside)
    assert not any(index.matches(normalized_words(source)) for source, _ in splits["train"])
    assert counts.near_duplicates == len(aside) == 80
    assert counts.splits["train"] == 640


def test_the_seed_decides(tmp_path: Path):
    pairs = random_pairs(200)
    drawn = {}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        make(tmp_path / name, pairs, replace(OPTIONS, seed=seed))
        drawn[name] = splits_of(tmp_path / name)
    assert drawn["a"] == drawn["b"] and drawn["a"]["test"] != drawn["c"]["test"]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_text_is_split_once_and_another_is_refused(tmp_path: Path):
    pairs = random_pairs(200)
    counts, _ = make(tmp_path, pairs)
    description = tmp_path / "mine" / "mine.yaml"
    description.write_text(description.read_text().replace("not stated", "ours"))
    before = contents(tmp_path / "mine")
    assert make(tmp_path, pairs) == (counts, False)
    for changed, options, said in (
        ([*pairs, ("neu", "new")], OPTIONS, "was made of other text (changed: all.de, all.en)"),
        ([*pairs[:-1], (pairs[-1][0], "new")], OPTIONS, "was made of other text (changed: all.en)"),
        (pairs, replace(OPTIONS, seed=7), "was drawn by another seed (1, not 7)"),
        (pairs, replace(OPTIONS, dev=SplitSize(lines=7)), "was made with another size of dev (5%, not 7)"),
    ):
        with pytest.raises(UsageError) as refused:
            make(tmp_path, changed, options)
        assert said in str(refused.value) and f"with --data {description}" in str(refused.value)
    assert contents(tmp_path / "mine") == before


def test_a_folder_of_something_else_is_not_changed(tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    with pytest.raises(UsageError, match="is there already, and was not made by this"):
        make(tmp_path, random_pairs(200))
    assert contents(tmp_path / "mine") == {"notes": b"mine"}


@pytest.mark.parametrize(
    ("pairs", "options", "said"),
    [
        (random_pairs(1), OPTIONS, "1 lines of dev and 1 of test are asked for, and of its 1 pairs 1 have a source"),
        (random_pairs(20), replace(OPTIONS, dev=SplitSize(15), test=SplitSize(5)), "15 lines of dev and 5 of test"),
        (
            [("Hallo", "Hello")] * 50,
            OPTIONS,
            "and of its 50 pairs 0 have a source and a target that do not occur again",
        ),
        ([("", "Hello")] * 5, OPTIONS, "has no pair with text on both sides"),
        ([(f"a b c d e f g h i {x}", f"{x} z") for x in "pqrs"], OPTIONS, "no pair is left for training"),
    ],
)
def test_too_little_text_leaves_no_files(tmp_path: Path, pairs: list[Pair], options: SplitOptions, said: str):
    with pytest.raises(InterlinearError) as refused:
        make(tmp_path, pairs, options)
    assert isinstance(refused.value, DataError) and said in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.de", "all.en"]


def test_a_split_of_no_lines_is_not_described(tmp_path: Path):
    make(tmp_path, random_pairs(50), replace(OPTIONS, test=SplitSize(lines=0)))
    assert {split: len(found) for split, found in splits_of(tmp_path).items()} == {"train": 48, "dev": 2}
    assert not list((tmp_path / "mine").glob("*test*"))
