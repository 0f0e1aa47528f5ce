"""`interlinear figure KIND`, on toy bundles and on trainings recorded in MLflow."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import mlflow
import pytest
import torch
from mlflow.entities import Metric, Param

import interlinear
from interlinear import cli
from interlinear.batch import collate
from interlinear.generation.forced_decoding import NULL
from interlinear.generation.generator import SequenceGenerator
from interlinear.models.recurrent.decoder import RecurrentDecoder
from interlinear.registry.store import MlflowStore
from interlinear.text import SPECIAL
from tests.interlinear.cli.conftest import TEST, describe

SENTENCE = "ein hund läuft im garten ."


def texts(path: Path) -> list[str]:
    return ["".join(node.itertext()) for node in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def drawn(capsys: pytest.CaptureFixture[str], picture: Path, *arguments: str) -> list[str]:
    """The words of a figure that the command drew."""
    assert cli.run(["figure", *arguments, "--output", str(picture)]) == 0
    assert capsys.readouterr().out == f"{picture}\n"
    return texts(picture)


def refused(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    assert cli.run(["figure", *arguments]) == code
    out, said = capsys.readouterr()
    assert not out and said.count("\n") == 1
    return said


def test_attention_is_drawn_for_the_models_output_or_a_given_one(toy, tmp_path, capsys):
    picture = tmp_path / "a.svg"
    assert set(SENTENCE.split()) <= set(drawn(capsys, picture, "attention", str(toy), "--source", SENTENCE))
    given = drawn(capsys, picture, "attention", str(toy), "--source", SENTENCE, "--target", "a dog runs")
    assert {*SENTENCE.split(), "a", "dog", "runs"} <= set(given)


def test_attention_is_drawn_with_the_probability_of_each_word(toy, tmp_path, capsys):
    what = [str(toy), "--source", SENTENCE, "--target", "a dog runs", "--confidence"]
    said = drawn(capsys, tmp_path / "a.svg", "attention", *what)
    generation = SequenceGenerator(interlinear.load(toy))
    (explanation,) = generation.align([({"source": SENTENCE}, "a dog runs")], confidence=True)
    percentages = [f"[{confidence:.0%}]" for confidence in explanation.confidence]
    assert len(percentages) == 3 and set(percentages) <= set(" ".join(said).split())


def test_attention_is_drawn_by_the_best_reading(toy, gated_toy, uam_toy, tmp_path, capsys, monkeypatch):
    picture = tmp_path / "a.svg"
    for model, title in (
        (toy, "WHERE EACH WORD CAME FROM"),
        (gated_toy, "WHERE EACH WORD CAME FROM"),
        (uam_toy, "WHAT IT ALIGNED"),
    ):
        assert title in drawn(capsys, picture, "attention", str(model), "--source", SENTENCE)
    later = "WHAT IT LOOKED AT, A STEP LATER"
    assert later in drawn(capsys, picture, "attention", str(uam_toy), "--source", SENTENCE, "--by", "next")
    looked = drawn(capsys, picture, "attention", str(gated_toy), "--source", SENTENCE, "--by", "gated")
    assert "WHAT IT LOOKED AT, GATED" in looked
    monkeypatch.setattr(RecurrentDecoder, "best_readings", ("next",))
    assert later in drawn(capsys, picture, "attention", str(toy), "--source", SENTENCE, "--target", "a dog runs")


@pytest.mark.slow
def test_every_kind_of_weights_that_a_refusal_offers_can_be_drawn(toy, gated_toy, uam_toy, tmp_path, capsys):
    for model, missing, kinds in (
        (toy, "words", "attention, next, posterior"),
        (uam_toy, "words", "attention, next, posterior, uam"),
        (gated_toy, "uam", "attention, words, gated, next, next-words, next-gated, posterior"),
    ):
        what = ["attention", str(model), "--source", SENTENCE, "--target", "a dog runs"]
        assert f"It has {kinds}.\n" in refused(capsys, 2, *what, "--by", missing)
        for kind in kinds.split(", "):
            assert "dog" in drawn(capsys, tmp_path / "a.svg", *what, "--by", kind)


def test_impossible_figures_are_refused(toy, uam_toy, tmp_path, capsys):
    attention = ["attention", str(toy), "--source"]
    assert "empty" in refused(capsys, 1, *attention, "")
    assert "13 tokens" in refused(capsys, 1, *attention, "hund " * 13)
    assert "target: the text is empty" in refused(capsys, 1, *attention, SENTENCE, "--target", " ")
    assert "it has attention" in refused(capsys, 2, *attention, SENTENCE, "--by", "words").lower()
    assert "a picture is a .png, .svg or .pdf" in refused(capsys, 2, *attention, SENTENCE, "--output", "a.jpg")
    assert "no alignment module" in refused(capsys, 2, *attention, SENTENCE, "--by", "attention", "--nulls")
    both = ["--nulls", "--confidence"]
    error = refused(capsys, 2, "attention", str(uam_toy), "--source", "hund", *both)
    assert "--confidence: beside the words are" in error
    for kind in (["attention", "--by", "gated"], ["gate"]):
        said = refused(capsys, 2, *kind, str(uam_toy), "--source", SENTENCE)
        assert f"{uam_toy}: the model has no attention of kind gated. It has attention, next, posterior, uam" in said
    assert "U+50000" in refused(capsys, 1, *attention, f"{SENTENCE} \U00050000", "--output", str(tmp_path / "a.png"))
    no_font = tmp_path / "font.ttf"
    no_font.write_text("nothing")
    assert "cannot be read as a font" in refused(capsys, 1, *attention, SENTENCE, "--font", str(no_font))


def test_gates_are_drawn_as_matrix_and_strip(gated_toy, tmp_path, capsys):
    picture, what = tmp_path / "a.svg", [str(gated_toy), "--source", SENTENCE, "--target", "a dog runs"]
    assert {"garten", "dog", "1 − gate", "WHAT IT LOOKED AT, GATED"} <= set(
        drawn(capsys, picture, "attention", *what, "--by", "gated")
    )
    strip = drawn(capsys, picture, "gate", *what)
    (explanation,) = SequenceGenerator(interlinear.load(gated_toy)).align([({"source": SENTENCE}, "a dog runs")])
    assert explanation.gate is not None
    assert {"a", "dog", "runs", *(f"{1 - gate:.2f}" for gate in explanation.gate)} <= set(strip)
    assert "garten" not in strip
    assert {"WHICH WORDS IT LOOKED AT"} <= set(drawn(capsys, picture, "attention", *what, "--by", "words"))


def test_the_alignment_module_continues_over_null_tokens(uam_toy, tmp_path, capsys):
    bundle = interlinear.load(uam_toy)
    words = SENTENCE.split()
    x, y = bundle.tokenizers["source"].encode(SENTENCE).ids, bundle.tokenizers["target"].encode("a dog").ids
    batch = collate(
        {"source": [x]}, [[*y, 3, 0, 0, 0]]
    )  # END, and three <null>: as many steps as the source has tokens
    with torch.inference_mode():
        target = batch.target_BL[:, None, :7]
        memory = bundle.model.encode(batch)
        log_q = bundle.model.source_log_probabilities(bundle.model.unroll(memory, target)[0])[0, 0]
    extended = SequenceGenerator(bundle).explain_with_nulls({"source": SENTENCE}, "a dog")
    explanation = extended.explanation
    assert [span.text for span in explanation.target] == ["a", "dog", "</s>", NULL, NULL, NULL, NULL]
    assert [span.text for span in explanation.source] == [*words, "</s>"]
    for row, log_q_j in zip(explanation.matrices["uam"], log_q, strict=True):
        expected = [log_q_j[token].exp().item() for token in [*x, 3]]
        assert row == pytest.approx(expected, abs=1e-4)
    best = [int(log_q_j.argmax()) for log_q_j in log_q]
    shown = [bundle.tokenizers["source"].decode([token]) or SPECIAL[token] for token in best]
    assert extended.source_predictions == shown
    picture = drawn(
        capsys, tmp_path / "a.svg", "attention", str(uam_toy), "--source", SENTENCE, "--target", "a dog", "--nulls"
    )
    assert {f"{NULL}  [{guess}]" for guess in shown[3:]} | {*words, "</s>"} <= set(picture)


def test_a_target_longer_than_its_source_has_no_nulls(uam_toy):
    extended = SequenceGenerator(interlinear.load(uam_toy)).explain_with_nulls({"source": "ein"}, "a dog runs")
    assert [span.text for span in extended.explanation.target] == ["a", "dog", "runs", "</s>"]


def describe_gold(folder: Path, tokenised: bool) -> Path:
    """A data set of two pairs with gold alignments."""
    for name, lines in {"s": "ein hund .\ndie katze .", "t": "a dog .\nthe cat .", "gold": "0-0 1-1\n1?1 2-2"}.items():
        (folder / name).write_text(lines + "\n")
    source, target = ({"files": name, "tokenised": tokenised} for name in ("s", "t"))
    return describe(folder, test={"source": source, "target": target, "alignment": "gold"})


def test_an_alignment_is_drawn_over_gold_of_a_text_or_a_data_set(toy, back_toy, tmp_path, capsys):
    picture = tmp_path / "a.svg"
    pair = ["alignment", str(toy), "--source", SENTENCE, "--target", "a dog runs"]
    both = ["--reverse", str(back_toy), "--symmetrize", "union"]
    for options in ([], both):
        words = drawn(capsys, picture, *pair, "--gold", "0-0 1?1", *options)
        assert {*SENTENCE.split(), "dog", "sure", "possible"} <= set(words)
    data = describe_gold(tmp_path, tokenised=True)
    words = drawn(capsys, picture, "alignment", str(toy), "--data", str(data), "--line", "2")
    assert {"katze", "cat"} <= set(words) and "hund" not in words
    error = refused(capsys, 2, "alignment", str(toy), "--data", str(data), "--line", "3")
    assert "does not have that many pairs" in error
    (tmp_path / "gold").write_text("0-0 1-1\n7-7\n")
    said = refused(capsys, 1, "alignment", str(toy), "--data", str(data), "--line", "2")
    assert f"{data}, test, line 2: '7-7' points outside the pair, which has 3 and 3 words" in said
    assert "'0:0' is no link" in refused(capsys, 1, *pair, "--gold", "0:0")
    assert "not clear what to draw" in refused(capsys, 2, *pair)
    assert "not clear what to draw" in refused(capsys, 2, *pair, "--gold", "0-0", "--data", str(data))
    assert "source: the text is empty" in refused(capsys, 1, *pair, "--source", "", "--gold", "0-0")
    for option, value in (("--line", "1"),):
        said = refused(capsys, 2, *pair, "--gold", "0-0", option, value)
        assert f"{option}: it is a data set that has lines" in said
    assert "--tokenised: the data set" in refused(capsys, 2, "alignment", str(toy), "--data", str(data), "--tokenised")
    error = refused(capsys, 1, "alignment", str(toy), "--source", "hund " * 13, "--target", "a", "--gold", "")
    assert "13 tokens" in error


@pytest.mark.slow
def test_systems_are_compared_on_a_test_set(toy, other_toy, parallel, tmp_path, capsys):
    files = ["--data", str(describe(tmp_path, test=TEST))]
    pair = [f"one={toy}", f"other={other_toy}", *files]
    words = drawn(capsys, tmp_path / "l.svg", "lengths", *pair, "--longer-than", "0", "--longer-than", "5")
    assert {"one", "other", "BLEU", "> 0", "> 5", "10"} <= set(words) and "> 10" not in words
    words = drawn(capsys, tmp_path / "s.svg", "systems", *pair)
    assert {"one", "other", "baseline", "BLEU WITH 95 % INTERVALS"} <= set(words)
    assert any("p = " in word for word in words)
    two = drawn(capsys, tmp_path / "s.svg", "systems", *pair, "--metrics", "rouge-1,ter")
    assert {"ROUGE-1", "TER"} <= set(two) and not any("BLEU" in word for word in two)
    by_rouge = drawn(capsys, tmp_path / "l.svg", "lengths", *pair, "--longer-than", "5", "--metric", "rouge-1")
    assert {"ROUGE-1", "> 5"} <= set(by_rouge) and "BLEU" not in by_rouge
    assert "--metric rouge: these are several scores" in refused(capsys, 2, "lengths", *pair, "--metric", "rouge")
    assert "the longest has 6" in refused(capsys, 2, "lengths", str(toy), *files, "--longer-than", "6")
    assert "is called one already" in refused(capsys, 2, "systems", f"one={toy}", f"one={other_toy}", *files)
    assert "one system alone" in refused(capsys, 2, "systems", str(toy), *files)
    cut = {name: {"files": file, "tokenised": True} for name, file in TEST.items()}
    spaced = ["lengths", *pair[:2], "--data", f"{describe(tmp_path, 'cut', test=cut)}:test", "--longer-than", "5"]
    assert {"> 5", "10"} <= set(drawn(capsys, tmp_path / "l.svg", *spaced))


def test_systems_are_compared_by_alignments_which_text_files_lack(toy, other_toy, tmp_path, capsys):
    data = describe_gold(tmp_path, tokenised=False)
    by_gold = ["--data", str(data), "--metrics", "aer"]
    words = drawn(capsys, tmp_path / "s.svg", "systems", f"one={toy}", f"other={other_toy}", *by_gold)
    assert {"one", "other", "AER WITH 95 % INTERVALS"} <= set(words)
    said = refused(capsys, 2, "systems", f"one={toy}", f"file={tmp_path / 't'}", *by_gold)
    assert "aer cannot be computed here" in said


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> MlflowStore:
    return MlflowStore(f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db", create=True)


def a_run(store: MlflowStore, folder: Path, recipe: str, seed: int, *values: float, **settings: str) -> Path:
    """A training's folder, and its record in MLflow: dev BLEU after each epoch, 10 updates apart."""
    experiment = store.experiment("demo")
    run = store.client.create_run(experiment, tags={"recipe": recipe, "dataset": "demo"}).info.run_id
    params = [Param(key, value) for key, value in {"training.seed": str(seed), **settings}.items()]
    points = [Metric("dev/bleu", value, number, 10 * number) for number, value in enumerate(values, 1)]
    store.client.log_batch(run, metrics=points, params=params)
    folder.mkdir()
    (folder / "mlflow.json").write_text(json.dumps({"tracking": store.uri, "run_id": run}))
    return folder


@pytest.mark.slow
def test_learning_curves_come_from_mlflow_grouped_by_recipe_over_seeds(store, tmp_path, capsys):
    first = a_run(store, tmp_path / "a", "rnnsearch", 1, 10, 20, 30)
    second = a_run(store, tmp_path / "b", "rnnsearch", 2, 12, 18, 31)
    other = a_run(store, tmp_path / "c", "uam", 1, 11, 25)
    words = drawn(capsys, tmp_path / "c.svg", "curves", str(first), str(second), str(other))
    assert {"rnnsearch", "uam", "dev BLEU", "epoch"} <= set(words) and words.count("rnnsearch") == 1
    identity = json.loads((first / "mlflow.json").read_text())["run_id"]
    by_id = drawn(capsys, tmp_path / "d.svg", "curves", f"mine=runs:/{identity}/model", "--tracking", store.uri)
    assert "mine" in by_id

    changed = a_run(store, tmp_path / "d", "rnnsearch", 3, 9, **{"model.hidden": "7"})
    said = refused(capsys, 2, "curves", str(first), str(changed))
    assert "differ in model.hidden, not in their seed alone. Name them apart" in said
    assert cli.run(["figure", "curves", f"big={first}", f"small={changed}", "--output", str(tmp_path / "e.png")]) == 0
    capsys.readouterr()
    said = refused(capsys, 1, "curves", str(first), "--metric", "dev/rouge")
    assert "it has no curve dev/rouge. It has dev/bleu." in said
    assert "there is no run 'abc'" in refused(capsys, 1, "curves", "runs:/abc", "--tracking", store.uri)
    assert "there is no such run" in refused(capsys, 2, "curves", str(tmp_path / "nowhere"))
    assert "it has no mlflow.json" in refused(capsys, 2, "curves", str(tmp_path))


@pytest.mark.slow
def test_a_repeated_epoch_counts_once(store, tmp_path):
    from interlinear.registry.curves import read_run_curves

    folder = a_run(store, tmp_path / "a", "rnnsearch", 1, 10, 20)
    run = json.loads((folder / "mlflow.json").read_text())["run_id"]
    mlflow.MlflowClient(store.uri).log_batch(
        run, metrics=[Metric("dev/bleu", 21, 99, 20), Metric("train/loss", 1, 1, 1)]
    )
    read = read_run_curves(str(folder))
    assert read.per_epoch("dev/bleu") == (10, 21) and "train/loss" not in read.curves
