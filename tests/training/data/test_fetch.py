"""Downloads of corpora from an HTTP server on loopback: complete, verified, resumed, or refused with the reason."""

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

from interlinear.errors import DataError, UsageError
from training.data.dataset import Dataset
from training.data.dataset.description import DownloadSource
from training.data.fetch import MAX_ATTEMPTS, check_complete, fetch

TEXT = gzip.compress("".join(f"Satz {number}.\n" for number in range(40_000)).encode(), mtime=0)
DESCRIPTION = {
    "task": "translation",
    "about": "For tests",
    "licence": "none",
    "languages": {"source": "de"},
    "splits": {"train": {"source": "set/train.de.gz"}},
}


@dataclass
class DownloadServer:
    """The server's files, its faults, and the requests that it received."""

    files: dict[str, bytes]
    etag: str = '"one"'
    cut: list[int] = field(default_factory=list)  # bytes after which the next responses break off
    status: list[int] = field(default_factory=list)  # replaces the next responses
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path, Range


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, download_server: DownloadServer, *arguments: object) -> None:
        self.download_server = download_server
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        self.download_server.asked.append((self.path, wanted))
        content = self.download_server.files.get(self.path)
        if self.download_server.status or content is None:
            self.send_error(self.download_server.status.pop(0) if self.download_server.status else 404)
            return
        start = 0
        if wanted and self.headers["If-Range"] == self.download_server.etag:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if self.download_server.etag:
            self.send_header("ETag", self.download_server.etag)
        self.end_headers()
        body = content[start:]
        if self.download_server.cut:
            body = body[: self.download_server.cut.pop(0)]
            self.close_connection = True
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""


@pytest.fixture
def download_server() -> DownloadServer:
    return DownloadServer({"/set/train.de.gz": TEXT})


@pytest.fixture
def url(download_server: DownloadServer) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, download_server))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def a_set(root: Path, **changes: object) -> Dataset:
    """A data set whose description is in another folder than the data root."""
    return Dataset.model_validate(
        {"name": "mine", "path": root / "here/mine.yaml", "roots": (root, root / "here"), **DESCRIPTION, **changes}
    )


def get(url: str, root: Path, sha256: str | None = None, **options: object):
    homes = {"set/train.de.gz": {"url": "https://example.org/train.de.gz", "sha256": sha256}}
    progress: list[tuple[str, int, int | None]] = []
    dataset = a_set(root, homes=homes)
    received = fetch(dataset, lambda *news: progress.append(news), source=url, pause=0.01, **options)
    return received, progress


def test_a_file_is_downloaded_and_recorded(url: str, tmp_path: Path):
    received, progress = get(url, tmp_path, sha256=hashlib.sha256(TEXT).hexdigest())
    assert (tmp_path / "set/train.de.gz").read_bytes() == TEXT
    assert progress[-1] == ("set/train.de.gz", len(TEXT), len(TEXT))
    record = json.loads((tmp_path / "set/received.json").read_text())["train.de.gz"]
    came = received["set/train.de.gz"]
    assert record == {"url": f"{url}/set/train.de.gz", "bytes": len(TEXT), "sha256": came.sha256}
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == ["received.json", "train.de.gz"]


def test_existing_files_are_not_downloaded_unless_requested(url: str, download_server: DownloadServer, tmp_path: Path):
    get(url, tmp_path)
    assert get(url, tmp_path)[0] == {}
    assert len(download_server.asked) == 1
    assert get(url, tmp_path, refetch=True)[0]
    assert len(download_server.asked) == 2


def test_a_missing_file_is_requested_only_once(url: str, download_server: DownloadServer, tmp_path: Path):
    download_server.files.clear()
    with pytest.raises(DataError, match=r"set/train\.de\.gz: its server answered 404 Not Found"):
        get(url, tmp_path)
    assert len(download_server.asked) == 1
    assert not (tmp_path / "set/train.de.gz").exists()


def test_a_broken_download_is_resumed(url: str, download_server: DownloadServer, tmp_path: Path):
    download_server.cut = [30_000]
    get(url, tmp_path, sha256=hashlib.sha256(TEXT).hexdigest())
    assert (tmp_path / "set/train.de.gz").read_bytes() == TEXT
    assert [wanted for _, wanted in download_server.asked] == [None, "bytes=30000-"]


def test_a_truncated_file_is_never_installed_and_the_next_command_resumes(
    url: str, download_server: DownloadServer, tmp_path: Path
):
    download_server.cut = [10_000] * MAX_ATTEMPTS
    with pytest.raises(
        DataError, match=r"the connection ended after 40,000 of [\d,]+ bytes \(the last of 4 attempts\)"
    ):
        get(url, tmp_path)
    assert not (tmp_path / "set/train.de.gz").exists()
    get(url, tmp_path)
    assert (tmp_path / "set/train.de.gz").read_bytes() == TEXT
    assert download_server.asked[-1][1] == "bytes=40000-"


def test_a_changed_file_is_downloaded_from_the_start(url: str, download_server: DownloadServer, tmp_path: Path):
    download_server.cut = [10_000] * MAX_ATTEMPTS
    with pytest.raises(DataError):
        get(url, tmp_path)
    download_server.etag, download_server.files["/set/train.de.gz"] = '"two"', gzip.compress(b"Anders.\n", mtime=0)
    get(url, tmp_path)
    assert gzip.decompress((tmp_path / "set/train.de.gz").read_bytes()) == b"Anders.\n"


def test_without_an_etag_a_broken_download_starts_again(url: str, download_server: DownloadServer, tmp_path: Path):
    download_server.etag, download_server.cut = "", [30_000]
    get(url, tmp_path)
    assert (tmp_path / "set/train.de.gz").read_bytes() == TEXT
    assert [wanted for _, wanted in download_server.asked] == [None, None]


def test_server_errors_are_retried(url: str, download_server: DownloadServer, tmp_path: Path):
    download_server.status = [503, 500]
    get(url, tmp_path)
    assert len(download_server.asked) == 3
    assert (tmp_path / "set/train.de.gz").read_bytes() == TEXT


def test_a_file_with_a_wrong_checksum_is_removed(url: str, tmp_path: Path):
    with pytest.raises(
        DataError, match=f"came with the SHA-256 {hashlib.sha256(TEXT).hexdigest()}, and {'0' * 64} was"
    ):
        get(url, tmp_path, sha256="0" * 64)
    assert list((tmp_path / "set").iterdir()) == []


def test_an_html_page_instead_of_an_archive_is_removed(url: str, download_server: DownloadServer, tmp_path: Path):
    download_server.files["/set/train.de.gz"] = b"<html>Please log in</html>"
    with pytest.raises(DataError, match="came, but it is not a gzip file"):
        get(url, tmp_path)
    assert not (tmp_path / "set/train.de.gz").exists()


def test_a_file_over_the_limit(url: str, tmp_path: Path):
    with pytest.raises(DataError, match="the file is larger than 1,000 bytes"):
        get(url, tmp_path, max_bytes=1_000)


def test_an_unreachable_server(tmp_path: Path):
    with pytest.raises(DataError, match=r"cannot be reached: .*\(the last of 4 attempts\)"):
        get("http://127.0.0.1:9", tmp_path)


def test_an_unwritable_folder(url: str, tmp_path: Path):
    (tmp_path / "set").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        get(url, tmp_path)


@pytest.mark.parametrize("source", ["ftp://example.org", "here", "http://", "file:///etc"])
def test_an_invalid_url(source: str, tmp_path: Path):
    with pytest.raises(UsageError, match="is not a URL that begins with"):
        get(source, tmp_path)


def test_a_set_without_a_url(tmp_path: Path):
    dataset = a_set(tmp_path)
    assert fetch(dataset, lambda *news: None) == {}
    with pytest.raises(DataError, match=r"set/train\.de\.gz has no public home to fetch it from"):
        check_complete(dataset)


def test_files_with_a_home_are_downloaded_before_others_are_named(url: str, tmp_path: Path):
    dataset = a_set(tmp_path, splits={"train": {"source": "set/train.de.gz", "target": ["set/a.en", "set/b.en"]}})
    home = DownloadSource.model_construct(url=f"{url}/set/train.de.gz", sha256=None)  # a described one is https
    dataset = dataset.model_copy(update={"homes": {"set/train.de.gz": home}})
    assert list(fetch(dataset, lambda *news: None)) == ["set/train.de.gz"]
    with pytest.raises(DataError, match=r"set/a\.en, set/b\.en have no public home to fetch them from"):
        check_complete(dataset)


@pytest.mark.parametrize("refetch", [False, True])
@pytest.mark.parametrize("folder", ["", "here"], ids=["data root", "beside the description"])
def test_a_file_without_a_home_may_be_here_already(folder: str, refetch: bool, tmp_path: Path):
    present = tmp_path / folder / "set/train.de.gz"
    present.parent.mkdir(parents=True)
    present.write_bytes(TEXT)
    dataset = a_set(tmp_path)
    assert fetch(dataset, lambda *news: None, refetch=refetch) == {}
    check_complete(dataset)


@pytest.mark.parametrize("path", ["/etc/nothing", "../outside.gz", "set/../../outside.gz"])
def test_nothing_is_written_outside_the_data_root(url: str, path: str, tmp_path: Path):
    dataset = a_set(tmp_path, splits={"train": {"source": path}})
    with pytest.raises(DataError, match="does not lie below the data root"):
        fetch(dataset, lambda *news: None, source=url)


def test_a_folders_url_covers_its_files(tmp_path: Path):
    dataset = a_set(tmp_path, homes={"set/": "https://example.org/raw/"})
    source = dataset.download_source("set/train.de.gz")
    assert source is not None
    assert source.url == "https://example.org/raw/train.de.gz"
    assert dataset.download_source("other/train.de.gz") is None
