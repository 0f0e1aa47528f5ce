"""Cleaning: which pairs are removed, the reason, and the counts."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from interlinear.cli import run
from interlinear.errors import DataError
from interlinear.text import TextConfig
from training.data import cleaning as module
from training.data.cleaning import Cleaning, Reason, mark_duplicates
from training.data.dataset import Dataset, open_dataset
from training.data.prepare.prepare import prepare
from training.data.prepare.prepared import PreparedData, Skipped, left_out_file

WORDS = TextConfig(units="words", vocabulary=50)


def reasons(rows: list[tuple[str, ...]], **options) -> list[Reason]:
    return [Reason(reason) for reason in Cleaning(**options).check_rows(rows).reasons]


def test_lengths_are_characters_without_the_space_around_them():
    rows = [("  abc ", "abcd"), ("ab", "abcd"), ("abc", "abcdefg"), ("水水水", "水水水"), ("", "ab"), ("abcdefg", " ")]
    assert reasons(rows, min_characters=3, max_characters=6) == [
        Reason.NONE, Reason.SHORT, Reason.LONG, Reason.NONE, Reason.NONE, Reason.NONE,
    ]  # fmt: skip


def test_every_text_has_a_length_and_ratios_compare_the_first_and_last():
    rows = [("abcd", "", "ab"), ("abcd", "a", "ab"), ("abcde", "ab", "ab"), ("ab", "abcdefghi", "abcd")]
    assert reasons(rows, min_characters=2, max_ratio=2) == [Reason.NONE, Reason.SHORT, Reason.RATIO, Reason.NONE]
    assert reasons([("a", "abcde"), ("abcde", "a")], max_ratio=4.9) == [Reason.RATIO] * 2


def test_broken_text_is_removed_with_its_reason():
    rows = [
        ("gut\tso", "good"), ("schlecht \udcff", "x"), ("half \ud83d", "x"), ("a", "b\ufffd"), ("a\x00", "b"),
        ("a", "b\x85"), ("a\ufffd\x00", "b"), ("„für“ 水 \u200d", "ok"),
    ]  # fmt: skip
    expected = [
        Reason.NONE, Reason.NOT_UTF8, Reason.NOT_UTF8, Reason.REPLACEMENT_CHARACTER, Reason.CONTROL_CHARACTER,
        Reason.CONTROL_CHARACTER, Reason.REPLACEMENT_CHARACTER, Reason.NONE,
    ]  # fmt: skip
    assert reasons(rows, encoding="drop") == expected
    assert reasons(rows) == [Reason.NONE] * len(rows)


def marked(rows: list[tuple[str, ...]], **options) -> list[Reason]:
    judged = Cleaning(duplicates="drop", **options).check_rows(rows)
    mark_duplicates(judged.hashes, judged.reasons)
    return [Reason(reason) for reason in judged.reasons]


def test_all_but_the_first_of_equal_pairs_are_duplicates():
    rows = [("a", "b"), ("a", "c"), ("a", "b"), ("ab", ""), ("a", "b"), ("", "ab"), ("a", "b ")]
    assert [i for i, reason in enumerate(marked(rows)) if reason] == [2, 4]


def test_a_removed_pair_does_not_make_duplicates():
    rows = [("a\x00", "b"), ("aa", "bb"), ("a\x00", "b"), ("aa", "bb")]
    assert marked(rows, encoding="drop") == [
        Reason.CONTROL_CHARACTER, Reason.NONE, Reason.CONTROL_CHARACTER, Reason.DUPLICATE,
    ]  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("ab"))), st.integers(1, 9), st.integers(1, 9))
def test_duplicates_are_found_for_any_chunk_size(rows, at_a_time, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "HASHES_PER_PASS", at_a_time)
        patch.setattr(module, "CHUNK", chunk)
        found = marked(rows)
    seen: set[tuple[str, ...]] = set()
    for row, reason in zip(rows, found, strict=True):
        assert (reason == Reason.DUPLICATE) == (row in seen)
        seen.add(row)


# In a data set


def data_set(folder: Path, rows: list[tuple[bytes, bytes]], **cleaning: object) -> Dataset:
    for split, some in (("train", rows), ("dev", [(b"eins", b"one"), (b"eins", b"one")])):
        for column, field in enumerate(("source", "target")):
            (folder / f"{split}.{field}").write_bytes(b"".join(row[column] + b"\n" for row in some))
    content = {
        "task": "translation", "about": "some", "licence": "none", "languages": {"source": "de", "target": "en"},
        "splits": {s: {f: f"{s}.{f}" for f in ("source", "target")} for s in ("train", "dev")},
    }  # fmt: skip
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({**content, **({"cleaning": cleaning} if cleaning else {})}))
    return open_dataset(str(path))


def prepared(dataset: Dataset, folder: Path) -> PreparedData:
    return prepare(dataset, {"source": WORDS}, WORDS, False, 4, folder, progress=False)


ROWS = [
    (b"eins", b"one"), (b"zwei \xff", b"two"), (b"eins", b"one"), (b"", b"none"),
    (b"drei drei drei drei drei", b"three"), (b"v", b"four four four four"), (b"eins", b"one"),
    (b"secret words", b"\xef\xbf\xbd"), (b"ende", b"end"),
]  # fmt: skip


def test_removed_pairs_are_counted_reported_and_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    dataset = data_set(tmp_path, ROWS, encoding="drop", duplicates="drop", max_ratio=9)
    ready = prepared(dataset, tmp_path / "p")
    record = ready.record.splits["train"]
    assert record.cleaned == {
        "not_utf8": Skipped(count=1, first_line=2),
        "replacement_character": Skipped(count=1, first_line=8),
        "ratio": Skipped(count=1, first_line=6),
        "duplicate": Skipped(count=2, first_line=3),
    }
    assert (record.lines, record.rows) == (9, 2)
    assert (record.empty, record.long) == (Skipped(count=1, first_line=4), Skipped(count=1, first_line=5))
    everything = record.rows + record.empty.count + record.long.count + sum(s.count for s in record.cleaned.values())
    assert everything == record.lines
    assert np.load(ready.folder / "train.lines.npy").tolist() == [0, 8]
    assert np.load(ready.folder / left_out_file("train")).tolist() == [0, 1, 7, 0, 0, 6, 7, 2, 0]
    tokenizer = ready.tokenizers["source"]
    assert "secret" not in tokenizer.to_json() and "drei" in tokenizer.to_json()  # learned from the remaining pairs
    said = capsys.readouterr().err
    assert "train: skipped 1 pair with bytes that are not UTF-8 (the first in line 2)" in said
    assert "train: skipped 1 pair with a replacement character (U+FFFD) (the first in line 8)" in said
    assert "train: skipped 1 pair with one side over 9 times as long as the other (the first in line 6)" in said
    assert "train: skipped 2 pairs that were there before (the first in line 3)" in said
    assert ready.record.splits["dev"].rows == 2  # dev is not cleaned


def test_cleaning_is_off_by_default(tmp_path: Path):
    plain = [row for row in ROWS if b"\xff" not in row[0]]
    ready = prepared(data_set(tmp_path, plain), tmp_path / "p")
    assert ready.record.splits["train"].cleaned == {}
    assert not (ready.folder / left_out_file("train")).exists()
    harmless = prepared(data_set(tmp_path, plain, encoding="fail", duplicates="keep"), tmp_path / "p")
    assert harmless.folder == ready.folder
    other = prepared(data_set(tmp_path, plain, duplicates="drop"), tmp_path / "p")
    assert other.folder != ready.folder
    with pytest.raises(DataError, match=r"train\.source, line 2: is not valid UTF-8 .*`cleaning: \{encoding: drop\}`"):
        prepared(data_set(tmp_path, ROWS), tmp_path / "p")


def test_an_empty_result_is_an_error(tmp_path: Path):
    with pytest.raises(DataError, match=r"no pair is left: .* 0 over 4 tokens, 2 left out by cleaning"):
        prepared(data_set(tmp_path, [(b"a", b"b"), (b"c", b"d")], min_characters=2), tmp_path / "p")


@pytest.mark.parametrize(
    ("cleaning", "problem"),
    [
        ({"min_length": 2}, "unknown key 'cleaning.min_length'"),
        ({"max_ratio": 0.5}, "cleaning.max_ratio: "),
        ({"min_characters": 5, "max_characters": 4}, "cleaning: min_characters is more than max_characters"),
        ({"duplicates": "some"}, "cleaning.duplicates: "),
    ],
)
def test_invalid_keys_are_refused(tmp_path: Path, cleaning: dict[str, object], problem: str):
    with pytest.raises(DataError) as error:
        data_set(tmp_path, ROWS, **cleaning)
    assert f"mine.yaml: {problem}" in str(error.value)


def test_a_data_set_with_broken_lines_can_be_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data_set(tmp_path, [(b"zwei \xff", b"two"), *ROWS], encoding="drop")
    assert run(["data", "describe", str(tmp_path / "mine.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["splits"]["train"] == {
        "lines": 10, "first": {"source": "zwei ?", "target": "two"},
    }  # fmt: skip
