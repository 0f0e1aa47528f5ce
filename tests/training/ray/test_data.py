"""Data preparation on a Ray cluster: the same data as on one machine, and completed shards survive a kill."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from interlinear import cli

ROWS, SHARD_ROWS = 6000, 200
SCRIPT = """
import sys
import training.data.prepare.executors as executors
executors.SHARD_ROWS = int(sys.argv[1])
from interlinear.cli import run
if __name__ == "__main__":
    sys.exit(run(sys.argv[2:]))
"""
ENVIRONMENT = {
    **os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "0123456789",
}  # fmt: skip


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def cluster() -> Iterator[str]:
    """A Ray cluster with processes of its own, at an address."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as scratch:
        command = [
            "ray", "start", "--head", "--block", f"--port={port}", "--node-ip-address=127.0.0.1", "--num-cpus=2",
            "--include-dashboard=false", f"--ray-client-server-port={free_port()}", f"--temp-dir={scratch}",
            "--object-store-memory=100000000", "--disable-usage-stats",
        ]  # fmt: skip
        ray = Path(sys.executable).parent / command[0]
        process = subprocess.Popen(
            [ray, *command[1:]], env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until and process.poll() is None:
                with socket.socket() as there:
                    if not there.connect_ex(("127.0.0.1", port)):
                        break
                time.sleep(0.1)
            yield f"127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def write_corpus(folder: Path, extra: str = "") -> Path:
    """Rows in three compressed files; some of them broken, duplicated or empty."""
    chance = random.Random(3)
    words = [f"wort{i}" for i in range(400)]
    rows = [(" ".join(chance.choices(words, k=chance.randint(1, 9))), str(number)) for number in range(ROWS)]
    for number in range(0, ROWS, 40):
        rows[number] = rows[0]
        rows[number + 7] = ("", "empty")
        rows[number + 9] = ("broken \ufffd", "x")
    for part in range(3):
        lines = (json.dumps({"de": de, "en": f"{de} {en}".upper()}) for de, en in rows[part::3])
        content = "".join(f"{line}\n" for line in lines).encode()
        (folder / f"part-{part}.jsonl.zst").write_bytes(pa.compress(content, codec="zstd", asbytes=True))
    (folder / "dev.de").write_text("wort1 wort2\n" * 5)
    (folder / "dev.en").write_text("WORT1 WORT2\n" * 5)
    path = folder / "mine.yaml"
    path.write_text(
        "task: translation\nabout: some\nlicence: none\nlanguages: {source: de, target: en}\nsplits:\n"
        "  train: {rows: part-*.jsonl.zst, source: de, target: en}\n  dev: {source: dev.de, target: dev.en}\n"
        "defaults: {sources.source.units: words, target.units: words, target.vocabulary: 700}\n"
        "cleaning: {duplicates: drop, encoding: drop, max_ratio: 9}\n" + extra
    )
    return path


def begun(
    folder: Path, data: Path, prepared: str, *options: str, shard_rows: int = SHARD_ROWS
) -> subprocess.Popen[str]:
    (folder / "main.py").write_text(SCRIPT)
    command = [sys.executable, "main.py", str(SHARD_ROWS), "prepare", "rnnsearch", "--data", str(data)]
    return subprocess.Popen(
        [*command, "--prepared", prepared, *options],
        cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def done(process: subprocess.Popen[str]) -> Path:
    out, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert "train: skipped 298 pairs that were there before" in said
    return Path(out.strip())


@pytest.mark.slow
def test_a_cluster_prepares_the_same_data_and_resumes_after_a_kill(tmp_path: Path):
    data = write_corpus(tmp_path)
    here = tmp_path / done(begun(tmp_path, data, "here"))
    with cluster() as address:
        process = begun(tmp_path, data, "there", "--address", address)
        until = time.monotonic() + 200
        while len(list(tmp_path.glob("there/.*.parts/.train-*.json"))) < 3 and time.monotonic() < until:
            assert process.poll() is None, process.communicate()
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        (parts,) = (tmp_path / "there").iterdir()
        finished = [path.stem.removeprefix(".train-") for path in parts.glob(".train-*.json")]
        assert 3 <= len(finished) < ROWS / SHARD_ROWS
        times = {
            f"train-{int(number):05}.{field}.ids.npy": None for number in finished for field in ("source", "target")
        }
        times = {name: (parts / name).stat().st_mtime_ns for name in times}
        there = tmp_path / done(begun(tmp_path, data, "there", "--address", address))
        assert all((there / name).stat().st_mtime_ns == at for name, at in times.items())

        first = (tmp_path / "part-1.jsonl.zst").read_bytes()
        (tmp_path / "part-1.jsonl.zst").write_bytes(first[:-20])
        refused = begun(tmp_path, data, "other", "--address", address)
        assert "part-1.jsonl.zst: cannot be read" in refused.communicate(timeout=200)[1]
        assert refused.returncode == 1
    assert there.name == here.name
    assert {path.name for path in there.iterdir()} == {path.name for path in here.iterdir()}
    assert len(list(there.glob("train-*.source.ids.npy"))) == ROWS / SHARD_ROWS
    for path in here.iterdir():
        assert path.read_bytes() == (there / path.name).read_bytes(), path.name


def test_an_address_without_a_cluster_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["--data", str(write_corpus(tmp_path)), "--prepared", str(tmp_path / "p"), "--address", "nonsense"]
    assert cli.run(["prepare", "rnnsearch", *words]) == 2
    assert "is not a Ray cluster's address" in capsys.readouterr().err
