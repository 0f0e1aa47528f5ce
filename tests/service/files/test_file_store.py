"""Files of documents: private, bounded, and gone when the service is."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interlinear.errors import ServiceError
from service.files.file_store import FileStore, StoreFullError

KILLED = """
import os, signal, sys
from pathlib import Path
from service.files.file_store import FileStore
store = FileStore(Path(sys.argv[1]), 100)
store.open()
store.create().write(b"secret")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def store(tmp_path):
    store = FileStore(tmp_path, 100)
    store.open()
    yield store
    store.close()
    assert not list(tmp_path.iterdir())


def test_files_are_private(store, tmp_path):
    file = store.create()
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700 and file.path.stat().st_mode & 0o777 == 0o600


def test_bytes_are_bounded_together(store):
    one, two = store.create(), store.create()
    one.write(b"a" * 60)
    with pytest.raises(StoreFullError):
        two.write(b"b" * 41)
    two.write(b"b" * 40)
    assert store.used == 100
    one.delete()
    one.delete()
    assert store.used == 40 and not one.path.exists()


def test_bytes_that_another_process_writes_are_counted(store):
    file = store.create()
    subprocess.run(["printf", "twelve bytes"], stdout=file.stream, check=True)
    file.close()
    assert (file.size, store.used) == (12, 12)


def test_a_file_that_does_not_fit_on_the_disk_is_deleted_and_its_bytes_count_no_longer(store):
    file = store.create()
    with file.stream, Path("/dev/full").open("wb") as file.stream:  # no space is left there
        file.write(b"a" * 60)
        with pytest.raises(OSError, match="No space left"):
            file.stream.flush()
        file.delete()
    assert store.used == 0 and not file.path.exists()


def test_what_a_killed_service_left_is_removed_and_a_running_one_keeps_its_files(store, tmp_path):
    kept = store.create()
    subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False)
    assert len(list(tmp_path.iterdir())) == 2
    other = FileStore(tmp_path, 100)
    other.open()
    assert len(list(tmp_path.iterdir())) == 2 and kept.path.exists()
    other.close()


def test_a_folder_that_a_cleaner_of_old_files_has_removed_is_made_again(store, tmp_path):
    shutil.rmtree(next(tmp_path.iterdir()))
    kept = [store.create() for _ in range(2)]
    kept[0].write(b"text")
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    other = FileStore(tmp_path, 100)
    other.open()
    assert all(file.path.exists() for file in kept), "another service knows that this one runs"
    other.close()


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ServiceError, match="INTERLINEAR_SERVE_FILES_FOLDER"):
        FileStore(file / "documents", 100)
    with pytest.raises(ServiceError, match="not writable"):
        FileStore(Path("/proc/self"), 100)
