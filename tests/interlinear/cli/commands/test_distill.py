"""`distill`: the outputs of a model become the targets of a data set that `train` takes as it is."""

import gzip
import json
import os
import shutil
import time
from pathlib import Path

import pytest
import torch
import yaml

import interlinear
from interlinear import cli
from interlinear.bundle import ModelCard, write_bundle
from interlinear.config import RecurrentConfig, TextVocabulary
from interlinear.files import checksum
from interlinear.models.model import build
from interlinear.text import TextConfig, Tokenizer
from tests.interlinear.cli.conftest import GERMAN
from tests.processes import command
from tests.training.toy import SETTINGS, write_corpus, write_edited, write_pictured
from training.data.dataset import open_dataset, read_rows
from training.data.dataset.distilled import distilled_description
from training.runs.run_lock import run_lock

QUICK = [word for setting in SETTINGS for word in ("--set", setting)]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained bundle; its corpus, `toy.yaml`, is two folders above it."""
    folder = tmp_path_factory.mktemp("teacher")
    write_corpus(folder, 900)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = ["rnnsearch", "--data", "toy.yaml", "--run", "teacher", "--no-ray", "--tracking", "none", *QUICK]
        assert cli.run(["train", *words]) == 0
    return folder / "runs" / "teacher" / "bundle"


@pytest.fixture
def corpus(teacher: Path) -> Path:
    return teacher.parents[2] / "toy.yaml"


def texts(description: Path | str, split: str) -> list[tuple[str, ...]]:
    return [row.texts for row in read_rows(open_dataset(str(description)), split, ("source", "target"))]


def description(folder: Path, train: dict, name: str = "mine", **keys: object) -> Path:
    """The description of a data set from German to English, with the same files as dev."""
    path = folder / f"{name}.yaml"
    content = {"task": "translation", "about": "mine", "licence": "none", "languages": {"source": "de", "target": "en"}}
    path.write_text(yaml.safe_dump({**content, "splits": {"train": train, "dev": train}, **keys}))
    return path


@pytest.fixture
def german(tmp_path: Path) -> Path:
    """A data set for the untrained model `toy`."""
    lines = [" ".join(GERMAN[i : i + 4]) for i in range(8)]
    (tmp_path / "german.source").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "german.target").write_text("a dog runs\n" * 8)
    return description(tmp_path, {"source": "german.source", "target": "german.target"})


@pytest.mark.timeout(600)
def test_a_student_is_trained_on_the_outputs_of_its_teacher(teacher, corpus, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = run("distill", teacher, "--data", corpus).strip()
    assert printed == str(tmp_path / "toy-distilled" / "toy-distilled.yaml")

    (tmp_path / "train.source").write_text("".join(f"{source}\n" for source, _ in texts(corpus, "train")))
    translated = run.lines("translate", teacher, "train.source")
    originals = texts(corpus, "train")
    assert texts(printed, "train") == [(source, new) for (source, _), new in zip(originals, translated, strict=True)]
    assert texts(printed, "train") != originals  # the teacher has not learned all of it
    for split in ("dev", "test"):
        assert texts(printed, split) == texts(corpus, split)

    words = ["--register", "small", "--tracking", f"sqlite:///{tmp_path}/mlflow.db", "--no-ray"]
    sizes = ["--set", "model.embedding=16", "--set", "model.hidden=24", "--set", "training.epochs=8"]
    run("train", "student", "--data", printed, *words, *QUICK, *sizes)
    student = interlinear.load(tmp_path / "runs" / "student-toy-distilled" / "bundle").card
    assert (student.data["name"], student.model.cell, student.search.beam) == ("toy-distilled", "gru", 1)
    scores = run(
        "evaluate", "models:/small@champion", "--data", printed, "--json", "--tracking",
        f"sqlite:///{tmp_path}/mlflow.db",
    )  # fmt: skip
    assert json.loads(scores)["bleu"]["score"] > 20


def test_the_record_says_where_the_outputs_come_from(toy, german, tmp_path, run):
    both = f"{toy},{toy}"
    run("distill", both, "--data", german, "--output", tmp_path / "new", "--set", "search.beam=3")
    record = json.loads((tmp_path / "new" / "distillation.json").read_text())
    sha256 = interlinear.load(toy).card.weights_sha256
    assert record["models"] == [{"name": str(toy), "weights_sha256": sha256}] * 2
    assert record["search"]["beam"] == 3 and record["search"]["length_penalty"] == "average"
    assert (record["precision"], record["data"]["name"], record["originals"]) == ("fp32", "mine", False)
    assert "outputs of" in open_dataset(str(tmp_path / "new" / "new.yaml")).about


def test_search_options_and_precision_reach_the_search(toy, german, tmp_path, run):
    short = run("distill", toy, "--data", german, "--output", tmp_path / "new", "--set", "search.max_length=2").strip()
    assert {len(target.split()) for _, target in texts(short, "train")} <= {1, 2} and texts(short, "train")
    said = run.err(0, "distill", toy, "--data", german, "--output", tmp_path / "i", "--precision", "auto")
    assert f"the precision is {json.loads((tmp_path / 'i' / 'distillation.json').read_text())['precision']}" in said


def test_a_shortlist_limits_the_outputs_and_is_recorded(toy, german, tmp_path, run):
    model = shutil.copytree(toy, tmp_path / "model")
    links = tmp_path / "links"
    links.write_text("0-0\n" * 8)
    run("shortlist", model, "--data", german, "--links", links, "--words", 1, "--frequent", 0)
    text = tmp_path / "german.source"
    few, all_words = (run.lines("translate", model, text, *option) for option in (["--shortlist"], []))
    made = run("distill", model, "--data", german, "--output", tmp_path / "new", "--shortlist").strip()
    assert [target for _, target in texts(made, "train")] == few != all_words
    record = json.loads((tmp_path / "new" / "distillation.json").read_text())
    assert record["models"][0]["shortlist_sha256"] == checksum(model / "shortlist.safetensors")
    said = run.err(2, "distill", model, "--data", german, "--output", tmp_path / "new")
    assert "was made by other models, or by other shortlists of them" in said


def test_with_originals_every_source_has_both_targets(toy, german, tmp_path, run):
    plain = run("distill", toy, "--data", german, "--output", tmp_path / "plain").strip()
    both = run("distill", toy, "--data", german, "--output", tmp_path / "both", "--with-originals").strip()
    assert texts(both, "train") == texts(plain, "train") + texts(german, "train")


def test_the_description_keeps_how_the_text_is_written(toy, tmp_path, run):
    """Files below the data root, beside the description, compressed, tokenised, and in several parts."""
    root = tmp_path / "root"
    (root / "set").mkdir(parents=True)
    for name in ("a", "b"):
        (root / "set" / f"{name}.de.gz").write_bytes(gzip.compress("ein hund läuft .\n".encode()))
    (tmp_path / "targets.jsonl").write_text('{"en": "a dog runs ."}\n{"en": "a dog runs ."}\n')
    trait = {"tokenised": True, "case": "lower"}
    train = {
        "source": {"files": ["set/*.de.gz"], **trait},
        "target": {"files": ["targets.jsonl"], "key": "en", **trait},
    }
    cleaning, defaults = {"duplicates": "drop"}, {"training.epochs": 3}
    own = description(tmp_path, train, cleaning=cleaning, defaults=defaults)
    made = run("distill", toy, "--data", own, "--data-root", root, "--output", tmp_path / "far" / "new").strip()
    before, after = open_dataset(str(own), root), open_dataset(made, root)
    assert yaml.safe_load(Path(made).read_text())["splits"]["train"]["source"]["files"] == ["set/*.de.gz"]
    for split in ("train", "dev"):
        fields = [(each.field(split, "source"), each.field(split, "target")) for each in (before, after)]
        assert fields[0][0] == fields[1][0]
        for key in ("tokenised", "lowercase", "language", "segmentation", "unknown"):
            assert getattr(fields[0][1], key) == getattr(fields[1][1], key)
    assert after.cleaning == before.cleaning and after.defaults == defaults
    (first, second) = (row.texts for row in read_rows(after, "train", ("source", "target")))
    assert first == second and first[1] == first[1].lower()
    dev = [[row.texts for row in read_rows(each, "dev", ("source", "target"))] for each in (before, after)]
    assert dev[0] == dev[1]


def test_text_beside_a_shipped_description_is_found_from_the_new_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dataset = open_dataset("demo")
    content = distilled_description(dataset, ["source"], "outputs", "a model", originals=True)
    assert "alignment" not in content["splits"]["train"]  # the links of the original targets
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "far.yaml").write_text(yaml.safe_dump(content))
    (tmp_path / "far" / "outputs").write_text("an output\n" * 12_000)
    rows = texts(tmp_path / "far" / "far.yaml", "train")
    originals = [row.texts for row in read_rows(dataset, "train", ("source", "target"))]
    assert rows == [(source, "an output") for source, _ in originals] + originals


@pytest.mark.slow
def test_a_killed_command_continues_where_it_stopped(teacher, corpus, tmp_path, run):
    whole = Path(run("distill", teacher, "--data", corpus, "--output", tmp_path / "whole").strip())
    words = ["distill", teacher, "--data", corpus, "--output", tmp_path / "cut"]
    process = command(tmp_path, *words)
    part = tmp_path / "cut" / "cut.train.target.part"
    while not (part.exists() and part.stat().st_size):
        assert process.is_alive(), "it ended before it could be killed"
        time.sleep(0.002)
    process.kill()
    process.join()
    done = part.read_bytes().count(b"\n")
    assert 0 < done < 900 and not (tmp_path / "cut" / "cut.yaml").exists()
    with part.open("ab") as file:
        file.write(b"a line without its end")

    said = run.both(*words)
    assert f"going on after line {done:,} of 900" in said.err
    outputs = [folder / f"{folder.name}.train.target" for folder in (whole.parent, tmp_path / "cut")]
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert not part.exists()
    assert run(*words) == said.out  # a third call finds it complete

    (tmp_path / "cut" / "cut.yaml").unlink()  # killed after the last output, before the description
    assert "going on after line 900 of 900" in run.err(0, *words)
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert texts(tmp_path / "cut" / "cut.yaml", "train") == texts(whole, "train")


def test_lines_that_cannot_be_translated_are_counted_and_left_out_of_training(toy, tmp_path, run):
    lines = [b"ein hund", b"", b"hund " * 13, b"kat\xffze", b"die katze"]  # the model reads 12 words
    (tmp_path / "a.source").write_bytes(b"\n".join(lines) + b"\n")
    (tmp_path / "a.target").write_text("x\n" * 5)
    own = description(tmp_path, {"source": "a.source", "target": "a.target"}, cleaning={"encoding": "drop"})
    said = run.err(0, "distill", toy, "--data", own, "--output", tmp_path / "new")
    assert "3 lines have no output, the first is line 2" in said
    outputs = (tmp_path / "new" / "new.train.target").read_text().split("\n")
    assert [bool(line) for line in outputs] == [True, False, False, False, True, False]


def test_an_output_with_nul_bytes_can_be_read_again(tmp_path, run):
    """A model of bytes may output any byte: here one that outputs nothing but NUL."""
    tokenizers = {
        name: Tokenizer.train(["ein hund"] * 3, TextConfig(units="bpe", vocabulary=300, language=language))
        for name, language in (("source", "de"), ("target", "en"))
    }
    torch.manual_seed(1)
    sizes = {name: TextVocabulary(vocabulary=tokenizer.size) for name, tokenizer in tokenizers.items()}
    config = RecurrentConfig(sources={"source": sizes["source"]}, target=sizes["target"], embedding=8, hidden=8)
    model = build(config).eval()
    (nul,) = tokenizers["target"].encode("\0").ids[-1:]
    assert tokenizers["target"].decode([nul]) == "\0"
    with torch.no_grad():
        model.output.bias[nul] = 50.0
    write_bundle(tmp_path / "bytes", model, tokenizers, ModelCard(model=config))
    (tmp_path / "a.source").write_text("ein hund\n" * 3)
    (tmp_path / "a.target").write_text("x\n" * 3)
    own = description(tmp_path, {"source": "a.source", "target": "a.target"})
    made = run(
        "distill", tmp_path / "bytes", "--data", own, "--output", tmp_path / "new", "--set", "search.max_length=3"
    )
    assert [source for source, _ in texts(made.strip(), "train")] == ["ein hund"] * 3


def test_further_sources_stay_beside_the_outputs(editing_toy, seeing_toy, tmp_path, run):
    for model, write, field in ((editing_toy, write_edited, "mt"), (seeing_toy, write_pictured, "image")):
        folder = tmp_path / field
        folder.mkdir()
        own = write(folder)
        for split in ("train", "dev"):  # a short corpus, and the languages of the toy models
            for side in ("source", "target", "mt"):
                if (path := folder / f"{split}.{side}").exists():
                    path.write_text("".join(path.read_text().splitlines(keepends=True)[:6]))
        text = own.read_text().replace(
            "index: index.tsv, split: train", "index: index.tsv, required: true, split: train"
        )
        own.write_text(text)
        if field == "image":
            index = (folder / "index.tsv").read_text().splitlines(keepends=True)
            (folder / "index.tsv").write_text("".join(line for line in index if int(line.split("\t")[1]) < 6))
        made = open_dataset(run("distill", model, "--data", own, "--output", folder / "new").strip())
        assert set(made.splits["train"]) == {"source", field, "target"}
        outputs = (folder / "new" / "new.train.target").read_text().splitlines()
        if field == "image":  # lines 1 and 4 have no picture, which the split requires
            assert [bool(line) for line in outputs] == [False, True, True] * 2
            assert made.image("train", "image") == open_dataset(str(own)).image("train", "image")
            said = run.err(2, "distill", model, "--data", own, "--with-originals")
            assert "--with-originals: each image belongs to one line" in said
        else:
            assert len(outputs) == 6
            rows = [row.texts for row in read_rows(made, "train", ("source", "mt"))]
            assert rows == [row.texts for row in read_rows(open_dataset(str(own)), "train", ("source", "mt"))]


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_models_and_data_that_do_not_fit_are_refused(toy, back_toy, editing_toy, german, tmp_path, run):
    train = {"source": "german.source", "target": "german.target"}
    cut = {**train, "target": {"files": "german.target", "tokenised": True, "segmentation": "@@"}}
    segmented = description(tmp_path, cut, "segmented")
    testing = tmp_path / "testing.yaml"
    testing.write_text(german.read_text().replace("dev:", "test:"))
    (tmp_path / "short").write_text("x\n")
    uneven = description(tmp_path, {**train, "target": "short"}, "uneven")
    before = snapshot(tmp_path)
    for model, data, code, said in (
        (back_toy, german, 2, "the model's 'source' is en, and that of mine is de"),
        (editing_toy, german, 2, "the model reads 'mt', which the train split of mine does not have"),
        (toy, segmented, 1, "its target is cut into subwords (marked @@)"),
        (toy, testing, 1, "has no split 'dev'"),
        (toy, uneven, 1, "has 1 lines"),
        (toy, "nowhere", 2, "it does not exist"),
        (tmp_path / "nowhere", german, 2, "there is no such folder"),
    ):
        error = run.err(code, "distill", model, "--data", data, "--output", tmp_path / "new")
        assert said in error and error.count("\n") == 1
        assert snapshot(tmp_path) == before


def test_a_folder_of_something_else_is_refused(toy, other_toy, german, tmp_path, run, capsys):
    new = tmp_path / "new"

    def refused(*words: object, model: Path = toy) -> str:
        before = snapshot(tmp_path)
        code = cli.run([str(word) for word in ("distill", model, "--data", german, "--output", *words)])
        error = capsys.readouterr().err
        assert code in (1, 2) and error.count("\n") == 1 and snapshot(tmp_path) == before
        return error

    assert "is there already, and is no distilled data set" in refused(tmp_path)
    assert "is a file" in refused(german)
    run("distill", toy, "--data", german, "--output", new)
    assert "was made by other models" in refused(new, model=other_toy)
    assert "was made with other search options" in refused(new, "--set", "search.beam=1")
    assert "was made in another precision" in refused(new, "--precision", "int8")
    assert "was made with another choice of --with-originals" in refused(new, "--with-originals")
    with (tmp_path / "german.source").open("a") as source, (tmp_path / "german.target").open("a") as target:
        source.write("ein hund\n")
        target.write("a dog\n")
    assert "was made from other data" in refused(new)
    (new / "distillation.json").write_text("{")
    assert "distillation.json: is damaged" in refused(new)


def test_two_processes_do_not_write_one_folder(toy, german, tmp_path, run):
    with run_lock(tmp_path / "new", "writing this data set"):
        assert (
            f"process {os.getpid()}"
            in (error := run.err(1, "distill", toy, "--data", german, "--output", tmp_path / "new"))
            and "is writing this data set" in error
        )
    assert not (tmp_path / "new").exists()
