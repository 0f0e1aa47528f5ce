"""`python -m benchmarks.alignment`: the figures of models, the text of aligners, and fast_align's one direction."""

import json
import math
import struct
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import alignment
from benchmarks.alignment import ForcedDecoding, GoldSet, HmmAligner, TrainingText, measure, table
from benchmarks.alignment_results import EarlierScores
from benchmarks.peers.align_words import most_probable_links, read_table
from benchmarks.reporting import Machine, Report
from interlinear import cli
from seq2seq.alignment import symmetrize
from seq2seq.alignment.hmm import align_corpus
from seq2seq.errors import DataError, UsageError
from tests.interlinear.conftest import write_toy
from training.data.dataset import open_dataset

PAIRS = [
    ("Ein hund läuft .", "a dog runs .", "0-0 1-1 2-2 3?3"),
    ("der mann schläft", "the man sleeps", "0-0 1-1 0?1"),
    ("die Katze und der hund", "the cat and the dog", "0-0 1-1 2-2 4-4"),
]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    return write_toy(folder / "there", 1, initialization="uniform", initialization_scale=1.0)


@pytest.fixture(scope="module")
def back(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    return write_toy(folder / "back", 2, back=True, initialization="uniform", initialization_scale=1.0)


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    """A gold set of three pairs."""
    for name, lines in zip(("de", "en", "gold"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    path = tmp_path / "mine.yaml"
    path.write_text(
        "{task: translation, about: mine, licence: none, languages: {source: de, target: en}, splits: {test: "
        "{source: {files: de, tokenised: true}, target: {files: en, tokenised: true}, alignment: gold}}}"
    )
    return path


def printed_links(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[set[tuple[int, int]]]:
    assert cli.run(["align", *map(str, arguments), "--tokenised"]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [{(int(i), int(j)) for i, j in (link.split("-") for link in line.split())} for line in lines]


def figures(links: list[set[tuple[int, int]]]) -> dict[str, float]:
    """AER, precision and recall by Och and Ney's definition."""
    a = a_and_s = a_and_p = s = 0
    for (_, _, line), found in zip(PAIRS, links, strict=True):
        sure = {tuple(map(int, link.split("-"))) for link in line.split() if "-" in link}
        possible = sure | {tuple(map(int, link.split("?"))) for link in line.split() if "?" in link}
        a, s = a + len(found), s + len(sure)
        a_and_s, a_and_p = a_and_s + len(found & sure), a_and_p + len(found & possible)
    return {
        "aer": 100 * (1 - (a_and_s + a_and_p) / (a + s)), "precision": 100 * a_and_p / a, "recall": 100 * a_and_s / s
    }  # fmt: skip


def test_every_reading_of_a_model_is_scored_in_each_direction_and_combined(there, back, gold, tmp_path, capsys):
    records = measure([GoldSet.read(str(gold), None)], [], [ForcedDecoding.load("toys", str(there), str(back))])
    german, english = tmp_path / "de", tmp_path / "en"
    for by in ("attention", "next", "posterior"):
        forward = printed_links(capsys, there, "--source", german, "--target", english, "--by", by)
        exchanged = printed_links(capsys, back, "--source", english, "--target", german, "--by", by)
        backward = [{(i, j) for j, i in links} for links in exchanged]
        expected = {"source to target": forward, "target to source": backward}
        for how in ("intersection", "grow-diag", "grow-diag-final-and"):
            expected[how] = [set(symmetrize(*pair, how)) for pair in zip(forward, backward, strict=True)]
        found = {record["variant"]: record["runs"] for record in records if record["by"] == by}
        assert found.keys() == expected.keys()
        for variant, links in expected.items():
            assert found[variant] == [pytest.approx(figures(links))], (by, variant)
    assert {record["by"] for record in records} == {"attention", "next", "posterior"}
    assert {(record["set"], record["system"], record["pairs"]) for record in records} == {("mine", "toys", 0)}


def test_a_model_of_one_direction_has_only_that_column(back, gold):
    records = measure([GoldSet.read(str(gold), None)], [], [ForcedDecoding.load("back", str(back))])
    assert {record["variant"] for record in records} == {"target to source"}
    columns, rows = table(records)
    assert columns[4:6] == ["source to target", "target to source"]
    assert [row[3:5] for row in rows] == [["attention", "-"], ["next", "-"], ["posterior", "-"]]


def test_our_aligner_has_every_column(gold):
    records = measure([GoldSet.read(str(gold), None)], [], [HmmAligner()])
    columns, (row,) = table(records)
    assert columns[-1] == "agreement" and "-" not in row[4:]
    links = [frozenset(found) for found in align_corpus(GoldSet.read(str(gold), None).words)]
    assert records[-1]["runs"] == [pytest.approx(figures(links))] and records[-1]["variant"] == "agreement"


def test_a_cell_has_means_over_runs():
    runs = [{"aer": 20.0, "precision": 80.0, "recall": 60.0}, {"aer": 24.0, "precision": 90.0, "recall": 70.0}]
    assert alignment.cell(runs) == "22.0 ± 2.8 (85, 65)"
    assert alignment.cell(runs[:1]) == "20.0 (80, 60)"


def report_of(records: list[dict[str, object]], earlier: EarlierScores, date: str) -> Report:
    measured = {"scores": earlier.joined(records, ("a", "b", "c")), "earlier": earlier.records}
    return Report("alignment", "t", [], [], earlier.notes, measured, Machine.here(), date, "abc", f"python {date}")


def test_a_result_of_other_sets_is_added_to_the_saved_one(tmp_path):
    """Each row says in which measurement it was made, after a third one too."""
    path = tmp_path / "alignment.json"
    assert EarlierScores.read(path, ["a"]) == EarlierScores([], ())
    for date, names in (("monday", "abc"), ("tuesday", "b"), ("friday", "cd")):
        records = [{"set": name, "variant": date} for name in names]
        report = report_of(records, EarlierScores.read(path, list(names)), date)
        path.write_text(json.dumps(asdict(report)))
    found = [(one["set"], one["variant"]) for one in report.measured["scores"]]
    assert found == [("a", "monday"), ("b", "tuesday"), ("c", "friday"), ("d", "friday")]
    machine = Machine.here()
    assert report.notes == [
        f"Measured before: a: monday, commit abc, {machine}. `python monday`",
        f"Measured before: b: tuesday, commit abc, {machine}. `python tuesday`",
    ]


def test_training_text_has_the_order_of_the_gold_set_in_lower_case(tmp_path):
    (tmp_path / "e").write_text("A Dog, isn't it?\n\nThe end\n")
    (tmp_path / "d").write_text("Ein Hund , nicht ?\nleer\nDas Ende\n")
    path = tmp_path / "text.yaml"
    path.write_text(
        "{task: translation, about: text, licence: none, languages: {source: en, target: de}, "
        "splits: {train: {source: e, target: {files: d, tokenised: true}}}}"
    )
    dataset = open_dataset(str(path))
    text = TrainingText.of([dataset], ("de", "en"))
    assert (text.name, text.pairs) == (
        "text",
        [
            (["ein", "hund", ",", "nicht", "?"], ["a", "dog", ",", "isn't", "it", "?"]),
            (["das", "ende"], ["the", "end"]),
        ],
    )
    assert TrainingText.of([dataset], ("fr", "en")) == TrainingText("", [])


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


def test_fast_aligns_table_is_read(tmp_path):
    rows = {1: [(4, 0.25)], 3: [(4, 0.5), (5, 0.125)], 2: [(4, 1.0)]}  # ids: <eps> 1, ||| 2, haus 3, house 4, the 5
    data = struct.pack("<ii", 2, 5) + b"<eps>\0|||\0haus\0house\0the\0" + struct.pack("<i", len(rows))
    for row, entries in rows.items():
        data += struct.pack("<ii", row, len(entries)) + b"".join(struct.pack("<if", *entry) for entry in entries)
    (tmp_path / "table").write_bytes(data)
    assert read_table(tmp_path / "table", {"haus", "house"}) == {None: {"house": 0.25}, "haus": {"house": 0.5}}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--peers", "nowhere"], "nowhere: the aligners are not there. Run benchmarks/peers/aligners.sh nowhere"),
        (["--model", "toys"], "--model takes a name, a bundle, and perhaps one of the opposite direction"),
        (["--model", "toys", "BACK", "--set", "GOLD", "--data", "tatoeba-fra-eng"], "no gold set has its languages"),
        (["--model", "toys", "BACK", "BACK", "--set", "GOLD"], "it goes from en to de, not back"),
    ],
)
def test_bad_input_is_one_sentence(arguments, says, back, gold, capsys):
    names = {"BACK": str(back), "GOLD": str(gold)}
    with pytest.raises(SystemExit) as ended:
        alignment.main([names.get(word, word) for word in arguments])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and says in said.splitlines()[-1]


def test_a_set_without_gold_alignments_and_wrong_links_are_refused(gold, tmp_path):
    (tmp_path / "gold").write_text("0-0\n0-9\n0-0\n")
    with pytest.raises(DataError, match="'0-9' points outside the pair"):
        GoldSet.read(str(gold), None)
    plain = tmp_path / "plain.yaml"
    plain.write_text(gold.read_text().replace(", alignment: gold", ""))
    with pytest.raises(UsageError, match="it has no gold alignments"):
        GoldSet.read(str(plain), None)


def test_an_aligner_that_fails_is_named(gold, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho no compiler >&2\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(UsageError, match="eflomal: it ended with code 3: no compiler"):
        list(alignment.Peer("eflomal", tmp_path).align(GoldSet.read(str(gold), None), TrainingText("", [])))


def test_the_links_of_an_aligner_are_those_of_the_gold_sets_pairs(gold, tmp_path):
    """A program of the same form in place of the aligner: it gets all pairs, and answers for the first ones."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    answer = json.dumps([[[0, 0]], [[0, 0], [1, 1]]])
    python.write_text(
        f"#!/bin/sh\ncp $3 {tmp_path}/source-read; cp $4 {tmp_path}/target-read\n"
        f"for i in $(seq $5); do echo '{answer}'; done\n"
    )
    python.chmod(0o755)
    text = TrainingText("more", [(["ja"], ["yes"])])
    (reading,) = alignment.Peer("eflomal", tmp_path, runs=2).align(GoldSet.read(str(gold), None), text)
    assert reading.forward == [[frozenset({(0, 0)})] * 3] * 2
    assert reading.backward == [[frozenset({(0, 0), (1, 1)})] * 3] * 2
    assert (tmp_path / "source-read").read_text().splitlines() == [*(s.lower() for s, _, _ in PAIRS), "ja"]
    assert (tmp_path / "target-read").read_text().splitlines()[-1] == "yes"
