"""`research.quality`, alignment and projection: scores of links, fast_align's one direction, and exact tags."""

import math
from pathlib import Path

import pytest

from benchmarks.peers.align_words import most_probable_links
from interlinear import cli
from interlinear.alignment.hmm import align_corpus
from interlinear.alignment.links import symmetrize
from interlinear.alignment.projection import TagSpan
from research.quality import projection
from research.quality.alignment import ForcedDecoding, GoldSet, HmmAligner, TrainingText, measure
from research.quality.projection import Score, by_min_max, by_project, nested, parse
from tests.interlinear.cli.conftest import describe, write_toy

pytestmark = pytest.mark.slow

PAIRS = [
    ("Ein hund läuft .", "a dog runs .", "0-0 1-1 2-2 3?3"),
    ("der mann schläft", "the man sleeps", "0-0 1-1 0?1"),
    ("die Katze und der hund", "the cat and the dog", "0-0 1-1 2-2 4-4"),
]


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    """A gold set of three pairs."""
    for name, lines in zip(("de", "en", "gold"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    source, target = ({"files": language, "tokenised": True} for language in ("de", "en"))
    return describe(tmp_path, test={"source": source, "target": target, "alignment": "gold"})


def printed_links(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[set[tuple[int, int]]]:
    assert cli.run(["align", *map(str, arguments), "--tokenised"]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [{(int(i), int(j)) for i, j in (link.split("-") for link in line.split())} for line in lines]


def test_every_reading_of_a_model_is_scored_in_each_direction_and_combined(gold, tmp_path, capsys):
    weights = {"initialization": "uniform", "initialization_scale": 1.0}
    there, back = write_toy(tmp_path / "there", 1, **weights), write_toy(tmp_path / "back", 2, back=True, **weights)
    aligner, text = ForcedDecoding.load("toys", str(there), str(back)), TrainingText("", [])
    gold_set = GoldSet.read(str(gold), None)
    rows = measure(aligner, [gold_set], [text])
    german, english = tmp_path / "de", tmp_path / "en"
    for by in ("attention", "next", "posterior"):
        forward = printed_links(capsys, there, "--source", german, "--target", english, "--by", by)
        exchanged = printed_links(capsys, back, "--source", english, "--target", german, "--by", by)
        backward = [{(i, j) for j, i in links} for links in exchanged]
        expected = {"source to target": forward, "target to source": backward}
        for how in ("intersection", "grow-diag", "grow-diag-final-and"):
            expected[how] = [set(symmetrize(*pair, how)) for pair in zip(forward, backward, strict=True)]
        for variant, links in expected.items():
            assert rows["mine", "", "-", by, variant] == gold_set.score(links), (by, variant)
    only = measure(ForcedDecoding.load("back", str(back)), [gold_set], [text])
    assert len(rows) == 15 and {variant for *_, variant in only} == {"target to source"}


def test_our_aligner_has_every_variant_and_learns_from_the_set_and_further_text(gold):
    gold_set, text = GoldSet.read(str(gold), None), TrainingText("more", [(["ja"], ["yes"])])
    rows = measure(HmmAligner(), [gold_set], [text])
    assert {key[1:3] for key in rows} == {("", "3"), ("more", "4")} and len(rows) == 12
    links = [set(found) for found in align_corpus(gold_set.words)]
    assert rows["mine", "", "3", "-", "agreement"] == gold_set.score(links)


def test_fast_align_links_a_word_with_its_most_probable_source():
    """The argmax of Dyer et al.'s equation 1, with the paper's symbols: m and n words, positions from 1."""
    source, target = ["das", "haus", "das"], ["the", "house", "unseen"]
    t = {None: {"the": 0.5, "house": 0.01}, "das": {"the": 0.6, "house": 0.1}, "haus": {"house": 0.7}}
    expected = []
    for j, f in enumerate(target, 1):
        distances = [math.exp(-4 * abs(i / 3 - j / 3)) for i in (1, 2, 3)]
        p = [0.08 * t[None].get(f, 1e-9)]
        p += [0.92 * d / sum(distances) * t[e].get(f, 1e-9) for d, e in zip(distances, source, strict=True)]
        if (best := p.index(max(p))) > 0:
            expected.append((best - 1, j - 1))
    assert most_probable_links(t, source, target) == expected == [(0, 0), (1, 1), (2, 2)]
    t[None]["the"] = 9.0
    assert most_probable_links(t, source, target) == [(1, 1), (2, 2)]


def test_exact_tags_and_structure_are_counted():
    pairs = [
        (parse(source, "s", parts=False), parse(target, "t", parts=False))
        for source, target in [
            ("<b>a</b> <i>b</i> c", "<i>B</i> <b>A</b> C"),
            ("<b>a b</b> c <i>d</i>", "<b>A B</b> <i>C D</i>"),
            ("<b>a</b>", "A"),
            ("a", "A"),
        ]
    ]
    links = [[(0, 1), (1, 0), (2, 2)], [(0, 0), (1, 3), (2, 2), (3, 3)], [(0, 0)], [(0, 0)]]
    score, apart, cut = projection.score(pairs, [by_project(each) for each in links])
    assert (score, apart, cut) == (Score(tags=4, exact=2, segments=2, structure=2, as_reference=2), 1, 0)
    score, _, _ = projection.score(pairs, [by_min_max(each) for each in links])
    assert score == Score(tags=4, exact=2, segments=2, structure=1, as_reference=1)
    assert nested([TagSpan(0, 2), TagSpan(2, 3)]) and not nested([TagSpan(0, 3), TagSpan(2, 4)])
