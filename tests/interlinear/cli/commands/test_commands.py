"""The commands `evaluate`, `compare`, `info` and the gloss, on a toy bundle."""

import io
import json
import re
from pathlib import Path

import pytest
import sacrebleu
from rich.console import Console

from interlinear import cli
from interlinear.cli.decoding.gloss import gloss_columns, print_gloss, wrap
from interlinear.explanation import Doubt, Explanation, Span
from tests.interlinear.cli.conftest import TEST, describe


@pytest.fixture
def dataset(tmp_path, parallel) -> Path:
    """A data set's YAML whose test split is the parallel text."""
    return describe(tmp_path, test=TEST)


def test_evaluate_scores_what_translate_writes(toy, parallel, run):
    source, reference = parallel
    files = ["--source", str(source), "--reference", str(reference)]
    hypotheses = run.lines("translate", toy, source)
    expected = sacrebleu.corpus_bleu(hypotheses, [reference.read_text().splitlines()]).score
    assert expected > 0
    bleu = run.json("evaluate", toy, *files)["bleu"]
    assert bleu["score"] == pytest.approx(expected)
    assert "tok:13a" in bleu["signature"]
    assert run("evaluate", toy, *files).startswith(f"BLEU {expected:.2f}\nnrefs:1|")


def test_evaluate_on_a_data_set_and_with_several_references(toy, dataset, parallel, tmp_path, run, capsys):
    source, reference = parallel
    once = run.json("evaluate", toy, "--data", dataset)["bleu"]
    assert cli.run(["translate", str(toy), str(source)]) == 0
    perfect = tmp_path / "perfect"
    perfect.write_text(capsys.readouterr().out)
    several = ["--source", str(source), "--reference", str(reference), "--reference", str(perfect)]
    kept = tmp_path / "kept.txt"
    twice = run.json("evaluate", toy, *several, "--output", kept)["bleu"]
    assert once["score"] < twice["score"] == pytest.approx(100)
    assert "nrefs:2" in twice["signature"]
    assert kept.read_text() == perfect.read_text()


def test_a_tokenised_data_set_is_scored_as_tokens(toy, tmp_path, parallel, run):
    described = describe(
        tmp_path, test={name: {"files": file, "tokenised": True, "case": "lower"} for name, file in TEST.items()}
    )
    signature = run.json("evaluate", toy, "--data", described)["bleu"]["signature"]
    assert "tok:none" in signature and "case:lc" in signature
    signature = run.json("evaluate", toy, "--data", described, "--tokenize", "13a", "--natural-case")["bleu"][
        "signature"
    ]
    assert "tok:13a" in signature and "case:mixed" in signature


def test_evaluate_names_missing_arguments(toy, dataset, parallel, tmp_path, run):
    source, reference = parallel
    for arguments, code, said in [
        ([], 2, "--data, or --source and --reference"),
        (["--source", str(source)], 2, "--data, or --source and --reference"),
        (["--data", "no-such-corpus"], 2, "no-such-corpus"),
        (["--data", str(dataset), "--split", "exam"], 1, "exam"),
        (["--data", str(dataset), "--split", "tst"], 1, "has no split 'tst', only 'test'. Did you mean test?"),
    ]:
        assert said in run.err(code, "evaluate", toy, *arguments)
    reference.write_text("one line\n")
    assert "10 and 1 lines" in run.err(1, "evaluate", toy, "--source", source, "--reference", reference)
    source.write_bytes(b"ein hund\nkat\xffze\n")
    assert f"{source}, line 2" in run.err(1, "evaluate", toy, "--source", source, "--reference", reference)


def test_a_line_that_is_too_long_counts_as_empty_and_is_reported(toy, parallel, run):
    source, reference = parallel
    lines_ = source.read_text().splitlines()
    lines_[3] = lines_[7] = "hund " * 13
    source.write_text("\n".join(lines_))
    said = run.err(0, "evaluate", toy, "--source", source, "--reference", reference)
    assert "2 lines" in said and "line 4" in said


def test_compare_tests_both_ways(toy, other_toy, parallel, run):
    source, reference = parallel
    arguments = [str(toy), str(other_toy), "--source", str(source), "--reference", str(reference), "--samples", "100"]
    bleu = run.json("compare", *arguments)["bleu"]
    assert [system["system"] for system in bleu["bootstrap"]["systems"]] == [str(toy), str(other_toy)]
    for test in ("bootstrap", "randomisation"):
        baseline, other = bleu[test]["systems"]
        assert baseline["p_value"] is None and 0 < other["p_value"] <= 1
    table = run.lines("compare", *arguments)
    assert table[1].startswith(str(toy)) and "baseline" in table[1] and "±" in table[2]
    assert "two different models" in run.err(2, "compare", toy, *arguments[2:])


def test_info_counts_parameters(toy, tmp_path, run):
    small = run.json("info", "rnnsearch", "--vocabulary", "100,200", "--set", "model.hidden=8")
    assert small["parameters"]["total"] == sum(small["parameters"]["parts"].values())
    assert small["parameters"]["parts"]["encoders.source.words"] == 100 * 256
    assert small["parameters"]["parts"]["target_words"] == 200 * 256
    model = run.json("info", toy)
    card = json.loads((toy / "model.json").read_text())
    assert model["weights_sha256"] == card["weights_sha256"] and len(model["weights_sha256"]) == 64
    assert f"{model['parameters']['total']:,}" in run.lines("info", toy)[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnnsearc"], "rnnsearch"),
        (["rnnsearch", "--set", "model.hiden=8"], "hidden"),
        (["rnnsearch", "--vocabulary", "100"], "2 sizes"),
        (["rnnsearch", "--vocabulary", "100,many"], "2 sizes"),
    ],
)
def test_info_refuses_a_file_that_is_not_a_recipe(arguments, said, run):
    assert said in run.err(2, "info", *arguments)


def test_info_of_a_model_takes_no_settings(toy, run):
    assert "--set" in run.err(2, "info", toy, "--set", "model.hidden=8")


def words(text: str) -> list[Span]:
    return [Span(text=word, start=0, end=0) for word in text.split()]


def test_a_gloss_has_the_translation_under_each_word():
    explanation = Explanation(
        source=words("Er kauft heute Brot ein ."),
        target=words("Today he buys bread ."),
        matrices={},
        alignment=[(0, 1), (1, 2), (2, 0), (3, 3), (4, 2), (5, 4)],
    )
    assert [(column.source, column.target, column.positions) for column in gloss_columns(explanation)] == [
        ("Er", "he", "2"), ("kauft", "buys", "3"), ("heute", "Today", "1"), ("Brot", "bread", "4"),
        ("ein", "buys", "3"), (".", ".", "5"),
    ]  # fmt: skip
    apart = explanation.model_copy(update={"alignment": [(0, 0), (0, 1), (0, 3)]})
    assert [column.target for column in gloss_columns(apart)] == ["Today he … bread", "·", "·", "·", "·", "·"]


def doubted() -> Explanation:
    return Explanation(
        source=words("Er isst kein Brot ?"),
        target=words("He eats no old bread ?"),
        matrices={},
        alignment=[(0, 0), (1, 1), (2, 2), (3, 4), (3, 3), (4, 5)],
        confidence=[0.999, 0.5, 0.11, None, 0.04, 0.8],
        doubts=[
            Doubt(reason="low_probability", side="target", word=2),
            Doubt(reason="low_probability", side="target", word=4),
            Doubt(reason="untranslated", side="source", word=1),
        ],
    )


@pytest.mark.parametrize(("terminal", "no_colour"), [(False, False), (True, True), (True, False)])
def test_a_gloss_marks_doubtful_words_without_colours_too(monkeypatch, terminal, no_colour):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    console = Console(
        file=io.StringIO(),
        force_terminal=terminal,
        no_color=no_colour,
        color_system="truecolor" if terminal else None,
        width=60,
    )
    print_gloss(doubted(), console, indent=1)
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert ("\x1b[33m?no" in printed) == (terminal and not no_colour)  # yellow
    assert re.sub(r"\x1b\[[0-9;]*m", "", printed).splitlines() == [
        " Er    ?isst  kein  Brot        ?",
        " He    eats   ?no   old ?bread  ?",
        " 1     2      3     4 5         6",
        " 100%  50%    11%   – 4%        80%",
        "",
        " ?  likely wrong: a probability under 20%, or not translated",
    ]


def test_a_gloss_without_probabilities_has_neither_marks_nor_their_row():
    console = Console(file=io.StringIO(), width=60)
    print_gloss(doubted().model_copy(update={"confidence": None, "doubts": None}), console)
    assert isinstance(console.file, io.StringIO)
    assert len(console.file.getvalue().splitlines()) == 4 and "?no" not in console.file.getvalue()


def test_a_long_gloss_wraps_into_lines_of_columns():
    explanation = Explanation(source=words("一二三 " * 10), target=[], matrices={}, alignment=[])
    broken = wrap(gloss_columns(explanation), width=30)  # four words of 6 cells, and 2 between them
    assert [len(line) for line in broken] == [4, 4, 2]
    assert max(sum(column.width + 2 for column in line) - 2 for line in broken) <= 30
