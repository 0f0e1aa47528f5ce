"""The demo's images resolve what its sentences leave ambiguous, and show what the sentences say."""

import hashlib
import io
import itertools
import json
import os
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from pydantic import ValidationError

from training.demo import generate
from training.demo.drawing import CELL, SIZE, DrawnObject, SceneImage, Shape, drawings, render
from training.demo.grammar.german import German
from training.demo.grammar.lexicon import grammar, lexicon
from training.demo.scenes import (
    SCENES,
    Description,
    Parts,
    Scene,
    SceneGenerator,
    ScenePlan,
    Split,
    make_scenes,
    parse_token,
    rules,
    scene_corpus,
)
from training.package_files import resource_folder

SMALL = ScenePlan(seed=5, train=120, dev=20, test=20)
# Changes with every word, frame or drawing; then write the new digest here. Older results are not comparable any more.
# Digests are of texts and pixels, as the bytes of a PNG file depend on pillow's version.
SMALL_SHA256 = "a20f1187f0b95f60e8bc25730395113d41651268ebd169a150877160bd8e25ec"


def digest(folder: Path) -> str:
    """SHA-256 of a folder's texts and of its images' pixels."""
    content = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix != ".tar":
            content.update(path.name.encode() + path.read_bytes())
    for name, pixels in images(folder).items():
        content.update(name.encode() + pixels.tobytes())
    return content.hexdigest()


def images(folder: Path) -> dict[str, np.ndarray]:
    """The pixels of every member of a folder's archive."""
    with tarfile.open(folder / "images.tar", "r:") as archive:
        return {
            member.name: np.asarray(Image.open(io.BytesIO(archive.extractfile(member).read())))  # type: ignore[union-attr]
            for member in archive
        }


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def corpus() -> dict[Split, list[Scene]]:
    return scene_corpus()


@pytest.fixture(scope="module")
def everything(corpus: dict[Split, list[Scene]]) -> list[Scene]:
    return [scene for scenes in corpus.values() for scene in scenes]


@pytest.fixture(scope="module")
def ambiguous(everything: list[Scene]) -> list[Scene]:
    return [scene for scene in everything if scene.reading]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    make_scenes(SMALL, folder)
    return folder


def words(text: str) -> list[str]:
    return text.lower().replace(".", " ").replace(",", " ").replace("?", " ").split()


def test_the_same_seed_gives_the_same_output_for_any_hash_seed(tmp_path: Path, folder: Path):
    code = f"from training.demo.scenes import *; make_scenes({SMALL}, Path('.'))"
    environment = {**os.environ, "PYTHONHASHSEED": "11", "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert digest(tmp_path) == digest(folder) == SMALL_SHA256


def test_another_seed_gives_another_output(folder: Path):
    other = scene_corpus(replace(SMALL, seed=6))
    assert len({scene.en for scene in other["train"]} & set(lines(folder / "train.en"))) < SMALL.train / 10


def test_its_size(corpus: dict[Split, list[Scene]]):
    assert {split: len(scenes) for split, scenes in corpus.items()} == {"train": 5_000, "dev": 300, "test": 300}
    assert len(rules().ambiguous) >= 8
    for split, scenes in corpus.items():
        assert sum(scene.reading is not None for scene in scenes) == 0.8 * len(scenes)
        absent = sum(scene.image is None for scene in scenes)
        assert (absent == 0) if split != "train" else (0.3 < absent / len(scenes) < 0.37)


def test_no_sentence_is_in_two_splits(corpus: dict[Split, list[Scene]]):
    for first, second in itertools.combinations(corpus.values(), 2):
        assert not {scene.en for scene in first} & {scene.en for scene in second}
        assert not {scene.de for scene in first} & {scene.de for scene in second}


def test_every_word_of_dev_and_test_is_known(corpus: dict[Split, list[Scene]]):
    counts = Counter(word for scene in corpus["train"] for word in words(f"{scene.en} {scene.de}"))
    for split in ("dev", "test"):
        assert all(counts[word] >= 5 for scene in corpus[split] for word in words(f"{scene.en} {scene.de}"))


def test_the_text_never_reveals_the_reading(corpus: dict[Split, list[Scene]]):
    """In each split, with and without images, every English sentence occurs with both readings."""
    for scenes in corpus.values():
        readings = defaultdict(list)
        for scene in scenes:
            if scene.reading:
                readings[scene.en, scene.image is None].append(scene.reading.reading)
            else:
                assert not set(words(scene.en)) & set(rules().ambiguous)
        assert readings
        for (english, _), both in readings.items():
            (word,) = set(words(english)) & set(rules().ambiguous)
            assert sorted(both) == sorted(de for de, _, _ in rules().ambiguous[word]), english


def test_every_frame_has_both_readings_of_every_word(ambiguous: list[Scene]):
    counts = Counter((scene.frame, scene.reading.word, scene.reading.reading) for scene in ambiguous if scene.reading)
    for frame, (word, meanings) in itertools.product(range(len(rules().frames)), rules().ambiguous.items()):
        first, second = (counts[frame, word, de] for de, _, _ in meanings)
        assert first == second > 0, (frame, word)


def test_unambiguous_sentences_have_one_translation(everything: list[Scene]):
    german = defaultdict(set)
    for scene in everything:
        if scene.reading is None:
            german[scene.en].add(scene.de)
    assert german and all(len(ways) == 1 for ways in german.values())


def test_a_reading_determines_the_target(ambiguous: list[Scene]):
    other = {(scene.en, scene.reading.other): scene.de for scene in ambiguous if scene.reading}
    for scene in ambiguous:
        assert scene.reading
        own, otherwise = scene.reading.form, scene.reading.other_form
        assert words(scene.de).count(own.lower()) == 1 and otherwise.lower() not in words(scene.de)
        assert otherwise.lower() in words(other[scene.en, scene.reading.reading])


def test_the_box_contains_the_deciding_object(corpus: dict[Split, list[Scene]]):
    for scene in corpus["test"]:
        if scene.reading is None:
            continue
        assert scene.image and scene.reading.box
        left, top, right, bottom = scene.reading.box
        assert 0 <= left < right <= SIZE and 0 <= top < bottom <= SIZE
        assert left // CELL == (right - 1) // CELL and top // CELL == (bottom - 1) // CELL  # inside one cell
        meant = scene.image.objects[0]
        assert meant.name == scene.reading.reading
        without = replace(scene.image, objects=scene.image.objects[1:]).pixels()
        changed = (scene.image.pixels() != without).any(axis=2)
        rows, columns = np.nonzero(changed)
        assert (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == scene.reading.box
        inside = scene.image.pixels()[top:bottom, left:right].reshape(-1, 3)
        fills = {drawings().palette[shape.fill] for shape in drawings().drawings[meant.name] if shape.fill != "clear"}
        assert fills & {tuple(pixel) for pixel in inside.tolist()}


def test_readings_are_drawn_differently():
    """In shape and colour: each shares only a part of its area and of its colours with the other."""
    for (first, *_), (second, *_) in rules().ambiguous.values():
        size = drawings().sizes[""]
        (one, one_cover), (two, two_cover) = (render(name, size, None, False) for name in (first, second))
        both, either = np.minimum(one_cover, two_cover).sum(), np.maximum(one_cover, two_cover).sum()
        assert both / either < 0.8, (first, second)
        means = [(colours.sum(axis=(0, 1)) / cover.sum()) for colours, cover in ((one, one_cover), (two, two_cover))]
        assert np.abs(means[0] - means[1]).max() > 15, (first, second)


def test_an_image_shows_what_the_sentence_says(everything: list[Scene]):
    colours = {"red", "blue", "green", "yellow"}
    nouns = {lexicon().noun[de].en: de for de in rules().plain}
    steps = {relation.en: relation.step for relation in rules().relations}
    checked: Counter[str] = Counter()
    for scene in everything:
        if scene.image is None:
            continue
        objects = {each.name: each for each in scene.image.objects}
        assert 2 <= len(objects) == len(scene.image.objects) <= 3
        cells = {(each.top // CELL, each.left // CELL) for each in objects.values()}
        assert len(cells) == len(objects)
        said = words(scene.en)
        for before, noun in itertools.pairwise(said):
            if noun in nouns:
                assert nouns[noun] in objects, scene
                if before in colours:
                    checked["colour"] += 1
                    assert objects[nouns[noun]].colour == before
        if scene.reading and (size := {"big": "groß", "small": "klein"}.get(said[said.index(scene.reading.word) - 1])):
            checked["size"] += 1
            assert objects[scene.reading.reading].size == drawings().sizes[size]
        for english, step in steps.items():
            if english in scene.en.lower():
                first, second = scene.image.objects[:2]
                checked["relation"] += 1
                assert (first.top // CELL - second.top // CELL, first.left // CELL - second.left // CELL) == step
    assert min(checked.values()) > 300 and len(checked) == 3


def test_an_object_is_drawn_at_its_position(monkeypatch: pytest.MonkeyPatch):
    """By hand: half the square is covered; a half-covered pixel mixes half its colour with half of the background."""
    half = Shape(box=(0, 0, 50, 100), fill="own")
    monkeypatch.setitem(drawings().drawings, "half", [half])
    pixels = SceneImage((0, 0, 100), (DrawnObject("half", 5, 10, 20, "red"),)).pixels()
    red = drawings().palette["red"]
    assert (pixels[20:25, 10:12] == red).all()
    assert (pixels[20:25, 12] == [107, 20, 70]).all()
    assert (pixels[20:25, 13:15] == [0, 0, 100]).all()
    mirrored = SceneImage((0, 0, 100), (DrawnObject("half", 5, 10, 20, "red", mirrored=True),)).pixels()
    assert (mirrored[20:25, 10:15] == pixels[20:25, 14:9:-1]).all()
    assert DrawnObject("half", 5, 10, 20, "red").box == (10, 20, 13, 25)


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


def test_all_sentence_contents_are_drawn_and_every_form_exists():
    named = {de for meanings in rules().ambiguous.values() for de, _, _ in meanings} | set(rules().plain)
    assert named == set(drawings().drawings)
    german = German(lexicon(), grammar())
    for shapes in drawings().drawings.values():
        assert {shape.fill for shape in shapes} <= {*drawings().palette, "own", "clear"}
    for name in rules().plain:
        assert drawings().colourable(name) and name in lexicon().noun
    assert {lexicon().adjectives[colour].en[0] for colour in rules().colours} <= set(drawings().palette)
    for verb in rules().verbs:
        assert german.verb(verb, "participle")[1] == ""  # none is separable: frames have no slot for a prefix
    for frame in rules().frames:
        assert {name for name, _ in map(parse_token, (*frame.en, *frame.de)) if name} <= {
            *("viewer", "thing", "other", "verb", "quality", "relation", "haben", "können", "wollen", "want")
        }


@pytest.mark.parametrize(
    ("word", "meaning", "determiner", "case", "form"),
    [
        ("bat", 0, 1, "accusative", "eine große Fledermaus"),
        ("bat", 1, 1, "accusative", "einen großen Schläger"),
        ("bank", 1, 0, "nominative", "das große Ufer"),
        ("crane", 1, 2, "accusative", "diesen großen Kranich"),
        ("letter", 1, 0, "accusative", "den großen Buchstaben"),
        ("letter", 1, 1, "nominative", "ein großer Buchstabe"),
        ("trunk", 0, 1, "nominative", "ein großer Baumstamm"),
        ("ruler", 0, 1, "accusative", "ein großes Lineal"),
    ],
)
def test_german_agreement(word: str, meaning: int, determiner: int, case, form: str):
    nouns = rules().meanings(word)
    named = Description(nouns, rules().determiners[determiner], size="groß")
    assert " ".join(SceneGenerator(1).phrase(named, nouns[meaning], case)) == form


A, B = (
    Description(rules().meanings("bat"), rules().determiners[0]),
    Description(rules().meanings("letter"), rules().determiners[1]),
)
RED = Description((lexicon().noun["Ball"],), rules().determiners[1], colour="rot")
BLUE = replace(RED, determiner=rules().determiners[0], colour="blau", quality="schön")


@pytest.mark.parametrize(
    ("frame", "thing", "other", "viewer", "verb", "english", "german"),
    [
        (0, replace(A, size="klein"), RED, "Anna", "sehen", "Anna sees the small bat.",
         ["Anna sieht die kleine Fledermaus.", "Anna sieht den kleinen Schläger."]),
        (1, B, RED, "Mädchen", "suchen", "The girl looked for a letter.",
         ["Das Mädchen hat einen Brief gesucht.", "Das Mädchen hat einen Buchstaben gesucht."]),
        (3, replace(B, quality="alt"), RED, "Koch", "betrachten", "The cook wants to look at an old letter.",
         ["Der Koch will einen alten Brief betrachten.", "Der Koch will einen alten Buchstaben betrachten."]),
        (4, A, RED, "Peter", "finden", "Does Peter find the bat?",
         ["Findet Peter die Fledermaus?", "Findet Peter den Schläger?"]),
        (5, A, RED, "Anna", "sehen", "The bat is to the left of a red ball.",
         ["Die Fledermaus ist links von einem roten Ball.", "Der Schläger ist links von einem roten Ball."]),
        (6, B, BLUE, "Anna", "sehen", "To the left of the beautiful blue ball, there is a letter.",
         ["Links vom schönen blauen Ball ist ein Brief.", "Links vom schönen blauen Ball ist ein Buchstabe."]),
        (12, A, RED, "Lena", "zeichnen", "Lena draws the bat because it is new.",
         ["Lena zeichnet die Fledermaus, weil sie neu ist.", "Lena zeichnet den Schläger, weil er neu ist."]),
        (13, A, RED, "Junge", "fotografieren", "The bat that the boy photographed is new.",
         ["Die Fledermaus, die der Junge fotografiert hat, ist neu.",
          "Der Schläger, den der Junge fotografiert hat, ist neu."]),
    ],
)  # fmt: skip
def test_sentences(
    frame: int, thing: Description, other: Description, viewer: str, verb: str, english: str, german: list[str]
):
    generator, asked = SceneGenerator(1), rules().frames[frame]
    parts = Parts(thing, other, viewer, rules().determiners[0], verb, "neu", rules().relations[0])
    assert generator.text([token for each in asked.en for token in generator.english_words(each, parts)]) == english
    assert [generator.german_text(asked, parts, noun) for noun in thing.nouns] == german


def test_its_files(folder: Path):
    index = [line.split("\t") for line in lines(folder / "index.tsv")]
    members = images(folder)
    assert [name for _, _, name in index] == list(members)
    assert {pixels.shape for pixels in members.values()} == {(SIZE, SIZE, 3)}
    corpus = scene_corpus(SMALL)
    for split, scenes in corpus.items():
        assert lines(folder / f"{split}.en") == [scene.en for scene in scenes]
        assert lines(folder / f"{split}.de") == [scene.de for scene in scenes]
        named = {int(number): name for part, number, name in index if part == split}
        readings = [json.loads(line) for line in lines(folder / f"{split}.reading")]
        assert len(readings) == len(scenes)
        for number, (scene, gold) in enumerate(zip(scenes, readings, strict=True)):
            assert (number in named) == (scene.image is not None)
            if scene.image:
                assert (members[named[number]] == scene.image.pixels()).all()
            assert (gold is None) == (scene.reading is None)
            if gold:
                assert set(gold) == {"word", "reading", "other", "form", "other_form", "box", "size"}
                assert gold["word"] in words(scene.en) and gold["form"].lower() in words(scene.de)
                assert (gold["box"] is None) == (gold["size"] is None) == (scene.image is None)
    assert {split for split, _, _ in index} == {"train", "dev", "test"}


def test_the_set_is_generated_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("training.demo.scenes.SCENES", SMALL)
    made = generate("demo-image", tmp_path)
    assert digest(made) == SMALL_SHA256
    assert SCENES.train == 5_000


def test_the_description_names_the_written_files(folder: Path):
    described = yaml.safe_load((resource_folder("corpora") / "demo-image.yaml").read_text(encoding="utf-8"))
    assert described["generate"] == "demo-image" and set(described["splits"]) == {"train", "dev", "test"}
    named = {"images.tar", "index.tsv"}
    for split, fields in described["splits"].items():
        assert fields["image"] == {"images": "images.tar", "index": "index.tsv", "split": split}
        named |= {fields["source"], fields["target"], fields["reading"]}
    assert named == {path.name for path in folder.iterdir()}
