"""Contextual gates of a model by word class, its outputs with the gate fixed, and the figure of both."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from interlinear.cli.decoding.model_loading import load_generation
from interlinear.generation.generator import SequenceGenerator
from research.figures import gate_figure
from research.gates import analyse_gates, fixed_gates, has_gates, word_classes
from tests.interlinear.cli.conftest import describe

pytestmark = pytest.mark.slow

PAIRS = [("ein hund läuft .", "a dog runs ."), ("die katze schläft .", "the cat sleeps in the garden .")]
FIXED = {0.0: 1.5, 0.5: 38.0, 1.0: 12.0}


@pytest.fixture
def gated(gated_toy: Path) -> SequenceGenerator:
    return load_generation(str(gated_toy), None, "cpu")


@pytest.fixture
def data(tmp_path: Path) -> str:
    for side, lines in zip(("de", "en"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / f"all.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    fields = {"source": "all.de", "target": "all.en"}
    return str(describe(tmp_path, train=fields, dev=fields, test=fields))


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


@pytest.mark.parametrize(
    ("language", "sentence", "classes"),
    [
        (
            "en",
            "Two young men are quickly painting the house of Mary and it was not hers .",
            "number adjective noun auxiliary adverb verb determiner noun preposition name conjunction pronoun "
            "auxiliary adverb pronoun punctuation",
        ),
        (
            "de",
            "Zwei junge Männer haben das Haus von Maria schnell gestrichen und sie schlafen nicht .",
            "number adjective noun auxiliary determiner noun preposition name adjective verb conjunction pronoun verb "
            "adverb punctuation",
        ),
    ],
)
def test_words_of_a_sentence_have_their_classes(language: str, sentence: str, classes: str) -> None:
    assert word_classes(sentence.split(), language) == classes.split()


def texts(path: Path) -> list[str]:
    return [element.text or "" for element in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_classes_are_ordered_by_the_share_of_the_word_context(tmp_path: Path) -> None:
    path = gate_figure({"noun": 0.75, "verb": 0.4}, [[0.5, 0.45]], FIXED, 39.0, tmp_path / "gates.svg")
    words = texts(path)
    assert words.index("verb") < words.index("noun")
    assert "0.60" in words and "0.25" in words  # 1 - o
    assert "dev BLEU, gate fixed" in words and "the same over the dev set, by epoch" in words


def test_parts_without_values_are_left_out(tmp_path: Path) -> None:
    """A language without word classes, and runs without the curve."""
    words = texts(gate_figure({}, [[]], FIXED, 39.0, tmp_path / "gates.svg"))
    assert "dev BLEU, gate fixed" in words
    assert not any("word class" in word or "epoch" in word for word in words)
