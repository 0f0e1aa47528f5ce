"""Figure of contextual gates: word classes, epochs, and scores with the gate fixed."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from seq2seq.figures.gates import gate_figure

pytestmark = pytest.mark.slow

FIXED = {0.0: 1.5, 0.5: 38.0, 1.0: 12.0}


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
