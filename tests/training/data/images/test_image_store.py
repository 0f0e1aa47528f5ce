"""Prepared images: rows with and without each source are stored once, memory-mapped, and returned unchanged in
batches."""

from pathlib import Path

import numpy as np
import pytest
import torch

import interlinear
from interlinear.bundle import ModelCard
from interlinear.config import ImageGrid, ImageNetwork
from interlinear.errors import DataError
from interlinear.files import checksum
from interlinear.models.image_encoders.networks import build_network
from interlinear.models.model import Model
from interlinear.text import END, TextConfig
from tests.training.album import COLOURS, picture, write_album, write_features, write_tar
from training.data.dataset import open_dataset
from training.data.prepare.prepare import prepare
from training.data.prepare.prepared import PreparedData
from training.events import TrainingJob
from training.loop.batches import BatchLoader, BatchPlan
from training.loop.process_group import SingleProcess
from training.loop.trainer import Trainer, train
from training.recipe import load_recipe
from training.runs.job import create_job, fetch_initial_model, network_weights, prepare_data, read_dev_set

WORDS = TextConfig(units="words", vocabulary=60)
PIXELS = ImageGrid(rows=2, columns=2, features=128, network=ImageNetwork(size=16))
PICTURED = (0, 2, 3, 7)


def made(folder: Path, images: dict[str, int | None], max_length: int = 50, **album: object) -> PreparedData:
    dataset = open_dataset(str(write_album(folder, **album)))
    texts = {"source": WORDS, "mt": WORDS}
    return prepare(dataset, texts, WORDS, False, max_length, folder / "prepared", progress=False, images=images)


def rows_of(
    ready: PreparedData, grid: ImageGrid, split: str = "train"
) -> dict[int, tuple[torch.Tensor, int, list[int]]]:
    """The loader's data for each row: the image, its length, and the ids of `mt`."""
    of = ready.split(split)
    lengths = {name: of.lengths(name) for name in ("source", "mt", "target")}
    plan = BatchPlan(lengths, sentences=5, seed=3)
    found = {}
    with BatchLoader(of, plan, ["source", "mt"], images={"image": grid}) as loader:
        for update, (batch,) in loader:
            image, mt = batch.image("image"), batch.text("mt")
            for at, row in enumerate(plan.rows(update)[0]):
                ids = mt.ids_BT[at, : int(mt.lengths_B[at])].tolist()
                found[int(row)] = image.values[at], int(image.lengths_B[at]), ids
    return found


def test_every_row_has_its_own_image_or_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    ready = made(tmp_path, {"image": 16})
    assert ready.record.images == {"image": 16} and ready.grids == {}
    record = ready.record.splits["train"]
    assert (record.rows, record.present) == (12, {"source": 12, "mt": 8, "image": 4})
    assert (record.pictures["image"].pictures, record.pictures["image"].rows) == (4, 4)
    found = rows_of(ready, PIXELS)
    assert sorted(found) == list(range(12))
    for row, (values, regions, _) in found.items():
        assert values.dtype == torch.uint8 and values.shape == (16, 16, 3)
        assert regions == (4 if row in PICTURED else 0)
        if row in PICTURED:
            assert (values == torch.tensor(list(COLOURS.values())[row % 4])).all()
    said = capsys.readouterr().err
    assert "train: 4 of 12 pairs have 'image'\n" in said
    assert "train: 8 of 12 pairs have 'mt'\n" in said
    assert "'source'" not in said


def test_a_row_with_an_empty_second_text_is_kept_without_it(tmp_path: Path):
    ready = made(tmp_path, {"image": 16})
    for row, (_, _, ids) in rows_of(ready, PIXELS).items():
        expected = [] if row % 3 == 0 else [*ready.split("train").ids("mt", row).tolist(), END]
        assert ids == expected
    assert ready.split("train").lengths("mt").tolist() == [0, 2, 2] * 4


def test_a_row_without_its_first_text_is_removed_with_its_image(tmp_path: Path):
    path = write_album(tmp_path)
    lines = (tmp_path / "train.en").read_text().splitlines()
    lines[2] = ""
    (tmp_path / "train.en").write_text("".join(f"{line}\n" for line in lines))
    texts = {"source": WORDS, "mt": WORDS}
    ready = prepare(
        open_dataset(str(path)), texts, WORDS, False, 50, tmp_path / "prepared", progress=False, images={"image": 16}
    )
    record = ready.record.splits["train"]
    assert (record.rows, record.empty.first_line, record.pictures["image"].pictures) == (11, 3, 3)
    found = rows_of(ready, PIXELS)
    assert [row for row, (_, regions, _) in sorted(found.items()) if regions] == [0, 2, 6]
    assert (found[2][0] == 99).all() and (found[6][0] == 99).all()  # lines 3 and 7, both grey
    for line in range(14):
        got = ready.split("train").image("image", line, PIXELS)
        assert (got is not None) == (line in (0, 3, 7)), line
        assert got is None or (got == list(COLOURS.values())[line % 4]).all()


def test_lines_that_share_an_image_store_it_once(tmp_path: Path):
    path = write_album(tmp_path)
    (tmp_path / "index.tsv").write_text("dev\t1\tdev1.png\n" + "".join(f"train\t{i}\ttrain3.png\n" for i in range(12)))
    arguments = (open_dataset(str(path)), {"source": WORDS}, WORDS, False, 50, tmp_path / "prepared")
    ready = prepare(*arguments, progress=False, images={"image": 16})
    stored = ready.split("train").images["image"]
    assert (stored.record.pictures, stored.record.rows) == (1, 12)
    assert {stored.image_index(row) for row in range(12)} == {0}
    assert np.load(ready.folder / "train.image.values.npy").shape == (1, 16, 16, 3)


def test_rows_that_require_an_image(tmp_path: Path):
    ready = made(tmp_path, {"image": 16}, required=True)
    assert (ready.record.splits["train"].lines, ready.record.splits["dev"].rows) == (4, 1)
    assert ready.record.splits["train"].present == {"source": 4, "mt": 2, "image": 4}
    for row, (values, regions, _) in rows_of(ready, PIXELS).items():
        assert regions == 4
        assert (values == torch.tensor(list(COLOURS.values())[PICTURED[row] % 4])).all()
    assert np.load(ready.folder / "train.lines.npy").tolist() == [0, 2, 3, 7]
    recipe = load_recipe("rnnsearch")
    assert read_dev_set(recipe, open_dataset(str(tmp_path / "album.yaml"))).lines == (1,)


def test_stored_features_are_unchanged(tmp_path: Path):
    features = np.random.default_rng(1).random((5, 4, 6)).astype(np.float16)
    write_features(tmp_path / "f.safetensors", features, 2, 2)
    ready = made(tmp_path, {"image": None}, features="f.safetensors")
    grid = ready.grids["image"]
    assert (grid.rows, grid.columns, grid.features) == (2, 2, 6)
    assert np.array_equal(ready.split("train").image("image", 7, grid), features[3].astype(np.float32))
    for row, (values, regions, _) in rows_of(ready, grid).items():
        assert values.dtype == torch.float32
        if row in PICTURED:
            np.testing.assert_array_equal(values.numpy(), features[PICTURED.index(row)].astype(np.float32))
            assert regions == 4
        else:
            assert regions == 0


def test_quantised_features_are_scaled_when_read(tmp_path: Path):
    grid = np.random.default_rng(1).integers(-128, 128, (5, 6, 4)).astype(np.int8)
    np.savez_compressed(tmp_path / "f.npz", grid=grid, step=np.float32(1.9989556))
    ready = made(tmp_path, {"image": None}, features="f.npz")
    assert np.load(ready.folder / "train.image.values.npy").dtype == np.int8
    values = rows_of(ready, ready.grids["image"])[3][0].numpy()
    np.testing.assert_allclose(values, grid[2].T * np.float32(1.9989556), rtol=1e-6)


def test_a_feature_that_is_not_a_number_is_refused(tmp_path: Path):
    features = np.zeros((5, 4, 6), np.float16)
    features[1, 2, 3] = np.nan
    write_features(tmp_path / "f.safetensors", features, 2, 2)
    with pytest.raises(DataError, match=r"f.safetensors: has a number that is not finite in row 2"):
        made(tmp_path, {"image": None}, features="f.safetensors")


def test_images_are_prepared_once_and_again_after_changes(tmp_path: Path):
    first = made(tmp_path, {"image": 16}).folder
    assert made(tmp_path, {"image": 16}).folder == first
    assert made(tmp_path, {"image": 32}).folder != first
    assert made(tmp_path, {}).folder != first
    path = write_album(tmp_path)
    write_tar(tmp_path / "images.tar", {name: picture("red") for name in MEMBERS})
    texts = {"source": WORDS, "mt": WORDS}
    again = prepare(
        open_dataset(str(path)), texts, WORDS, False, 50, tmp_path / "prepared", progress=False, images={"image": 16}
    )
    assert again.folder != first


MEMBERS = [*(f"train{line}.png" for line in PICTURED), "dev1.png"]


def test_errors_of_images_leave_no_incomplete_data(tmp_path: Path):
    path = write_album(tmp_path)
    (tmp_path / "index.tsv").write_text("train\t12\ttrain0.png\ndev\t1\tdev1.png\n")
    arguments = (open_dataset(str(path)), {"source": WORDS}, WORDS, False, 50, tmp_path / "prepared")
    with pytest.raises(DataError, match="has a picture for line 12 of 'train', whose lines are 0 to 11"):
        prepare(*arguments, progress=False, images={"image": 16})
    write_album(tmp_path)
    write_tar(tmp_path / "images.tar", {name: picture("red") if name[0] == "t" else b"" for name in MEMBERS})
    with pytest.raises(DataError, match=r"images.tar, dev1.png \(line 2\): has 0 bytes. Repair it, or remove its row"):
        prepare(*arguments, progress=False, images={"image": 16})
    assert list((tmp_path / "prepared").iterdir()) == []


def test_dev_requires_features_of_the_same_network(tmp_path: Path):
    path = write_album(tmp_path, features="a.safetensors")
    zeros = np.zeros((5, 4, 6), np.float16)
    write_features(tmp_path / "a.safetensors", zeros, 2, 2)
    write_features(tmp_path / "b.safetensors", zeros, 2, 2, weights="def")
    text = path.read_text()
    at = text.index("dev:")
    path.write_text(text[:at].replace("&id001", "").replace("*id001", "") + text[at:])
    described = "{images: images.tar, index: index.tsv, features: %s.safetensors}"
    fields = "source: %s.en, mt: %s.mt, target: %s.de"
    splits = "".join(
        f"  {s}: {{{fields % (s, s, s)}, image: {described % f}}}\n" for s, f in (("train", "a"), ("dev", "b"))
    )
    path.write_text(
        f"task: multimodal\nabout: dogs\nlicence: none\nlanguages: {{source: en, target: de}}\nsplits:\n{splits}"
    )
    with pytest.raises(DataError, match=r"b.safetensors: was made by another network .*def\) .* the split 'train'"):
        prepare(open_dataset(str(path)), {"source": WORDS}, WORDS, False, 50, tmp_path / "p", images={"image": None})


# From a recipe

RECIPE = """
extends: rnnsearch
sources:
  source: {units: words, vocabulary: 60}
  mt: {kind: text, units: words, vocabulary: 60}
  image: {kind: image, size: 16}
target: {units: words, vocabulary: 60}
model: {combination: flat}
"""


def test_a_recipe_is_prepared_and_configured(tmp_path: Path):
    (tmp_path / "three.yaml").write_text(RECIPE)
    recipe = load_recipe(str(tmp_path / "three.yaml"))
    ready = prepare_data(recipe, open_dataset(str(write_album(tmp_path))), tmp_path / "prepared", progress=False)
    sizes = {name: tokenizer.size for name, tokenizer in ready.tokenizers.items()}
    config = recipe.model_for(sizes, ready.grids)
    assert list(config.sources) == ["source", "mt", "image"]
    assert rows_of(ready, config.images["image"])[0][1] == 1  # 16 pixels make one region


def job_of(folder: Path, *settings: str) -> TrainingJob:
    """One epoch of the recipe on the album, at tiny sizes."""
    (folder / "three.yaml").write_text(RECIPE)
    tiny = ["model.embedding=8", "model.hidden=8", "training.epochs=1", "training.warmup=0", "training.precision=fp32"]
    return create_job(
        str(folder / "three.yaml"), str(write_album(folder)), [*tiny, *settings], prepared=folder / "prepared",
        runs=folder / "runs",
    )  # fmt: skip


def trained_network(path: Path) -> dict[str, torch.Tensor]:
    """A file with the weights of a network for 16 pixels."""
    torch.manual_seed(1)
    weights = build_network(ImageNetwork(size=16)).state_dict()
    torch.save(weights, path)
    return weights


def image_weights(model: Model) -> dict[str, torch.Tensor]:
    return model.get_submodule("encoders.image.network").state_dict()


@pytest.mark.parametrize("frozen", [False, True])
def test_training_starts_with_the_image_weights_of_the_recipe(tmp_path: Path, frozen: bool):
    given = trained_network(tmp_path / "w.pth")
    job = job_of(tmp_path, f"sources.image.weights={tmp_path}/w.pth", f"sources.image.frozen={frozen}".lower())
    training = Trainer(job, SingleProcess(), [], torch.device("cpu"))
    drawn = {name: tensor.clone() for name, tensor in image_weights(training.model).items()}
    assert not all(torch.equal(tensor, drawn[name]) for name, tensor in given.items())
    training.initialize()
    begun = image_weights(training.model)
    assert begun.keys() == given.keys()
    assert all(torch.equal(tensor, begun[name]) for name, tensor in given.items())
    outcome = train(job)
    assert outcome.bundle is not None
    kept = image_weights(interlinear.load(outcome.bundle).model)
    assert all(torch.equal(tensor, kept[name]) for name, tensor in given.items()) == frozen


def test_unusable_image_weights_are_named(tmp_path: Path):
    (tmp_path / "three.yaml").write_text(RECIPE)
    missing = load_recipe(str(tmp_path / "three.yaml"), ["sources.image.weights=nowhere.pth"])
    with pytest.raises(DataError, match=r"nowhere.pth: there is no such file, which sources.image.weights names"):
        network_weights(missing)
    weights = trained_network(tmp_path / "w.pth")
    torch.save({name: tensor for name, tensor in weights.items() if name != "block.weight"}, tmp_path / "w.pth")
    with pytest.raises(DataError, match=r"w.pth: has no tensor 'block.weight'"):
        train(job_of(tmp_path, f"sources.image.weights={tmp_path}/w.pth"))


def test_a_model_with_other_image_features_cannot_initialize(tmp_path: Path):
    zeros = np.zeros((5, 1, 6), np.float16)
    write_features(tmp_path / "f.safetensors", zeros, 1, 1)
    path = write_album(tmp_path, features="f.safetensors")
    (tmp_path / "three.yaml").write_text(RECIPE)
    settings = ["sources.image={kind: image, encoder: grid}", f"training.init_from={tmp_path}/model"]
    recipe = load_recipe(str(tmp_path / "three.yaml"), settings)
    ready = prepare_data(recipe, open_dataset(str(path)), tmp_path / "prepared", progress=False)
    sizes = {name: tokenizer.size for name, tokenizer in ready.tokenizers.items()}
    files = {file.name: checksum(file) for file in ready.folder.glob("tokenizer.*.json")}
    (tmp_path / "model").mkdir()

    def card(grids: dict[str, ImageGrid]) -> None:
        made = ModelCard(model=recipe.model_for(sizes, grids), files=files)
        (tmp_path / "model" / "model.json").write_text(made.model_dump_json())

    card(ready.grids)
    assert fetch_initial_model(recipe, ready, None) == tmp_path / "model"
    card({"image": ready.grids["image"].model_copy(update={"made_by": "another"})})
    with pytest.raises(
        DataError, match=r"made by another network \(small, .*\) than the features that the model of tr"
    ):
        fetch_initial_model(recipe, ready, None)
