"""Further sources of a line: machine translations and images, in `translate` and `evaluate`."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from interlinear import cli
from interlinear.cli.decoding.images import shuffle_images
from interlinear.errors import UsageError
from tests.interlinear.cli.conftest import TEST, describe, write_toy

IMAGES = {"image": {"images": "pictures", "index": "index.tsv"}}
COLOURS = ["red", "green", "blue", "white", "black", "yellow", "orange", "purple"]


def fails(capsys, *arguments) -> str:
    assert cli.run([str(argument) for argument in arguments]) in (1, 2)
    return capsys.readouterr().err


@pytest.fixture
def edited(tmp_path, parallel) -> Path:
    """Machine translations of the parallel text: its English with one word removed."""
    path = tmp_path / "test.mt"
    path.write_text("".join(line.partition(" ")[2] for line in parallel[1].read_text().splitlines(keepends=True)))
    return path


@pytest.fixture
def pictures(tmp_path) -> Path:
    """Images of lines 1 to 8, each of one colour, in several formats."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, colour in enumerate(COLOURS, 1):
        suffix, form = [("jpg", "JPEG"), ("png", "PNG"), ("webp", "WebP")][number % 3]
        Image.new("RGB", (48, 40), colour).save(folder / f"{number}.{suffix}", form)
    return folder


# Machine translations.


def test_a_line_is_post_edited_with_its_machine_translation(editing_toy, parallel, edited, tmp_path, run):
    source, _ = parallel
    plain = run.lines("translate", editing_toy, source)
    both = run.lines("translate", editing_toy, source, "--mt", edited)
    assert len(both) == 10 and both != plain
    one, other = tmp_path / "one.de", tmp_path / "one.mt"
    for number in (0, 6):
        one.write_text(source.read_text().splitlines()[number])
        other.write_text(edited.read_text().splitlines()[number])
        assert run.lines("translate", editing_toy, one, "--mt", other) == [both[number]]


def test_a_post_editing_penalty_keeps_words_out_that_no_input_has(parallel, edited, tmp_path, run, capsys):
    editor = write_toy(tmp_path / "editor", 9, combination="flat", initialization="uniform", initialization_scale=1.0)

    def foreign(*options) -> list[str]:
        """The words of the outputs that are in neither input."""
        outputs = run.lines("translate", editor, parallel[0], "--mt", edited, *options)
        inputs = zip(parallel[0].read_text().splitlines(), edited.read_text().splitlines(), strict=True)
        return [
            word
            for output, texts in zip(outputs, inputs, strict=True)
            for word in output.split()
            if word not in " ".join(texts).split() and word != "<unk>"
        ]

    assert foreign() == foreign("--set", "search.post_editing_penalty=0") != []
    assert foreign("--set", "search.post_editing_penalty=50") == []
    data = ["--source", parallel[0], "--mt", edited, "--reference", parallel[1], "--metrics", "bleu"]
    scores = [
        run.json("evaluate", editor, *data, *words) for words in ([], ["--set", "search.post_editing_penalty=50"])
    ]
    assert scores[0]["bleu"]["score"] != scores[1]["bleu"]["score"]


def test_a_machine_translation_stays_unedited_where_the_model_is_not_sure(
    editing_toy, toy, parallel, edited, tmp_path, run, capsys
):
    def translated(*options) -> list[str]:
        return run.lines("translate", editing_toy, parallel[0], "--mt", edited, *options)

    plain, lines = translated(), edited.read_text().splitlines()
    assert translated("--set", "search.post_editing_confidence=0") == plain != lines
    assert translated("--set", "search.post_editing_confidence=1") == lines
    data = ["--source", parallel[0], "--mt", edited, "--reference", parallel[1], "--metrics", "hter"]
    kept = run.json("evaluate", editing_toy, *data, "--set", "search.post_editing_confidence=1")
    assert kept["hter"]["score"] == kept["unedited"]["hter"]["score"]
    option = ("--set", "search.post_editing_confidence=0.5")
    assert "the model has no source 'mt'" in fails(capsys, "translate", toy, parallel[0], *option)


def test_the_scores_of_every_confidence_come_from_one_search(editing_toy, toy, parallel, edited, run, capsys):
    data = ["--source", parallel[0], "--mt", edited, "--reference", parallel[1], "--metrics", "bleu,hter"]
    record = run.json("evaluate", editing_toy, *data, "--confidence-curve")
    curve = record["confidence_curve"]
    assert [point["confidence"] for point in curve] == pytest.approx([step / 20 for step in range(21)])
    counts = [point["edited"] for point in curve]
    assert counts == sorted(counts, reverse=True) and (counts[0], counts[-1]) == (10, 0)
    for score in ("bleu", "hter"):
        assert curve[0]["scores"][score] == record[score]["score"]
        assert curve[-1]["scores"][score] == record["unedited"][score]["score"]
    middle = next(point for point in curve if 0 < point["edited"] < 10)
    alone = run.json("evaluate", editing_toy, *data, "--set", f"search.post_editing_confidence={middle['confidence']}")
    assert alone["hter"]["score"] == middle["scores"]["hter"]
    best = min(point["scores"]["hter"] for point in curve)
    assert next(point for point in curve if point["scores"]["hter"] == best)["confidence"] == record["best_confidence"]
    text = run.lines("evaluate", editing_toy, *data, "--confidence-curve")
    assert text[-1] == f"best HTER {best:.2f} with search.post_editing_confidence: {record['best_confidence']:g}"

    plain = ["--source", parallel[0], "--reference", parallel[1], "--confidence-curve"]
    assert "the model has no source 'mt'" in fails(capsys, "evaluate", toy, *plain)
    assert "the model edits machine translations, and there are none" in fails(capsys, "evaluate", editing_toy, *plain)


def test_either_source_may_be_empty(editing_toy, tmp_path, run):
    source, mt = tmp_path / "source", tmp_path / "mt"
    source.write_text("ein hund\n\n\nein hund\n")
    mt.write_text("\na dog\n\na dog\n")
    records = [json.loads(line) for line in run.lines("translate", editing_toy, source, "--mt", mt, "--explain")]
    assert [bool(record["translations"]) for record in records] == [True, True, False, True]
    assert [record["mt"] for record in records] == ["", "a dog", "", "a dog"]
    assert [list(record["explanation"]["sources"]) for record in records if "explanation" in record] == [
        ["source"], ["mt"], ["source", "mt"],
    ]  # fmt: skip


def test_texts_of_different_lengths_are_refused(editing_toy, toy, parallel, edited, capsys):
    source, reference = parallel
    short = edited.read_text().splitlines(keepends=True)[:9]
    for lines in (short, [*short, "a\n", "a\n"]):
        edited.write_text("".join(lines))
        assert f"{edited}: it has not as many lines" in fails(capsys, "translate", editing_toy, source, "--mt", edited)
        said = fails(capsys, "evaluate", editing_toy, "--source", source, "--reference", reference, "--mt", edited)
        assert f"{edited}: it has {len(lines)} lines, and {source} has 10" in said
    assert "edits no translations: it reads source" in fails(capsys, "translate", toy, source, "--mt", edited)
    edited.write_bytes(b"a dog\n" * 9 + b"\xff\n")
    said = fails(capsys, "translate", editing_toy, source, "--mt", edited)
    assert f"{source}, line 10: mt: the line is not valid UTF-8" in said


def test_edits_are_scored_and_compared_with_the_machine_translation(
    editing_toy, parallel, edited, tmp_path, run, capsys
):
    source, reference = parallel
    files = ["--source", source, "--reference", reference]
    found = run.json("evaluate", editing_toy, *files, "--mt", edited)
    assert list(found) == ["bleu", "hter", "unedited"]
    data = ["--data", describe(tmp_path, task="post-edit", test=TEST | {"mt": "test.mt"})]
    assert run.json("evaluate", editing_toy, *data) == found
    (tmp_path / "other.mt").write_text(edited.read_text().upper())
    other = run.json("evaluate", editing_toy, *data, "--mt", tmp_path / "other.mt")
    assert other["unedited"]["hter"]["score"] > found["unedited"]["hter"]["score"]
    outputs = tmp_path / "outputs"
    outputs.write_text("\n".join(run.lines("translate", editing_toy, source, "--mt", edited)))
    assert run.json("evaluate-outputs", outputs, *data) == found
    assert "--mt: the model edits machine translations" in fails(capsys, "evaluate", editing_toy, *files)


# Images.


def test_a_line_is_translated_with_its_image(seeing_toy, parallel, pictures, run):
    source, _ = parallel
    plain = run.lines("translate", seeing_toy, source)
    seen = run.lines("translate", seeing_toy, source, "--image-dir", pictures)
    assert plain[8:] == seen[8:], "lines 9 and 10 have no picture"
    assert plain[:8] != seen[:8]


def test_an_image_alone_is_enough(seeing_toy, pictures, tmp_path, run):
    empty = tmp_path / "empty"
    empty.write_text("\n" * 9)
    *seen, last = run.lines("translate", seeing_toy, empty, "--image-dir", pictures)
    assert all(seen) and last == ""


def test_unreadable_images_are_reported_with_their_line(seeing_toy, toy, parallel, pictures, run, capsys):
    source, _ = parallel
    (pictures / "3.jpg").unlink()
    (pictures / "3.jpg").write_text("no picture")
    arguments = ["translate", str(seeing_toy), str(source), "--image-dir", str(pictures)]
    out, said = run.both(*arguments, code=1)
    assert len(out.splitlines()) == 10 and out.splitlines()[2] == ""
    assert f"{source}, line 3: {pictures}/3.jpg: is " in said and "The line stays empty." in said
    assert "reads no pictures" in fails(capsys, "translate", toy, source, "--image-dir", pictures)


def test_a_model_is_scored_with_right_images_shuffled_ones_and_none(seeing_toy, parallel, pictures, run, capsys):
    source, reference = parallel
    arguments = ["evaluate", seeing_toy, "--source", source, "--reference", reference, "--metrics", "chrf,ter"]
    plain = run.json(*arguments)
    arguments += ["--image-dir", pictures]
    assert run.json(*arguments, "--no-images") == plain
    found = run.json(*arguments, "--shuffle-images")
    wrong = found.pop("shuffled_images")
    assert found == run.json(*arguments) != plain
    assert wrong["seed"] == 1 and wrong["lines"] == 8 and list(wrong["scores"]) == ["chrf", "ter"]
    for name, sign in (("chrf", 1), ("ter", -1)):
        one = wrong["scores"][name]
        assert one["score"] != found[name]["score"]
        assert one["awareness"] == pytest.approx(sign * (found[name]["score"] - one["score"]))
        assert set(one["p_values"]) == {"bootstrap", "randomisation", "sign"}
    assert "awareness " in "".join(run.lines(*arguments, "--shuffle-images"))
    assert "Leave one of them out" in fails(capsys, *arguments, "--shuffle-images", "--no-images")
    for number in range(2, 9):
        next(pictures.glob(f"{number}.*")).unlink()
    assert "1 lines have a picture" in fails(capsys, *arguments, "--shuffle-images")


def test_a_data_set_has_its_own_images(seeing_toy, parallel, pictures, tmp_path, run, capsys):
    """Images of lines 2, 4 and 7, by an index that counts from 0; the same from files, with other images, and none."""
    source, reference = parallel
    chosen = {number: next(pictures.glob(f"{number}.*")).name for number in (2, 4, 7)}
    (tmp_path / "index.tsv").write_text("".join(f"test\t{n - 1}\t{name}\n" for n, name in chosen.items()))
    described = describe(tmp_path, task="multimodal", test=TEST | IMAGES)
    data = ["evaluate", seeing_toy, "--data", described, "--metrics", "chrf"]
    few = tmp_path / "few"
    few.mkdir()
    for number, name in chosen.items():
        (few / f"{number}{Path(name).suffix}").write_bytes((pictures / name).read_bytes())
    files = ["evaluate", seeing_toy, "--source", source, "--reference", reference, "--metrics", "chrf"]
    own = run.json(*data)
    assert own == run.json(*files, "--image-dir", few)
    assert run.json(*data, "--image-dir", pictures) == run.json(*files, "--image-dir", pictures) != own
    assert run.json(*data, "--no-images") == run.json(*files) != own
    wrong = run.json(*data, "--shuffle-images")["shuffled_images"]
    assert wrong["lines"] == 3 and wrong["scores"]["chrf"]["score"] != own["chrf"]["score"]
    (pictures / chosen[4]).write_text("no picture")
    assert f"{chosen[4]} (line 4)" in fails(capsys, *data)


@pytest.mark.slow
def test_models_are_compared_each_with_its_own_sources(
    toy, editing_toy, seeing_toy, parallel, edited, pictures, tmp_path, run, capsys
):
    """In either order: a model that reads only text does not remove the other's sources."""
    source, reference = parallel
    (tmp_path / "index.tsv").write_text("".join(f"test\t{path.stem}\t{path.name}\n" for path in pictures.iterdir()))
    data = ["--data", describe(tmp_path, task="multimodal", test=TEST | {"mt": "test.mt"} | IMAGES)]
    models = [toy, editing_toy, seeing_toy]
    alone = {}
    for model, own in zip(models, ([], ["--mt", edited], data), strict=True):
        place = own if own is data else ["--source", source, "--reference", reference, *own]
        alone[str(model)] = run.json("evaluate", model, *place, "--metrics", "chrf")["chrf"]["score"]
    for order in (models, models[::-1]):
        found = run.json("compare", *order, *data, "--metrics", "chrf")["chrf"]["bootstrap"]["systems"]
        assert {one["system"]: one["score"] for one in found} == alone


def test_shuffled_images_leave_no_line_its_own():
    def picture(number):
        return lambda grid: np.array(number)

    for seed in range(30):
        chance = random.Random(seed)
        own = [picture(number) if chance.random() < 0.7 else None for number in range(chance.randint(4, 40))]
        mixed = shuffle_images(own, seed)
        assert [one is None for one in mixed] == [one is None for one in own]
        assert all(one is not other for one, other in zip(own, mixed, strict=True) if one)
        assert sorted(map(id, mixed)) == sorted(map(id, own))
        assert shuffle_images(own, seed) == mixed
    with pytest.raises(UsageError, match="1 lines have a picture"):
        shuffle_images([None, own[0] or picture(0)], 1)
