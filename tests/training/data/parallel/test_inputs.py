"""Two files, a TSV, a TMX, or a folder of them: found by name, with their languages."""

import gzip
import os
from pathlib import Path

import pytest

from interlinear.errors import DataError, InterlinearError, UsageError
from training.data.parallel import ParallelText, find_parallel_text, parse_languages


def write(path: Path, *lines: str) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def found(*paths: Path, languages: str | None = None) -> ParallelText:
    return find_parallel_text(paths, parse_languages(languages) if languages else None)


def refusal(*paths: Path, languages: str | None = None) -> str:
    with pytest.raises(InterlinearError) as refused:
        list(found(*paths, languages=languages).pairs())
    return str(refused.value)


def test_two_files_are_named_by_their_languages(tmp_path: Path):
    text = found(write(tmp_path / "my train.de", "eins", "zwei"), write(tmp_path / "my train.en.txt", "one", "two"))
    assert (text.name, text.languages) == ("my-train-de-en", ("de", "en"))
    assert list(text.pairs()) == [("eins", "one"), ("zwei", "two")]
    source, target = write(tmp_path / "a.txt", "eins"), write(tmp_path / "b.txt", "one")
    assert "their names do not say their languages. Name them, the source first: --languages de,en." in refusal(
        source, target
    )
    text = found(source, target, languages="zh_Hans,pt-BR")
    assert (text.name, text.languages) == ("a-zh-Hans-pt-BR", ("zh-Hans", "pt-BR"))


def test_different_numbers_of_lines_are_both_named(tmp_path: Path):
    few, many = write(tmp_path / "a.de", "eins"), write(tmp_path / "a.en", "one", "two", "three")
    assert f"{few} and {many}: have 1 and 3 lines" in refusal(few, many)
    assert f"{many} and {few}: have 3 and 1 lines" in refusal(many, few)


@pytest.mark.parametrize(
    ("header", "languages", "expected"),
    [
        (None, "de,en", ("eins", "one")),
        ("de\ten\tnote", None, ("eins", "one")),
        ("EN\tid\tDe", "de,en", ("x", "eins")),
        ("id\tsource\ttarget", "de,en", ("one", "x")),
        ("de-AT\ten-GB", "de,en", ("eins", "one")),
    ],
)
def test_columns_of_a_tsv(tmp_path: Path, header: str | None, languages: str | None, expected: tuple[str, str]):
    path = write(tmp_path / "a.tsv", *filter(None, [header]), "eins\tone\tx", '"zwei"\t"two\ty', "", "\t\t")
    if header == "de-AT\ten-GB":
        path = write(path, header, "eins\tone", "zwei\ttwo\t")
    pairs = list(found(path, languages=languages).pairs())
    assert pairs[0] == expected
    if header is None:
        assert pairs[1:] == [('"zwei"', '"two'), ("", ""), ("", "")]


def test_refused_tsv(tmp_path: Path):
    path = write(tmp_path / "a.tsv", "eins\tone", "zwei two")
    assert f"{path}: has no header with language codes. Name them" in refusal(path)
    assert f"{path}, line 2: has 1 of at least 2 columns: 'zwei two'" in refusal(path, languages="de,en")
    assert f"{write(path)}: has no lines" in refusal(path, languages="de,en")


def test_a_tab_inside_a_sentence_is_refused_and_a_further_column_is_not(tmp_path: Path):
    path = write(tmp_path / "a b.tsv", "eins\tone", "zwei\ttwo\t", "Eine\tEnte\tA duck")
    remedy = f"leave such lines out: `awk -F '\\t' 'NF == 2' '{path}' > NEW`."
    said = refusal(path, languages="de,en")
    assert f"{path}, line 3: has 3 columns, and line 1 has 2: 'Eine Ente A duck'" in said.replace("\\t", " ", 2)
    assert said.endswith(remedy)
    assert "line 2: has 2 columns, and line 1 has 3" in refusal(
        write(path, "Eine\tEnte\tA duck", "eins\tone"), languages="de,en"
    )
    scored = write(path, "eins\tone\t0.5", "zwei\ttwo\t0.25", "drei\tthree\t")
    assert list(found(scored, languages="de,en").pairs()) == [("eins", "one"), ("zwei", "two"), ("drei", "three")]


UNIT = '<tu><tuv xml:lang="de"><seg>eins</seg></tuv><tuv xml:lang="en"><seg>one</seg></tuv></tu>'


@pytest.mark.parametrize(
    ("names", "languages"),
    [
        (["A.TMX"], None),
        (["A.Tmx.GZ"], None),
        (["A.TSV"], None),
        (["A.DE", "A.EN.TXT"], None),
        (["A.DE.GZ", "A.EN"], None),
        (["A.TSV.TXT"], "de,en"),
    ],
)
def test_names_of_files_are_without_case(tmp_path: Path, names: list[str], languages: str | None):
    header = "DE\tEN\n" if languages is None else ""
    contents = [f"<tmx><body>{UNIT}</body></tmx>"] if "mx" in names[0].lower() else [f"{header}eins\tone\n"]
    for name, content in zip(names, ["eins\n", "one\n"] if len(names) == 2 else contents, strict=True):
        (tmp_path / name).write_bytes(gzip.compress(content.encode()) if "GZ" in name else content.encode())
    text = found(*(tmp_path / name for name in names), languages=languages)
    assert (text.name, text.languages) == ("A-de-en", ("de", "en"))
    assert list(text.pairs()) == [("eins", "one")]


def test_a_folder_has_files_of_every_kind(tmp_path: Path):
    write(tmp_path / "b.de", "zwei")
    (tmp_path / "b.en.gz").write_bytes(gzip.compress(b"two\n"))
    write(tmp_path / "a.tsv", "eins\tone")
    unit = '<tu><tuv xml:lang="de"><seg>drei</seg></tuv><tuv xml:lang="en"><seg>three</seg></tuv></tu>'
    write(tmp_path / "c.tmx", f"<tmx><body>{unit}</body></tmx>")
    write(tmp_path / "README.md", "Read me")
    write(tmp_path / ".hidden.de", "x")
    text = found(tmp_path, languages="de,en")
    assert list(text.pairs()) == [("eins", "one"), ("zwei", "two"), ("drei", "three")]
    assert (text.name, text.ignored) == (f"{tmp_path.name}-de-en", ("README.md",))
    assert "a folder does not say its languages" in refusal(tmp_path)
    write(tmp_path / "d.de", "vier")
    assert f"{tmp_path / 'd.de'}: there is no d.en beside it" in refusal(tmp_path, languages="de,en")
    write(tmp_path / "b.de.txt", "zwei")
    assert "is beside b.de: one text twice?" in refusal(tmp_path, languages="de,en")


def test_refused_names(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    assert "has no .tsv, no .tmx, and no pair of files .de and .en" in refusal(tmp_path / "folder", languages="de,en")
    assert "is neither a .tsv, a .tmx nor a folder" in refusal(write(tmp_path / "a.docx", "x"), languages="de,en")
    assert "there is no such file or folder" in refusal(tmp_path / "none.tsv")
    os.mkfifo(tmp_path / "pipe")
    assert f"{tmp_path / 'pipe'}: is a pipe, and the text is read twice. Write it to a file" in refusal(
        tmp_path / "pipe", languages="de,en"
    )
    for languages in ("de", "de,en,fr", "de,", "german,english"):
        with pytest.raises(UsageError, match="is not two language codes"):
            parse_languages(languages)
    with pytest.raises(DataError, match="cannot be read"):
        (tmp_path / "b.tsv.gz").write_bytes(gzip.compress(b"eins\tone\n" * 99)[:-9])
        list(found(tmp_path / "b.tsv.gz", languages="de,en").pairs())
