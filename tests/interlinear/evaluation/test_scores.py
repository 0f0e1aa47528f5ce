"""Scores of `evaluate` and `compare`: which are computed, omitted, or refused."""

import json
from pathlib import Path

import pytest

from interlinear import cli
from interlinear.evaluation.scoring import overlapping_words
from seq2seq.explain import Span
from seq2seq.metrics.catalogue import ALIGNMENT, GROUPS, METRICS

DESCRIPTION = (
    "{{task: {task}, about: mine, licence: none, languages: {{source: de, target: en}},"
    " splits: {{test: {{source: test.de, target: test.en{more}}}}}}}"
)


def describe(folder: Path, task: str = "translation", gold: str | None = None) -> list[str]:
    """Arguments of a data set of the parallel text, with gold alignments for some tests."""
    (folder / "mine.yaml").write_text(
        DESCRIPTION.format(task=task, more=", alignment: test.gold" if gold is not None else "")
    )
    if gold is not None:
        (folder / "test.gold").write_text(gold)
    return ["--data", str(folder / "mine.yaml")]


def post_edits(folder: Path) -> tuple[list[str], list[str]]:
    """Arguments of a post-editing set of the parallel text, and its machine translations."""
    lines = (folder / "test.en").read_text().splitlines()
    unedited = [*lines[:9], lines[9].upper()]
    (folder / "test.mt").write_text("".join(f"{line}\n" for line in unedited))
    (folder / "mine.yaml").write_text(DESCRIPTION.format(task="post-edit", more=", mt: test.mt"))
    return ["--data", str(folder / "mine.yaml")], unedited


def run_json(capsys, *arguments):
    assert cli.run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_all_scores_and_the_reasons_of_omitted_ones(toy, tmp_path, parallel, capsys):
    data = describe(tmp_path, gold="0-0 1-1 2?2\n" * 10)
    found = run_json(capsys, "evaluate", str(toy), *data, "--metrics", "all")
    left_out = found.pop("left_out")
    assert set(left_out) == {*GROUPS["rouge-recall-75"], "hter"}
    assert set(found) == set(METRICS) - set(left_out)
    assert all(set(score) >= {"score", "signature"} for score in found.values())
    assert found["rouge-l"]["low"] <= found["rouge-l"]["mean"] <= found["rouge-l"]["high"]
    assert found["aer"]["signature"] == "pairs:10|gold:sure+possible|by:posterior"
    data = describe(tmp_path)
    assert cli.run(["evaluate", str(toy), *data, "--metrics", "bleu,aer"]) == 0
    out, said = capsys.readouterr()
    assert out.startswith("BLEU ") and "AER" not in out
    assert "left out: aer: the split 'test' of mine has no gold alignments." in said


def test_alignments_equal_those_that_align_prints(toy, tmp_path, parallel, capsys):
    source, target = parallel
    assert cli.run(["align", str(toy), "--source", str(source), "--target", str(target)]) == 0
    printed = capsys.readouterr().out
    own = run_json(capsys, "evaluate", str(toy), *describe(tmp_path, gold=printed), "--metrics", "alignment")
    assert [own[name]["score"] for name in ALIGNMENT] == [0, 100, 100, 100]
    lines = printed.splitlines()
    half = "".join(" ".join(line.split()[:3]) + "\n" for line in lines)  # every pair has six links
    found = run_json(capsys, "evaluate", str(toy), *describe(tmp_path, gold=half), "--metrics", "alignment")
    assert [found[name]["score"] for name in ALIGNMENT] == pytest.approx([100 * (1 - 6 / 9), 50, 100, 100])


def test_symmetrized_alignments_are_scored(toy, back_toy, tmp_path, parallel, capsys):
    source, target = parallel
    both = ["--reverse", str(back_toy), "--symmetrize", "intersection"]
    assert cli.run(["align", str(toy), "--source", str(source), "--target", str(target), *both]) == 0
    data = describe(tmp_path, gold=capsys.readouterr().out)
    found = run_json(capsys, "evaluate", str(toy), *data, "--metrics", "alignment", *both)
    assert [found[name]["score"] for name in ALIGNMENT] == [0, 100, 100, 100]
    assert found["aer"]["signature"].endswith("|by:posterior,intersection")
    alone = run_json(capsys, "evaluate", str(toy), *data, "--metrics", "alignment")
    assert alone["alignment-precision"]["score"] < 100
    for options, said in [
        (both, "--reverse: no score of alignments is asked for"),
        (["--metrics", "aer", *both[:2]], "--reverse: it is not said how two alignments become one"),
        (["--metrics", "aer", "--reverse", str(toy), *both[2:]], "it goes from de to en, and MODEL from de to en"),
    ]:
        assert cli.run(["evaluate", str(toy), *data, *options]) == 2
        assert said in capsys.readouterr().err


def test_a_pair_that_is_too_long_counts_as_unaligned(toy, tmp_path, parallel, capsys):
    source, _ = parallel
    source.write_text("hund " * 13 + "\n" + "".join(source.read_text().splitlines(keepends=True)[1:]))
    data = describe(tmp_path, gold="0-0\n" * 10)
    found = run_json(capsys, "evaluate", str(toy), *data, "--metrics", "alignment-recall,aer")
    assert found["alignment-recall"]["score"] <= 90
    assert cli.run(["evaluate", str(toy), *data, "--metrics", "aer"]) == 0
    out, said = capsys.readouterr()
    assert said == f"interlinear: {toy}: 1 pair is empty or too long, hence not aligned.\n"  # nothing is translated
    assert out.startswith("AER ")


def test_links_are_counted_in_the_words_of_the_gold():
    """don't / go: tokenised text has do n't go; rock-'n'-roll may be one word for the model and three in the gold
    data."""
    spans = [Span(text="don't", start=0, end=5), Span(text="go", start=6, end=8)]
    assert overlapping_words(spans, [(0, 2), (2, 5), (6, 8)]) == [[0, 1], [2]]
    assert overlapping_words(spans, [(0, 8)]) == [[0], [0]]


def test_summaries_are_scored_by_rouge(toy, tmp_path, parallel, capsys):
    data = describe(tmp_path, task="summarization")
    found = run_json(capsys, "evaluate", str(toy), *data)
    assert list(found) == ["rouge-1", "rouge-2", "rouge-l"]
    cut = run_json(capsys, "evaluate", str(toy), *data, "--metrics", "rouge-recall-75,over-translation")
    assert list(cut) == [*GROUPS["rouge-recall-75"], "left_out"]
    assert "by design" in cut["left_out"]["over-translation"]
    assert cli.run(["evaluate", str(toy), *data, "--metrics", "rouge-1"]) == 0
    assert "95 % interval" in capsys.readouterr().out


def test_a_file_with_outputs_is_scored_like_its_model(toy, tmp_path, parallel, capsys):
    _, reference = parallel
    data, kept = describe(tmp_path, gold="0-0\n" * 10), tmp_path / "outputs"
    names = ["--metrics", "bleu,chrf,ter,rouge,exact-match,length-ratio"]
    of_model = run_json(capsys, "evaluate", str(toy), *data, *names, "--output", str(kept))
    assert run_json(capsys, "evaluate", str(kept), *data, *names) == of_model
    assert run_json(capsys, "evaluate", str(kept), "--reference", str(reference), *names) == of_model
    left_out = run_json(capsys, "evaluate", str(kept), *data, "--metrics", "all")["left_out"]
    assert left_out["aer"] == "a file with outputs has no alignments"
    search = (["--beam-size", "2"], ["--output", str(tmp_path / "x")], ["--by", "attention"])
    for option in (*search, ["--device", "cpu"], ["--precision", "fp32"]):
        assert cli.run(["evaluate", str(kept), *data, "--metrics", "all", *option]) == 2
        assert f"{option[0]}: {kept} is a file with outputs" in capsys.readouterr().err
    kept.write_text("one line\n")
    assert cli.run(["evaluate", str(kept), *data]) == 1
    assert f"{kept}: it has 1 lines, and mine, test has 10" in capsys.readouterr().err
    kept.write_bytes("ein Café\n".encode("latin-1") * 10)
    assert cli.run(["evaluate", str(kept), *data]) == 1
    said = capsys.readouterr().err
    assert f"{kept}, line 1: is not valid UTF-8" in said and said.endswith(
        f"`iconv -f LATIN1 -t UTF-8 < {kept} > NEW`.\n"
    )


def test_empty_outputs_are_scored_and_reported(tmp_path, parallel, capsys):
    _, reference = parallel
    outputs = tmp_path / "outputs"
    outputs.write_text("".join(reference.read_text().splitlines(keepends=True)[:8]) + "\n\n")
    found = run_json(capsys, "evaluate", str(outputs), "--reference", str(reference), "--metrics", "exact-match,ter")
    assert found["exact-match"]["score"] == 80
    assert found["ter"]["score"] == pytest.approx(20)
    assert cli.run(["evaluate", str(outputs), "--reference", str(reference)]) == 0
    assert f"{outputs}: 2 outputs are empty, the first in line 9." in capsys.readouterr().err
    outputs.write_text(reference.read_text().replace(reference.read_text().splitlines()[8], "", 1))
    assert cli.run(["evaluate", str(outputs), "--reference", str(reference)]) == 0
    assert f"{outputs}: 1 output is empty, in line 9. It is scored as it is.\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ("bleu,blue", "'blue' is no score. Did you mean bleu"),
        ("", "'' is no score"),
        ("aer", "aer cannot be computed here: the split 'test' of mine has no gold alignments"),
        ("rouge-recall-75", "a score of summaries"),
    ],
)
def test_unavailable_scores_are_refused(toy, tmp_path, parallel, capsys, metrics, said):
    assert cli.run(["evaluate", str(toy), *describe(tmp_path), "--metrics", metrics]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        (
            "0-0\n" * 4 + "0-0 7-1\n" + "0-0\n" * 5,
            "test.gold, line 5: '7-1' points outside the pair, which has 6 and 6",
        ),
        ("0-0\n" * 3 + "0=0\n" + "0-0\n" * 6, "test.gold, line 4: '0=0' is no link"),
        ("0-0\n" * 9, "has 9 lines"),
    ],
)
def test_invalid_gold_alignments_are_refused_when_requested(toy, tmp_path, parallel, capsys, gold, said):
    data = describe(tmp_path, gold=gold)
    assert cli.run(["evaluate", str(toy), *data, "--metrics", "aer"]) == 1
    assert said in capsys.readouterr().err
    assert cli.run(["evaluate", str(toy), *data]) == 0


def test_gold_without_links_omits_alignment_scores(toy, tmp_path, parallel, capsys):
    found = run_json(capsys, "evaluate", str(toy), *describe(tmp_path, gold="\n" * 10), "--metrics", "bleu,aer")
    assert found["left_out"] == {"aer": "the gold alignments have no link"} and "aer" not in found


def test_tokenised_text_is_scored_as_tokens_from_files_and_data_sets(toy, tmp_path, parallel, capsys):
    source, reference = parallel
    files = ["--source", str(source), "--reference", str(reference)]
    data = [f"{{files: test.{code}, tokenised: true}}" for code in ("de", "en")]
    (tmp_path / "cut.yaml").write_text(
        DESCRIPTION.format(task="translation", more="").replace("test.de", data[0]).replace("test.en", data[1])
    )
    of_data = run_json(capsys, "evaluate", str(toy), "--data", str(tmp_path / "cut.yaml"))
    assert "tok:none" in of_data["bleu"]["signature"]
    assert run_json(capsys, "evaluate", str(toy), *files, "--tokenised") == of_data
    assert "tok:13a" in run_json(capsys, "evaluate", str(toy), *files)["bleu"]["signature"]
    cut_source = DESCRIPTION.format(task="translation", more="").replace("test.de", data[0])
    (tmp_path / "source.yaml").write_text(cut_source)
    of_cut_source = run_json(capsys, "evaluate", str(toy), "--data", str(tmp_path / "source.yaml"))
    assert "tok:13a" in of_cut_source["bleu"]["signature"]
    compared = run_json(capsys, "compare", str(toy), str(reference), *files, "--tokenised", "--samples", "20")
    assert compared["bleu"]["sign"]["systems"][0]["score"] == pytest.approx(of_data["bleu"]["score"])
    for verb in (["evaluate", str(toy)], ["compare", str(toy), str(reference)]):
        assert cli.run([*verb, "--data", str(tmp_path / "cut.yaml"), "--tokenised"]) == 2
        assert "--tokenised: the data set says itself how its text is written" in capsys.readouterr().err


def test_ineffective_or_missing_options_are_refused(toy, other_toy, tmp_path, parallel, capsys):
    source, reference = parallel
    files = ["--source", str(source), "--reference", str(reference)]
    nowhere = str(tmp_path / "nowhere")
    for arguments, said in (
        (["evaluate", str(toy), *files, "--split", "dev"], "--split: it is a data set that has splits."),
        (["evaluate", str(toy), *files, "--output", f"{nowhere}/x"], f"--output: there is no folder {nowhere}."),
        (["evaluate", nowhere, *files], f"{nowhere}: there is no such file or folder. Name a bundle's folder, "),
        (["evaluate", str(toy)], "--data: it is not clear what to score on. Give --data, or --source and --reference."),
        (
            ["evaluate", str(toy), *files, "--metrics", "aer", "--beam-size", "1"],
            "--beam-size: scores of alignments need no search.",
        ),
        (["compare", str(toy), str(other_toy)], "--data: it is not clear what to score on."),
    ):
        assert cli.run(arguments) == 2
        out, err = capsys.readouterr()
        assert not out and err.startswith(f"interlinear: {said}")


def test_compare_reports_lines_that_count_as_empty(toy, other_toy, tmp_path, parallel, capsys):
    source, reference = parallel
    source.write_text("hund " * 13 + "\n" + "".join(source.read_text().splitlines(keepends=True)[1:]))
    files = ["--source", str(source), "--reference", str(reference), "--samples", "20"]
    assert cli.run(["compare", str(toy), str(other_toy), *files]) == 0
    said = capsys.readouterr().err
    for model in (toy, other_toy):
        assert f"{model}: 1 line counts as empty; first line 1: the text has 13 tokens" in said


def test_by_requires_an_alignment_score_and_a_model_with_that_attention(toy, tmp_path, parallel, capsys):
    data = describe(tmp_path, gold="0-0\n" * 10)
    assert cli.run(["evaluate", str(toy), *data, "--by", "attention"]) == 2
    assert "no score of alignments is asked for" in capsys.readouterr().err
    assert cli.run(["evaluate", str(toy), *data, "--metrics", "aer", "--by", "uam"]) == 2
    assert "It has attention, next, posterior." in capsys.readouterr().err
    by = run_json(capsys, "evaluate", str(toy), *data, "--metrics", "aer", "--by", "posterior")
    assert by == run_json(capsys, "evaluate", str(toy), *data, "--metrics", "aer")


def test_compare_prints_every_score_test_and_run(toy, other_toy, tmp_path, parallel, capsys):
    _, reference = parallel
    data, outputs = describe(tmp_path), tmp_path / "outputs"
    outputs.write_text(reference.read_text())
    arguments = ["compare", f"{toy},{other_toy}", str(outputs), *data, "--samples", "50", "--correction", "holm"]
    found = run_json(capsys, *arguments, "--metrics", "bleu,rouge-l,aer")
    assert list(found) == ["bleu", "rouge-l", "left_out"] and list(found["left_out"]) == ["aer"]
    for tests in (found["bleu"], found["rouge-l"]):
        assert list(tests) == ["bootstrap", "randomisation", "sign"]
        for test in tests.values():
            base, perfect = test["systems"]
            assert base["p_value"] is None and len(base["runs"]) == 2
            assert perfect["score"] == pytest.approx(100) and perfect["p_value"] <= perfect["corrected"]
            assert test["signature"].endswith("|runs:2|holm:2")
    alone = [run_json(capsys, "evaluate", str(run), *data)["bleu"]["score"] for run in (toy, other_toy)]
    assert found["bleu"]["sign"]["systems"][0]["runs"] == pytest.approx(alone)
    assert cli.run([*arguments, "--metrics", "bleu,rouge-l"]) == 0
    bleu, rouge = capsys.readouterr().out.split("\n\n")
    assert bleu.splitlines()[2].startswith(str(outputs)) and "ROUGE-L" in rouge
    assert f"runs:          {toy},{other_toy}: {alone[0]:.2f}, {alone[1]:.2f}\n" in bleu
    assert cli.run(["compare", f"{toy},{toy}", str(outputs), *data]) == 2


def test_case_studies_are_the_sentences_that_change_the_score_most(toy, tmp_path, parallel, capsys):
    source, reference = parallel
    right = reference.read_text().splitlines()
    base = ["a dog runs in garden .", *right[1:]]
    other = [right[0], *right[1:7], "a a a", "dog", right[9]]
    for name, lines in (("base", base), ("other", other)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    named = [str(tmp_path / name) for name in ("base", "other")]
    arguments = [*named, "--source", str(source), "--reference", str(reference), "--samples", "20"]
    found = run_json(capsys, "compare", *arguments, "--cases", "5", "--metrics", "bleu,aer")
    (cases,) = found["cases"].values()
    assert [case["line"] for case in cases] in ([1, 8, 9], [1, 9, 8])  # the other sentences have equal outputs
    texts = source.read_text().splitlines()
    before = run_json(capsys, "evaluate", named[0], *arguments[2:6])["bleu"]["score"]
    for case in cases:
        row = case["line"] - 1
        assert case["texts"] == {"source": texts[row]} and case["references"] == [right[row]]
        assert (case["baseline"], case["output"]) == (base[row], other[row])
        (tmp_path / "mixed").write_text("".join(f"{line}\n" for line in [*base[:row], other[row], *base[row + 1 :]]))
        after = run_json(capsys, "evaluate", str(tmp_path / "mixed"), *arguments[2:6])["bleu"]["score"]
        assert case["gain"] == pytest.approx(after - before)
    assert cases[0]["gain"] > 0 > cases[1]["gain"] > cases[2]["gain"]
    assert run_json(capsys, "compare", *arguments, "--cases", "1")["cases"] == {named[1]: [cases[0], cases[2]]}
    fewer_errors = run_json(capsys, "compare", *arguments, "--cases", "5", "--metrics", "ter")["cases"][named[1]]
    assert fewer_errors[0]["line"] == 1 and fewer_errors[0]["gain"] > 0 > fewer_errors[-1]["gain"]
    assert cli.run(["compare", *arguments, "--cases", "1"]) == 0
    first = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert first[0] == f"line 1: {cases[0]['gain']:+.3f} BLEU by {named[1]}"
    assert [line.split()[0] for line in first[1:]] == ["source", "reference", *named]
    assert cli.run(["compare", *arguments, "--cases", "1", "--metrics", "length-ratio"]) == 2
    assert "--cases: no score that is asked for says which output is better" in capsys.readouterr().err


def test_compare_names_the_attention_that_aligned_each_model(toy, gated_toy, tmp_path, parallel, capsys):
    data = describe(tmp_path, gold="0-0 1-1\n" * 10)
    arguments = ["compare", str(toy), str(gated_toy), *data, "--samples", "20", "--metrics", "aer"]
    assert "|by:posterior|" in run_json(capsys, *arguments)["aer"]["bootstrap"]["signature"]
    assert "|by:attention|" in run_json(capsys, *arguments, "--by", "attention")["aer"]["bootstrap"]["signature"]


def test_compare_aligns_models_but_not_files(toy, other_toy, tmp_path, parallel, capsys):
    data = describe(tmp_path, gold="0-0 1-1\n" * 10)
    arguments = ["--samples", "20", "--metrics", "aer,bleu"]
    models = run_json(capsys, "compare", str(toy), str(other_toy), *data, *arguments)
    single = run_json(capsys, "evaluate", str(other_toy), *data, "--metrics", "aer")
    assert models["aer"]["sign"]["systems"][1]["score"] == pytest.approx(single["aer"]["score"])
    outputs = tmp_path / "outputs"
    outputs.write_text("a dog\n" * 10)
    mixed = run_json(capsys, "compare", str(outputs), str(toy), *data, *arguments)
    assert mixed["left_out"] == {"aer": "a file with outputs has no alignments"}
    assert mixed["bleu"]["sign"]["systems"][0]["system"] == str(outputs)


def test_post_edits_are_scored_beside_the_machine_translation(toy, tmp_path, parallel, capsys):
    (data, unedited), (source, reference) = post_edits(tmp_path), parallel
    found = run_json(capsys, "evaluate", str(toy), *data)
    assert list(found) == ["bleu", "hter", "unedited"] and list(found["unedited"]) == ["bleu", "hter"]
    words = len(reference.read_text().split())
    wrong = sum(
        own != right for own, right in zip(unedited[9].split(), reference.read_text().split()[-6:], strict=True)
    )
    assert found["unedited"]["hter"]["score"] == pytest.approx(100 * wrong / words)
    assert "case:mixed" in found["hter"]["signature"]
    folded = run_json(capsys, "evaluate", "unedited", *data, "--metrics", "hter", "--lowercase")
    assert list(folded) == ["hter"] and folded["hter"]["score"] == 0
    files = ["--source", str(source), "--reference", str(reference), "--mt", str(tmp_path / "test.mt")]
    assert run_json(capsys, "evaluate", str(toy), *files) == found
    assert cli.run(["evaluate", str(toy), *data]) == 0
    assert f"(unedited: {found['unedited']['bleu']['score']:.2f})" in capsys.readouterr().out


def test_the_unedited_machine_translation_is_a_system_to_compare_with(toy, tmp_path, parallel, capsys):
    data, unedited = post_edits(tmp_path)
    (tmp_path / "outputs").write_text("".join(f"{line}\n" for line in unedited))
    arguments = ["compare", "unedited", str(toy), str(tmp_path / "outputs"), *data, "--samples", "20"]
    for tests in run_json(capsys, *arguments).values():
        base, _, same = tests["randomisation"]["systems"]
        assert base["system"] == "unedited" and same["score"] == base["score"] and same["p_value"] == 1
    assert cli.run(["evaluate", "unedited", *describe(tmp_path)]) == 2
    assert "unedited: mine, test has no machine translations." in capsys.readouterr().err
    assert cli.run(["evaluate", "unedited", *data, "--beam-size", "2"]) == 2
    assert "--beam-size: unedited is the machine translations: nothing is searched for" in capsys.readouterr().err
