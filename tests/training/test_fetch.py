"""Corpora are fetched from a real server on the loopback: whole, checked, continued, or refused with the reason."""

import gzip
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from seq2seq.errors import DataError, UsageError
from training.data.description import Description
from training.data.fetch import MAX_ATTEMPTS, fetch

TEXT = gzip.compress("".join(f"Satz {number}.\n" for number in range(40_000)).encode(), mtime=0)
DESCRIPTION = {
    "task": "translation",
    "about": "For tests",
    "licence": "none",
    "languages": {"source": "de"},
    "splits": {"train": {"source": "set/train.de.gz"}},
}


@dataclass
class Home:
    """What the server has, how it misbehaves, and what it was asked for."""

    files: dict[str, bytes]
    etag: str = '"one"'
    cut: list[int] = field(default_factory=list)  # bytes after which the next answers break off
    status: list[int] = field(default_factory=list)  # what the next answers are instead
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path, Range


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, home: Home, *arguments: object) -> None:
        self.home = home
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        self.home.asked.append((self.path, wanted))
        content = self.home.files.get(self.path)
        if self.home.status or content is None:
            self.send_error(self.home.status.pop(0) if self.home.status else 404)
            return
        start = 0
        if wanted and self.headers["If-Range"] == self.home.etag:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if self.home.etag:
            self.send_header("ETag", self.home.etag)
        self.end_headers()
        body = content[start:]
        if self.home.cut:
            body = body[: self.home.cut.pop(0)]
            self.close_connection = True
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def home() -> Home:
    return Home({"/set/train.de.gz": TEXT})


@pytest.fixture
def url(home: Home) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, home))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def get(url: str, root: Path, sha256: str | None = None, **options: object):
    homes = {"set/train.de.gz": {"url": "https://example.org/train.de.gz", "sha256": sha256}}
    description = Description.model_validate({**DESCRIPTION, "homes": homes})
    told: list[tuple[str, int, int | None]] = []
    received = fetch("mine", description, root, lambda *news: told.append(news), source=url, pause=0.01, **options)
    return received, told


def test_a_file_comes_whole_and_is_recorded(url: str, tmp_path: Path):
    received, told = get(url, tmp_path, sha256=hashlib.sha256(TEXT).hexdigest())
    assert (tmp_path / "set/train.de.gz").read_bytes() == TEXT
    assert told[-1] == ("set/train.de.gz", len(TEXT), len(TEXT))
    record = json.loads((tmp_path / "set/received.json").read_text())["train.de.gz"]
    came = received["set/train.de.gz"]
    assert record == {"url": f"{url}/set/train.de.gz", "bytes": len(TEXT), "sha256": came.sha256}
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == ["received.json", "train.de.gz"]


def test_what_is_here_is_not_fetched_unless_asked(url: str, home: Home, tmp_path: Path):
    get(url, tmp_path)
    assert get(url, tmp_path)[0] == {}
    assert len(home.asked) == 1
    assert get(url, tmp_path, refetch=True)[0]
    assert len(home.asked) == 2


def test_what_is_not_there_is_not_asked_for_twice(url: str, home: Home, tmp_path: Path):
    home.files.clear()
    with pytest.raises(DataError, match=r"set/train\.de\.gz: its server answered 404 Not Found"):
        get(url, tmp_path)
    assert len(home.asked) == 1
    assert not (tmp_path / "set/train.de.gz").exists()


def test_a_broken_connection_is_continued_where_it_broke(url: str, home: Home, tmp_path: Path):
    home.cut = [30_000]
    get(url, tmp_path, sha256=hashlib.sha256(TEXT).hexdigest())
    assert (tmp_path / "set/train.de.gz").read_bytes() == TEXT
    assert [wanted for _, wanted in home.asked] == [None, "bytes=30000-"]


def test_a_truncated_file_is_never_in_place_and_the_next_command_goes_on(url: str, home: Home, tmp_path: Path):
    home.cut = [10_000] * MAX_ATTEMPTS
    with pytest.raises(
        DataError, match=r"the connection ended after 40,000 of [\d,]+ bytes \(the last of 4 attempts\)"
    ):
        get(url, tmp_path)
    assert not (tmp_path / "set/train.de.gz").exists()
    get(url, tmp_path)
    assert (tmp_path / "set/train.de.gz").read_bytes() == TEXT
    assert home.asked[-1][1] == "bytes=40000-"


def test_another_version_of_the_file_is_begun_anew(url: str, home: Home, tmp_path: Path):
    home.cut = [10_000] * MAX_ATTEMPTS
    with pytest.raises(DataError):
        get(url, tmp_path)
    home.etag, home.files["/set/train.de.gz"] = '"two"', gzip.compress(b"Anders.\n", mtime=0)
    get(url, tmp_path)
    assert gzip.decompress((tmp_path / "set/train.de.gz").read_bytes()) == b"Anders.\n"


def test_without_a_version_a_broken_file_is_begun_anew(url: str, home: Home, tmp_path: Path):
    home.etag, home.cut = "", [30_000]
    get(url, tmp_path)
    assert (tmp_path / "set/train.de.gz").read_bytes() == TEXT
    assert [wanted for _, wanted in home.asked] == [None, None]


def test_a_server_in_trouble_is_asked_again(url: str, home: Home, tmp_path: Path):
    home.status = [503, 500]
    get(url, tmp_path)
    assert len(home.asked) == 3
    assert (tmp_path / "set/train.de.gz").read_bytes() == TEXT


def test_a_wrong_checksum_is_not_kept(url: str, tmp_path: Path):
    with pytest.raises(
        DataError, match=f"came with the SHA-256 {hashlib.sha256(TEXT).hexdigest()}, and {'0' * 64} was"
    ):
        get(url, tmp_path, sha256="0" * 64)
    assert list((tmp_path / "set").iterdir()) == []


def test_a_page_instead_of_an_archive_is_not_kept(url: str, home: Home, tmp_path: Path):
    home.files["/set/train.de.gz"] = b"<html>Please log in</html>"
    with pytest.raises(DataError, match="came, but it is not a gzip file"):
        get(url, tmp_path)
    assert not (tmp_path / "set/train.de.gz").exists()


def test_a_file_over_the_limit(url: str, tmp_path: Path):
    with pytest.raises(DataError, match="the file is larger than 1,000 bytes"):
        get(url, tmp_path, max_bytes=1_000)


def test_nobody_there(tmp_path: Path):
    with pytest.raises(DataError, match=r"cannot be reached: .*\(the last of 4 attempts\)"):
        get("http://127.0.0.1:9", tmp_path)


def test_no_place_to_write(url: str, tmp_path: Path):
    (tmp_path / "set").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        get(url, tmp_path)


@pytest.mark.parametrize("source", ["ftp://example.org", "here", "http://", "file:///etc"])
def test_a_place_that_is_no_web_address(source: str, tmp_path: Path):
    with pytest.raises(UsageError, match="is not a URL that begins with"):
        get(source, tmp_path)


def test_a_set_without_a_home(tmp_path: Path):
    with pytest.raises(DataError, match="has no public home to fetch it from"):
        fetch("mine", Description.model_validate(DESCRIPTION), tmp_path, lambda *news: None)


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside.gz", "set/../../outside.gz"])
def test_nothing_is_written_outside_the_data_root(url: str, path: str, tmp_path: Path):
    description = Description.model_validate({**DESCRIPTION, "splits": {"train": {"source": path}}})
    with pytest.raises(DataError, match="does not lie below the data root"):
        fetch("mine", description, tmp_path, lambda *news: None, source=url)


def test_a_folder_s_home_covers_its_files():
    description = Description.model_validate({**DESCRIPTION, "homes": {"set/": "https://example.org/raw/"}})
    home = description.download_source("set/train.de.gz")
    assert home is not None
    assert home.url == "https://example.org/raw/train.de.gz"
    assert description.download_source("other/train.de.gz") is None
