"""Word links of the training pairs: from words to pieces, where they come from, and how they are stored."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import training.data.prepare.executors
from interlinear.alignment import hmm, hmm_constants, pair_batches
from interlinear.alignment.links import Link
from interlinear.errors import DataError, InterlinearError
from interlinear.text import TextConfig, word_spans
from tests.training.data.prepare.test_prepare import BPE, PAIRS, corpus, prepared
from training.data.dataset import Dataset, open_dataset
from training.data.guide.link_sources import Aligner, GuidePair, LinksFile, ProgressCallback
from training.data.guide.piece_links import RowArrays, guide_matrix, piece_links, word_ranges
from training.data.prepare.prepared import PreparedData
from training.loop.batches import BatchLoader, BatchPlan

LINKS = ["0-0 1-1 2-2 3-3", "0-0 1-1 2-2 3-3 4-4 6-6 7-7 5-5", "0-0 1-1 2-2 3-3 4-4 5-5 6-6", ""]
CHINESE = [("我喜欢北京的猫。", "I like the cats of Beijing."), ("猫睡觉。", "The cat sleeps.")]


def links_file(folder: Path, lines: Sequence[str]) -> Path:
    path = folder / "links"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def linked(ready: PreparedData) -> RowArrays:
    assert isinstance(ready.guide, RowArrays)
    return ready.guide


def by_definition(ready: PreparedData, source: str, target: str, links: str) -> np.ndarray:
    """The guide of a pair (L, T), by loops: a target piece is linked with every piece that shares a character with a
    source word that is linked to a word with which it shares one; in equal parts."""
    pieces = [ready.tokenizers[name].encode(text).offsets for name, text in (("source", source), ("target", target))]
    words = word_spans(source), word_spans(target)
    guide = np.zeros((len(pieces[1]), len(pieces[0])))
    for link in links.split():
        (start, end), (first, last) = (words[side][int(n)] for side, n in enumerate(link.split("-")))
        for place, (a, b) in enumerate(pieces[1]):
            for column, (c, d) in enumerate(pieces[0]):
                if max(a, first) < min(b, last) and max(c, start) < min(d, end):
                    guide[place, column] = 1
    return guide / np.maximum(guide.sum(1, keepdims=True), 1)


def assert_guides(ready: PreparedData, rows: Sequence[tuple[str, str, str]]) -> None:
    split, guide = ready.split("train"), linked(ready)
    assert split.rows == len(rows) == len(guide.ends_R)
    for row, (source, target, links) in enumerate(rows):
        expected = by_definition(ready, source, target, links)
        assert expected.shape == (len(split.ids("target", row)), len(split.ids("source", row)))
        found = guide_matrix(guide, np.array([row]), *expected.shape)[0]
        np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=f"{source} / {target}")


# From words to pieces


def test_raw_text_in_pieces(tmp_path: Path) -> None:
    """Of lines with an empty side or too long nothing is left, and each pair keeps the links of its own line."""
    long = " ".join(["Hund"] * 60)
    pairs = [("", "nothing"), *PAIRS, (long, "a dog"), *PAIRS]
    lines = ["", *LINKS, "0-0", *LINKS]
    ready = prepared(
        corpus(tmp_path, pairs), tmp_path / "prepared", max_length=40, guide=LinksFile(links_file(tmp_path, lines))
    )
    assert_guides(ready, [(*pair, links) for pair, links in zip(PAIRS * 2, LINKS * 2, strict=True)])
    record = ready.record.guide
    assert record and (record.linked_pairs, record.word_links) == (6, 38)


@pytest.mark.parametrize("vocabulary", [266, 400])
def test_chinese_without_spaces(tmp_path: Path, vocabulary: int) -> None:
    """Each character is a word of its own, and a piece that covers several is linked with all that they are."""
    pairs = CHINESE * 20
    config = TextConfig(units="bpe", vocabulary=vocabulary, language="zh")
    dataset = corpus(tmp_path, pairs, dev=CHINESE)
    lines = ["0-0 1-1 2-1 3-5 4-5 6-3 7-6", "0-1 1-2 2-2 3-3"]
    guide = LinksFile(links_file(tmp_path, lines * 20))
    ready = prepared(dataset, tmp_path / "p", sources={"source": config}, target=config, guide=guide)
    assert_guides(ready, [(*pair, links) for pair, links in zip(pairs, lines * 20, strict=True)])
    spans = ready.tokenizers["source"].encode(CHINESE[0][0]).offsets
    assert any(end - start > 1 for start, end in spans) == (vocabulary == 400)  # large enough for longer pieces


def test_cleaning_and_shards_keep_rows_and_links_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training.data.prepare.executors, "SHARD_ROWS", 64)
    pairs = [(f"Hund {number} läuft {number % 7}", f"dog {number} runs") for number in range(200)]
    pairs[10] = pairs[3]
    lines = [f"0-0 {2 if number % 2 else 1}-1" for number in range(200)]
    dataset = corpus(tmp_path, pairs)
    text = (tmp_path / "small.yaml").read_text() + "cleaning: {duplicates: drop}\n"
    (tmp_path / "small.yaml").write_text(text)
    cleaned = open_dataset(str(tmp_path / "small.yaml"), tmp_path)
    assert cleaned.cleaning.enabled and not dataset.cleaning.enabled
    ready = prepared(cleaned, tmp_path / "p", guide=LinksFile(links_file(tmp_path, lines)))
    assert ready.split("train").shards == 4
    kept = [number for number in range(200) if number != 10]
    assert_guides(ready, [(*pairs[number], lines[number]) for number in kept])


SPANS = st.lists(st.integers(0, 3), max_size=8).map(
    lambda gaps: [(sum(gaps[: i + 1]) + i, sum(gaps[: i + 1]) + i + 1 + gaps[-1]) for i in range(len(gaps))]
)


@given(pieces=SPANS, edges=st.lists(st.integers(0, 40), unique=True, max_size=12).map(sorted))
def test_the_words_of_a_piece_are_those_that_it_shares_characters_with(
    pieces: list[tuple[int, int]], edges: list[int]
) -> None:
    words = list(zip(edges[::2], edges[1::2], strict=False))
    found = word_ranges(pieces, words)
    for (start, end), (first, last) in zip(pieces, found.tolist(), strict=True):
        shared = [number for number, (a, b) in enumerate(words) if a < end and start < b]
        assert list(range(first, last)) == shared


def test_links_of_a_piece_of_several_words_are_those_of_all() -> None:
    source, target = np.array([[0, 2], [2, 3], [3, 3]]), np.array([[0, 1], [1, 2], [2, 2]])
    assert piece_links(source, target, [(1, 0), (2, 0), (0, 1)]).tolist() == [[0, 0], [0, 1], [1, 0]]
    assert piece_links(source, target, []).shape == (0, 2)


# What is stored


def plain_corpus(folder: Path) -> Dataset:
    """The pairs in files that are the same bytes always."""
    for column, field in enumerate(("source", "target")):
        (folder / field).write_text("".join(f"{pair[column]}\n" for pair in PAIRS), encoding="utf-8")
    (folder / "small.yaml").write_text(
        "task: translation\nabout: a few pairs\nlicence: none\nlanguages: {source: de, target: en}\nsplits:\n"
        "  train: {source: source, target: target}\n  dev: {source: source, target: target}\n"
    )
    return open_dataset(str(folder / "small.yaml"), folder)


def test_a_guide_makes_other_data_beside_the_same_vocabulary(tmp_path: Path) -> None:
    dataset = plain_corpus(tmp_path)
    plain = prepared(dataset, tmp_path / "prepared")
    assert plain.record.key == "a1ebac9340481f9ee240443bc1d21866ccbb519a5dcad2a77c4f5dfd96804eae"
    assert plain.guide is None
    assert not list(plain.folder.glob("*guide*"))
    guided = prepared(dataset, tmp_path / "prepared", guide=LinksFile(links_file(tmp_path, LINKS)))
    assert guided.guide is not None
    assert {name: sha for name, sha in guided.record.checksums.items() if "guide" not in name} == plain.record.checksums
    again = prepared(dataset, tmp_path / "prepared", guide=LinksFile(links_file(tmp_path, LINKS)))
    other = prepared(dataset, tmp_path / "prepared", guide=LinksFile(links_file(tmp_path, [*LINKS[:-1], "0-0"])))
    assert len({plain.folder, guided.folder, again.folder, other.folder}) == 3 and again.folder == guided.folder


def test_a_damaged_guide_is_named(tmp_path: Path) -> None:
    dataset = corpus(tmp_path, PAIRS)
    ready = prepared(dataset, tmp_path / "prepared", guide=LinksFile(links_file(tmp_path, LINKS)))
    path = ready.folder / "train.guide.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"train\.guide\.npy: is damaged"):
        prepared(dataset, tmp_path / "prepared", guide=LinksFile(links_file(tmp_path, LINKS)))


@pytest.mark.parametrize("world", [1, 2])
def test_batches_have_the_guides_of_their_rows(tmp_path: Path, world: int) -> None:
    ready = prepared(corpus(tmp_path, PAIRS * 5), tmp_path / "p", guide=LinksFile(links_file(tmp_path, LINKS * 5)))
    split = ready.split("train")
    plan = BatchPlan({name: split.lengths(name) for name in ("source", "target")}, sentences=6, accumulation=2)
    seen = 0
    for rank in range(world):
        with BatchLoader(split, plan, ["source"], rank, world, guide=linked(ready)) as loader:
            for update, batches in loader:
                for batch, rows in zip(batches, plan.rows(update, rank, world), strict=True):
                    assert batch.target_BL is not None and batch.guide_BLT is not None
                    assert batch.guide_BLT.shape == (*batch.target_BL.shape, batch.text("source").ids_BT.shape[1])
                    for found, row in zip(batch.guide_BLT.numpy(), rows.tolist(), strict=True):
                        expected = by_definition(ready, *PAIRS[row % 4], LINKS[row % 4])
                        lengths = expected.shape
                        np.testing.assert_allclose(found[: lengths[0], : lengths[1]], expected, atol=1e-6)
                        assert found.sum() == pytest.approx(expected.sum())
                        seen += 1
    assert seen == 20


# Aligners


def pairs_of(rows: Sequence[tuple[str, str]]) -> Callable[[], Iterator[GuidePair]]:
    def read() -> Iterator[GuidePair]:
        for line, (source, target) in enumerate(rows):
            yield GuidePair(line, source, target, (source.split(), target.split()))

    return read


WORDS = ("ein", "hund", "katze", "läuft", "schläft", "groß", "und", "klein")
ONE_BY_ONE = [(f"{a} {b} {c}", f"{a.upper()} {b.upper()} {c.upper()}") for a in WORDS for b in WORDS for c in WORDS]


def aligned_share(name: str) -> float:
    """The share of the words that an aligner links with their translation, of pairs in the same order."""
    rows = [*ONE_BY_ONE, ("", "X"), ("|||", "|||")]
    done: list[int] = []
    found = list(Aligner(name).links(pairs_of(rows), done.append))
    assert len(found) == len(rows) and found[-2] == [] and found[-1] in ([], [(0, 0)])
    assert sum(done) == len(rows) - 1
    return sum((i, i) in links for links in found[: len(ONE_BY_ONE)] for i in range(3)) / (3 * len(ONE_BY_ONE))


def test_our_aligner_links_words_with_their_translation() -> None:
    assert aligned_share("hmm") > 0.9


@pytest.mark.parametrize("constant", [name for name in vars(hmm_constants) if name.isupper()])
def test_links_of_other_constants_have_another_key(monkeypatch: pytest.MonkeyPatch, constant: str) -> None:
    before = Aligner("hmm").identity
    assert before == Aligner("hmm").identity
    monkeypatch.setattr(hmm_constants, constant, getattr(hmm_constants, constant) * 2)
    assert Aligner("hmm").identity != before


def test_prepared_data_of_other_constants_are_not_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = corpus(tmp_path, PAIRS)
    first = prepared(dataset, tmp_path / "prepared", guide=Aligner("hmm"))
    assert prepared(dataset, tmp_path / "prepared", guide=Aligner("hmm")).folder == first.folder
    monkeypatch.setattr(hmm_constants, "PRIOR", 0.001)
    other = prepared(dataset, tmp_path / "prepared", guide=Aligner("hmm"))
    assert other.folder != first.folder and other.record.key != first.record.key


def test_every_constant_of_the_aligner_is_in_the_key() -> None:
    """A number in capital letters beside the algorithm would change links unseen; sizes of batches do not."""
    free = {"LARGEST", "PADDING", "MAX_CELLS_IN_BATCH", "SOURCE_BITS"}
    for module in (hmm, pair_batches):
        numbers = {name for name, value in vars(module).items() if name.isupper() and isinstance(value, int | float)}
        assert numbers - free <= vars(hmm_constants).keys(), module.__name__


@pytest.mark.parametrize(("name", "module"), [("eflomal", "eflomal"), ("fast_align", "systran_align")])
def test_installed_aligners_link_words_with_their_translation(name: str, module: str) -> None:
    pytest.importorskip(module)
    assert aligned_share(name) > 0.9


@pytest.mark.parametrize(
    ("name", "module", "package"), [("eflomal", "eflomal", "eflomal"), ("fast_align", "systran_align", "systran-align")]
)
def test_a_missing_aligner_is_named(name: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as Python marks a module that cannot be imported
    with pytest.raises(InterlinearError) as error:
        Aligner(name)
    assert f"the package {package} is not installed" in str(error.value) and "pip install" in str(error.value)


class WholeWords:
    """Links given by hand, for texts whose words a test wants to see."""

    symmetrized = True

    def __init__(self) -> None:
        self.identity = {"from": "test"}
        self.seen: list[GuidePair] = []

    def check(self, text: object) -> None: ...

    def links(self, pairs: Callable[[], Iterator[GuidePair]], advance: ProgressCallback) -> Iterator[list[Link]]:
        for pair in pairs():
            self.seen.append(pair)
            yield [(0, 0)]


def test_words_are_those_of_align(tmp_path: Path) -> None:
    """Words and punctuation marks of raw text; between spaces in tokenised text, segmented words joined."""
    source = WholeWords()
    prepared(corpus(tmp_path, PAIRS), tmp_path / "p", guide=source)
    assert source.seen[1].words[0] == ["Die", "Katze", "„", "schläft", "“", ",", "sagt", "er", "."]
    folder = tmp_path / "tokenised"
    folder.mkdir()
    config = TextConfig(units="words", vocabulary=50, tokenised=True, segmentation="@@")
    pairs = [("ein Haus@@ boot .", "a houseboat .")]
    dataset = corpus(folder, pairs, dev=pairs, extra=", tokenised: true, segmentation: '@@'")
    source = WholeWords()
    prepared(dataset, tmp_path / "p", sources={"source": config}, target=config, guide=source)
    assert source.seen[0].words[0] == ["ein", "Haus@@ boot", "."]


# Errors


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([*LINKS, "0-0"], "has 5 lines, and the training texts have 4. Line i must have the links of pair i"),
        (LINKS[:3], "has 3 lines, and the training texts have 4"),
        ([LINKS[0], "0-0 9-1", *LINKS[2:]], "links, line 2: '9-1' points outside the pair, which has 9 and 9 words"),
        ([LINKS[0], "0-0 1:1", *LINKS[2:]], "links, line 2: '1:1' is no link"),
        ([""] * 4, "none of the 4 training pairs has a link"),
    ],
)
def test_a_wrong_file_is_refused_and_leaves_nothing(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(DataError) as error:
        prepared(corpus(tmp_path, PAIRS), tmp_path / "prepared", guide=LinksFile(links_file(tmp_path, lines)))
    assert says in str(error.value)
    assert not list((tmp_path / "prepared").glob("[!.]*")) and len(str(error.value).splitlines()) == 1


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no such file, which training\.guide\.from names"):
        LinksFile(tmp_path / "links")


def test_pairs_without_links_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset: Dataset = corpus(tmp_path, PAIRS)
    prepared(dataset, tmp_path / "prepared", guide=LinksFile(links_file(tmp_path, LINKS)))
    assert "train: 1 of 4 pairs have no word links" in capsys.readouterr().err
    assert BPE.units == "bpe"
