"""Images drawn from descriptions of scenes: shapes by hand, the demo's pictures, and invalid descriptions."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from interlinear.errors import DataError
from tests.training.album import write_album
from training.data.dataset import Dataset, open_dataset, read_rows
from training.data.images.drawing import SIZE, DrawnObject, SceneImage, Shape, drawings, render
from training.data.images.images import DrawnImages, SplitImages

# Of pixels, as the bytes of a PNG file depend on pillow's version. Results on other pictures are not comparable.
TEST_PIXELS_SHA256 = "4ad431943e7d72e5de8b2d9bfcd63bc4626a34f89866a3c8b783f5d057c8ac79"
BALL = {"name": "Ball", "size": 26, "left": 3, "top": 40, "colour": "red"}
HAT = {"name": "Hut", "size": 31, "left": 65, "top": 0, "colour": "blue", "mirrored": True}


def scene(*objects: object) -> str:
    return json.dumps({"background": [240, 246, 234], "objects": objects})


def drawn_album(folder: Path, *rows: str) -> Dataset:
    """The album's text, with these rows as its index and its images."""
    path = write_album(folder, images="scenes.tsv", index="scenes.tsv", drawn=True)
    (folder / "scenes.tsv").write_text("".join(f"{row}\n" for row in rows))
    return open_dataset(str(path))


def test_an_object_is_drawn_at_its_position(monkeypatch: pytest.MonkeyPatch):
    """By hand: half the square is covered; a half-covered pixel mixes half its colour with half of the background."""
    half = Shape(box=(0, 0, 50, 100), fill="own")
    monkeypatch.setitem(drawings().drawings, "half", [half])
    drawn = DrawnObject(name="half", size=5, left=10, top=20, colour="red")
    pixels = SceneImage(background=(0, 0, 100), objects=(drawn,)).pixels()
    red = drawings().palette["red"]
    assert (pixels[20:25, 10:12] == red).all()
    assert (pixels[20:25, 12] == [107, 20, 70]).all()
    assert (pixels[20:25, 13:15] == [0, 0, 100]).all()
    mirrored = drawn.model_copy(update={"mirrored": True})
    mirrored_pixels = SceneImage(background=(0, 0, 100), objects=(mirrored,)).pixels()
    assert (mirrored_pixels[20:25, 10:15] == pixels[20:25, 14:9:-1]).all()


@pytest.mark.parametrize(
    ("shape", "inside", "outside"),
    [
        (Shape(ellipse=(50, 50, 30, 10), fill="own"), [(50, 50), (77, 50)], [(77, 57), (50, 62)]),
        (Shape(polygon=[10, 10, 90, 10, 10, 90], fill="own"), [(20, 20), (70, 20)], [(70, 70), (5, 50)]),
        (Shape(line=[10, 50, 90, 50], width=10, fill="own"), [(50, 53), (7, 50)], [(50, 57), (3, 50)]),
    ],
)
def test_shapes(monkeypatch: pytest.MonkeyPatch, shape: Shape, inside, outside):
    monkeypatch.setitem(drawings().drawings, "shape", [shape])
    render.cache_clear()
    _, cover = render("shape", 100, "red", False)
    assert all(cover[y, x] == 1 for x, y in inside)
    assert all(cover[y, x] == 0 for x, y in outside)
    render.cache_clear()


def test_a_shape_has_one_form():
    for said in (
        {"fill": "red"},
        {"fill": "red", "box": [0, 0, 1, 1], "line": [0, 0, 1, 1]},
        {"fill": "red", "line": [0, 0]},
    ):
        with pytest.raises(ValidationError, match="a shape is one of"):
            Shape.model_validate(said)


def test_the_demos_pictures_have_the_same_pixels_on_every_machine():
    pictures = SplitImages(open_dataset("demo-image").image("test", "image"))
    digest = hashlib.sha256()
    for line in range(300):
        pixels = pictures.pixels(line, SIZE)
        assert pixels is not None
        digest.update(pixels.tobytes())
    assert digest.hexdigest() == TEST_PIXELS_SHA256


def test_the_demos_gold_box_contains_exactly_the_deciding_object():
    dataset = open_dataset("demo-image")
    field = dataset.image("test", "image")
    pictures, scenes = SplitImages(field), DrawnImages(field.images).scenes
    checked = 0
    for row in read_rows(dataset, "test", ["reading"]):
        if reading := json.loads(row.texts[0]):
            whole = scenes[str(pictures.member_name(row.number - 1))]
            assert whole.objects[0].name == reading["reading"]
            without = whole.model_copy(update={"objects": whole.objects[1:]})
            rows, columns = np.nonzero((whole.pixels() != without.pixels()).any(axis=2))
            assert [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1] == reading["box"]
            checked += 1
    assert checked == 240


def test_drawn_images_are_read_like_those_of_an_archive(tmp_path: Path):
    rows = [f"train\t2\ta.png\t{scene(BALL)}", f"train\t5\tb.png\t{scene(BALL, HAT)}", f"dev\t0\tc.png\t{scene(HAT)}"]
    pictures = SplitImages(drawn_album(tmp_path, *rows).image("train", "image"))
    expected = SceneImage(background=(240, 246, 234), objects=(DrawnObject(**BALL), DrawnObject(**HAT)))
    assert pictures.pixels(0, SIZE) is None and pictures.read_bytes(0) is None
    assert (pictures.pixels(5, SIZE) == expected.pixels()).all()
    assert pictures.read_bytes(5) == expected.png()
    assert pictures.archive.names() == ["a.png", "b.png", "c.png"]
    before = pictures.fingerprint(precomputed=False)
    (tmp_path / "scenes.tsv").write_text("\n".join(rows).replace("blue", "green") + "\n")
    assert SplitImages(pictures.field).fingerprint(precomputed=False) != before


@pytest.mark.parametrize(
    ("described", "says"),
    [
        (scene(BALL | {"name": "Fee"}), "there is no drawing of 'Fee'"),
        (scene(BALL | {"colour": None}), "'Ball' has a colour of the palette exactly if"),
        (scene(BALL | {"name": "Ufer"}), "'Ufer' has a colour of the palette exactly if"),
        (scene(BALL | {"left": 71}), "'Ball' is not inside the 96 x 96 pixels"),
        (scene(BALL | {"shape": "round"}), "unknown key 'objects.0.shape'"),
        ("{", "Invalid JSON"),
    ],
)
def test_an_invalid_scene_is_named_with_its_row(tmp_path: Path, described: str, says: str):
    dataset = drawn_album(tmp_path, f"train\t0\ta.png\t{scene(BALL)}", f"train\t1\tb.png\t{described}")
    with pytest.raises(DataError, match=r"scenes.tsv, row 2: describes no scene: ") as caught:
        SplitImages(dataset.image("train", "image")).read_bytes(0)
    assert says in str(caught.value)


def test_an_index_without_scenes_is_refused(tmp_path: Path):
    dataset = drawn_album(tmp_path, "train\t0\ta.png")
    with pytest.raises(DataError, match=r"scenes.tsv, row 1: describes no scene"):
        SplitImages(dataset.image("train", "image")).read_bytes(0)


def test_a_description_of_drawn_images_is_written_back(tmp_path: Path):
    from training.data.dataset.written_description import written_field

    dataset = drawn_album(tmp_path, f"train\t0\ta.png\t{scene(BALL)}")
    written = written_field(dataset, dataset.splits["train"]["image"])
    path = str(tmp_path.resolve() / "scenes.tsv")
    assert yaml.safe_load(yaml.safe_dump(written)) == {"images": path, "index": path, "drawn": True}
