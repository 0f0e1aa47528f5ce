"""Prepared data: its contents, reuse, and no incomplete files after errors."""

import errno
import fcntl
import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import training.data.prepare.encoding
import training.data.prepare.executors
import training.data.prepare.prepare_job
import training.data.thread_pool
from interlinear.errors import DataError, RecipeError
from interlinear.files import content_checksum
from interlinear.text import TextConfig
from tests.processes import PROCESSES
from training.data.dataset import Dataset, open_dataset
from training.data.prepare.executors import LocalExecutor, Sample
from training.data.prepare.prepare import prepare
from training.data.prepare.prepared import PreparedData
from training.data.prepare.text_settings import text_config
from training.data.prepare.working_folder import LOCK, working_folder

PAIRS = [
    ("Der Hund läuft.", "The dog runs."),
    ("Die Katze „schläft“, sagt er.", "“The cat sleeps”, he says."),
    ("Zwei Männer gehen über die Brücke.", "Two men walk across the bridge."),
    ("Ein Hund schläft.", "A dog sleeps."),
]
BPE = TextConfig(units="bpe", vocabulary=400)


def corpus(
    folder: Path, pairs: list[tuple[str, str]], dev: list[tuple[str, str]] | None = None, extra: str = ""
) -> Dataset:
    """A data set of gzip files in a folder; `extra` is added to the description of each field."""
    splits = []
    for split, rows in (("train", pairs), ("dev", PAIRS[:2] if dev is None else dev)):
        for field, column in (("source", 0), ("target", 1)):
            with gzip.open(folder / f"{split}.{field}.gz", "wt", encoding="utf-8") as file:
                file.writelines(row[column] + "\n" for row in rows)
        if rows:
            fields = ", ".join(f"{f}: {{files: {split}.{f}.gz{extra}}}" for f in ("source", "target"))
            splits.append(f"  {split}: {{{fields}}}\n")
    (folder / "small.yaml").write_text(
        "task: translation\nabout: a few pairs\nlicence: none\nlanguages: {source: de, target: en}\nsplits:\n"
        + "".join(splits)
    )
    return open_dataset(str(folder / "small.yaml"), folder)


def prepared(dataset: Dataset, folder: Path, **options) -> PreparedData:
    given = {"sources": {"source": BPE}, "target": BPE, "joint": False, "max_length": 50, "progress": False, **options}
    return prepare(dataset, folder=folder, **given)


def prepared_name(dataset: Dataset, folder: Path) -> str:
    return prepared(dataset, folder).folder.name


def times(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))}


# Contents


def test_every_file_that_is_hashed_advances_the_progress(tmp_path):
    dataset, advanced = corpus(tmp_path, PAIRS), []
    LocalExecutor().scan_files(dataset, ("train", "dev"), ["source", "target"], advanced.append)
    assert advanced == [1] * 4


@pytest.mark.parametrize("units", ["bpe", "unigram"])
def test_prepared_rows_equal_the_tokenized_text(tmp_path, units):
    text = TextConfig(units=units, vocabulary=400)
    ready = prepared(corpus(tmp_path, PAIRS * 20), tmp_path / "prepared", sources={"source": text}, target=text)
    for name, rows in (("train", PAIRS * 20), ("dev", PAIRS[:2])):
        split = ready.split(name)
        assert split.rows == len(rows)
        for column, field in enumerate(("source", "target")):
            expected = [encoded.ids for encoded in ready.tokenizers[field].encode_batch([row[column] for row in rows])]
            assert [split.ids(field, row).tolist() for row in range(len(rows))] == expected
            assert split.lengths(field).tolist() == [len(ids) for ids in expected]
            assert split.lengths(field).dtype == np.int32
            assert split.ids(field, 0).dtype == np.uint16
            assert ready.record.splits[name].tokens[field] == sum(map(len, expected))
    assert ready.tokenizers["source"].decode(ready.split("train").ids("source", 1)) == PAIRS[1][0]
    assert ready.tokenizers["source"].fingerprint() != ready.tokenizers["target"].fingerprint()


def test_the_arrays_are_plain_npy_files(tmp_path):
    ready = prepared(corpus(tmp_path, PAIRS), tmp_path / "prepared")
    ids = np.load(ready.folder / "train.source.ids.npy")
    assert len(ids) == np.load(ready.folder / "train.source.ends.npy")[-1]


def test_a_joint_vocabulary_is_learned_from_both_sides(tmp_path):
    german, english = (TextConfig(units="bpe", vocabulary=600, language=code) for code in ("de", "en"))
    dataset = corpus(tmp_path, PAIRS * 5)
    ready = prepared(dataset, tmp_path / "prepared", sources={"source": german}, target=english, joint=True)
    source, target = ready.tokenizers["source"], ready.tokenizers["target"]
    assert (source.config.language, target.config.language) == ("de", "en")
    for text in ("Der Hund schläft.", "The dog sleeps."):
        assert source.encode(text) == target.encode(text)
        assert len(source.encode(text).ids) == 4
    other = TextConfig(units="bpe", vocabulary=500)
    with pytest.raises(RecipeError, match=r"'source' and 'target' differ in vocabulary: 500 and 600"):
        prepared(dataset, tmp_path / "prepared", sources={"source": other}, target=english, joint=True)


def test_empty_or_long_pairs_are_removed_and_counted(tmp_path, capsys):
    long = " ".join(["Hund"] * 60)
    pairs = [*PAIRS, ("", "nothing"), ("Hund", " \t"), ("", ""), (long, "a dog"), ("Hund", long), (long, "")]
    ready = prepared(corpus(tmp_path, [*pairs, *PAIRS]), tmp_path / "prepared", max_length=40)
    split, record = ready.split("train"), ready.record.splits["train"]
    assert (record.lines, record.rows, split.rows) == (14, 8, 8)
    assert (record.empty.count, record.empty.first_line) == (4, 5)
    assert (record.long.count, record.long.first_line) == (2, 8)
    assert split.ids("source", 4).tolist() == split.ids("source", 0).tolist()
    said = capsys.readouterr()
    assert said.out == ""
    assert "train: skipped 4 pairs with an empty side (the first in line 5)" in said.err
    assert "train: skipped 2 pairs longer than 40 tokens (the first in line 8)" in said.err


def test_a_pair_at_the_length_limit_is_kept(tmp_path):
    words = TextConfig(units="words", vocabulary=50)
    pairs = [("a b c", "a b c"), ("a b c d", "a")]
    dataset = corpus(tmp_path, pairs, dev=pairs)
    ready = prepared(dataset, tmp_path / "p", sources={"source": words}, target=words, max_length=3)
    assert ready.split("train").lengths("source").tolist() == [3]


def test_large_vocabularies_have_wider_ids(tmp_path):
    words = TextConfig(units="words", vocabulary=100_000)
    pairs = [(" ".join(f"w{i}" for i in range(at, at + 1000)), "a b") for at in range(0, 70_000, 1000)]
    ready = prepared(corpus(tmp_path, pairs), tmp_path / "p", sources={"source": words}, max_length=1000)
    assert ready.split("train").ids("source", 0).dtype == np.uint32
    assert ready.tokenizers["source"].decode(ready.split("train").ids("source", 69)) == pairs[69][0]


def test_results_do_not_depend_on_threads_and_chunk_size(tmp_path, monkeypatch):
    dataset = corpus(tmp_path, [*PAIRS * 150, ("", "x"), *PAIRS * 150, ("y", " ")])
    one = prepared(dataset, tmp_path / "one")
    monkeypatch.setattr(training.data.thread_pool, "THREADS", 3)
    monkeypatch.setattr(training.data.prepare.encoding, "CHUNK_ROWS", 100)
    two = prepared(dataset, tmp_path / "two")
    assert one.folder.name == two.folder.name
    assert one.record.splits["train"].empty.first_line == 601
    for path in one.folder.iterdir():
        assert path.read_bytes() == (two.folder / path.name).read_bytes(), path.name


def test_a_vocabulary_of_a_large_corpus_is_learned_from_a_sample_of_all_of_it(tmp_path, monkeypatch):
    words = TextConfig(units="words", vocabulary=1000)
    pairs = [(f"w{i}", "x") for i in range(100)]
    monkeypatch.setattr(training.data.prepare.prepare_job, "VOCABULARY_LINES", 10)
    ready = prepared(corpus(tmp_path, pairs), tmp_path / "p", sources={"source": words}, target=words)
    known = [i for i in range(100) if ready.tokenizers["source"].encode(f"w{i}").ids != [1]]
    assert [i // 10 for i in known] == list(range(10))  # one of each ten
    assert len({i % 10 for i in known}) > 3  # at random
    again = prepared(corpus(tmp_path, pairs), tmp_path / "q", sources={"source": words}, target=words)
    assert again.tokenizers["source"].fingerprint() == ready.tokenizers["source"].fingerprint()


def test_a_large_corpus_is_split_into_shards_that_form_one_corpus(tmp_path, monkeypatch):
    pairs = [(f"{de} {i}", f"{en} {i}") for i, (de, en) in enumerate(PAIRS * 60)]
    pairs[70:150] = [("", "x")] * 80  # a shard from which all rows are removed
    dataset = corpus(tmp_path, pairs)
    whole = prepared(dataset, tmp_path / "whole")
    monkeypatch.setattr(training.data.prepare.executors, "SHARD_ROWS", 64)
    cut = prepared(dataset, tmp_path / "cut")
    one, several = whole.record.splits["train"], cut.record.splits["train"]
    assert several.shards == (64, 6, 42, 48) and one.shards == ()
    assert several.model_copy(update={"shards": ()}) == one
    assert cut.record.splits["dev"] == whole.record.splits["dev"]
    for field in ("source", "target"):
        assert cut.tokenizers[field].fingerprint() == whole.tokenizers[field].fingerprint()
        before, now = whole.split("train"), cut.split("train")
        assert (before.lengths(field) == now.lengths(field)).all()
        for row in range(one.rows):
            assert before.ids(field, row).tolist() == now.ids(field, row).tolist()
    lines = [np.load(cut.folder / f"train-0000{shard}.lines.npy") for shard in range(4)]
    assert np.concatenate(lines).tolist() == np.load(whole.folder / "train.lines.npy").tolist()
    assert cut.record.files.keys() | {"prepared.json"} == {path.name for path in cut.folder.iterdir()}


@given(st.integers(1, 300), st.integers(1, 60), st.integers(1, 50), st.lists(st.booleans(), min_size=300, max_size=300))
def test_a_sample_has_one_row_of_each_equal_block_of_kept_rows(lines, at_most, block, left_out):
    reasons = np.array(left_out[:lines], np.uint8)
    total = int((reasons == 0).sum())
    sample = Sample(total, at_most, reasons)
    mask = sample.mask(0, lines, 0)
    assert mask.sum() == min(total, at_most)
    assert not mask[reasons > 0].any()
    ranks = np.flatnonzero(mask[reasons == 0])
    if total > at_most:
        assert (ranks * at_most // total).tolist() == list(range(at_most))
    parts, before = [], 0
    for start in range(0, lines, block):
        end = min(start + block, lines)
        parts.append(sample.mask(start, end, before))
        before += sample.count_included(start, end)
    assert (np.concatenate(parts) == mask).all()


# Reuse


def test_prepared_data_is_reused(tmp_path):
    dataset = corpus(tmp_path, PAIRS)
    first = prepared(dataset, tmp_path / "prepared")
    before = times(tmp_path / "prepared")
    again = prepared(open_dataset(str(tmp_path / "small.yaml"), tmp_path), tmp_path / "prepared")
    assert again == first
    assert times(tmp_path / "prepared") == before


def test_the_folder_name_depends_on_all_text_settings(tmp_path):
    dataset = corpus(tmp_path, PAIRS)
    names = [prepared(dataset, tmp_path / "prepared").folder.name]
    smaller = TextConfig(units="bpe", vocabulary=300)
    for options in ({"max_length": 49}, {"target": smaller}, {"sources": {"source": smaller}}, {"joint": True}):
        names.append(prepared(dataset, tmp_path / "prepared", **options).folder.name)
    with (
        gzip.open(tmp_path / "train.source.gz", "at", encoding="utf-8") as file,
        gzip.open(tmp_path / "train.target.gz", "at", encoding="utf-8") as other,
    ):
        file.write("Neu.\n")
        other.write("New.\n")
    names.append(prepared(dataset, tmp_path / "prepared").folder.name)
    assert len(set(names)) == len(names) == 6
    assert all(name.startswith("small-") for name in names)


def test_two_concurrent_preparations_make_one_folder(tmp_path):
    dataset = corpus(tmp_path, PAIRS * 10)
    expected = prepared(dataset, tmp_path / "expected")
    with ProcessPoolExecutor(2, PROCESSES) as pool:
        both = [pool.submit(prepared_name, dataset, tmp_path / "prepared") for _ in range(2)]
        assert [each.result() for each in both] == [expected.folder.name] * 2
    assert [path.name for path in (tmp_path / "prepared").iterdir()] == [expected.folder.name]
    assert PreparedData.load(tmp_path / "prepared" / expected.folder.name).record == expected.record


def test_removal_of_old_folders_spares_those_in_use(tmp_path):
    def begin(number):
        with working_folder(tmp_path / "final", resumable=False) as folder:
            (folder / "mine").write_text(str(number))
            time.sleep(0.001)
            return (folder / "mine").read_text() == str(number)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(begin, range(600)))
    assert list(tmp_path.iterdir()) == []


# Errors


def test_different_line_counts(tmp_path):
    dataset = corpus(tmp_path, PAIRS)
    with gzip.open(tmp_path / "train.target.gz", "at") as file:
        file.write("one more\n")
    with pytest.raises(DataError, match=r"has 4 lines, .* has 5 lines"):
        prepared(dataset, tmp_path / "prepared")
    assert list((tmp_path / "prepared").iterdir()) == []


def test_bad_text_names_the_line(tmp_path):
    dataset = corpus(tmp_path, PAIRS)
    (tmp_path / "train.source.gz").write_bytes("gut\nschön\n".encode() + b"schlecht \xff\n" + b"gut\n")
    with pytest.raises(DataError, match=r"train\.source\.gz, line 3: is not valid UTF-8"):
        prepared(dataset, tmp_path / "prepared")
    assert list((tmp_path / "prepared").iterdir()) == []


def test_empty_files(tmp_path):
    dataset = corpus(tmp_path, PAIRS)
    for field in ("source", "target"):
        (tmp_path / f"train.{field}.gz").write_bytes(b"")
    with pytest.raises(DataError, match="has no lines"):
        prepared(dataset, tmp_path / "prepared")


def test_only_blank_or_long_lines(tmp_path):
    with pytest.raises(DataError, match=r"split 'train': no pair is left: 2 with an empty side, 1 over 5 tokens"):
        prepared(corpus(tmp_path, [("", "a"), (" ", ""), ("Hund " * 9, "a")]), tmp_path / "prepared", max_length=5)
    assert list((tmp_path / "prepared").iterdir()) == []


def test_a_missing_dev_set(tmp_path):
    with pytest.raises(DataError, match=r"small\.yaml: has no split 'dev'"):
        prepared(corpus(tmp_path, PAIRS, dev=[]), tmp_path / "prepared")


@pytest.mark.parametrize("name", ["train.source.ids.npy", "dev.target.ends.npy", "tokenizer.target.json"])
def test_a_damaged_file_is_named(tmp_path, name):
    dataset = corpus(tmp_path, PAIRS)
    ready = prepared(dataset, tmp_path / "prepared")
    content = (ready.folder / name).read_bytes()
    (ready.folder / name).write_bytes(content[:-1])
    with pytest.raises(DataError, match=rf"{name}: has [\d,]+ bytes instead of [\d,]+\. Remove"):
        prepared(dataset, tmp_path / "prepared")
    (ready.folder / name).unlink()
    with pytest.raises(DataError, match=f"{name}: is missing"):
        PreparedData.load(ready.folder)


def test_a_changed_bit_is_reported_before_training(tmp_path):
    dataset = corpus(tmp_path, PAIRS)
    ready = prepared(dataset, tmp_path / "prepared")
    assert set(ready.record.checksums) == {path.name for path in ready.folder.iterdir()} - {"prepared.json"}
    for path in sorted(ready.folder.iterdir()):
        for place in (3, -1):
            before = path.read_bytes()
            content = bytearray(before)
            content[place] ^= 1
            path.write_bytes(content)
            with pytest.raises(DataError, match=rf"{path.name}: (is damaged|cannot be read).*Remove") as caught:
                prepared(dataset, tmp_path / "prepared")
            assert "\n" not in str(caught.value)
            path.write_bytes(before)
    assert prepared(dataset, tmp_path / "prepared").record == ready.record


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 1}', "[" * 100_000])
def test_an_unreadable_record_is_named(tmp_path, content):
    (tmp_path / "prepared.json").write_text(content)
    with pytest.raises(DataError, match=r"prepared\.json: cannot be read"):
        PreparedData.load(tmp_path)


def test_another_format_is_named(tmp_path):
    content = {"format": 99}
    (tmp_path / "prepared.json").write_text(json.dumps(content | {"content_sha256": content_checksum(content)}))
    with pytest.raises(DataError, match=r"prepared\.json: has format 99, and this version reads format 1"):
        PreparedData.load(tmp_path)


def test_a_folder_without_a_record(tmp_path):
    with pytest.raises(DataError, match=r"prepared\.json: is missing"):
        PreparedData.load(tmp_path)


def test_a_full_disk_leaves_no_files(tmp_path):
    dataset = corpus(tmp_path, PAIRS * 2000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, before[1]))  # further writes fail, as on a full disk
    try:
        with pytest.raises(DataError, match=f"cannot be written: {os.strerror(errno.EFBIG)}. Make room"):
            prepared(dataset, tmp_path / "prepared")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((tmp_path / "prepared").iterdir()) == []
    assert prepared(dataset, tmp_path / "prepared").split("train").rows == 8000


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "prepared").write_text("a file")
    with pytest.raises(DataError, match="prepared: cannot be written"):
        prepared(corpus(tmp_path, PAIRS), tmp_path / "prepared")


def test_an_interruption_leaves_no_files(tmp_path):
    corpus(tmp_path, PAIRS * 1000)
    script = f"""
import sys, training.data.prepare.encoding as encoding, training.data.prepare.prepare as p
from pathlib import Path
from training.data.dataset import open_dataset
encoding.CHUNK_ROWS = 1  # it takes a while
here = Path({str(tmp_path)!r})
config = p.TextConfig(units="bpe", vocabulary=400)
if __name__ == "__main__":
    dataset = open_dataset(str(here / "small.yaml"), here)
    p.prepare(dataset, {{"source": config}}, config, False, 50, here / "prepared")
"""
    (tmp_path / "main.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    process = subprocess.Popen([sys.executable, str(tmp_path / "main.py")], env=environment, stderr=subprocess.PIPE)
    folder = tmp_path / "prepared"
    deadline = time.monotonic() + 100
    while not any(path.stat().st_size for path in folder.glob(".*/train.source.ids.npy")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert said.decode().rstrip().endswith("KeyboardInterrupt")
    assert list(folder.iterdir()) == []


# Text settings of a data set


def test_files_of_a_killed_process_are_removed_and_those_of_a_running_one_kept(tmp_path):
    dataset, folder = corpus(tmp_path, PAIRS), tmp_path / "prepared"
    ready = prepared(dataset, folder)
    dead, young, alive = (folder / f".{ready.folder.name}.{name}" for name in ("deadbeef", "babe0000", "a11ce000"))
    shutil.rmtree(ready.folder)
    young.mkdir()
    for left in (dead, alive):
        left.mkdir()
        (left / LOCK).touch()
    with (alive / LOCK).open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prepared(dataset, folder)
    assert sorted(path.name for path in folder.iterdir()) == [alive.name, ready.folder.name]


def test_text_settings_come_from_the_description(tmp_path):
    extra = ", tokenised: true, case: lower, unknown: <unk>, segmentation: '@@'"
    dataset = corpus(tmp_path, PAIRS, extra=extra)
    config = text_config(dataset, "source", "words", 100)
    assert config == TextConfig(
        units="words", vocabulary=100, lowercase=True, tokenised=True, language="de", unknown="<unk>", segmentation="@@"
    )
    plain = corpus(tmp_path, PAIRS)
    assert text_config(plain, "target", "bpe", 400, lowercase=True).lowercase
    assert not text_config(plain, "target", "bpe", 400).tokenised
    with pytest.raises(RecipeError, match="target: vocabulary: bpe needs at least 261 entries"):
        text_config(plain, "target", "bpe", 200)


def test_train_and_dev_must_have_the_same_tokenisation(tmp_path):
    corpus(tmp_path, PAIRS)
    description = (tmp_path / "small.yaml").read_text()
    (tmp_path / "small.yaml").write_text(description.replace("dev.source.gz", "dev.source.gz, tokenised: true"))
    dataset = open_dataset(str(tmp_path / "small.yaml"), tmp_path)
    with pytest.raises(DataError, match="data set 'small', field 'source': train and dev differ in 'tokenised'"):
        text_config(dataset, "source", "bpe", 400)


def test_a_segmentation_of_raw_text_is_refused(tmp_path):
    dataset = corpus(tmp_path, PAIRS, extra=", segmentation: '@@'")
    with pytest.raises(DataError, match="field 'source': segmented text must be tokenised"):
        text_config(dataset, "source", "bpe", 400)


def test_the_record_describes_its_input(tmp_path):
    ready = prepared(corpus(tmp_path, PAIRS), tmp_path / "prepared")
    content = json.loads((ready.folder / "prepared.json").read_text())
    assert content["dataset"] == "small"
    assert content["languages"] == {"source": "de", "target": "en"}
    assert content["key"].startswith(ready.folder.name.removeprefix("small-"))
    assert set(content["fingerprints"]) == {"train", "dev"}
    assert content["files"].keys() | {"prepared.json"} == {path.name for path in ready.folder.iterdir()}
