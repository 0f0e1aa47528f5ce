"""Folders on a storage: complete or absent, on disk and on an S3 server; and the message of every failure."""

import os
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlinear.errors import CorruptedError, StorageError, UsageError
from tests.processes import PROCESSES
from tests.s3 import S3Server, s3_server
from training.storage.storage import MANIFEST, Storage

NAMES = st.text("abcdefgh-_ .%äö", min_size=1, max_size=12).filter(lambda name: name.strip(" .") and "/" not in name)
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.binary(max_size=200), min_size=1, max_size=8
).filter(lambda tree: not any(one != other and other.startswith(f"{one}/") for one in tree for other in tree))


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


def write(folder: Path, tree: dict[str, bytes]) -> Path:
    for name, content in tree.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def read(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@settings(max_examples=25)
@given(first=TREES, second=TREES)
def test_a_stored_folder_is_read_back_and_replaced_completely(
    first: dict[str, bytes], second: dict[str, bytes]
) -> None:
    with tempfile.TemporaryDirectory() as place:
        here, storage = Path(place), Storage(f"{place}/storage")
        storage.check()
        for number, tree in enumerate((first, second, second)):
            storage.put("runs/one", write(here / f"given-{number}", tree))
            storage.get("runs/one", here / "got")
            assert read(here / "got") == tree
            stored = read(here / "storage/runs/one")
            assert stored.pop(MANIFEST) and stored == tree


def test_s3_behaves_the_same(s3: S3Server, tmp_path: Path) -> None:
    storage = Storage(s3.uri("some/prefix"))
    storage.check()
    trees = [{"a": b"", "deep/er/b c": random.randbytes(12 << 20)}, {"a": b"1", "ö%20+&?": b"2"}]
    for number, tree in enumerate(trees):
        storage.put("runs/one", write(tmp_path / f"given-{number}", tree))
        storage.get("runs/one", tmp_path / "got")
        assert read(tmp_path / "got") == tree
    assert storage.names("runs") == ["one"] and storage.names("nothing") == []
    storage.get_file("runs/one", "a", tmp_path / "alone")
    assert (tmp_path / "alone").read_bytes() == b"1"
    storage.write("note", b"x")
    assert storage.read("note") == b"x" and storage.read("no note") is None
    storage.remove("runs/one")
    storage.remove("runs/one")
    assert storage.manifest("runs/one") is None and storage.names("runs") == []
    assert storage.uri_of("a/b").startswith("s3://bucket/some/prefix/a/b?endpoint_override=")


def test_cached_files_are_not_downloaded_again(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path / "storage"))
    storage.check()
    storage.put("one", write(tmp_path / "given", {"a": b"1", "b/c": b"2"}))
    storage.get("one", tmp_path / "got")
    before = (tmp_path / "got").stat().st_ino
    (tmp_path / "storage/one/a").unlink()  # not requested any more
    storage.get("one", tmp_path / "got")
    assert (tmp_path / "got").stat().st_ino == before


def upload(folder: Path) -> None:
    Storage(str(folder / "storage")).put("one", folder / "given")


def test_an_interrupted_upload_leaves_no_folder(tmp_path: Path) -> None:
    tree = {f"{number:04d}": os.urandom(200) for number in range(2000)}
    write(tmp_path / "given", tree)
    (tmp_path / "storage").mkdir()
    enough, deadline = random.randint(1, 300), time.monotonic() + 60
    process = PROCESSES.Process(target=upload, args=(tmp_path,))
    process.start()
    while sum(1 for _ in (tmp_path / "storage").rglob("*")) < enough and time.monotonic() < deadline:
        time.sleep(0.001)
    process.kill()
    process.join()
    storage = Storage(str(tmp_path / "storage"))
    there = {name for name in read(tmp_path / "storage/one") if not name.endswith(".draft")}
    assert there and there < set(tree), "it was killed too early or too late to tell"
    assert storage.manifest("one") is None
    with pytest.raises(CorruptedError, match="is not there, or was never whole"):
        storage.get("one", tmp_path / "got")
    assert not (tmp_path / "got").exists()
    storage.put("one", tmp_path / "given")
    storage.get("one", tmp_path / "got")
    assert read(tmp_path / "got") == tree


def test_a_missing_or_changed_file_is_named_and_no_local_copy_remains(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path / "storage"))
    storage.check()
    given = write(tmp_path / "given", {"shard-0.npy": b"0" * 99, "shard-1.npy": b"1" * 99})
    stored = tmp_path / "storage/one"
    for harm, sentence in (
        (lambda: (stored / "shard-1.npy").write_bytes(b"1" * 98 + b"2"), r"one/shard-1\.npy: is damaged"),
        (lambda: (stored / "shard-0.npy").write_bytes(b"0"), r"one/shard-0\.npy: has 1 bytes instead of 99"),
        ((stored / "shard-1.npy").unlink, r"one/shard-1\.npy: is missing"),
        (lambda: (stored / MANIFEST).write_text("{"), "one: is not there, or was never whole"),
        (lambda: (stored / MANIFEST).write_text(
            '{"files": {"../escaped": {"size": 1, "sha256": ""}}}'), r"its manifest names '\.\./escaped'"),
    ):  # fmt: skip
        storage.remove("one")
        storage.put("one", given)
        harm()
        with pytest.raises(CorruptedError, match=sentence):
            storage.get("one", tmp_path / "got")
        assert {path.name for path in tmp_path.iterdir()} == {"storage", "given"}


def test_two_commands_may_upload_the_same_data_at_once_though_one_of_them_fails(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path / "storage"))
    storage.check()
    tree = {f"shard-{number}.npy": bytes([number]) * 99 for number in range(4)}
    given = write(tmp_path / "given", tree)
    files = {name: given / name for name in tree}

    class InTwoSteps(dict[str, Path]):
        def items(self) -> Iterator[tuple[str, Path]]:  # type: ignore[override]
            for number, item in enumerate(super().items()):
                if number == 2:
                    with pytest.raises(StorageError, match=r"lost: it cannot be read \(No such file or directory\)"):
                        storage.put_once("one", {"shard-0.npy": files["shard-0.npy"], "shard-1.npy": tmp_path / "lost"})
                yield item

    storage.put_once("one", InTwoSteps(files))
    storage.get("one", tmp_path / "got")
    assert read(tmp_path / "got") == tree


@pytest.mark.timeout(60)
def test_a_file_that_another_command_uploads_again_stays_complete(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path / "storage"))
    storage.check()
    storage.write("one/a", b"12")
    os.mkfifo(tmp_path / "slow")
    upload = threading.Thread(target=storage.put_once, args=("one", {"a": tmp_path / "slow"}))
    upload.start()
    with (tmp_path / "slow").open("wb", buffering=0) as slow:
        slow.write(b"1")
        while (there := read(tmp_path / "storage/one")) == {"a": b"12"}:
            time.sleep(0.01)
        slow.write(b"2")
    upload.join()
    assert there["a"] == b"12"
    storage.get("one", tmp_path / "got")
    assert read(tmp_path / "got") == {"a": b"12"}
    assert {path.name for path in (tmp_path / "storage/one").iterdir()} == {"a", MANIFEST}


def test_a_storage_outage_is_waited_for(tmp_path: Path) -> None:
    messages: list[str] = []
    storage = Storage(str(tmp_path / "storage"), messages.append, retry_seconds=20)
    storage.check()
    (tmp_path / "storage").rename(tmp_path / "away")
    threading.Timer(1.5, (tmp_path / "away").rename, [tmp_path / "storage"]).start()
    storage.put("one", write(tmp_path / "given", {"a": b"1"}))
    assert read(tmp_path / "storage/one")["a"] == b"1"
    assert len(messages) == 2 and "the folder is not there); trying again in 1 s, for at most 20 s more." in messages[0]


def test_an_s3_outage_is_waited_for(s3: S3Server, tmp_path: Path) -> None:
    messages: list[str] = []
    storage = Storage(s3.uri("away"), messages.append, retry_seconds=60)
    s3.stop()
    threading.Timer(3, s3.start).start()
    storage.put("one", write(tmp_path / "given", {"a": b"1"}))
    storage.get("one", tmp_path / "got")
    assert read(tmp_path / "got") == {"a": b"1"}
    assert messages and "trying again" in messages[0]


def test_a_long_outage_fails_with_a_message_after_the_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLINEAR_STORAGE_PATIENCE", "3")
    messages: list[str] = []
    storage = Storage(str(tmp_path / "nowhere"), messages.append)
    began = time.monotonic()
    with pytest.raises(StorageError, match=r"the storage failed for 3 s \(write a: the folder is not there\)"):
        storage.write("a", b"1")
    assert time.monotonic() - began >= 1 and len(messages) == 2


@pytest.mark.timeout(60)
def test_unwritable_storages_are_refused_at_once(s3: S3Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for uri, sentence in (
        (str(tmp_path / "file/below"), "does not let us in"),
        (s3.uri("x", bucket="no-such-bucket"), "there is no such bucket"),
        ("s3://bucket/x?endpoint_override=127.0.0.1:9&scheme=http", "the storage failed .*NETWORK_CONNECTION"),
    ):
        with pytest.raises(StorageError, match=sentence):
            Storage(uri).check()


def test_s3_without_permissions_fails_with_a_message(s3: S3Server) -> None:
    with s3.refusing_everybody(), pytest.raises(StorageError, match="does not let us in"):
        Storage(s3.uri("x")).check()


def test_a_full_or_read_only_disk_fails_with_a_message(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root only")
    try:
        storage = Storage(str(small / "storage"))
        storage.check()
        with pytest.raises(StorageError, match="the storage is full"):
            storage.put("one", write(tmp_path / "given", {"a": bytes(300_000)}))
        assert storage.manifest("one") is None
        large = Storage(str(tmp_path / "large"))
        large.check()
        large.put("one", tmp_path / "given")
        with pytest.raises(StorageError, match=rf"{small}/\S+/a: it cannot be written \(No space left on device\)"):
            large.get("one", small / "got")
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        with pytest.raises(StorageError, match="does not let us in"):
            storage.check()
        with pytest.raises(StorageError, match=rf"{small}/\S+: it cannot be written \(Read-only file system\)"):
            large.get("one", small / "got")
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_errors_of_this_machines_disk_name_its_path_and_are_not_retried(tmp_path: Path) -> None:
    warnings: list[str] = []
    storage = Storage(str(tmp_path / "storage"), warnings.append)
    storage.check()
    storage.put("one", write(tmp_path / "given", {"a": b"1"}))
    (tmp_path / "file").touch()
    below = tmp_path / "file" / "below"
    with pytest.raises(StorageError, match=rf"{below}/\S+: it cannot be written \(Not a directory\)"):
        storage.get_file("one", "a", below / "a")
    with pytest.raises(StorageError, match=rf"{below}/got: it cannot be written \(Not a directory\)"):
        storage.get("one", below / "got")
    with pytest.raises(StorageError, match=rf"{below}: it cannot be read \(Not a directory\)"):
        storage.put("two", {"a": below})
    assert not warnings


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Amazon's S3 with buckets in Frankfurt, of which pyarrow asks the region where a URI does not have it; the URIs
    that it was asked for. Buckets named `away` cannot be reached."""
    from pyarrow.fs import FileSystem, S3FileSystem

    asked: list[str] = []

    class FileSystemOfAws:
        @staticmethod
        def from_uri(uri: str) -> tuple[object, str]:
            if "region=" in uri:
                return FileSystem.from_uri(uri)
            asked.append(uri)
            if uri.startswith("s3://missing"):
                raise OSError("Bucket 'missing' not found")
            if uri.startswith("s3://away"):
                raise OSError(
                    "When resolving region for bucket 'away': AWS Error NETWORK_CONNECTION during HeadBucket operation:"
                    " curlCode: 28, Timeout was reached"
                )
            return S3FileSystem(region="eu-central-1"), uri.removeprefix("s3://").partition("?")[0]

    monkeypatch.setattr("pyarrow.fs.FileSystem", FileSystemOfAws)
    return asked


@pytest.mark.parametrize("options", ["", "?scheme=https"])
def test_the_region_of_a_bucket_is_asked_for_once(aws: list[str], options: str) -> None:
    storage = Storage(f"s3://bucket/x{options}")
    assert len(aws) == 1
    there = Storage(storage.uri)  # as the workers do
    assert len(aws) == 1 and there.uri == storage.uri and there.fs.region == "eu-central-1"
    assert storage.uri_of("runs/a") == f"s3://bucket/x/runs/a{options}{'&' if options else '?'}region=eu-central-1"


@pytest.mark.parametrize(
    ("bucket", "problem"), [("away", "the storage failed .*NETWORK_CONNECTION"), ("missing", "there is no such bucket")]
)
def test_a_bucket_that_does_not_answer_at_the_start_is_an_error_of_the_storage(
    aws: list[str], bucket: str, problem: str
) -> None:
    with pytest.raises(StorageError, match=problem):
        Storage(f"s3://{bucket}/x")


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        ("", "no storage is named"),
        ("ftp://host/path", "'ftp' is no storage that we know"),
        ("s3://", "names no bucket"),
        ("s3://bucket/x?colour=red", "is not a storage's URI"),
        ("file://host/path", "is not a storage's URI"),
    ],
)
def test_invalid_storage_uris_are_refused(uri: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Storage(uri)


@pytest.mark.parametrize("uri", ["s3://KEY:SECRET@bucket/x", "s3://bucket/x?secret_key=SECRET&access_key=KEY"])
def test_credentials_in_a_uri_are_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(UsageError, match="no place for credentials") as caught:
        Storage(uri)
    assert "SECRET" not in str(caught.value) and "KEY" not in caught.value.where


def test_the_timeout_must_be_a_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INTERLINEAR_STORAGE_PATIENCE", "long")
    with pytest.raises(UsageError, match="'long' is no number of seconds"):
        Storage(str(tmp_path))
