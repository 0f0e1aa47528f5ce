"""Contextual gates of a model by word class, and its outputs with the gate fixed."""

from pathlib import Path

import pytest

from interlinear.decoding.model_loading import load_generation
from interlinear.reproduction.gate_analysis import analyse_gates, fixed_gates, has_gates
from seq2seq.generate import SequenceGenerator

PAIRS = [("ein hund läuft .", "a dog runs ."), ("die katze schläft .", "the cat sleeps in the garden .")]


@pytest.fixture
def gated(gated_toy: Path) -> SequenceGenerator:
    return load_generation(str(gated_toy), None, "cpu")


@pytest.fixture
def data(tmp_path: Path) -> str:
    for side, lines in zip(("de", "en"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / f"all.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = "{source: all.de, target: all.en}"
    (tmp_path / "pairs.yaml").write_text(
        "{task: translation, about: pairs, licence: none, languages: {source: de, target: en}, "
        f"splits: {{train: {files}, dev: {files}, test: {files}}}}}",
        encoding="utf-8",
    )
    return str(tmp_path / "pairs.yaml")


def gates_of(generation: SequenceGenerator) -> list[float]:
    explanations = generation.align([({"source": source}, target) for source, target in PAIRS])
    return [gate for explanation in explanations for gate in explanation.gate or ()]


def test_a_fixed_gate_is_that_of_every_word_and_the_learned_one_comes_back(gated: SequenceGenerator) -> None:
    assert has_gates(gated)
    learned = gates_of(gated)
    assert len(set(learned)) > 3
    with fixed_gates(gated, 0.25):
        assert set(gates_of(gated)) == {0.25}
    assert gates_of(gated) == learned


def test_an_analysis_has_every_reference_word_in_one_class(gated: SequenceGenerator, data: str) -> None:
    analysis = analyse_gates(gated, data, "test", None)
    words = [word for _, target in PAIRS for word in target.split()]
    assert sum(one.words for one in analysis.by_class.values()) == len(words)
    assert analysis.by_class["noun"].words == 3  # dog, cat, garden
    assert analysis.by_class["determiner"].words == 3
    total = sum(one.words * one.mean for one in analysis.by_class.values())
    assert total == pytest.approx(sum(gates_of(gated)))
    assert set(analysis.fixed) == {0.0, 0.25, 0.5, 0.75, 1.0}


def test_a_model_without_gates_has_nothing_to_analyse(toy: Path) -> None:
    assert not has_gates(load_generation(str(toy), None, "cpu"))
