"""Every system as a bundle: translation, explanation, and alignment by each kind of attention."""

import json
from pathlib import Path

import pytest

import interlinear
from interlinear import cli
from interlinear.models.attention_reading import READINGS
from tests.interlinear.cli.conftest import TEST, describe, write_toy
from tests.interlinear.systems import SYSTEMS
from tests.parameters import slow_but
from training.recipe import load_recipe

COVERING = ("contextual_gates", "coverage_linguistic", "interactive_attention", "uam")


@pytest.fixture(params=slow_but(COVERING, SYSTEMS))
def system(request, tmp_path) -> Path:
    """An untrained bundle of that system."""
    keys = load_recipe(request.param).model.model_dump(exclude={"dropout", "embedding", "hidden"})
    return write_toy(tmp_path / request.param, seed=1, **keys)


def test_a_system_translates_and_explains(system, parallel, run):
    source, _ = parallel
    answers = [json.loads(line) for line in run.lines("translate", system, "--explain", source)]
    config = load_recipe(system.name).model
    assert len(answers) == 10
    for answer in answers:
        explanation = answer["explanation"]
        origin = set() if config.alignment_module else {"posterior"}
        assert set(explanation["matrices"]) == {*config.attention_kinds} | origin
        for matrix in explanation["matrices"].values():
            assert len(matrix) == len(explanation["target"])
            for row in matrix:
                assert len(row) == len(explanation["source"]) and 0 <= sum(row) <= 1.001
        gate, fertility = explanation.get("gate"), explanation.get("fertility")
        assert (gate is not None) == config.contextual_gates
        assert gate is None or (len(gate) == len(explanation["target"]) and all(0 < o < 1 for o in gate))
        assert (fertility is not None) == (config.coverage == "linguistic")
        assert fertility is None or len(fertility) == len(explanation["source"])


def test_a_system_aligns_by_every_attention_kind(system, parallel, run, capsys):
    source, target = parallel
    files = ["--source", str(source), "--target", str(target)]
    kinds = load_recipe(system.name).model.attention_kinds
    best = "uam" if "uam" in kinds else "posterior"
    printed = {}
    for by, kind in ((name, reading.kind) for name, reading in READINGS.items()):
        code = cli.run(["align", str(system), *files, "--by", by])
        shown = capsys.readouterr()
        if kind not in kinds:
            assert code == 2
            assert f"{system}: the model has no attention of kind {by}" in shown.err
            continue
        assert code == 0
        printed[by] = shown.out
        for line in shown.out.splitlines():
            links = [tuple(map(int, link.split("-"))) for link in line.split()]
            words = sorted(j for _, j in links)
            # The module over the vocabulary gives a word no link if its predicted token is not in the source.
            assert words == list(range(6)) or (by == "uam-vocabulary" and len({*words}) == len(words))
    assert run("align", system, *files) == printed[best]


def test_a_system_makes_a_shortlist_and_searches_with_it(system, parallel, tmp_path, run, capsys):
    options = ["--data", describe(tmp_path, train=TEST, dev=TEST), "--words", "1", "--frequent", "1"]
    record = run.json("shortlist", system, *options)
    bundle = interlinear.load(system, shortlist=True)
    assert 5 < record["dev"]["words"] < bundle.tokenizers["target"].size
    assert cli.run(["translate", str(system), "--explain", "--shortlist", str(parallel[0])]) == 0
    for answer in map(json.loads, capsys.readouterr().out.splitlines()):
        ids = bundle.tokenizers["source"].encode(answer["source"]).ids
        words = {bundle.tokenizers["target"].pieces[n].strip("▁") for n in bundle.shortlist.words({"source": ids})}
        assert set(answer["translations"][0]["text"].replace(".", " . ").split()) <= words
        assert len(answer["explanation"]["matrices"]["attention"]) == len(answer["explanation"]["target"])


def test_unknown_target_words_are_reported_and_aligned(toy, tmp_path, run):
    (tmp_path / "s").write_text("ein hund läuft\nder mann\n")
    (tmp_path / "t").write_text("a dog runs\na zebra quietly\n")
    shown = run.both("align", toy, "--source", tmp_path / "s", "--target", tmp_path / "t")
    assert len(shown.out.splitlines()[1].split()) == 3
    assert "2 target words are unknown to the model, the first in line 2" in shown.err
