"""A picture shows the matrix: where the weight is, there is colour."""

import matplotlib.image
import pytest

from seq2seq.errors import CallError
from seq2seq.figures import CELL_HEIGHT, CELL_WIDTH, DOTS_PER_INCH, UNITS_PER_INCH, attention_matrix
from seq2seq.looks import Explanation, Span

SCALE = DOTS_PER_INCH / UNITS_PER_INCH


def explanation(weights: list[list[float]], source: str, target: str) -> Explanation:
    source_words, target_words = (
        [Span(text=word, start=0, end=0) for word in text.split()] for text in (source, target)
    )
    return Explanation(source=source_words, target=target_words, matrices={"attention": weights}, alignment=[])


@pytest.fixture
def hund() -> Explanation:
    return explanation([[0.9, 0.1, 0], [0, 1, 0], [0, 0, 1]], "Ein $Hund$ läuft", "a <dog> runs")


def test_the_darkest_cells_are_where_the_weight_is(tmp_path, hund):
    picture = matplotlib.image.imread(attention_matrix(hund, tmp_path / "a.png"))[..., :3]
    teal = (abs(picture - [15 / 255, 110 / 255, 110 / 255]).sum(-1) < 0.02).nonzero()
    top, left = teal[0].min(), teal[1].min()  # the cell of <dog> and Hund, or the legend's darkest
    right_of, below = round(CELL_WIDTH * SCALE), round(CELL_HEIGHT * SCALE)
    inside = round(10 * SCALE)
    weight_at = [
        [picture[top + inside + (i - 1) * below, left + inside + (j - 1) * right_of, 0] for j in range(3)]
        for i in range(3)
    ]
    assert weight_at[0][0] < weight_at[0][1] < weight_at[0][2]
    assert weight_at[1][1] == weight_at[2][2] < weight_at[0][0]
    assert weight_at[2][0] == weight_at[2][1] > 0.9


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_the_suffix_is_the_format(tmp_path, hund, suffix, magic):
    path = attention_matrix(hund, tmp_path / "new" / f"picture{suffix}")
    assert path.read_bytes().startswith(magic)


def test_long_words_widen_the_picture(tmp_path, hund):
    wide = explanation([[1.0]], "Ein", "Donaudampfschifffahrtsgesellschaft")
    narrow = explanation([[1.0]], "Ein", "a")
    widths = [matplotlib.image.imread(attention_matrix(drawn, tmp_path / "a.png")).shape[1] for drawn in (narrow, wide)]
    assert widths[1] - widths[0] > 150 * SCALE


def test_an_unknown_suffix_or_matrix_is_said(tmp_path, hund):
    with pytest.raises(CallError, match=r"\.png"):
        attention_matrix(hund, tmp_path / "a.jpg")
    with pytest.raises(CallError, match="Choose one of: attention"):
        attention_matrix(hund, tmp_path / "a.png", matrix="gated")
