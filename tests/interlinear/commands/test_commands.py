"""The commands `evaluate`, `compare`, `info` and the gloss, on a toy bundle."""

import io
import json
import re
from pathlib import Path

import pytest
import sacrebleu
from rich.console import Console

from interlinear import cli
from interlinear.decoding.gloss import gloss_columns, print_gloss, wrap
from seq2seq.explain import Doubt, Explanation, Span


@pytest.fixture
def dataset(tmp_path, parallel) -> Path:
    """A data set's YAML whose test split is the parallel text."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "{task: translation, about: mine, licence: none, languages: {source: de, target: en},"
        " splits: {test: {source: test.de, target: test.en}}}"
    )
    return path


def test_evaluate_scores_what_translate_writes(toy, parallel, capsys):
    source, reference = parallel
    files = ["--source", str(source), "--reference", str(reference)]
    assert cli.run(["translate", str(toy), str(source)]) == 0
    hypotheses = capsys.readouterr().out.splitlines()
    expected = sacrebleu.corpus_bleu(hypotheses, [reference.read_text().splitlines()]).score
    assert expected > 0
    assert cli.run(["evaluate", str(toy), *files, "--json"]) == 0
    bleu = json.loads(capsys.readouterr().out)["bleu"]
    assert bleu["score"] == pytest.approx(expected)
    assert "tok:13a" in bleu["signature"]
    assert cli.run(["evaluate", str(toy), *files]) == 0
    assert capsys.readouterr().out.startswith(f"BLEU {expected:.2f}\nnrefs:1|")


def test_evaluate_on_a_data_set_and_with_several_references(toy, dataset, parallel, tmp_path, capsys):
    source, reference = parallel
    assert cli.run(["evaluate", str(toy), "--data", str(dataset), "--json"]) == 0
    once = json.loads(capsys.readouterr().out)["bleu"]
    assert cli.run(["translate", str(toy), str(source)]) == 0
    perfect = tmp_path / "perfect"
    perfect.write_text(capsys.readouterr().out)
    several = ["--source", str(source), "--reference", str(reference), "--reference", str(perfect)]
    kept = tmp_path / "kept.txt"
    assert cli.run(["evaluate", str(toy), *several, "--json", "--output", str(kept)]) == 0
    twice = json.loads(capsys.readouterr().out)["bleu"]
    assert once["score"] < twice["score"] == pytest.approx(100)
    assert "nrefs:2" in twice["signature"]
    assert kept.read_text() == perfect.read_text()


def test_a_tokenised_data_set_is_scored_as_tokens(toy, tmp_path, parallel, capsys):
    described = tmp_path / "tokenised.yaml"
    how = "tokenised: true, case: lower"
    described.write_text(
        "{task: translation, about: mine, licence: none, languages: {source: de, target: en},"
        f" splits: {{test: {{source: {{files: test.de, {how}}}, target: {{files: test.en, {how}}}}}}}}}"
    )
    assert cli.run(["evaluate", str(toy), "--data", str(described), "--json"]) == 0
    signature = json.loads(capsys.readouterr().out)["bleu"]["signature"]
    assert "tok:none" in signature and "case:lc" in signature
    assert (
        cli.run(["evaluate", str(toy), "--data", str(described), "--json", "--tokenize", "13a", "--natural-case"]) == 0
    )
    signature = json.loads(capsys.readouterr().out)["bleu"]["signature"]
    assert "tok:13a" in signature and "case:mixed" in signature


def test_evaluate_names_missing_arguments(toy, dataset, parallel, tmp_path, capsys):
    source, reference = parallel
    for arguments, code, said in [
        ([], 2, "--data, or --source and --reference"),
        (["--source", str(source)], 2, "--data, or --source and --reference"),
        (["--data", "no-such-corpus"], 2, "no-such-corpus"),
        (["--data", str(dataset), "--split", "exam"], 1, "exam"),
        (["--data", str(dataset), "--split", "tst"], 1, "has no split 'tst', only 'test'. Did you mean test?"),
    ]:
        assert cli.run(["evaluate", str(toy), *arguments]) == code
        assert said in capsys.readouterr().err
    reference.write_text("one line\n")
    assert cli.run(["evaluate", str(toy), "--source", str(source), "--reference", str(reference)]) == 1
    assert "10 and 1 lines" in capsys.readouterr().err
    source.write_bytes(b"ein hund\nkat\xffze\n")
    assert cli.run(["evaluate", str(toy), "--source", str(source), "--reference", str(reference)]) == 1
    assert f"{source}, line 2" in capsys.readouterr().err


def test_a_line_that_is_too_long_counts_as_empty_and_is_reported(toy, parallel, capsys):
    source, reference = parallel
    lines_ = source.read_text().splitlines()
    lines_[3] = lines_[7] = "hund " * 13
    source.write_text("\n".join(lines_))
    assert cli.run(["evaluate", str(toy), "--source", str(source), "--reference", str(reference)]) == 0
    said = capsys.readouterr().err
    assert "2 lines" in said and "line 4" in said


def test_compare_tests_both_ways(toy, other_toy, parallel, capsys):
    source, reference = parallel
    arguments = [str(toy), str(other_toy), "--source", str(source), "--reference", str(reference), "--samples", "100"]
    assert cli.run(["compare", *arguments, "--json"]) == 0
    bleu = json.loads(capsys.readouterr().out)["bleu"]
    assert [system["system"] for system in bleu["bootstrap"]["systems"]] == [str(toy), str(other_toy)]
    for test in ("bootstrap", "randomisation"):
        baseline, other = bleu[test]["systems"]
        assert baseline["p_value"] is None and 0 < other["p_value"] <= 1
    assert cli.run(["compare", *arguments]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[1].startswith(str(toy)) and "baseline" in table[1] and "±" in table[2]
    assert cli.run(["compare", str(toy), *arguments[2:]]) == 2
    assert "two different models" in capsys.readouterr().err


def test_info_counts_parameters(toy, tmp_path, capsys):
    assert cli.run(["info", "rnnsearch", "--vocabulary", "100,200", "--set", "model.hidden=8", "--json"]) == 0
    small = json.loads(capsys.readouterr().out)
    assert small["parameters"]["total"] == sum(small["parameters"]["parts"].values())
    assert small["parameters"]["parts"]["encoders.source.words"] == 100 * 256
    assert small["parameters"]["parts"]["target_words"] == 200 * 256
    assert cli.run(["info", str(toy), "--json"]) == 0
    model = json.loads(capsys.readouterr().out)
    card = json.loads((toy / "model.json").read_text())
    assert model["weights_sha256"] == card["weights_sha256"] and len(model["weights_sha256"]) == 64
    assert cli.run(["info", str(toy)]) == 0
    assert f"{model['parameters']['total']:,}" in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnnsearc"], "rnnsearch"),
        (["rnnsearch", "--set", "model.hiden=8"], "hidden"),
        (["rnnsearch", "--vocabulary", "100"], "2 sizes"),
        (["rnnsearch", "--vocabulary", "100,many"], "2 sizes"),
    ],
)
def test_info_refuses_a_file_that_is_not_a_recipe(arguments, said, capsys):
    assert cli.run(["info", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_info_of_a_model_takes_no_settings(toy, capsys):
    assert cli.run(["info", str(toy), "--set", "model.hidden=8"]) == 2
    assert "--set" in capsys.readouterr().err


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
