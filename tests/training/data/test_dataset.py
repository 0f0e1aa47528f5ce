"""Data sets: finding, reading, and error messages that name the cause."""

import gzip
import sys
from pathlib import Path

import pytest
import yaml

from interlinear.errors import DataError, UnknownDataError
from training.data.dataset import Dataset, dataset_names, open_dataset, read_lines, read_rows

DESCRIPTION = {
    "task": "translation",
    "about": "Three lines",
    "licence": "none",
    "languages": {"source": "de", "target": "en"},
    "splits": {
        "train": {"source": "train.de", "target": "train.en"},
        "dev": {"source": "dev.de", "target": "dev.en"},
    },
}


def described(folder: Path, **changes: object) -> Path:
    """A description in a folder of its own; its files are relative to it."""
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({**DESCRIPTION, **changes}, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


def corpus(folder: Path, de: bytes = b"eins\nzwei\ndrei\n", en: bytes = b"one\ntwo\nthree\n") -> Dataset:
    (folder / "train.de").write_bytes(de)
    (folder / "train.en").write_bytes(en)
    return open_dataset(str(described(folder)))


def train_rows(dataset: Dataset) -> list[tuple[str, ...]]:
    return [row.texts for row in read_rows(dataset, "train", ("source", "target"))]


def test_fields_are_read_in_parallel(tmp_path: Path):
    rows = list(read_rows(corpus(tmp_path), "train", ("target", "source")))
    assert [(row.number, row.texts) for row in rows] == [
        (1, ("one", "eins")),
        (2, ("two", "zwei")),
        (3, ("three", "drei")),
    ]


def test_lines_end_at_line_ends_only_and_keep_their_spaces(tmp_path: Path):
    text = "\ufeff a \u2028b\r\n\n\tc\x85 \nlast"
    dataset = corpus(tmp_path, de=text.encode())
    lines = list(read_lines(dataset.field("train", "source")))
    assert lines == [" a \u2028b", "", "\tc\x85 ", "last"]


def test_gzip_is_detected_by_content(tmp_path: Path):
    assert train_rows(corpus(tmp_path, de=gzip.compress("für\n".encode()), en=b"for\n")) == [("für", "for")]


def test_several_files_are_concatenated(tmp_path: Path):
    for name, text in (("a.de", "eins\n"), ("b.de", "zwei\n"), ("train.en", "one\ntwo\n"), ("other.en", "1\n2\n")):
        (tmp_path / name).write_text(text)
    splits = {"train": {"source": ["a.de", "b.de"], "target": {"files": "train.en", "references": ["other.en"]}}}
    dataset = open_dataset(str(described(tmp_path, splits=splits)))
    assert train_rows(dataset) == [("eins", "one"), ("zwei", "two")]
    streams = [list(read_lines(stream)) for stream in dataset.field("train", "target").reference_fields()]
    assert streams == [["one", "two"], ["1", "2"]]


def test_a_file_is_repeated(tmp_path: Path):
    """A small corpus beside a large one, as files that match a pattern, too."""
    for name, text in (("a.de", "eins\n"), ("b1.de", "zwei\n"), ("b2.de", "drei\n"), ("b.en", "two\nthree\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "a.en").write_text("one\n")
    source = ["a.de", {"file": "b*.de", "repeat": 3}]
    train = {"source": source, "target": {"files": ["a.en", {"file": "b.en", "repeat": 3}]}}
    once = {"source": ["a.de", "b*.de"], "target": ["a.en", "b.en"]}
    dataset = open_dataset(str(described(tmp_path, splits={"train": train})))
    assert train_rows(dataset) == [("eins", "one"), *[("zwei", "two"), ("drei", "three")] * 3]
    plain = open_dataset(str(described(tmp_path, splits={"train": once})))
    assert plain.fingerprint("train", ["source"]) != dataset.fingerprint("train", ["source"])


def test_a_field_declares_its_tokenisation(tmp_path: Path):
    corpus(tmp_path)
    source = {"files": "train.de", "tokenised": True, "case": "lower", "segmentation": "@@", "unknown": "<unk>"}
    dataset = open_dataset(str(described(tmp_path, splits={"train": {"source": source, "target": "train.en"}})))
    field = dataset.field("train", "source")
    assert (field.tokenised, field.lowercase, field.segmentation, field.unknown) == (True, True, "@@", "<unk>")
    plain = dataset.field("train", "target")
    assert (plain.tokenised, plain.lowercase, plain.segmentation, plain.unknown) == (False, False, None, None)


@pytest.mark.parametrize(("de", "count"), [(b"eins\n", 1), (b"1\n2\n3\n4\n5\n", 5)])
def test_different_line_counts(tmp_path: Path, de: bytes, count: int):
    with pytest.raises(DataError) as refused:
        train_rows(corpus(tmp_path, de=de))
    assert f"train.de has {count} lines" in str(refused.value)
    assert "train.en has 3 lines" in str(refused.value)


def test_an_empty_file(tmp_path: Path):
    with pytest.raises(DataError, match=r"train\.de: the text of 'source' has no lines"):
        train_rows(corpus(tmp_path, de=b""))


@pytest.mark.parametrize("compress", [False, True])
def test_invalid_utf8_names_the_line(tmp_path: Path, compress: bool):
    text = "gut\nschön\n".encode("latin-1")
    with pytest.raises(DataError, match=r"train\.de, line 2: is not valid UTF-8 \(byte 0xf6 at position 3\)"):
        train_rows(corpus(tmp_path, de=gzip.compress(text) if compress else text))


@pytest.mark.parametrize("damage", [slice(0, -6), slice(0, 14)])
def test_a_damaged_archive(tmp_path: Path, damage: slice):
    with pytest.raises(DataError, match=r"train\.de: cannot be read"):
        train_rows(corpus(tmp_path, de=gzip.compress(b"eins\nzwei\ndrei\n")[damage]))


def test_a_missing_file_is_named_with_a_remedy(tmp_path: Path):
    dataset = corpus(tmp_path)
    with pytest.raises(DataError, match=r"dev\.de was not found in .* --data-root or INTERLINEAR_DATA"):
        dataset.field("dev", "source")
    with pytest.raises(DataError, match=r"interlinear data get multi30k-de-en"):
        open_dataset("multi30k-de-en", tmp_path).field("train", "source")


def test_a_folder_in_place_of_a_file(tmp_path: Path):
    dataset = corpus(tmp_path)
    (tmp_path / "dev.de").mkdir()
    with pytest.raises(DataError, match=r"dev\.de: is a folder, not a file"):
        list(read_lines(dataset.field("dev", "source")))


def test_a_missing_split_and_a_missing_field(tmp_path: Path):
    dataset = corpus(tmp_path)
    assert dataset.has_split("dev")
    assert not dataset.has_split("test")
    with pytest.raises(DataError, match="has no split 'test', only 'train', 'dev'"):
        dataset.fields("test")
    with pytest.raises(DataError, match="the split 'train' has no field 'image', only 'source', 'target'"):
        dataset.field("train", "image")


def test_an_unknown_name_lists_known_and_similar_ones():
    with pytest.raises(UnknownDataError) as refused:
        open_dataset("multi30k-de-em")
    assert "Did you mean multi30k-de-en" in str(refused.value)
    assert all(name in str(refused.value) for name in dataset_names())
    with pytest.raises(UnknownDataError, match="there is no such file"):
        open_dataset("nowhere/mine.yaml")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"langauges": {}}, "unknown key 'langauges'"),
        ({"task": "singing"}, "task: 'singing' is none of translation, "),
        ({"splits": {}}, "splits: "),
        (
            {"splits": {"train": {"source": {"files": "a", "tokenized": True}}}},
            "unknown key 'splits.train.source.tokenized'",
        ),
        ({"splits": {"train": {"source": []}}}, "splits.train.source.files: "),
        (
            {"splits": {"train": {"source": [{"file": "a", "steps": ["stem"]}]}}},
            "splits.train.source.files.0.steps.0: ",
        ),
        (
            {"splits": {"train": {"source": [{"file": "a", "steps": ["moses"]}]}}},
            "splits.train.source: a is cut into words, so its field must say `tokenised: true`",
        ),
        (
            {"splits": {"train": {"source": {"files": "b", "references": [[{"file": "a", "steps": ["lower"]}]]}}}},
            "splits.train.source: a is put into lower case, so its field must say `case: lower`",
        ),
        ({"languages": {"sauce": "de"}}, "languages names the field 'sauce', which no split has"),
        ({"languages": {"source": False}}, "languages.source: "),  # YAML parses `no`, for Norwegian, as false
        (
            {"homes": {"train.de": "http://example.org/train.de"}},
            "homes.train.de.url: a home's URL begins with https://",
        ),
        ({"homes": {"train.de": {"url": "https://example.org", "sha256": "123"}}}, "homes.train.de.sha256: "),
        ({"defaults": {"training.epochs": [1]}}, "defaults.training.epochs"),
        ({"splits": {"train": {"source": [{"file": "a", "repeat": 0}]}}}, "splits.train.source.files.0.repeat: "),
        (
            {"splits": {"dev": {"source": [{"file": "a", "repeat": 2}]}}, "languages": {}},
            "a is repeated in dev, and only texts of train can be",
        ),
        (
            {
                "splits": {"train": {"source": [{"file": "a", "repeat": 2}]}},
                "cleaning": {"duplicates": "drop"},
                "languages": {},
            },
            "a is repeated, and cleaning with `duplicates: drop` would undo that",
        ),
    ],
)
def test_a_description_with_a_mistake(tmp_path: Path, changes: dict[str, object], problem: str):
    with pytest.raises(DataError) as refused:
        open_dataset(str(described(tmp_path, **changes)))
    assert f"mine.yaml: {problem}" in str(refused.value)


@pytest.mark.parametrize("text", ["- a\n- b\n", "", "task: [", "\x00", "a: b: c"])
def test_a_file_that_is_not_a_description(tmp_path: Path, text: str):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(DataError, match=r"mine\.yaml(, line 1, column \d+)?: "):
        open_dataset(str(tmp_path / "mine.yaml"))


def test_a_missing_key(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("task: translation\n")
    with pytest.raises(DataError, match="the key 'about' is missing"):
        open_dataset(str(tmp_path / "mine.yaml"))


def test_the_data_root_takes_precedence_over_the_descriptions_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    beside, root = tmp_path / "beside", tmp_path / "root"
    beside.mkdir()
    root.mkdir()
    corpus(beside)
    (root / "train.de").write_text("vorn\n")
    path = str(beside / "mine.yaml")
    assert open_dataset(path).field("train", "source").files == (beside / "train.de",)
    assert open_dataset(path, root).field("train", "source").files == (root / "train.de",)
    monkeypatch.setenv("INTERLINEAR_DATA", str(root))
    assert open_dataset(path).field("train", "source").files == (root / "train.de",)
    assert open_dataset(path, root).field("train", "target").files == (beside / "train.en",)


def test_a_missing_absolute_path_is_reported(tmp_path: Path):
    where = tmp_path / "mine.yaml"
    where.write_text("{task: translation, about: x, licence: x, languages: {source: de, target: en}, splits: {train:"
                     " {source: /nowhere/a.de, target: /nowhere/a.en}}}")  # fmt: skip
    with pytest.raises(DataError) as raised:
        open_dataset(str(where)).field("train", "source")
    assert str(raised.value) == (f"data set 'mine': there is no file /nowhere/a.de. Correct its path in {where}.")


def test_an_absolute_path_is_used_unchanged(tmp_path: Path):
    corpus(tmp_path)
    (tmp_path / "below").mkdir()
    splits = {"train": {"source": str(tmp_path / "train.de"), "target": str(tmp_path / "train.en")}}
    assert len(train_rows(open_dataset(str(described(tmp_path / "below", splits=splits))))) == 3


def test_a_fingerprint_depends_on_contents(tmp_path: Path):
    first = corpus(tmp_path).fingerprint("train", ("source", "target"))
    assert first == corpus(tmp_path).fingerprint("train", ("source", "target"))
    (tmp_path / "copy").mkdir()
    assert first == corpus(tmp_path / "copy").fingerprint("train", ("source", "target"))
    assert first != corpus(tmp_path).fingerprint("train", ("target", "source"))
    assert first != corpus(tmp_path, en=b"one\ntwo\nThree\n").fingerprint("train", ("source", "target"))


def rewritten(folder: Path, language: str, lines: list[str], steps: list[str], unknown: str | None = None) -> list[str]:
    """The lines of a file after normalization, read from a well-formed file."""
    (folder / "a").write_text("first\n", encoding="utf-8")
    (folder / "b").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = ["a", {"file": "b", "steps": steps}]
    field = {"files": files, "tokenised": True, "case": "lower", "unknown": unknown}
    path = described(folder, languages={"source": language}, splits={"train": {"source": field}})
    first, *others = read_lines(open_dataset(str(path)).field("train", "source"))
    assert first == "first"
    return others


def test_normalization_steps_unify_files(tmp_path: Path):
    lines = ["It's 1,250 Francs.", "<unk>!"]
    assert rewritten(tmp_path, "en", lines, ["digits"]) == ["It's #,### Francs.", "<unk>!"]
    assert rewritten(tmp_path, "en", lines[:1], ["moses", "lower", "digits"]) == ["it 's #,### francs ."]


def test_chinese_has_one_segmentation(tmp_path: Path):
    lines = ["汤姆因为工作现在在波士顿。", "汤 姆 因 为 工作 现 在 在 波士顿 。", "在 <unk> 下 面 听 CD player 。"]
    assert rewritten(tmp_path, "zh", lines, ["jieba"], unknown="<unk>") == [
        "汤姆 因为 工作 现在 在 波士顿 。",
        "汤姆 因为 工作 现在 在 波士顿 。",
        "在 <unk> 下面 听 CD player 。",
    ]


def test_a_segmenter_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(DataError, match=r"rjieba, which is not installed. Run pip install '\.\[chinese\]'"):
        rewritten(tmp_path, "zh", ["你好"], ["jieba"])


def test_normalization_steps_change_the_fingerprint(tmp_path: Path):
    corpus(tmp_path)

    def fingerprint(**steps: list[str]) -> str:
        files = [{"file": "train.de", **steps}]
        source = {"files": files, "tokenised": True, "case": "lower"}
        dataset = open_dataset(str(described(tmp_path, splits={"train": {"source": source, "target": "train.en"}})))
        return dataset.fingerprint("train", ("source", "target"))

    assert fingerprint() == fingerprint(steps=[]) != fingerprint(steps=["moses"]) != fingerprint(steps=["lower"])


def test_every_shipped_description_is_complete():
    assert {"demo", "multi30k-de-en", "multi30k-en-de", "multi30k-en-fr"} <= set(dataset_names())
    for name in dataset_names():
        dataset = open_dataset(name)
        assert "test" in dataset.splits, name
        assert dataset.has_split("train") == dataset.has_split("dev") == bool(dataset.defaults), name
        assert {"source", "target"} <= set(dataset.languages)


@pytest.mark.parametrize("name", dataset_names())
def test_every_shipped_description_matches_its_files(name: str, corpora: Path):
    dataset = open_dataset(name, corpora)
    if not all(dataset.has_file(path) for path in dataset.paths):
        pytest.skip(f"the files of {name} are not here")
    for split in dataset.splits:
        if split == "train":
            continue  # the longest line, and one like the others
        for row in read_rows(dataset, split, dataset.fields(split)):
            assert all(row.texts), f"{name}, {split}, line {row.number}"
            for field, text in zip(dataset.fields(split), row.texts, strict=True):
                described_field = dataset.splits[split][field]
                assert described_field.case == "natural" or text == text.lower(), f"{name}, {split}, line {row.number}"
