"""Figures: colour is where the weight is, words are text, every character has a glyph."""

import re
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib.colors
import matplotlib.image
import numpy as np
import pytest
import sacrebleu
from PIL import Image

from interlinear.alignment.links import GoldAlignment
from interlinear.errors import FigureError, UsageError
from interlinear.explanation import Explanation
from interlinear.figures import style
from interlinear.figures.curves import Curve, Panel, learning_curves
from interlinear.figures.fonts import east_asian_font, font_families, missing_glyphs
from interlinear.figures.grid import Languages
from interlinear.figures.lengths import LengthCurve, LengthPoint, score_by_length, score_curve_by_length
from interlinear.figures.matrices import alignment_grid, attention_matrix, gate_strip
from interlinear.figures.systems import Comparison, SystemScore, system_comparison, system_comparisons
from interlinear.metrics.catalogue import select_metrics
from interlinear.metrics.metric import Preprocessing, ReferenceSet, SystemOutputs
from tests.interlinear.alignment.test_doubts import spans

pytestmark = pytest.mark.slow

CELL_WIDTH, CELL_HEIGHT = 30, 26  # the playground's
SCALE = style.DOTS_PER_INCH / style.UNITS_PER_INCH
PLAYGROUND = Path(__file__).parents[3] / "service" / "playground"
SYSTEMS = [f"system {number}" for number in range(len(style.SERIES))]


def explanation(weights: list[list[float]], source: str, target: str, gate: list[float] | None = None) -> Explanation:
    return Explanation(
        source=spans(source), target=spans(target), matrices={"attention": weights}, gate=gate, alignment=[]
    )


def pixels(path: Path) -> np.ndarray:
    """A picture's colours, 0 to 1, (height, width, 3)."""
    return matplotlib.image.imread(path)[..., :3]


def near(picture: np.ndarray, colour: tuple[float, ...] | str, by: float = 0.02) -> np.ndarray:
    """Mask of the pixels of about that colour."""
    return abs(picture - np.array(matplotlib.colors.to_rgb(colour))).sum(-1) < by


def texts(path: Path) -> list[str]:
    """The text elements of an SVG."""
    return ["".join(node.itertext()) for node in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture
def hund() -> Explanation:
    return explanation([[0.9, 0.1, 0], [0, 1, 0], [0, 0, 1]], "Ein $Hund$ läuft", "a <dog> runs")


def test_the_darkest_cells_have_the_largest_weights(tmp_path, hund):
    picture = pixels(attention_matrix(hund, tmp_path / "a.png"))
    hot = near(picture, style.tint(1.0)).nonzero()
    top, left = hot[0].min(), hot[1].min()  # the cell of <dog> and Hund, or the darkest colour of the legend
    right_of, below = round(CELL_WIDTH * SCALE), round(CELL_HEIGHT * SCALE)
    inside = round(10 * SCALE)
    weight_at = [
        [picture[top + inside + (i - 1) * below, left + inside + (j - 1) * right_of, 0] for j in range(3)]
        for i in range(3)
    ]
    assert weight_at[0][0] < weight_at[0][1] < weight_at[0][2]
    assert weight_at[1][1] == weight_at[2][2] < weight_at[0][0]
    assert weight_at[2][0] == weight_at[2][1] > 0.9


def draw_all(folder: Path, suffix: str) -> list[Path]:
    """Draw a figure of every kind."""
    gated = explanation([[0.9, 0.1], [0.2, 0.8]], "Ein Hund", "a dog", gate=[0.3, 0.6])
    curve = Curve("rnnsearch", ((1.0, 5.0, 7.0), (2.0, 4.0)))
    return [
        attention_matrix(gated, folder / f"attention{suffix}"),
        gate_strip(gated, folder / f"gate{suffix}"),
        alignment_grid(
            gated.source, gated.target, [(0, 0)], GoldAlignment(frozenset({(1, 1)})), folder / f"links{suffix}"
        ),
        learning_curves([Panel("dev/bleu", (curve,))], folder / f"curves{suffix}"),
        score_by_length([LengthCurve("uam", (LengthPoint(0, 50, 30.0),))], "BLEU", folder / f"lengths{suffix}"),
        system_comparison([SystemScore("luong", 30, 29, 31)], "BLEU", folder / f"systems{suffix}"),
    ]


def test_every_figure_is_a_valid_png_and_drawn_in_less_than_two_seconds(tmp_path):
    draw_all(tmp_path, ".png")  # imports, and matplotlib's scan of the fonts
    begun = time.process_time()
    pictures = draw_all(tmp_path / "new", ".png")
    assert time.process_time() - begun < 2 * len(pictures)
    for path in pictures:
        with Image.open(path) as picture:
            picture.verify()
            assert picture.format == "PNG" and min(picture.size) > 200
            assert picture.info["Title"]
            assert max(picture.info["dpi"]) == pytest.approx(style.DOTS_PER_INCH, abs=1)


def test_words_are_text_in_an_svg(tmp_path):
    words = {path.stem: texts(path) for path in draw_all(tmp_path, ".svg")}
    assert {"Ein", "Hund", "a", "dog", "1 − gate", "WHAT IT LOOKED AT"} <= set(words["attention"])
    assert {"a", "dog", "0.70", "0.40"} <= set(words["gate"])
    assert {"Ein", "dog", "sure", "possible", "the model's"} <= set(words["links"])
    assert {"rnnsearch", "dev/bleu", "epoch"} <= set(words["curves"])
    assert {"uam", "BLEU", "> 0", "50"} <= set(words["lengths"])
    assert {"luong", "30.00  (29.00 – 31.00)", "baseline"} <= set(words["systems"])


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".PDF", b"%PDF")])
def test_the_suffix_selects_the_format_and_output_is_reproducible(tmp_path, hund, suffix, magic):
    path = attention_matrix(hund, tmp_path / "new" / f"picture{suffix}")
    assert path.read_bytes().startswith(magic)
    assert attention_matrix(hund, tmp_path / f"again{suffix}").read_bytes() == path.read_bytes()


def test_long_words_widen_the_figure(tmp_path, hund):
    wide = explanation([[1.0]], "Ein", "Donaudampfschifffahrtsgesellschaft")
    narrow = explanation([[1.0]], "Ein", "a")
    widths = [pixels(attention_matrix(drawn, tmp_path / "a.png")).shape[1] for drawn in (narrow, wide)]
    assert widths[1] - widths[0] > 150 * SCALE


def test_many_words_get_smaller_cells_as_in_the_playground(tmp_path):
    sizes = []
    for count in (18, 19):
        word = " ".join(["x"] * count)
        drawn = explanation([[0.0] * count] * count, word, word)
        sizes.append(pixels(attention_matrix(drawn, tmp_path / "a.png")).shape)
    assert sizes[1][0] < sizes[0][0] and sizes[1][1] < sizes[0][1]


def test_a_gate_has_a_column_of_its_own_and_a_strip(tmp_path, hund):
    gated = hund.model_copy(update={"gate": [0.0, 0.5, 1.0]})
    for path in (attention_matrix(gated, tmp_path / "a.png"), gate_strip(gated, tmp_path / "g.png")):
        picture = pixels(path)
        for weight in (1.0, 0.5):  # 1 - gate
            assert near(picture, style.tint(weight, style.WARM)).sum() > 15 * 15 * SCALE
    assert not near(pixels(attention_matrix(hund, tmp_path / "a.png")), style.tint(1.0, style.WARM)).any()
    with pytest.raises(UsageError, match="no contextual gates"):
        gate_strip(hund, tmp_path / "g.png")


def test_a_long_gate_strip_is_wrapped(tmp_path):
    words = " ".join(["Unabhängigkeitserklärung"] * 12)
    strip = explanation([[1.0]] * 12, "x", words, gate=[0.5] * 12)
    height, width, _ = pixels(gate_strip(strip, tmp_path / "g.png")).shape
    assert width < 850 * SCALE and height > 250 * SCALE


def test_an_unknown_suffix_or_matrix_is_refused(tmp_path, hund):
    with pytest.raises(UsageError, match=r"\.png"):
        attention_matrix(hund, tmp_path / "a.jpg")
    with pytest.raises(UsageError, match="Choose one of: attention"):
        attention_matrix(hund, tmp_path / "a.png", matrix="gated")


def test_the_style_is_the_playgrounds():
    css = (PLAYGROUND / "styles" / "base.css").read_text(encoding="utf-8")
    light = dict(re.findall(r"--([\w-]+): ([^;]+);", css[: css.index("}")]))
    ours = {"paper": style.PAPER, "sheet": style.SHEET, "ink": style.INK, "soft": style.SOFT, "line": style.LINE}
    assert {name: light[name] for name in ours} == ours
    assert tuple(map(int, light["hot"].split())) == style.HOT
    assert tuple(map(int, light["warm"].split())) == style.WARM
    heatmap = (PLAYGROUND / "explanation" / "heatmap.js").read_text(encoding="utf-8")
    ramp = re.search(r"\(([\d.]+) \+ ([\d.]+) \* Math\.min\(weight, 1\)\)", heatmap)
    assert ramp and float(ramp[1]) == style.FAINTEST and float(ramp[2]) == pytest.approx(1 - style.FAINTEST)
    table = (PLAYGROUND / "styles" / "explanation.css").read_text(encoding="utf-8")
    cells = re.search(r"\.heat { --cell: (\d+)px;.*border-spacing: (\d+)px", table)
    assert cells and (int(cells[1]), int(cells[1]) - 4 + int(cells[2]) * 2) == (CELL_WIDTH, CELL_HEIGHT + 4)


CHINESE, JAPANESE = "他 直接 去 学校 门口 ， 看 海 。", "彼 は 学校 の 骨格 を 見た ー 。"


@pytest.mark.parametrize("words", [CHINESE, JAPANESE, "할머니 の 龜 𠮷", "Ελλάδα мир שלום"])
def test_every_character_has_a_glyph(tmp_path, words):
    from matplotlib.font_manager import findfont

    without = set(words)
    for family in font_families(words.split()):
        without = missing_glyphs(Path(findfont(family)), without)
    assert not without
    count = len(words.split())
    drawn = explanation([[0.1] * count], words, "x")
    assert set(words.split()) <= set(texts(attention_matrix(drawn, tmp_path / "a.svg")))


def test_glyphs_in_an_svg_are_paths_that_need_no_font(tmp_path):
    """Two characters that differ only in shape: the viewer's machine has no font for them."""
    shapes = []
    for letter in "学字":
        tree = ET.parse(attention_matrix(explanation([[1.0]], letter, "x"), tmp_path / "a.svg"))
        (unseen,) = tree.findall("{http://www.w3.org/2000/svg}g[@opacity='0']")
        assert letter in [node.text for node in unseen]
        tree.getroot().remove(unseen)
        assert not list(tree.iter("{http://www.w3.org/2000/svg}text"))
        shapes.append({node.get("d") for node in tree.iter("{http://www.w3.org/2000/svg}path")})
    assert shapes[0] != shapes[1]


def test_chinese_column_labels_are_vertical(tmp_path):
    one, three = (pixels(attention_matrix(explanation([[1.0]], w, "x"), tmp_path / "a.png")) for w in ("学", "学校门"))
    assert three.shape[1] == one.shape[1] and three.shape[0] > one.shape[0] + 20 * SCALE


def test_digits_and_dots_in_chinese_labels_are_upright_and_latin_letters_rotated(tmp_path):
    def size(word: str) -> tuple[int, int]:
        return pixels(attention_matrix(explanation([[1.0]], word, "x"), tmp_path / "a.png")).shape[:2]

    assert size("学") < size("2学") < size("22学") == size("学·学")
    assert size("2222222学")[0] > size("aaaaaaa学")[0]


def test_a_character_has_the_form_of_its_language(tmp_path):
    bone = explanation([[1.0]], "骨", "x")
    drawn = [
        attention_matrix(bone, tmp_path / f"{code}.png", languages=Languages(code)).read_bytes()
        for code in ("zh", "ja")
    ]
    assert drawn[0] != drawn[1]


def test_a_font_without_the_glyphs_is_refused(tmp_path):
    from matplotlib.font_manager import findfont

    western = Path(findfont("DejaVu Serif"))
    drawn = explanation([[1.0, 0.0]], "海 x", "sea")
    with pytest.raises(FigureError, match=r"the font has no glyph for '海' \(U\+6D77\). Name a font that has them"):
        attention_matrix(drawn, tmp_path / "a.png", font=western)
    assert not (tmp_path / "a.png").exists()
    eastern = east_asian_font()
    assert eastern and attention_matrix(drawn, tmp_path / "a.png", font=eastern).exists()
    (tmp_path / "no.ttf").write_text("no font")
    with pytest.raises(FigureError, match=r"no\.ttf: cannot be read as a font"):
        attention_matrix(drawn, tmp_path / "a.png", font=tmp_path / "no.ttf")


def test_characters_without_a_glyph_are_named(tmp_path):
    unassigned = "".join(chr(0x50000 + number) for number in range(10))
    with pytest.raises(
        FigureError, match=r"has a glyph for .*\(U\+50000\).* and 2 more. Install one that has them.*--font"
    ):
        attention_matrix(explanation([[1.0]], unassigned, "x"), tmp_path / "a.png")
    assert font_families(["a\u200db\ufe0f\u00ad"]) == font_families(["ab"])  # joiners, variation selectors


def test_alignment_marks_differ_in_shape(tmp_path):
    """Marks are told apart without colour, by the middle and the border of a cell."""
    marks = {
        "none": (0, 0),
        "sure": (1, 0),
        "possible": (2, 0),
        "ours": (3, 0),
        "ours, sure": (4, 0),
        "ours, possible": (5, 0),
    }
    gold = GoldAlignment(frozenset({(1, 0), (4, 0)}), frozenset({(2, 0), (5, 0)}))
    path = alignment_grid(spans("a b c d e f"), spans("x"), [(3, 0), (4, 0), (5, 0)], gold, tmp_path / "a.png")
    picture = pixels(path)
    grey = picture @ [0.2126, 0.7152, 0.0722]
    sure = near(picture, style.tint(1.0))
    rows = sure.any(1).nonzero()[0]
    top = rows[0]
    middle_row = top + round((CELL_HEIGHT / 2 - 1) * SCALE)
    left = sure[middle_row].nonzero()[0][0] - round(CELL_WIDTH * SCALE)  # the cell before the first sure one
    found = {}
    for name, (column, _) in marks.items():
        x = left + round((column + 0.5) * CELL_WIDTH * SCALE - SCALE)
        rim = grey[top + round(SCALE), x]
        found[name] = bool(grey[middle_row, x] < 0.5), bool(rim < 0.5), bool(grey[top + round(4 * SCALE), x] < 0.5)
    assert found == {
        "none": (False, False, False), "sure": (True, True, True), "possible": (False, True, False),
        "ours": (True, False, False), "ours, sure": (False, True, True), "ours, possible": (True, True, False),
    }  # fmt: skip


def test_seeds_are_drawn_as_a_band_around_their_mean(tmp_path):
    def drawn(*seeds: tuple[float, ...]) -> np.ndarray:
        return pixels(learning_curves([Panel("dev/bleu", (Curve("a", seeds),))], tmp_path / "c.png"))

    colour = np.array(matplotlib.colors.to_rgb(style.SERIES[0]))
    band = tuple(0.16 * colour + 0.84)
    assert near(drawn((1.0, 2.0), (5.0, 8.0)), band).sum() > 40_000
    assert near(drawn((1.0, 2.0)), band).sum() < 400


@pytest.mark.parametrize(("epochs", "ticks"), [(1, range(1, 2)), (3, range(1, 4)), (12, range(2, 13, 2))])
def test_epochs_are_integers_on_the_axis(tmp_path, epochs: int, ticks: range):
    curve = Curve("rnnsearch", (tuple(30.5 for _ in range(epochs)),))
    words = texts(learning_curves([Panel("dev/bleu", (curve,))], tmp_path / "c.svg"))
    assert words[: words.index("epoch")] == [str(tick) for tick in ticks]


def dichromat(colour: str, kind: str) -> np.ndarray:
    """A colour as seen without one kind of cone (Machado et al. 2009, severity 1), in CIELAB."""
    matrices = {
        "all": np.eye(3),
        "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    }
    srgb = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(matrices[kind]) @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ seen
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", ["all", "protan", "deutan", "tritan"])
def test_colours_of_systems_are_distinct_for_colour_blind_readers(kind):
    seen = [dichromat(colour, kind) for colour in style.SERIES]
    for i, first in enumerate(seen):
        for j, second in enumerate(seen[:i]):
            assert np.linalg.norm(first - second) > 20, (style.SERIES[i], style.SERIES[j])
    assert [matplotlib.colors.to_rgb(colour) for colour in style.SERIES[:2]] == [
        style.tint(1),
        style.tint(1, style.WARM),
    ]
    assert len(set(zip(style.MARKERS, style.DASHES, strict=True))) == len(style.SERIES)


def test_more_systems_than_colours_repeat_the_colours(tmp_path):
    names = [*SYSTEMS, "one more"]
    curves = [LengthCurve(name, (LengthPoint(0, 50, 30.0), LengthPoint(10, 20, 28.0))) for name in names]
    assert set(names) <= set(texts(score_by_length(curves, "BLEU", tmp_path / "l.svg")))


def test_a_score_by_length_is_that_of_the_longer_sentences():
    references = ["the cat sat on the mat"] * 12 + ["a dog runs in the park now"] * 10
    hypotheses = ["the cat sat on a mat"] * 12 + ["a dog ran in the park now"] * 10
    lengths = [6] * 12 + [12] * 9 + [30]
    (metric,) = select_metrics(["bleu"], Preprocessing())
    answers = ReferenceSet.from_lines([references])
    statistics = metric.statistics(SystemOutputs.from_lines(hypotheses), answers)
    curve = score_curve_by_length("x", lengths, metric, statistics, thresholds=(10, 0, 5, 10, 20))
    assert [(point.longer_than, point.sentences) for point in curve.points] == [(0, 22), (5, 22), (10, 10)]
    assert curve.points[0].score == sacrebleu.corpus_bleu(hypotheses, [references]).score
    assert curve.points[2].score == sacrebleu.corpus_bleu(hypotheses[12:], [references[12:]]).score
    with pytest.raises(UsageError, match="none has 10 sentences with more words; the longest has 30"):
        score_curve_by_length("x", lengths, metric, statistics, thresholds=(29, 40))


def test_two_points_are_not_joined_by_a_line(tmp_path):
    def columns(*thresholds: int) -> int:
        """Columns of the chart that contain the system's colour."""
        curve = LengthCurve("x", tuple(LengthPoint(threshold, 50, 30.0 - threshold) for threshold in thresholds))
        found = near(pixels(score_by_length([curve], "BLEU", tmp_path / "l.png")), style.SERIES[0])
        chart = found[int(SCALE * (style.MARGIN + style.HEADING + style.PADDING + 54)) :]
        return int(chart.any(0).sum())

    assert columns(0, 20) < SCALE * 40 < SCALE * 400 < columns(0, 10, 20)


def test_a_significant_difference_is_a_filled_dot_and_others_are_open(tmp_path):
    def dots(p_value: float) -> int:
        scores = [SystemScore("a", 30, 29, 31), SystemScore("b", 33, 32, 34, p_value)]
        return int(near(pixels(system_comparison(scores, "BLEU", tmp_path / "s.png")), style.tint(1.0)).sum())

    assert dots(0.049) > dots(0.051) + 50


def test_comparisons_are_stacked_in_one_figure(tmp_path):
    rouge = (SystemScore("luong", 27.1, 26.5, 27.6), SystemScore("uam", 28.2, 27.6, 28.7, 0.003, "paper: 36.3"))
    accuracy = (SystemScore("uam", 40, 40, 40),)
    titled = [Comparison("ROUGE-1", rouge), Comparison("accuracy", accuracy)]
    words = texts(system_comparisons(titled, "Kiyono et al.", tmp_path / "both.svg"))
    assert {"KIYONO ET AL.", "ROUGE-1", "luong", "accuracy"} <= set(words) and words.count("baseline") == 1
    assert {"28.20  (27.60 – 28.70)   p = 0.003   paper: 36.3", "40.00"} <= set(words)
    with pytest.raises(UsageError, match="luong: two systems have this name"):
        system_comparisons([Comparison("", rouge[:1] * 2)], "twice", tmp_path / "twice.svg")


def test_results_that_cannot_be_compared_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no system to draw"):
        score_by_length([], "BLEU", tmp_path / "l.png")
    with pytest.raises(UsageError, match="a: two systems have this name"):
        system_comparison([SystemScore("a", 1, 0, 2), SystemScore("a", 1, 0, 2)], "BLEU", tmp_path / "s.png")


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_word_with_control_characters_is_drawn(tmp_path: Path, suffix: str) -> None:
    """Text from a PDF or a terminal has some, and an SVG may not."""
    path = tmp_path / f"words.{suffix}"
    attention_matrix(explanation([[0.5, 0.5]], "a\x00b \x1b[0m", "c\x02d\ud800"), path)
    if suffix == "svg":
        assert {"a\ufffdb", "\ufffd[0m", "c\ufffdd\ufffd"} <= set(texts(path))
    assert path.stat().st_size > 0
