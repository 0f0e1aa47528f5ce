"""A data set's images: their lines, bytes and features, and every kind of mismatch."""

import gzip
import io
import os
import re
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from interlinear.config import ImageGrid, ImageNetwork
from interlinear.errors import DataError
from tests.training.album import COLOURS, picture, write_album, write_features, write_tar
from training.data.dataset import Dataset, open_dataset, read_index, read_lines, read_rows
from training.data.images.image_features import open_features
from training.data.images.images import SplitImages


def album(folder: Path, **options: object) -> Dataset:
    return open_dataset(str(write_album(folder, **options)))


def pictures(folder: Path, split: str = "train", **options: object) -> SplitImages:
    return SplitImages(album(folder, **options).image(split, "image"))


def refused(made: object, says: str) -> DataError:
    """The exception that `made()` raises."""
    with pytest.raises(DataError) as caught:
        made()
    assert says in str(caught.value), str(caught.value)
    return caught.value


# Images and their lines


@pytest.mark.parametrize("mode", ["tar", "folder"])
def test_lines_with_and_without_an_image(tmp_path: Path, mode: str):
    given = pictures(tmp_path, mode=mode)
    assert sorted(given.entries) == [0, 2, 3, 7]
    assert given.read_bytes(2) == picture("blue")
    assert given.read_bytes(1) is None
    pixels = given.pixels(3, 8)
    assert pixels is not None and pixels.shape == (8, 8, 3) and (pixels == COLOURS["grey"]).all()
    assert given.pixels(4, 8) is None
    assert (given.member_name(7), given.member_name(8)) == ("train7.png", None)


def test_the_index_may_be_compressed_and_use_another_split_name(tmp_path: Path):
    index = (tmp_path / "other.tsv.gz", gzip.compress(b"teach\t1\tx.png\ntest\t0\ty.png\n"))
    path = write_album(tmp_path, index="other.tsv.gz", split="teach")
    index[0].write_bytes(index[1])
    field = open_dataset(str(path)).image("train", "image")
    assert {line: (entry.row, entry.member) for line, entry in read_index(field).items()} == {1: (0, "x.png")}


def test_an_archive_is_not_read_completely(tmp_path: Path):
    """A hole of 64 GB between two images is skipped."""
    path = write_album(tmp_path)
    with (tmp_path / "images.tar").open("wb") as file:
        for name, size in (("train0.png", 3), ("large.bin", 64 << 30), ("train2.png", 3)):
            entry = tarfile.TarInfo(name)
            entry.size = size
            file.write(entry.tobuf(tarfile.GNU_FORMAT))
            file.write(b"abc" if size == 3 else b"")
            file.seek(-(-size // 512) * 512 - (3 if size == 3 else 0), os.SEEK_CUR)
        file.write(bytes(1024))
    (tmp_path / "index.tsv").write_text("train\t0\ttrain0.png\ntrain\t2\ttrain2.png\ntrain\t3\tlarge.bin\n")
    given = SplitImages(open_dataset(str(path)).image("train", "image"))
    assert given.read_bytes(2) == b"abc"
    data = given.read_bytes(3)
    assert data is not None and len(data) == 10_000_001


def test_several_threads_read_concurrently(tmp_path: Path):
    given = pictures(tmp_path, train=400, pictured=tuple(range(400)))
    wrong: list[int] = []

    def read() -> None:
        wrong.extend(line for line in range(400) if given.read_bytes(line) != picture(list(COLOURS)[line % 4]))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# Rows that require an image


def test_rows_without_a_required_image_are_removed_from_all_fields(tmp_path: Path):
    dataset = album(tmp_path, required=True)
    rows = list(read_rows(dataset, "train", ("source", "target")))
    assert [(row.number, row.texts[0]) for row in rows] == [
        (1, "A red dog 0."), (3, "A blue dog 2."), (4, "A grey dog 3."), (8, "A grey dog 7."),
    ]  # fmt: skip
    assert list(read_lines(dataset.field("train", "source"))) == [row.texts[0] for row in rows]
    assert [row.number for row in read_rows(dataset, "dev", ("target",))] == [2]
    free = album(tmp_path, required=False)
    assert len(list(read_rows(free, "train", ("source",)))) == 12


def test_references_lose_the_same_rows(tmp_path: Path):
    path = write_album(tmp_path, required=True)
    path.write_text(path.read_text().replace("target: train.de", "target: {files: train.de, references: [train.en]}"))
    streams = open_dataset(str(path)).field("train", "target").reference_fields()
    assert [len(list(read_lines(stream))) for stream in streams] == [4, 4]


def test_files_of_different_lengths_are_detected_when_rows_are_removed(tmp_path: Path):
    dataset = album(tmp_path, required=True)
    with (tmp_path / "train.de").open("a") as file:
        file.write("zu viel\n")
    refused(lambda: list(read_rows(dataset, "train", ("source", "target"))), "train.en has 12 lines")


def test_a_required_image_field_without_images(tmp_path: Path):
    dataset = album(tmp_path, required=True, pictured=(0, 12))
    refused(
        lambda: list(read_rows(dataset, "train", ("source",))),
        "index.tsv: has a picture for line 12 of 'train', whose lines are 0 to 11",
    )


# Fingerprints and files


def test_the_fingerprint_depends_on_images_and_their_lines(tmp_path: Path):
    (tmp_path / "copy").mkdir()
    path = write_album(tmp_path)
    fingerprint = lambda: SplitImages(open_dataset(str(path)).image("train", "image")).fingerprint(precomputed=False)  # noqa: E731
    first = fingerprint()
    assert pictures(tmp_path / "copy").fingerprint(precomputed=False) == first
    index = (tmp_path / "index.tsv").read_text()
    (tmp_path / "index.tsv").write_text(index.replace("train\t0", "train\t1"))
    assert fingerprint() != first
    (tmp_path / "index.tsv").write_text(index)
    assert fingerprint() == first
    write_tar(tmp_path / "images.tar", {f"train{i}.png": picture("red") for i in (0, 2, 3, 7)})
    assert fingerprint() != first


def test_the_texts_fingerprint_depends_on_the_rows_that_are_read(tmp_path: Path):
    free = album(tmp_path).fingerprint("train", ["source"])
    required = album(tmp_path, required=True).fingerprint("train", ["source"])
    fewer = album(tmp_path, required=True, pictured=(0, 2)).fingerprint("train", ["source"])
    assert len({free, required, fewer}) == 3


def test_every_file_of_an_image_field_belongs_to_the_data_set(tmp_path: Path):
    dataset = album(tmp_path, features="f.safetensors")
    assert {"images.tar", "index.tsv", "f.safetensors"} < set(dataset.paths)
    assert dataset.fields("train") == ("source", "mt", "target")
    assert dataset.images("train") == ("image",)


# Errors


@pytest.mark.parametrize(
    ("index", "says"),
    [
        (
            "train\t0\n",
            "row 1: is not a split, a line number and a file's name with tabs between them, but 'train\\t0'",
        ),
        ("train 0 a.png\n", "row 1: is not a split"),
        ("train\t0\ta.png\ntrain\tx\tb.png\n", "row 2: is not a split"),
        ("train\t-1\ta.png\n", "row 1: is not a split"),
        ("train\t1\t\n", "row 1: is not a split"),
        ("train\t0\ta.png\ndev\t0\ta.png\ntrain\t0\tb.png\n", "row 3: 'train' line 0 has a picture already, in row 1"),
        ("test\t0\ta.png\n", "has no picture of a split 'train', only of 'test'"),
    ],
)
def test_an_invalid_index(tmp_path: Path, index: str, says: str):
    field = album(tmp_path).image("train", "image")
    (tmp_path / "index.tsv").write_text(index)
    refused(lambda: SplitImages(field), says)


def test_missing_images(tmp_path: Path):
    path = write_album(tmp_path)
    write_tar(tmp_path / "images.tar", {"train0.png": b"x", "train3.png": b"y"})
    given = SplitImages(open_dataset(str(path)).image("train", "image"))
    error = refused(lambda: given.read_bytes(0), "images.tar: has no 'train2.png', nor 1 others that the index names")
    assert "index.tsv must name what is in there" in error.remedy
    (tmp_path / "images.tar").unlink()
    refused(lambda: open_dataset(str(path)).image("train", "image"), "images.tar was not found")


def test_names_outside_the_folder_are_refused(tmp_path: Path):
    given = album(tmp_path, mode="folder").image("train", "image")
    for name in ("../album.yaml", str(tmp_path / "album.yaml")):
        (tmp_path / "index.tsv").write_text(f"train\t0\t{name}\n")
        refused(lambda: SplitImages(given).read_bytes(0), f"names '{name}', which is not in")


def test_an_archive_that_is_compressed_or_invalid(tmp_path: Path):
    path = write_album(tmp_path)
    field = open_dataset(str(path)).image("train", "image")
    write_tar(tmp_path / "images.tar", {"train0.png": b"x"}, "w:gz")
    error = refused(lambda: SplitImages(field).read_bytes(0), "images.tar: cannot be read as an archive")
    assert error.remedy.startswith("give an uncompressed tar")
    (tmp_path / "images.tar").write_bytes(b"no tar at all")
    refused(lambda: SplitImages(field).read_bytes(0), "images.tar: cannot be read as an archive")


def test_a_damaged_image_is_named_with_its_line(tmp_path: Path):
    path = write_album(tmp_path)
    members = {f"train{i}.png": picture("red") for i in (0, 2, 3, 7)}
    write_tar(tmp_path / "images.tar", {**members, "train3.png": picture("red")[:60]})
    given = SplitImages(open_dataset(str(path)).image("train", "image"))
    refused(lambda: given.pixels(3, 8), "images.tar, train3.png (line 4): is a damaged PNG")


def test_a_field_of_the_other_kind(tmp_path: Path):
    dataset = album(tmp_path)
    refused(lambda: dataset.field("train", "image"), "the field 'image' of the split 'train' is not text")
    refused(lambda: dataset.image("train", "source"), "the field 'source' of the split 'train' is not pictures")
    refused(lambda: dataset.image("train", "photo"), "has no field 'photo', only 'image'")


def test_an_invalid_description(tmp_path: Path):
    path = write_album(tmp_path, required="maybe")
    refused(lambda: open_dataset(str(path)), "splits.train.image.required: Input should be a valid boolean")
    path = write_album(tmp_path, colour="red")
    refused(lambda: open_dataset(str(path)), "unknown key 'splits.train.image.colour'")
    path = write_album(tmp_path)
    path.write_text(path.read_text().replace("index: index.tsv", "indx: index.tsv"))
    refused(lambda: open_dataset(str(path)), "the key 'splits.train.image.index' is missing")


# Image features from files


def grid_npz(path: Path, pictures: int = 5, **arrays: object) -> np.ndarray:
    """The format of the Multi30k features: int8 (N, F, T), a quantisation step, and the projection."""
    grid = np.random.default_rng(1).integers(-128, 128, (pictures, 6, 9)).astype(np.int8)
    given = {"grid": grid, "step": np.float32(0.5), "mean": np.ones(3, np.float32), "basis": np.eye(3, 6, dtype="f4")}
    np.savez_compressed(path, **{key: value for key, value in {**given, **arrays}.items() if value is not None})
    return grid


def test_features_of_an_npz_are_read_region_by_region(tmp_path: Path):
    grid = grid_npz(tmp_path / "f.npz")
    given = pictures(tmp_path, features="f.npz")
    got = given.features(2)  # the second row of the index
    assert got is not None and got.dtype == np.float32 and got.shape == (9, 6)
    for region in range(9):
        for feature in range(6):
            assert got[region, feature] == grid[1, feature, region] * 0.5
    assert given.features(1) is None
    made = given.precomputed.grid
    assert (made.rows, made.columns, made.features) == (3, 3, 6)
    assert re.fullmatch("projection [0-9a-f]{64}", made.made_by)


def test_features_of_our_format_are_memory_mapped(tmp_path: Path):
    features = np.random.default_rng(1).random((5, 6, 4)).astype(np.float16)
    write_features(tmp_path / "f.safetensors", features, 2, 3)
    given = pictures(tmp_path, features="f.safetensors")
    np.testing.assert_array_equal(given.features(7), features[3].astype(np.float32))
    assert given.precomputed.grid == ImageGrid(
        rows=2, columns=3, features=4, made_by="small, 64 x 64 pixels, weights abc"
    )
    assert not given.precomputed.values_NTF.flags.owndata


def test_features_of_another_network_are_refused(tmp_path: Path):
    features = np.zeros((5, 6, 4), np.float32)
    write_features(tmp_path / "f.safetensors", features, 2, 3)
    given = pictures(tmp_path, features="f.safetensors")
    ours = given.precomputed.grid
    read = given.reader_for(ours)
    assert read(0) is not None and read(1) is None
    other = ours.model_copy(update={"made_by": "small, 64 x 64 pixels, weights def"})
    refused(
        lambda: given.reader_for(other),
        "f.safetensors: was made by another network (small, 64 x 64 pixels, weights abc) than the features that the "
        "model reads (small, 64 x 64 pixels, weights def)",
    )
    refused(lambda: given.reader_for(ours.model_copy(update={"rows": 6, "columns": 1})), "the model reads image, 6 x 1")
    seen = given.reader_for(ImageGrid(rows=1, columns=1, features=128, network=ImageNetwork(size=16)))(2)
    assert seen is not None and (seen.shape, seen.dtype) == ((16, 16, 3), np.uint8)


def test_features_of_other_images_are_refused(tmp_path: Path):
    for count in (4, 6):
        grid_npz(tmp_path / "f.npz", count)
        given = pictures(tmp_path, features="f.npz")
        refused(lambda given=given: given.features(0), f"has features of {count} pictures, and")
    refused(lambda: pictures(tmp_path).features(0), "the field 'image': names no features of its pictures")


def hostile() -> bytes:
    file = io.BytesIO()
    np.savez(file, grid=np.array([{}], dtype=object), step=1.0)
    return file.getvalue()


def test_files_without_features_are_refused(tmp_path: Path):
    path = tmp_path / "f"

    def problem(says: str) -> None:
        refused(lambda: open_features(path), says)

    def ours(tensors: dict[str, np.ndarray], **metadata: str) -> None:
        made = {"network": "small", "size": "64", "weights_sha256": "a", "rows": "2", "columns": "3", **metadata}
        save_file(tensors, path, {key: value for key, value in made.items() if value})

    for bytes_ in (b"", b"text that is no such file", bytes(100), b"\x08" + bytes(7) + b"[1, 2]  "):
        path.write_bytes(bytes_)
        problem("cannot be read as features of pictures")
    six = np.zeros((5, 6, 4), np.float32)
    ours({"features": six}, weights_sha256="")
    problem("its metadata do not say 'weights_sha256'")
    ours({"grid": six})
    problem("has no tensor 'features'")
    ours({"features": six.astype(np.int64)})
    problem("its features are I64, not F16 or F32")
    ours({"features": six}, rows="3")
    problem("its shape is (5, 6, 4), not pictures x 9 regions x features")
    ours({"features": six})
    path.write_bytes(path.read_bytes()[:-1])
    problem("it is not whole")
    npz = tmp_path / "f.npz"
    path = npz
    for arrays, says in (
        ({"grid": None}, "has no array 'grid'"),
        ({"step": None}, "has no array 'step'"),
        ({"grid": np.zeros((5, 6))}, "its grid is float64 (5, 6), not pictures x features x regions of a square"),
        ({"grid": np.zeros((5, 6, 8))}, "its grid is float64 (5, 6, 8)"),
    ):
        grid_npz(npz, **arrays)
        problem(says)
    npz.write_bytes(hostile())
    problem("cannot be read as features of pictures (Object arrays cannot be loaded")
    npz.write_bytes(npz.read_bytes()[:-30])
    problem("cannot be read as features of pictures")


def test_the_projection_identifies_features(tmp_path: Path):
    made = []
    for name, basis in (("a", np.eye(3, 6)), ("b", np.eye(3, 6)), ("c", 2 * np.eye(3, 6))):
        grid_npz(tmp_path / f"{name}.npz", basis=basis.astype("f4"))
        made.append(open_features(tmp_path / f"{name}.npz").grid.made_by)
    assert made[0] == made[1] != made[2]


def test_real_images_and_features(corpora: Path):
    dataset = open_dataset("multi30k-en-de-images", corpora)
    given = SplitImages(dataset.image("train", "image"))
    assert len(given.entries) == 6_993
    assert min(given.entries) == 2
    pixels = given.pixels(2, 128)
    assert pixels is not None and pixels.std() > 20
    grid = given.precomputed.grid
    assert (grid.rows, grid.columns, grid.features) == (7, 7, 128)
    features = given.features(2)
    assert features is not None and torch.from_numpy(features).isfinite().all()
    test = list(read_rows(dataset, "test", ("source", "target")))
    assert len(test) == 243
