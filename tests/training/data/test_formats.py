"""Text, JSON Lines and Parquet, compressed or not: the same lines, or an error with file and row."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from interlinear.errors import DataError
from training.data import formats
from training.data.dataset import Dataset, open_dataset, read_range, read_rows
from training.data.formats import Part, count_lines, read_part
from training.data.uris import RemoteFile, expand_uri

PAIRS = [("eins", "one"), ("zwei „drei“", "two three"), ("", "four"), ("fünf", "five")]
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r\ufeff")), min_size=1)


def zstandard(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


def data_set(folder: Path, train: dict[str, object]) -> Dataset:
    """A data set's YAML beside its files."""
    content = {"task": "translation", "about": "some", "licence": "none", "languages": {"source": "de"}}
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({**content, "splits": {"train": train}}), encoding="utf-8")
    return open_dataset(str(path))


def pairs(dataset: Dataset) -> list[tuple[str, ...]]:
    return [row.texts for row in read_rows(dataset, "train", ("source", "target"))]


def write_json(path: Path, rows: list[tuple[str, str]]) -> None:
    lines = (json.dumps({"id": 7, "translation": {"de": de, "en": en or None}}) for de, en in rows)
    path.write_bytes(zstandard("".join(f"{line}\n" for line in lines).encode()))


def write_parquet(path: Path, rows: list[tuple[str | None, str]], group: int = 2) -> None:
    table = pa.table({"translation": [{"de": de, "en": en} for de, en in rows], "score": [1.0] * len(rows)})
    pq.write_table(table, path, row_group_size=group)


# Equal lines


@given(TEXTS, st.sampled_from(["plain", "gzip", "zstandard", "two frames"]), st.integers(0, 9))
def test_compressed_files_give_the_same_lines_from_any_row(tmp_path_factory, texts, form, start):
    path = tmp_path_factory.mktemp("text") / "a"
    data = "".join(f"{text}\n" for text in texts).encode()
    path.write_bytes(
        {
            "plain": lambda: data,
            "gzip": lambda: gzip.compress(data),
            "zstandard": lambda: zstandard(data),
            "two frames": lambda: zstandard(data[:5]) + zstandard(data[5:]),
        }[form]()
    )
    assert list(read_part(Part(path))) == texts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "LINES_PER_OFFSET", 3)
        counted = count_lines(Part(path))
        assert counted.lines == len(texts)
        assert len(counted.offsets) == (-(-len(texts) // 3) if form == "plain" else 0)
        assert list(read_part(Part(path), start=start, line_index=counted)) == texts[start:]


@pytest.mark.parametrize("line_end", ["\r", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_lines_of_every_system_are_counted_and_read_from_any_row(tmp_path: Path, line_end: str, encoding: str):
    texts = [source for source, _ in PAIRS]
    (tmp_path / "a").write_bytes("".join(f"{text}{line_end}" for text in texts).encode(encoding))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "LINES_PER_OFFSET", 2)
        counted = count_lines(Part(tmp_path / "a"))
        assert counted.lines == len(texts)
        for start in range(len(texts)):
            assert list(read_part(Part(tmp_path / "a"), start=start, line_index=counted)) == texts[start:]


def test_json_lines_have_texts_at_keys(tmp_path: Path):
    write_json(tmp_path / "a.jsonl.zst", [*PAIRS, ("sechs", "")])
    field = {"files": "a.jsonl.zst", "key": "translation.de"}
    target = [{"file": "a.jsonl.zst", "key": "translation.en"}]
    dataset = data_set(tmp_path, {"source": field, "target": target})
    assert pairs(dataset) == [*PAIRS, ("sechs", "")]


def test_parquet_has_texts_in_columns(tmp_path: Path):
    write_parquet(tmp_path / "a.parquet", [*PAIRS, (None, "six\nlines\r\n")])
    write_parquet(tmp_path / "b.parquet", PAIRS)
    columns = {name: {"files": "?.parquet", "column": f"translation.{code}"} for name, code in LANGUAGES.items()}
    dataset = data_set(tmp_path, columns)
    assert pairs(dataset) == [*PAIRS, ("", "six lines"), *PAIRS]
    part = dataset.field("train", "source").parts[0]
    assert count_lines(part).lines == 5
    for start in range(6):
        assert list(read_part(part, start=start)) == [*(de for de, _ in PAIRS), ""][start:]


LANGUAGES = {"source": "de", "target": "en"}


@pytest.mark.parametrize("name", ["a.jsonl.zst", "a.parquet"])
def test_rows_have_every_text_of_a_split(tmp_path: Path, name: str):
    (write_json if name.startswith("a.json") else write_parquet)(tmp_path / name, PAIRS)
    within = "key" if name.startswith("a.json") else "column"
    dataset = data_set(
        tmp_path, {"rows": name, "source": "translation.de", "target": {within: "translation.en", "case": "lower"}}
    )
    assert pairs(dataset) == PAIRS
    assert dataset.field("train", "target").lowercase
    (tmp_path / "links").write_text("0-0\n" * 4)
    split = {"rows": [name], "source": "translation.de", "target": "translation.en", "alignment": {"files": "links"}}
    assert [row.texts[-1] for row in read_rows(data_set(tmp_path, split), "train", ("source", "alignment"))][:1] == [
        "0-0"
    ]


@pytest.mark.parametrize("options", ["", "?endpoint_override=minio:9000&scheme=http"])
@pytest.mark.parametrize(("name", "column"), [("part-*.parquet", "de"), ("x.jsonl.zst", None)])
def test_a_uri_s_options_do_not_change_the_format_of_rows(
    tmp_path: Path, name: str, column: str | None, options: str
) -> None:
    uri = f"s3://corpora/{name}{options}"
    (file,) = data_set(tmp_path, {"rows": uri, "source": "de"}).splits["train"]["source"].files
    assert (file.file, file.column, file.key) == (uri, column, None if column else "de")


def test_glob_patterns_are_expanded_in_name_order(tmp_path: Path):
    for number in (10, 2, 1):
        for code in ("de", "en"):
            (tmp_path / f"{number:02}.{code}").write_text(f"{code}{number}\n")
    expected = [("de1", "en1"), ("de2", "en2"), ("de10", "en10")]
    assert pairs(data_set(tmp_path, {"source": "*.de", "target": ["01.en", "[01][20].en"]})) == expected
    absolute = {name: f"{tmp_path}/*.{code}" for name, code in LANGUAGES.items()}
    assert pairs(data_set(tmp_path, absolute)) == expected
    uris = {name: (tmp_path / f"*.{code}").as_uri().replace("%2A", "*") for name, code in LANGUAGES.items()}
    assert pairs(data_set(tmp_path, uris)) == expected
    (tmp_path / "odd[1].de").write_text("odd\n")
    assert [row.texts for row in read_rows(data_set(tmp_path, {"source": "odd[1].de"}), "train", ["source"])] == [
        ("odd",)
    ]


def test_a_range_of_rows_is_read_across_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(formats, "LINES_PER_OFFSET", 2)
    for number in range(3):
        (tmp_path / f"{number}.de").write_text("".join(f"de{number}{row}\n" for row in range(4)))
    rows = b"".join(b"en%d%d\n" % (number, row) for number in range(3) for row in range(4))
    (tmp_path / "all.en").write_bytes(gzip.compress(rows))
    dataset = data_set(tmp_path, {"source": "*.de", "target": "all.en"})
    fields = [dataset.field("train", name) for name in LANGUAGES]
    counted = [[count_lines(part) for part in field.parts] for field in fields]
    whole = list(read_rows(dataset, "train", tuple(LANGUAGES)))
    for start in range(13):
        for end in (start, start + 1, start + 6, 12):
            assert list(read_range(fields, counted, start, end)) == whole[start:end]


def test_the_fingerprint_depends_on_the_text_and_not_on_the_description(tmp_path: Path):
    write_parquet(tmp_path / "a.parquet", PAIRS)

    def fingerprint(column: str, name: str = "a.parquet") -> str:
        return data_set(tmp_path, {"source": {"files": name, "column": column}}).fingerprint("train", ["source"])

    assert fingerprint("translation.de") == fingerprint("translation.de", "*.parquet") != fingerprint("translation.en")


# Errors


def refused(folder: Path, train: dict[str, object]) -> str:
    with pytest.raises(DataError) as error:
        pairs(data_set(folder, train))
    return str(error.value)


def test_files_of_different_lengths_are_named(tmp_path: Path):
    for number in range(6):
        (tmp_path / f"{number}.de").write_text("x\n" * 3)
        (tmp_path / f"{number}.en").write_text("x\n" * (2 if number == 4 else 3))
    split = {"source": "*.de", "target": "*.en"}
    assert "4.de has 3 lines" in (said := refused(tmp_path, split)) and "4.en has 2 lines" in said
    (tmp_path / "4.en").unlink()
    said = refused(tmp_path, split)
    assert "5.de (6 files) has 18 lines" in said and "5.en (5 files) has 15 lines" in said
    assert "9*.en was not found" in refused(tmp_path, {"source": "*.de", "target": "9*.en"})


def test_damaged_files_are_named_with_the_row(tmp_path: Path):
    lines = b"".join(b"%d\n" % (number * 7919**9) for number in range(30_000))
    for damaged in (gzip.compress(lines)[:-2000], zstandard(lines)[:-10]):
        (tmp_path / "a").write_bytes(damaged)
        with pytest.raises(DataError, match=r"/a: cannot be read after line [\d,]+: .*Get the file again"):
            list(read_part(Part(tmp_path / "a")))
        with pytest.raises(DataError, match=r"/a: cannot be read"):
            count_lines(Part(tmp_path / "a"))
    write_parquet(tmp_path / "b.parquet", [("some text " * 50 + str(i), "y") for i in range(4000)], group=100)
    whole = (tmp_path / "b.parquet").read_bytes()
    part = Part(tmp_path / "b.parquet", column="translation.de")
    (tmp_path / "b.parquet").write_bytes(whole[:30_000] + b"\xff" * 3000 + whole[33_000:])
    with pytest.raises(DataError, match=r"b\.parquet: cannot be read"):
        list(read_part(part))
    (tmp_path / "b.parquet").write_bytes(whole[:500])
    with pytest.raises(DataError, match=r"b\.parquet: cannot be read: Parquet magic bytes not found"):
        list(read_part(part))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"en": "x", "other": 1}', r"line 2: has no key 'de', only 'en', 'other'\. Look at `key:`"),
        ('["de"]', r"line 2: has no key 'de'\."),
        ("{", "line 2: is not JSON: Expecting property name"),
        ("", "line 2: is not JSON"),
        ('{"de": 5}', "line 2: has no text at 'de', but 5"),
    ],
)
def test_an_invalid_row_of_json(tmp_path: Path, line: str, problem: str):
    (tmp_path / "a.jsonl").write_text(f'{{"de": "eins"}}\n{line}\n')
    with pytest.raises(DataError, match=rf"a\.jsonl, {problem}"):
        list(read_part(Part(tmp_path / "a.jsonl", key="de")))


def test_a_column_that_is_missing_or_not_text(tmp_path: Path):
    write_parquet(tmp_path / "a.parquet", PAIRS)
    for column, problem in (
        ("de", "has no column 'de', only 'translation', 'score'. Look at `column:`"),
        ("translation.fr", "has no column 'translation.fr'"),
        ("score", "the column 'score' is double, not text"),
        ("translation", "the column 'translation' is struct"),
    ):
        with pytest.raises(DataError) as error:
            list(read_part(Part(tmp_path / "a.parquet", column=column)))
        assert f"a.parquet: {problem}" in str(error.value)


def test_files_of_one_field_have_one_format(tmp_path: Path):
    said = refused(tmp_path, {"source": {"files": "a", "key": "x", "column": "y"}})
    assert "a has a `key` (JSON Lines) and a `column` (Parquet)" in said


def test_invalid_or_unreachable_storages(tmp_path: Path):
    assert "ftp://example.org/x: is in no store that can be read" in refused(
        tmp_path, {"source": "ftp://example.org/x"}
    )
    assert "there is no such file" in refused(tmp_path, {"source": (tmp_path / "nothing").as_uri()})
    silent = "s3://key:secret@bucket/a.de?scheme=http&endpoint_override=127.0.0.1:9&connect_timeout=1"
    with pytest.raises(DataError, match=r"^s3://bucket/a\.de: cannot be read") as error:
        expand_uri(silent)
    assert "secret" not in str(error.value)


def test_files_of_a_storage_use_its_options_and_bucket(tmp_path: Path):
    first = RemoteFile("s3://key:secret@bucket/folder/*.de?region=x")
    assert first.sibling("bucket/folder/1.de").uri == "s3://key:secret@bucket/folder/1.de?region=x"
    assert str(first) == "s3://bucket/folder/*.de"
