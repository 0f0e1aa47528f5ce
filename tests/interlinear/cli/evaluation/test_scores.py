"""Scores of `evaluate` and `compare`: which are computed, omitted, or refused."""

from pathlib import Path

import pytest

from interlinear import cli
from interlinear.cli.evaluation.scoring import overlapping_words
from interlinear.explanation import Span
from interlinear.metrics.catalogue import ALIGNMENT, GROUPS, METRICS
from tests.interlinear.cli import conftest
from tests.interlinear.cli.conftest import TEST


def describe(folder: Path, task: str = "translation", gold: str | None = None) -> list[str]:
    """Arguments of a data set of the parallel text, with gold alignments for some tests."""
    if gold is not None:
        (folder / "test.gold").write_text(gold)
    fields = TEST if gold is None else TEST | {"alignment": "test.gold"}
    return ["--data", str(conftest.describe(folder, task=task, test=fields))]


def post_edits(folder: Path) -> tuple[list[str], list[str]]:
    """Arguments of a post-editing set of the parallel text, and its machine translations."""
    lines = (folder / "test.en").read_text().splitlines()
    unedited = [*lines[:9], lines[9].upper()]
    (folder / "test.mt").write_text("".join(f"{line}\n" for line in unedited))
    description = conftest.describe(folder, task="post-edit", test=TEST | {"mt": "test.mt"})
    return ["--data", str(description)], unedited


def test_all_scores_and_the_reasons_of_omitted_ones(toy, tmp_path, parallel, run):
    data = describe(tmp_path, gold="0-0 1-1 2?2\n" * 10)
    found = run.json("evaluate", toy, *data, "--metrics", "all")
    left_out = found.pop("left_out")
    assert set(left_out) == {*GROUPS["rouge-recall-75"], "hter"}
    assert set(found) == set(METRICS) - set(left_out) - set(ALIGNMENT)
    assert all(set(score) >= {"score", "signature"} for score in found.values())
    assert found["rouge-l"]["low"] <= found["rouge-l"]["mean"] <= found["rouge-l"]["high"]
    aligned = run.json("evaluate-alignments", toy, *data)
    assert list(aligned) == list(ALIGNMENT)
    assert aligned["aer"]["signature"] == "pairs:10|gold:sure+possible|by:posterior"
    said = run.err(2, "evaluate-alignments", toy, *describe(tmp_path))
    assert "cannot be computed here: the split 'test' of mine has no gold alignments." in said


def test_alignments_equal_those_that_align_prints(toy, tmp_path, parallel, run):
    source, target = parallel
    printed = run("align", toy, "--source", source, "--target", target)
    own = run.json("evaluate-alignments", toy, *describe(tmp_path, gold=printed))
    assert [own[name]["score"] for name in ALIGNMENT] == [0, 100, 100, 100]
    lines = printed.splitlines()
    half = "".join(" ".join(line.split()[:3]) + "\n" for line in lines)  # every pair has six links
    found = run.json("evaluate-alignments", toy, *describe(tmp_path, gold=half))
    assert [found[name]["score"] for name in ALIGNMENT] == pytest.approx([100 * (1 - 6 / 9), 50, 100, 100])


def test_symmetrized_alignments_are_scored(toy, back_toy, tmp_path, parallel, run):
    source, target = parallel
    both = ["--reverse", str(back_toy), "--symmetrize", "intersection"]
    data = describe(tmp_path, gold=run("align", toy, "--source", source, "--target", target, *both))
    found = run.json("evaluate-alignments", toy, *data, *both)
    assert [found[name]["score"] for name in ALIGNMENT] == [0, 100, 100, 100]
    assert found["aer"]["signature"].endswith("|by:posterior,intersection")
    alone = run.json("evaluate-alignments", toy, *data)
    assert alone["alignment-precision"]["score"] < 100
    for options, said in [
        (both[:2], "--reverse: it is not said how two alignments become one"),
        (both[2:], "--symmetrize: one model has one direction"),
        (["--reverse", str(toy), *both[2:]], "it goes from de to en, and MODEL from de to en"),
    ]:
        assert said in run.err(2, "evaluate-alignments", toy, *data, *options)


def test_a_pair_that_is_too_long_counts_as_unaligned(toy, tmp_path, parallel, run):
    source, _ = parallel
    source.write_text("hund " * 13 + "\n" + "".join(source.read_text().splitlines(keepends=True)[1:]))
    data = describe(tmp_path, gold="0-0\n" * 10)
    found = run.json("evaluate-alignments", toy, *data)
    assert found["alignment-recall"]["score"] <= 90
    out, said = run.both("evaluate-alignments", toy, *data)
    assert said == f"interlinear: {toy}: 1 pair is empty or too long, hence not aligned.\n"  # nothing is translated
    assert out.startswith("AER ")


def test_links_are_counted_in_the_words_of_the_gold():
    """don't / go: tokenised text has do n't go; rock-'n'-roll may be one word for the model and three in the gold
    data."""
    spans = [Span(text="don't", start=0, end=5), Span(text="go", start=6, end=8)]
    assert overlapping_words(spans, [(0, 2), (2, 5), (6, 8)]) == [[0, 1], [2]]
    assert overlapping_words(spans, [(0, 8)]) == [[0], [0]]


def test_summaries_are_scored_by_rouge(toy, tmp_path, parallel, run):
    data = describe(tmp_path, task="summarization")
    found = run.json("evaluate", toy, *data)
    assert list(found) == ["rouge-1", "rouge-2", "rouge-l"]
    cut = run.json("evaluate", toy, *data, "--metrics", "rouge-recall-75,over-translation")
    assert list(cut) == [*GROUPS["rouge-recall-75"], "left_out"]
    assert "by design" in cut["left_out"]["over-translation"]
    assert "95 % interval" in run("evaluate", toy, *data, "--metrics", "rouge-1")


def test_a_file_with_outputs_is_scored_like_its_model(toy, tmp_path, parallel, run):
    _, reference = parallel
    data, kept = describe(tmp_path, gold="0-0\n" * 10), tmp_path / "outputs"
    names = ["--metrics", "bleu,chrf,ter,rouge,exact-match,length-ratio"]
    of_model = run.json("evaluate", toy, *data, *names, "--output", kept)
    assert run.json("evaluate-outputs", kept, *data, *names) == of_model
    assert run.json("evaluate-outputs", kept, "--reference", reference, *names) == of_model
    found = run.json("evaluate-outputs", kept, *data, "--metrics", "all")
    assert not {*found, *found["left_out"]} & {*ALIGNMENT}
    for option in (["--set", "search.beam=2"], ["--output", "x"], ["--device", "cpu"], ["--precision", "fp32"]):
        assert f"No such option: {option[0]}" in run.err(2, "evaluate-outputs", kept, *data, *option)
    said = run.err(2, "evaluate", kept, *data)
    assert f"{kept}: it is no model. Outputs are scored by interlinear evaluate-outputs {kept}." in said
    said = run.err(2, "evaluate-alignments", kept, *data)
    assert f"{kept}: is no model, and outputs have no alignments. Name a model." in said
    kept.write_text("one line\n")
    assert f"{kept}: it has 1 lines, and mine, test has 10" in run.err(1, "evaluate-outputs", kept, *data)
    kept.write_bytes("ein Café\n".encode("latin-1") * 10)
    said = run.err(1, "evaluate-outputs", kept, *data)
    assert f"{kept}, line 1: is not valid UTF-8" in said and said.endswith(
        f"`iconv -f LATIN1 -t UTF-8 < {kept} > NEW`.\n"
    )


def test_empty_outputs_are_scored_and_reported(tmp_path, parallel, run):
    _, reference = parallel
    outputs = tmp_path / "outputs"
    outputs.write_text("".join(reference.read_text().splitlines(keepends=True)[:8]) + "\n\n")
    found = run.json("evaluate-outputs", outputs, "--reference", reference, "--metrics", "exact-match,ter")
    assert found["exact-match"]["score"] == 80
    assert found["ter"]["score"] == pytest.approx(20)
    said = run.err(0, "evaluate-outputs", outputs, "--reference", reference)
    assert f"{outputs}: 2 outputs are empty, the first in line 9." in said
    outputs.write_text(reference.read_text().replace(reference.read_text().splitlines()[8], "", 1))
    error = run.err(0, "evaluate-outputs", outputs, "--reference", reference)
    assert f"{outputs}: 1 output is empty, in line 9. It is scored as it is.\n" in error


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ("bleu,blue", "'blue' is no score. Did you mean bleu"),
        ("", "'' is no score"),
        ("aer", "--metrics aer: is none of texts. Score alignments by `interlinear evaluate-alignments`."),
        ("rouge-recall-75", "a score of summaries"),
    ],
)
def test_unavailable_scores_are_refused(toy, tmp_path, parallel, run, metrics, said):
    assert said in run.err(2, "evaluate", toy, *describe(tmp_path), "--metrics", metrics)


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
def test_invalid_gold_alignments_are_refused_when_requested(toy, tmp_path, parallel, run, gold, said):
    data = describe(tmp_path, gold=gold)
    assert said in run.err(1, "evaluate-alignments", toy, *data)
    assert cli.run(["evaluate", str(toy), *data]) == 0


def test_gold_without_links_omits_alignment_scores(toy, tmp_path, parallel, run):
    said = run.err(2, "evaluate-alignments", toy, *describe(tmp_path, gold="\n" * 10))
    assert "cannot be computed here: the gold alignments have no link." in said


def test_tokenised_text_is_scored_as_tokens_from_files_and_data_sets(toy, tmp_path, parallel, run):
    source, reference = parallel
    files = ["--source", str(source), "--reference", str(reference)]
    cut = {name: {"files": file, "tokenised": True} for name, file in TEST.items()}
    cut_text = conftest.describe(tmp_path, "cut", test=cut)
    of_data = run.json("evaluate", toy, "--data", cut_text)
    assert "tok:none" in of_data["bleu"]["signature"]
    assert run.json("evaluate", toy, *files, "--tokenised") == of_data
    assert "tok:13a" in run.json("evaluate", toy, *files)["bleu"]["signature"]
    cut_source = conftest.describe(tmp_path, "source", test=cut | {"target": "test.en"})
    of_cut_source = run.json("evaluate", toy, "--data", cut_source)
    assert "tok:13a" in of_cut_source["bleu"]["signature"]
    compared = run.json("compare", toy, reference, *files, "--tokenised", "--samples", "20")
    assert compared["bleu"]["sign"]["systems"][0]["score"] == pytest.approx(of_data["bleu"]["score"])
    for verb in (["evaluate", str(toy)], ["compare", str(toy), str(reference)]):
        said = run.err(2, *verb, "--data", cut_text, "--tokenised")
        assert "--tokenised: the data set says itself how its text is written" in said


def test_ineffective_or_missing_options_are_refused(toy, other_toy, tmp_path, parallel, run):
    source, reference = parallel
    files = ["--source", str(source), "--reference", str(reference)]
    nowhere = str(tmp_path / "nowhere")
    for arguments, said in (
        (["evaluate", str(toy), *files, "--split", "dev"], "--split: it is a data set that has splits."),
        (["evaluate", str(toy), *files, "--output", f"{nowhere}/x"], f"--output: there is no folder {nowhere}."),
        (["evaluate", nowhere, *files], f"{nowhere}: there is no such file or folder. Name a bundle's folder, "),
        (["evaluate", str(toy)], "--data: it is not clear what to score on. Give --data, or --source and --reference."),
        (["evaluate-outputs", nowhere, *files], f"{nowhere}: there is no such file. Name a file with one output"),
        (["compare", str(toy), str(other_toy)], "--data: it is not clear what to score on."),
    ):
        out, err = run.both(*arguments, code=2)
        assert not out and err.startswith(f"interlinear: {said}")


def test_compare_reports_lines_that_count_as_empty(toy, other_toy, tmp_path, parallel, run):
    source, reference = parallel
    source.write_text("hund " * 13 + "\n" + "".join(source.read_text().splitlines(keepends=True)[1:]))
    files = ["--source", str(source), "--reference", str(reference), "--samples", "20"]
    said = run.err(0, "compare", toy, other_toy, *files)
    for model in (toy, other_toy):
        assert f"{model}: 1 line counts as empty; first line 1: the text has 13 tokens" in said


def test_by_requires_a_model_with_that_attention(toy, tmp_path, parallel, run):
    data = describe(tmp_path, gold="0-0\n" * 10)
    assert "It has attention, next, posterior." in run.err(2, "evaluate-alignments", toy, *data, "--by", "uam")
    by = run.json("evaluate-alignments", toy, *data, "--by", "posterior")
    assert by == run.json("evaluate-alignments", toy, *data)


def test_compare_prints_every_score_test_and_run(toy, other_toy, tmp_path, parallel, run):
    _, reference = parallel
    data, outputs = describe(tmp_path), tmp_path / "outputs"
    outputs.write_text(reference.read_text())
    arguments = ["compare", f"{toy},{other_toy}", str(outputs), *data, "--samples", "50", "--correction", "holm"]
    found = run.json(*arguments, "--metrics", "bleu,rouge-l,aer")
    assert list(found) == ["bleu", "rouge-l", "left_out"] and list(found["left_out"]) == ["aer"]
    for tests in (found["bleu"], found["rouge-l"]):
        assert list(tests) == ["bootstrap", "randomisation", "sign"]
        for test in tests.values():
            base, perfect = test["systems"]
            assert base["p_value"] is None and len(base["runs"]) == 2
            assert perfect["score"] == pytest.approx(100) and perfect["p_value"] <= perfect["corrected"]
            assert test["signature"].endswith("|runs:2|holm:2")
    alone = [run.json("evaluate", model, *data)["bleu"]["score"] for model in (toy, other_toy)]
    assert found["bleu"]["sign"]["systems"][0]["runs"] == pytest.approx(alone)
    bleu, rouge = run(*arguments, "--metrics", "bleu,rouge-l").split("\n\n")
    assert bleu.splitlines()[2].startswith(str(outputs)) and "ROUGE-L" in rouge
    assert f"runs:          {toy},{other_toy}: {alone[0]:.2f}, {alone[1]:.2f}\n" in bleu
    assert cli.run(["compare", f"{toy},{toy}", str(outputs), *data]) == 2


def test_case_studies_are_the_sentences_that_change_the_score_most(toy, tmp_path, parallel, run):
    source, reference = parallel
    right = reference.read_text().splitlines()
    base = ["a dog runs in garden .", *right[1:]]
    other = [right[0], *right[1:7], "a a a", "dog", right[9]]
    for name, lines in (("base", base), ("other", other)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    named = [str(tmp_path / name) for name in ("base", "other")]
    arguments = [*named, "--source", str(source), "--reference", str(reference), "--samples", "20"]
    found = run.json("compare", *arguments, "--cases", "5", "--metrics", "bleu,aer")
    (cases,) = found["cases"].values()
    assert [case["line"] for case in cases] in ([1, 8, 9], [1, 9, 8])  # the other sentences have equal outputs
    texts = source.read_text().splitlines()
    before = run.json("evaluate-outputs", named[0], *arguments[2:6])["bleu"]["score"]
    for case in cases:
        row = case["line"] - 1
        assert case["texts"] == {"source": texts[row]} and case["references"] == [right[row]]
        assert (case["baseline"], case["output"]) == (base[row], other[row])
        (tmp_path / "mixed").write_text("".join(f"{line}\n" for line in [*base[:row], other[row], *base[row + 1 :]]))
        after = run.json("evaluate-outputs", tmp_path / "mixed", *arguments[2:6])["bleu"]["score"]
        assert case["gain"] == pytest.approx(after - before)
    assert cases[0]["gain"] > 0 > cases[1]["gain"] > cases[2]["gain"]
    assert run.json("compare", *arguments, "--cases", "1")["cases"] == {named[1]: [cases[0], cases[2]]}
    fewer_errors = run.json("compare", *arguments, "--cases", "5", "--metrics", "ter")["cases"][named[1]]
    assert fewer_errors[0]["line"] == 1 and fewer_errors[0]["gain"] > 0 > fewer_errors[-1]["gain"]
    first = run("compare", *arguments, "--cases", "1").split("\n\n")[1].splitlines()
    assert first[0] == f"line 1: {cases[0]['gain']:+.3f} BLEU by {named[1]}"
    assert [line.split()[0] for line in first[1:]] == ["source", "reference", *named]
    said = run.err(2, "compare", *arguments, "--cases", "1", "--metrics", "length-ratio")
    assert "--cases: no score that is asked for says which output is better" in said


def test_compare_names_the_attention_that_aligned_each_model(toy, gated_toy, tmp_path, parallel, run):
    data = describe(tmp_path, gold="0-0 1-1\n" * 10)
    arguments = ["compare", str(toy), str(gated_toy), *data, "--samples", "20", "--metrics", "aer"]
    assert "|by:posterior|" in run.json(*arguments)["aer"]["bootstrap"]["signature"]


def test_compare_aligns_models_but_not_files(toy, other_toy, tmp_path, parallel, run):
    data = describe(tmp_path, gold="0-0 1-1\n" * 10)
    arguments = ["--samples", "20", "--metrics", "aer,bleu"]
    models = run.json("compare", toy, other_toy, *data, *arguments)
    single = run.json("evaluate-alignments", other_toy, *data)
    assert models["aer"]["sign"]["systems"][1]["score"] == pytest.approx(single["aer"]["score"])
    outputs = tmp_path / "outputs"
    outputs.write_text("a dog\n" * 10)
    mixed = run.json("compare", outputs, toy, *data, *arguments)
    assert mixed["left_out"] == {"aer": "a file with outputs has no alignments"}
    assert mixed["bleu"]["sign"]["systems"][0]["system"] == str(outputs)


def test_post_edits_are_scored_beside_the_machine_translation(toy, tmp_path, parallel, run):
    (data, unedited), (source, reference) = post_edits(tmp_path), parallel
    found = run.json("evaluate", toy, *data)
    assert list(found) == ["bleu", "hter", "unedited"] and list(found["unedited"]) == ["bleu", "hter"]
    words = len(reference.read_text().split())
    wrong = sum(
        own != right for own, right in zip(unedited[9].split(), reference.read_text().split()[-6:], strict=True)
    )
    assert found["unedited"]["hter"]["score"] == pytest.approx(100 * wrong / words)
    assert "case:mixed" in found["hter"]["signature"]
    folded = run.json("evaluate-outputs", "unedited", *data, "--metrics", "hter", "--lowercase")
    assert list(folded) == ["hter"] and folded["hter"]["score"] == 0
    files = ["--source", str(source), "--reference", str(reference), "--mt", str(tmp_path / "test.mt")]
    assert run.json("evaluate", toy, *files) == found
    assert f"(unedited: {found['unedited']['bleu']['score']:.2f})" in run("evaluate", toy, *data)


def test_the_unedited_machine_translation_is_a_system_to_compare_with(toy, tmp_path, parallel, run):
    data, unedited = post_edits(tmp_path)
    (tmp_path / "outputs").write_text("".join(f"{line}\n" for line in unedited))
    arguments = ["compare", "unedited", str(toy), str(tmp_path / "outputs"), *data, "--samples", "20"]
    for tests in run.json(*arguments).values():
        base, _, same = tests["randomisation"]["systems"]
        assert base["system"] == "unedited" and same["score"] == base["score"] and same["p_value"] == 1
    said = run.err(2, "evaluate-outputs", "unedited", *describe(tmp_path))
    assert "unedited: mine, test has no machine translations." in said
