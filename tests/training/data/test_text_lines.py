"""Files as editors and exports of any system write them are read as the same lines; others are refused by position."""

import gzip
import subprocess
from io import BufferedReader, BytesIO
from pathlib import Path

import pytest

from interlinear.errors import DataError
from training.data.text_lines import CHUNK, LineReader, clean_text, read_file

LINES = ["Ein Hund läuft.", "", "日本語 „so“", "🙂 Ende"]


def read(path: Path) -> list[str]:
    return [clean_text(line) for line in read_file(path)]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be-bom"])
@pytest.mark.parametrize("compressed", [False, True])
def test_encodings_and_line_ends(tmp_path: Path, line_end: str, encoding: str, compressed: bool):
    text = line_end.join(LINES) + line_end
    data = ("\ufeff" + text).encode("utf-16-be") if encoding == "utf-16-be-bom" else text.encode(encoding)
    (tmp_path / "text").write_bytes(gzip.compress(data) if compressed else data)
    assert read(tmp_path / "text") == LINES


def test_a_last_line_without_an_end_counts(tmp_path: Path):
    (tmp_path / "text").write_bytes(b"one\r\ntwo")
    assert read(tmp_path / "text") == ["one", "two"]
    (tmp_path / "text").write_bytes(b"")
    assert read(tmp_path / "text") == []


def test_only_line_feeds_end_lines_where_there_are_some(tmp_path: Path):
    inside = ["a\u2028b", "a\x85b", "a\x0cb", "a\u2029 b", "a\rb", "\ufeffa b"]
    (tmp_path / "text").write_bytes("".join(f"{line}\n" for line in inside).encode())
    assert read(tmp_path / "text") == ["a b"] * len(inside)


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as refused:
        read(path)
    return str(refused.value)


@pytest.mark.parametrize("before", [1, CHUNK // 5])
def test_an_invalid_byte_is_located(tmp_path: Path, before: int):
    path = tmp_path / "text"
    good, bad = "grün\n".encode() * before, "f\u00fcr\n".encode("latin-1")
    path.write_bytes(good + bad)
    assert f"{path}, line {before + 1}: is not valid UTF-8 (byte 0xfc at position 1)" in refusal(path)
    path.write_bytes(bad + good)
    assert f"the file looks like LATIN1. Convert it: `iconv -f LATIN1 -t UTF-8 < {path} > NEW`" in refusal(path)


def test_an_invalid_unit_of_utf_16_is_located(tmp_path: Path):
    path = tmp_path / "text"
    path.write_bytes("ab\ncd\n".encode("utf-16") + b"\x00\xdc\n\x00")
    assert f"{path}, line 3: is not valid UTF-16 (byte 0x00 at offset 14)" in refusal(path)


def test_utf_32_is_refused(tmp_path: Path):
    path = tmp_path / "text"
    path.write_bytes("Ein Hund\n".encode("utf-32"))
    assert f"{path}, line 1: is not valid UTF-16 (a NUL byte). Save the text again, as UTF-8." in refusal(path)


def test_lines_are_there_as_soon_as_they_are_complete():
    class Dripping(BytesIO):
        def read1(self, size: int = -1) -> bytes:
            return super().read1(3)

    reader = LineReader(BufferedReader(Dripping(b"ab\r\ncd\refg\n\nh")), "stdin")
    reader.file = Dripping(b"ab\r\ncd\refg\n\nh")
    assert list(reader.groups()) == [[b"ab\r"], [b"cd\refg", b""], [b"h"]]
    # The first half of a line end of Windows is not the line end of an old Mac.
    assert LineReader(BufferedReader(BytesIO(b"ab\r")), "stdin").form.line_end == "\n"


@pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE"])
def test_utf_16_without_a_mark_is_named_with_a_command_that_converts(tmp_path: Path, encoding: str):
    path = tmp_path / "my text"
    path.write_bytes("Ein Hund\nzwei\n".encode(encoding))
    command = f"iconv -f {encoding} -t UTF-8 < '{path}' > NEW"
    assert f"Convert it: `{command}`" in refusal(path)
    subprocess.run(command.replace("NEW", str(tmp_path / "new")), shell=True, check=True)
    assert read(tmp_path / "new") == ["Ein Hund", "zwei"]
