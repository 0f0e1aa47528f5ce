"""`interlinear shortlist`, and searches with --shortlist: made from attention or links, measured, refused."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import interlinear
from interlinear import cli
from interlinear.bundle import add_shortlist, check_files
from interlinear.cli.decoding.model_loading import load_bundle
from interlinear.errors import RequestError, UsageError
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from interlinear.registry.evaluations import find_training
from interlinear.registry.resolve import fetch_bundle
from interlinear.registry.store import MlflowStore
from interlinear.shortlist import LinkCounts, build_shortlist
from tests.interlinear.cli import conftest
from tests.interlinear.cli.conftest import write_toy

PAIRS = [
    ("ein hund läuft .", "a dog runs ."),
    ("die katze schläft im garten .", "the cat sleeps in the garden ."),
    ("der mann liest das buch", "the man reads the book"),
    ("ein hund und die katze", "a dog and the cat"),
]
LINKS = ["0-0 1-1 2-2 3-3", "0-0 1-1 2-2 3-3 4-5 5-6", "0-0 1-1 2-2 3-3 4-4", "0-0 1-1 2-2 3?3 4-4"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A bundle of the test's own."""
    return write_toy(tmp_path / "model", seed=2)


def describe(folder: Path, pairs: list[tuple[str, str]] = PAIRS, dev: bool = True) -> str:
    """A data set of these pairs, which are its dev set too."""
    for field, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
        (folder / f"all.{field}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    fields = {"source": "all.de", "target": "all.en"}
    return str(conftest.describe(folder, train=fields, **({"dev": fields} if dev else {})))


def write_links(folder: Path, lines: list[str]) -> str:
    (folder / "links").write_text("".join(f"{line}\n" for line in lines))
    return str(folder / "links")


def words_of(bundle: interlinear.Bundle, text: str) -> set[str]:
    """The words of a text's candidates, without the special symbols."""
    ids = bundle.shortlist.words({"source": bundle.tokenizers["source"].encode(text).ids}).tolist()
    return {bundle.tokenizers["target"].pieces[number] for number in ids[4:]}


def test_a_shortlist_from_links_has_the_linked_words(model, tmp_path, capsys):
    arguments = ["--data", describe(tmp_path), "--links", write_links(tmp_path, LINKS)]
    before = interlinear.load(model).card
    assert cli.run(["shortlist", str(model), *arguments, "--words", "1", "--frequent", "0"]) == 0
    bundle = interlinear.load(model, shortlist=True)
    assert words_of(bundle, "hund katze") == {"dog", "cat"}
    assert words_of(bundle, "das garten") == {"the", "garden"}
    assert words_of(bundle, "läuft .") == {"runs", "▁.▁"}
    assert bundle.card.files.keys() - before.files.keys() == {"shortlist.safetensors"}
    assert cli.run(["shortlist", str(model), *arguments, "--words", "1", "--frequent", "1"]) == 0
    assert words_of(interlinear.load(model, shortlist=True), "hund") == {"dog", "the"}  # the: five times


def test_what_is_printed_is_what_the_dev_set_has(model, tmp_path, run):
    """Counted here again, from the texts that `translate` writes in the whole vocabulary."""
    arguments = ["--data", describe(tmp_path), "--words", "2", "--frequent", "2"]
    found = run.json("shortlist", model, *arguments)
    bundle = interlinear.load(model, shortlist=True)
    outputs = run.lines("translate", model, tmp_path / "all.de")
    target = bundle.tokenizers["target"]
    counts = {"references_covered": [target for _, target in PAIRS], "outputs_covered": outputs}
    for key, lines in counts.items():
        inside = total = 0
        for (source, _), line in zip(PAIRS, lines, strict=True):
            words = bundle.shortlist.words({"source": bundle.tokenizers["source"].encode(source).ids})
            ids = target.encode(line).ids
            inside, total = inside + sum(word in words for word in ids), total + len(ids)
        assert found["dev"][key] == pytest.approx(inside / total)
    assert found["pairs"] == found["dev"]["sentences"] == 4 and found["left_out"] == 0
    assert found["model"] == str(model)
    first, second, third = run.lines("shortlist", model, *arguments)
    assert first == f"{model} has a shortlist of 4 pairs"
    assert second.startswith(f"words of a sentence: {found['dev']['words']:.0f} of {target.size} on average (dev, 4 ")
    assert f"{found['dev']['references_covered']:.2%} of the references' words" in third


def test_attention_and_the_links_that_align_prints_make_the_same(model, tmp_path, run):
    data = describe(tmp_path)
    options = ["--data", data, "--words", "3", "--frequent", "1"]
    files = ["--source", f"{tmp_path}/all.de", "--target", f"{tmp_path}/all.en"]
    links = write_links(tmp_path, run.lines("align", model, *files, "--by", "attention"))
    assert cli.run(["shortlist", str(model), *options]) == 0
    by_attention = (model / "shortlist.safetensors").read_bytes()
    assert cli.run(["shortlist", str(model), *options, "--links", links]) == 0
    assert (model / "shortlist.safetensors").read_bytes() == by_attention


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_searches_write_only_words_of_the_shortlist(model, tmp_path, precision, run, capsys):
    data, links = describe(tmp_path), write_links(tmp_path, LINKS)
    text, call = str(tmp_path / "all.de"), ["translate", str(model), "--precision", precision, "--n-best", "2"]
    before = run(*call, text)
    assert cli.run(["shortlist", str(model), "--data", data, "--links", links, "--words", "1", "--frequent", "0"]) == 0
    capsys.readouterr()
    assert run(*call, text) == before, "a search without --shortlist is not affected"
    limited = run(*call, text, "--shortlist")
    assert limited != before
    bundle = interlinear.load(model, shortlist=True)
    for line in limited.splitlines():
        number, output, _ = line.split(" ||| ")
        written = {
            bundle.tokenizers["target"].pieces[n].strip("▁") for n in bundle.tokenizers["target"].encode(output).ids
        }
        assert written <= {word.strip("▁") for word in words_of(bundle, PAIRS[int(number) - 1][0])} | {"<unk>"}
    scores = []
    for options in ([], ["--shortlist"]):
        pair = ["--source", text, "--reference", f"{tmp_path}/all.en", "--metrics", "chrf"]
        assert cli.run(["evaluate", str(model), *pair, "--precision", precision, "--json", *options]) == 0
        scores.append(json.loads(capsys.readouterr().out)["chrf"]["score"])
    assert scores[0] != scores[1]


def test_a_copy_gets_the_shortlist(model, tmp_path, run, capsys):
    copy = tmp_path / "copy"
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    assert cli.run(["shortlist", str(model), "--data", describe(tmp_path), "--output", str(copy)]) == 0
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before
    assert interlinear.load(copy, shortlist=True).card.weights_sha256 == interlinear.load(model).card.weights_sha256
    check_files(copy)
    capsys.readouterr()
    for folder, says in ((model, "-"), (copy, "used with --shortlist")):
        (line,) = [line for line in run.lines("info", folder) if line.startswith("shortlist")]
        assert line.removeprefix("shortlist").strip() == says


def test_pairs_that_the_model_cannot_read_are_left_out(model, tmp_path, run):
    pairs = [*PAIRS, ("", "a dog"), ("hund " * 13, "dog"), ("hund", "dog " * 13)]
    data, links = describe(tmp_path, pairs, dev=False), write_links(tmp_path, [*LINKS, "", "", ""])
    for options in ([], ["--links", links]):
        out, said = run.both("shortlist", model, "--data", data, *options)
        assert out == f"{model} has a shortlist of 4 pairs\n"
        assert "3 pairs are left out" in said and "mine has no dev set" in said


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["{model},{model}", "--data", "{data}"], 2, "an ensemble has no bundle of its own"),
        (["runs:/0f/model", "--data", "{data}"], 2, "the model of a run is not changed"),
        (["{model}", "--data", "{data}", "--output", "{folder}"], 2, "it is there already"),
        (["{model}", "--data", "{data}", "--output", "{folder}/no/copy"], 2, "there is no folder"),
        (["{model}", "--data", "nothing"], 2, "nothing"),
        (["{model}", "--data", "{data}", "--words", "0"], 2, "--words"),
        (["{model}", "--data", "{data}", "--links", "{folder}/short"], 1, r"it has 1 lines, and the split .* 4"),
        (["{model}", "--data", "{data}", "--links", "{folder}/far"], 1, r"far, line 2: '9-0' points outside the pair"),
        (["{model}", "--data", "{data}", "--links", "{folder}/odd"], 1, r"odd, line 1: 'a-b' is no link"),
        (["{editing}", "--data", "{edits}", "--links", "{folder}/far"], 2, "the model reads source and mt"),
        (["{editing}", "--data", "{data}"], 1, "no field 'mt'"),
    ],
)
def test_wrong_calls_change_nothing(arguments, code, says, model, editing_toy, tmp_path, run):
    (tmp_path / "short").write_text("0-0\n")
    (tmp_path / "far").write_text("0-0\n9-0\n\n\n")
    (tmp_path / "odd").write_text("a-b\n\n\n\n")
    data = describe(tmp_path)
    edits = conftest.describe(
        tmp_path, "edits", "post-edit", train={"source": "all.de", "mt": "all.en", "target": "all.en"}
    )
    names = {"model": model, "data": data, "folder": tmp_path, "editing": editing_toy, "edits": edits}
    said = run.err(code, "shortlist", *(argument.format(**names) for argument in arguments))
    assert re.search(says, said) and said.count("\n") == 1
    for folder in (model, editing_toy):
        assert not (folder / "shortlist.safetensors").exists()


@pytest.mark.parametrize("command", ["translate", "evaluate"])
def test_a_model_without_a_shortlist_is_refused(command, toy, parallel, run):
    source, target = map(str, parallel)
    files = {"translate": [source], "evaluate": ["--source", source, "--reference", target]}
    said = run.err(2, command, toy, *files[command], "--shortlist")
    assert f"--shortlist: {toy} has none. Make it with `interlinear shortlist`" in said


def test_an_option_without_effect_is_refused(toy, parallel, run):
    said = run.err(2, "evaluate-outputs", parallel[1], "--reference", parallel[1], "--shortlist")
    assert "No such option: --shortlist" in said


def add(folder: Path, links: list[tuple[str, str]], name: str = "source") -> None:
    """A shortlist of these word links only."""
    bundle = interlinear.load(folder)
    names = [*bundle.card.model.texts]
    target = bundle.tokenizers["target"]
    counts = {field: LinkCounts(bundle.tokenizers[field].size, target.size) for field in names}
    for word, other in links:
        (source_id,), (target_id,) = bundle.tokenizers[name].encode(word).ids, target.encode(other).ids
        counts[name].add(np.array([source_id]), np.array([target_id]))
    add_shortlist(folder, build_shortlist(counts, np.zeros(target.size, np.int64), bundle.tokenizers, 5, 0))


def test_an_ensemble_searches_among_the_words_of_all_its_members(model, tmp_path, run):
    other = Path(shutil.copytree(model, tmp_path / "other"))
    add(model, [("hund", "dog")])
    text = tmp_path / "text"
    text.write_text("hund hund\n")
    call = ["translate", f"{model},{other}", str(text), "--shortlist", "--n-best", "2"]
    assert f"{other} has none" in run.err(2, *call)
    add(other, [("hund", "cat"), ("katze", "man")])
    out = run(*call)
    written = {word for line in out.splitlines() for word in line.split(" ||| ")[1].split()}
    assert written <= {"dog", "cat", "<unk>", "hund"}
    assert words_of(load_bundle(f"{model},{other}", shortlist=True), "hund") == {"dog", "cat"}


def test_several_texts_give_the_words_of_all_and_an_image_alone_none(editing_toy, seeing_toy, tmp_path):
    editing = Path(shutil.copytree(editing_toy, tmp_path / "editing"))
    add(editing, [("dog", "cat")], "mt")
    bundle = interlinear.load(editing, shortlist=True)
    ids = {name: bundle.tokenizers[name].encode(text).ids for name, text in (("source", "hund"), ("mt", "dog"))}
    words = {bundle.tokenizers["target"].pieces[n] for n in bundle.shortlist.words(ids).tolist()[4:]}
    assert words == {"dog", "cat"}  # a copy, and a link
    seeing = Path(shutil.copytree(seeing_toy, tmp_path / "seeing"))
    add(seeing, [("hund", "dog")])
    limited = SequenceGenerator(interlinear.load(seeing, shortlist=True))
    image = {"image": np.zeros((32, 32, 3), np.uint8)}
    options = limited.bundle.card.search
    refused, answer = limited.generate(
        [Request({}, options, images=image), Request({"source": "hund"}, options, images=image)]
    )
    assert isinstance(refused, RequestError) and refused.where == "source" and "the text is missing" in str(refused)
    assert set(answer.candidates[0].text.split()) <= {"dog", "<unk>", "hund"}


def test_a_registered_model_gets_a_new_version(toy, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    store = MlflowStore(create=True)
    run_id = store.client.create_run(store.experiment("mine"), run_name="toy").info.run_id
    store.register(store.log_model(toy, run_id, {"train_sha256": "abc"}), "de-en")
    before = fetch_bundle("models:/de-en/1").folder
    files = {path.name: path.read_bytes() for path in before.iterdir()}
    call = ["shortlist", "models:/de-en@champion", "--data", describe(tmp_path)]
    for version in ("2", "3", "3"):  # the last one is the same again
        assert run(*call, "--register", "de-en", "--words", "1", "--frequent", version).startswith(
            f"models:/de-en/{version} has a shortlist of 4 pairs\n"
        )
        assert load_bundle(f"models:/de-en/{version}", shortlist=True).shortlist is not None
    assert {path.name: path.read_bytes() for path in before.iterdir()} == files
    with pytest.raises(UsageError, match="has none"):
        load_bundle("models:/de-en@champion", shortlist=True)
    tags = [one.tags for one in store.logged(store.client.get_run(run_id))]
    assert [tag["train_sha256"] for tag in tags] == ["abc"] * 3
    assert len({tag.get("shortlist_sha256") for tag in tags}) == 3
    assert [find_training(f"models:/de-en/{n}").model_id for n in (1, 2, 3)] == [
        one.model_id for one in store.logged(store.client.get_run(run_id))
    ]


def test_a_registered_model_gets_a_new_version_of_its_own_name(toy, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    store = MlflowStore(create=True)
    run_id = store.client.create_run(store.experiment("mine"), run_name="toy").info.run_id
    store.register(store.log_model(toy, run_id, {"train_sha256": "abc"}), "de-en")
    said = run("shortlist", "models:/de-en@champion", "--data", describe(tmp_path))
    assert said.startswith("models:/de-en/2 has a shortlist of 4 pairs\n")
    assert load_bundle("models:/de-en/2", shortlist=True).shortlist is not None
    with pytest.raises(UsageError, match="has none"):
        load_bundle("models:/de-en@champion", shortlist=True)


@pytest.mark.slow
def test_a_model_that_no_run_has_trained_is_not_registered(model, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    MlflowStore(f"sqlite:///{tmp_path}/mlflow.db", create=True)
    said = run.err(1, "shortlist", model, "--data", describe(tmp_path), "--register", "de-en")
    assert "has no run that trained it" in said
    assert not (model / "shortlist.safetensors").exists()
    assert cli.run(["shortlist", str(model), "--data", describe(tmp_path), "--register", "a/name"]) == 2
