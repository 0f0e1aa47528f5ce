"""Feature extraction of many images: equal to the network's, in the index's order, in shards that survive a kill."""

import io
import re
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open

from interlinear.cli import run
from interlinear.config import ImageNetwork
from interlinear.errors import DataError
from interlinear.images.decode import decode_image
from interlinear.models.image_encoders.networks import ImageNetworkBase, build_network
from tests.processes import command
from tests.training.album import picture, write_album, write_tar
from training.data.dataset import open_dataset
from training.data.images import feature_extraction as module
from training.data.images.feature_extraction import FeatureExtraction, extract_features, extract_with_threads
from training.data.images.image_features import open_features
from training.data.images.images import ImageArchive, SplitImages

SMALL = ImageNetwork(kind="small", size=32)


def weights(folder: Path, seed: int = 1) -> tuple[Path, ImageNetworkBase]:
    torch.manual_seed(seed)
    network = build_network(SMALL)
    torch.save(network.state_dict(), folder / f"{seed}.pth")
    return folder / f"{seed}.pth", network


def noise(number: int) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(number).integers(0, 256, (40, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def expected(network: ImageNetworkBase, data: bytes) -> np.ndarray:
    with torch.inference_mode():
        return network(torch.from_numpy(decode_image(data, 32))[None])[0].numpy()


def work(folder: Path, count: int = 10) -> tuple[FeatureExtraction, ImageNetworkBase]:
    """Images in an archive, in an order other than that of their names."""
    names = tuple(f"{number * 7 % count:03}.png" for number in range(count))
    write_tar(folder / "images.tar", {name: noise(int(name[:3])) for name in names})
    path, network = weights(folder)
    index = folder / "index.tsv"
    return FeatureExtraction(
        ImageArchive(folder / "images.tar"), index, names, SMALL, path, folder / "f.safetensors"
    ), network


def test_every_row_equals_the_networks_output_for_its_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SHARD_IMAGES", 3)
    job, network = work(tmp_path)
    steps: list[int] = []
    assert extract_features(job, extract_with_threads, steps.append)
    assert steps == [3, 3, 3, 1]
    features = open_features(job.output)
    assert features.values_NTF.shape == (10, 4, 128)
    for row, name in enumerate(job.members):
        np.testing.assert_allclose(features.row(row), expected(network, noise(int(name[:3]))), atol=2e-3, rtol=1e-3)
    with safe_open(job.output, "np") as file:  # read by the format's own reader
        np.testing.assert_array_equal(file.get_tensor("features"), features.values_NTF)
        said = file.metadata()
    assert (said["network"], said["size"], said["rows"], said["columns"]) == ("small", "32", "2", "2")
    assert re.fullmatch("[0-9a-f]{64}", said["weights_sha256"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.pth", "f.safetensors", "images.tar"]


def test_finished_shards_are_kept_and_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SHARD_IMAGES", 3)
    job, _ = work(tmp_path)
    (tmp_path / "whole").mkdir()
    whole, _ = work(tmp_path / "whole")
    extract_features(whole, extract_with_threads, lambda _: None)

    def broken(extraction: FeatureExtraction, numbers: list[int]):
        yield from extract_with_threads(extraction, numbers[:2])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract_features(job, broken, lambda _: None)
    assert not job.output.exists()
    asked: list[list[int]] = []

    def counted(extraction: FeatureExtraction, numbers: list[int]):
        asked.append(numbers)
        return extract_with_threads(extraction, numbers)

    steps: list[int] = []
    assert extract_features(job, counted, steps.append)
    assert (asked, steps) == ([[2, 3]], [3, 3, 3, 1])
    np.testing.assert_array_equal(open_features(job.output).values_NTF, open_features(whole.output).values_NTF)
    assert not extract_features(job, counted, steps.append) and len(asked) == 1


def test_shards_of_another_extraction_are_not_used(tmp_path: Path):
    job, _ = work(tmp_path)
    other = FeatureExtraction(job.archive, job.index, job.members, SMALL, weights(tmp_path, 2)[0], job.output)
    fewer = FeatureExtraction(job.archive, job.index, job.members[:5], SMALL, job.weights, job.output)
    assert len({job.parts_folder, other.parts_folder, fewer.parts_folder}) == 3
    extract_features(job, extract_with_threads, lambda _: None)
    for wrong in (other, fewer):
        with pytest.raises(DataError, match=r"f.safetensors: is there, made of other pictures or by another network"):
            extract_features(wrong, extract_with_threads, lambda _: None)
    write_tar(tmp_path / "images.tar", {name: picture("red") for name in job.members})
    changed = FeatureExtraction(job.archive, job.index, job.members, SMALL, job.weights, job.output)
    assert changed.parts_folder != job.parts_folder


def test_missing_or_damaged_images_are_named(tmp_path: Path):
    job, _ = work(tmp_path, 3)
    lost = FeatureExtraction(job.archive, job.index, (*job.members, "x.png"), SMALL, job.weights, job.output)
    with pytest.raises(DataError, match=r"images.tar: has no 'x.png'. .*index.tsv must name what is in there"):
        extract_features(lost, extract_with_threads, lambda _: None)
    none = FeatureExtraction(job.archive, job.index, (), SMALL, job.weights, job.output)
    with pytest.raises(DataError, match="has no pictures"):
        extract_features(none, extract_with_threads, lambda _: None)
    write_tar(tmp_path / "images.tar", {name: noise(1)[:100] for name in job.members})
    with pytest.raises(DataError, match=r"images.tar, 000.png: is a damaged PNG .*, or remove its row from the index"):
        extract_features(job, extract_with_threads, lambda _: None)


# The command


def features(*arguments: object) -> int:
    return run(["features", *map(str, arguments), "--kind", "small", "--size", "32"])


def test_the_commands_output_can_be_used_by_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = write_album(tmp_path, features="f.safetensors")
    file, network = weights(tmp_path)
    output = tmp_path / "f.safetensors"
    assert features(
        tmp_path / "images.tar", "--network", file, "--index", tmp_path / "index.tsv", "--output", output
    ) == 0  # fmt: skip
    assert capsys.readouterr().out == f"{output}\n"
    given = SplitImages(open_dataset(str(path)).image("train", "image"))
    data = given.read_bytes(3)
    assert data is not None
    np.testing.assert_allclose(given.features(3), expected(network, data), atol=2e-3, rtol=1e-3)
    assert given.precomputed.grid.made_by.startswith("small, 32 x 32 pixels, weights ")


def test_without_an_index_all_images_are_taken_by_name_and_an_index_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    write_album(tmp_path, mode="folder")
    (tmp_path / "images" / "notes.txt").write_text("no picture")
    file, _ = weights(tmp_path)
    assert features("images", "--network", file) == 0
    output = tmp_path / "images-small-32.safetensors"
    said = capsys.readouterr()
    assert said.out == f"{output}\n"
    index = tmp_path / "images-small-32.index.tsv"
    assert str(index) in said.err
    names = sorted(path.name for path in (tmp_path / "images").glob("*.png"))
    assert index.read_text() == "".join(f"images\t{row}\t{name}\n" for row, name in enumerate(names))
    assert len(open_features(output).values_NTF) == len(names) == 5
    assert features("images", "--network", file) == 0
    assert "it is there already" in capsys.readouterr().err


def test_error_messages_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_album(tmp_path)
    file, _ = weights(tmp_path)
    torch.save({"x": torch.zeros(1)}, tmp_path / "bad.pth")
    for arguments, code, says in (
        (("--network", tmp_path / "bad.pth"), 1, "bad.pth: has no tensor 'downwards.0.weight'"),
        (("--network", tmp_path / "none.pth"), 1, "none.pth: there is no such file"),
        (("--network", file, "--address", "nonsense"), 2, "is not a Ray cluster's address"),
    ):
        assert features(tmp_path / "images.tar", *arguments, "--output", tmp_path / "o.safetensors") == code
        assert says in capsys.readouterr().err


def test_a_kill_loses_no_finished_shard(tmp_path: Path):
    """The command is killed after its first shards; the same command continues."""
    job, _ = work(tmp_path, 700)
    names = "".join(f"a\t{row}\t{name}\n" for row, name in enumerate(job.members))
    (tmp_path / "index.tsv").write_text(names)
    process = command(
        tmp_path, "features", "images.tar", "--network", "1.pth", "--kind", "small", "--size", "32",
        "--index", "index.tsv", "--output", "f.safetensors",
    )  # fmt: skip
    until = time.monotonic() + 60
    while len(there := list(tmp_path.glob(".f.*.parts/[0-9]*.npy"))) < 2 and time.monotonic() < until:
        time.sleep(0.002)
    process.kill()
    process.join()
    assert len(there) >= 2 and not (tmp_path / "f.safetensors").exists()
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob(".f.*.parts/[0-9]*.npy")}
    made: list[int] = []

    def counted(extraction: FeatureExtraction, numbers: list[int]):
        made.extend(numbers)
        assert all(path.stat().st_mtime_ns == at for path, at in times.items())
        return extract_with_threads(extraction, numbers)

    assert extract_features(job, counted, lambda _: None)
    assert len(made) == len(job.shards) - len(times)
    assert len(open_features(job.output).values_NTF) == 700


@pytest.mark.slow
def test_a_ray_cluster_extracts_the_same_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from training.ray.data import extract_on_ray

    job, _ = work(tmp_path, 150)
    extract_features(job, extract_with_threads, lambda _: None)
    through_ray = FeatureExtraction(
        job.archive, job.index, job.members, SMALL, job.weights, tmp_path / "ray.safetensors"
    )
    steps: list[int] = []
    assert extract_features(through_ray, extract_on_ray(None), steps.append)
    assert sum(steps) == 150
    np.testing.assert_allclose(
        open_features(through_ray.output).values_NTF, open_features(job.output).values_NTF, atol=2e-3
    )
    write_tar(tmp_path / "images.tar", {name: noise(1)[:100] for name in job.members})
    damaged = FeatureExtraction(job.archive, job.index, job.members, SMALL, job.weights, tmp_path / "no.safetensors")
    with pytest.raises(DataError, match=r"images.tar, \d+.png: is a damaged PNG"):
        extract_features(damaged, extract_on_ray(None), steps.append)
