"""`translate`: one line of output for each line of input, in order, whatever the input contains."""

import gzip
import json
import os
import re
import threading
from io import BufferedReader, BytesIO
from pathlib import Path

import pytest

from interlinear import cli
from interlinear.bundle.precision import resolve_precision
from interlinear.components import DOCUMENT_FORMATS
from tests.interlinear.documents import packages
from tests.interlinear.documents.packages import docx, parts_of


@pytest.fixture
def written(tmp_path):
    def write(content: bytes, name: str = "in.de") -> str:
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return write


def test_one_line_for_every_line(toy, written, run):
    file = written("ein hund läuft .\n\ndie katze schläft .\n \nder mann liest das buch".encode())
    out = run("translate", toy, file).split("\n")
    assert len(out) == 6 and out[5] == ""
    assert [bool(line) for line in out[:5]] == [True, False, True, False, True]


def test_output_order_is_input_order(toy, written, run, capsys):
    lines = ["ein hund läuft im garten und die katze", "ein", "der mann liest das buch", "hund"] * 20
    together = run.lines("translate", toy, written("\n".join(lines).encode()))
    alone = []
    for line in lines[:4]:
        assert cli.run(["translate", str(toy), written(f"{line}\n".encode())]) == 0
        alone += capsys.readouterr().out.splitlines()
    assert together == alone * 20


def test_files_are_concatenated_and_may_be_pipes(toy, written, tmp_path, run, capsys):
    from_files = run("translate", toy, written(b"ein hund\n", "a"), written(b"die katze\n", "b"))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"ein hund\ndie katze\n",))
    writer.start()
    assert cli.run(["translate", str(toy), str(pipe)]) == 0
    writer.join()
    assert capsys.readouterr().out == from_files


def test_stdin_is_read_if_no_file_is_named(toy, monkeypatch, run):
    monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": BufferedReader(BytesIO(b"ein hund\n"))})())
    assert run("translate", toy).count("\n") == 1


def test_an_unreadable_line_is_an_empty_line_a_warning_and_exit_code_1(toy, written, run):
    first = written(b"ein hund\n", "first.de")
    file = written(b"ein hund\n" + b"hund " * 13 + b"\nkat\xffze\ndie katze\n")
    out, said = run.both("translate", toy, first, file, "--tokenised", code=1)
    assert [bool(line) for line in out.split("\n")] == [True, True, False, False, True, False]
    too_long, not_utf8 = said.splitlines()
    assert f"{file}, line 2" in too_long and "13 tokens" in too_long and "at most 12" in too_long
    assert f"{file}, line 3" in not_utf8 and "UTF-8" in not_utf8


def test_a_line_that_is_too_long_is_translated_in_parts(toy, written, run):
    """Which are those of a document with the same sentence, and are explained together."""
    long = "hund katze " * 8 + ", " + "mann " * 10
    file = written(f"ein hund\n{long}\n".encode())
    first, second = run.lines("translate", toy, file)
    assert first == run.lines("translate", toy, written(b"ein hund", "first.de"))[0] and second
    explained = json.loads(run.lines("translate", toy, file, "--explain")[1])
    assert explained["translations"][0]["text"] == second
    assert [long[word["start"] : word["end"]] for word in explained["explanation"]["source"]] == long.split()


def test_sentences_of_a_line_may_be_translated_by_themselves(toy, written, run):
    alone = run.lines("translate", toy, written(b"ein hund .\ndie katze .\n", "alone.de"))
    file = written(b"ein hund. Die katze.\n")
    (whole,) = run.lines("translate", toy, file)
    (split,) = run.lines("translate", toy, file, "--split-sentences", "1")
    assert split != whole and split.split(" ")[0] == alone[0].split(" ")[0]


def test_outputs_may_keep_the_marks_of_their_lines(toy, written, run):
    (kept,) = run.lines("translate", toy, written("- Ein hund läuft!\n".encode()), "--preserve-formatting")
    assert kept.startswith("- ") and kept.endswith("!")


def test_a_second_model_translates_through_a_pivot_language(toy, back_toy, written, tmp_path, run):
    """Its outputs are those of the second model for one of the first one's outputs; documents too."""
    lines = ["ein hund läuft", "die katze schläft ."]
    file = written("\n".join(lines).encode())
    through = [json.loads(line) for line in run.lines("translate", toy, file, "--pivot", back_toy, "--explain")]
    english = run.lines("translate", toy, file, "--n-best", "2")
    for number, line in enumerate(through, 1):
        between = [text for n, text, _ in (row.split(" ||| ") for row in english) if n == str(number)]
        possible = run.lines("translate", back_toy, written("\n".join(between).encode(), "between.en"))
        assert line["translations"][0]["text"] in possible
        assert [word["text"] for word in line["explanation"]["source"]] == lines[number - 1].split()
    text, output = written("\n".join(lines).encode(), "in.txt"), tmp_path / "out.txt"
    run("translate", toy, text, "-o", output, "--pivot", back_toy)
    assert output.read_text("utf-8").splitlines() == [line["translations"][0]["text"] for line in through]


def test_unusual_text_is_translated(toy, written, run):
    lines = ["\ufeffein hund", "\u202eדוב", "🙂👩‍👩‍👧 hund", "hund\x0b\x0c\u2028katze", "ein hund\r"]
    out = run("translate", toy, written("\n".join(lines).encode()))
    assert out.count("\n") == len(lines)
    assert out.split("\n")[0] == out.split("\n")[-2]  # byte order mark and carriage return are not text


def test_n_best_lists_have_line_numbers_and_ranks(toy, written, run):
    file = written(b"ein hund\n\ndie katze\n")
    rows = [line.split(" ||| ") for line in run.lines("translate", toy, file, "--n-best", "3", "--beam-size", "4")]
    assert [row[0] for row in rows] == ["1", "1", "1", "2", "3", "3", "3"]
    for block in (rows[:3], rows[4:]):
        scores = [float(row[2]) for row in block]
        assert scores == sorted(scores, reverse=True)
        assert len({row[1] for row in block}) == 3


def test_explanations_are_json_lines(toy, written, run):
    answered, empty, refused = (
        json.loads(line) for line in run.lines("translate", toy, written(b"ein hund\n\nhu\xffnd"), "--explain", code=1)
    )
    explanation = answered["explanation"]
    assert [word["text"] for word in explanation["source"]] == ["ein", "hund"]
    assert len(explanation["matrices"]["attention"]) == len(explanation["target"])
    words = zip(explanation["target"], explanation["confidence"], strict=True)
    improbable = [j for j, (word, p) in enumerate(words) if p < 0.2 and word["text"].isalpha()]
    assert improbable, "the model is hardly trained"
    assert [d["word"] for d in explanation["doubts"] if d["reason"] == "low_probability"] == improbable
    assert answered["line"] == 1 and answered["source"] == "ein hund"
    assert empty == {"line": 2, "source": "", "translations": []}
    assert refused["translations"] == [] and "UTF-8" in refused["problem"]


def test_explanations_have_the_links_of_both_directions(toy, back_toy, written, tmp_path, run):
    """Those that `align` computes of the same pairs with the same two models."""
    file = written(b"ein hund schl\xc3\xa4ft .\ndie katze liest das buch\n")
    answers = [json.loads(line) for line in run.lines("translate", toy, file, "--explain", "--reverse", back_toy)]
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("".join(f"{answer['source']}\n" for answer in answers), encoding="utf-8")
    target.write_text("".join(f"{answer['translations'][0]['text']}\n" for answer in answers), encoding="utf-8")
    both = ["--reverse", str(back_toy), "--symmetrize", "grow-diag-final-and", "--json"]
    aligned = [json.loads(line) for line in run.lines("align", toy, "--source", source, "--target", target, *both)]
    for answer, expected in zip(answers, aligned, strict=True):
        explanation = answer["explanation"]
        assert explanation["symmetrized"] is True
        assert [(link["source"], link["target"]) for link in explanation["links"]] == [
            (link["source"], link["target"]) for link in expected["links"]
        ]
        for link, other in zip(explanation["links"], expected["links"], strict=True):
            assert link == pytest.approx(other, abs=2e-4)
        assert len(explanation["confidence"]) == len(explanation["target"])
        assert all(0 < confidence < 1 for confidence in explanation["confidence"])


def test_options_reach_the_search(toy, written, run):
    file = written(b"ein hund im garten\n")

    def found(*options: str) -> dict:
        return run.json("translate", toy, file, *options)["translations"][0]

    assert len(found("--set", "search.max_length=2")["text"].split()) <= 2
    assert len(found("--set", "search.min_length=5")["text"].split()) >= 4
    best = found("--set", "search.length_penalty=none")
    assert best["score"] == pytest.approx(best["log_probability"])
    assert found("--set", "search.length_penalty=1.0")["score"] > best["log_probability"]


def test_half_precision_gives_nearly_the_same_scores(toy, written, run):
    def score(*options: str) -> float:
        found = run.json("translate", toy, written(b"ein hund im garten\n"), *options)
        return found["translations"][0]["score"]

    full, half = score(), score("--precision", "bf16")
    assert full == score("--precision", "fp32") != half == pytest.approx(full, rel=0.05)
    assert full != score("--precision", "int8") == pytest.approx(full, rel=0.05)


def test_the_precision_that_is_chosen_is_said(toy, written, run, monkeypatch):
    def said() -> str:
        return run.err(0, "translate", toy, written(b"ein hund im garten\n"), "--precision", "auto")

    assert f"the precision is {resolve_precision('auto', 'cpu')}" in said()
    for tiles, products, expected in ((True, None, "bf16"), (False, 127, "int8"), (False, None, "fp32")):
        monkeypatch.setattr("interlinear.bundle.precision.has_bf16_tiles", lambda tiles=tiles: tiles)
        monkeypatch.setattr(
            "interlinear.bundle.precision.largest_activation", lambda kernel, products=products: products
        )
        assert f"the precision is {expected}" in said()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--precision", "int4"], "--precision"),
        (["--set", "search.length_penalty=much"], "--set search.length_penalty: "),
        (
            ["--set", "search.lenght_penalty=1"],
            "--set search.lenght_penalty: unknown key. Did you mean length_penalty?",
        ),
        (["--set", "model.layers=2"], "--set model.layers: only the search of a trained model can be changed"),
        (["--set", "search.beam"], "search.beam: this is no setting. Write --set key=value"),
        (["--n-best", "3"], "beam of 2"),
        (["--set", "search.min_length=9", "--set", "search.max_length=3"], "min_length"),
        (["--device", "toaster"], "--device toaster"),
        (["--reverse", "TOY"], "--reverse: it is for explanations. Say --explain too"),
        (["--explain", "--reverse", "TOY"], "it goes from de to en, and MODEL from de to en"),
        (["--pivot", "TOY"], "the model writes en, and the second one reads de"),
        (["--pivot", "TOY", "--tokenised"], "--reverse and --tokenised are for one model"),
        (["--split-sentences", "2"], "--split-sentences"),
        (["--explain", "--reverse", "nowhere"], "nowhere: there is no such folder"),
    ],
)
def test_invalid_options_are_usage_errors(toy, written, options, said, run):
    options = [str(toy) if option == "TOY" else option for option in options]
    assert said in run.err(2, "translate", toy, written(b"ein hund\n"), *options)


def test_a_missing_or_damaged_model_is_reported(toy, tmp_path, written, run):
    file = written(b"ein hund\n")
    assert "no such folder" in run.err(2, "translate", tmp_path / "nothing", file)
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in Path(toy).iterdir():
        (damaged / path.name).write_bytes(path.read_bytes())
    (damaged / "model.safetensors").write_bytes(b"nonsense")
    assert "model.safetensors" in run.err(1, "translate", damaged, file)


FORMS = {
    "an old Mac's": b"ein hund\rdie katze\r",
    "UTF-16": "ein hund\ndie katze\n".encode("utf-16"),
    "gzip": gzip.compress(b"ein hund\ndie katze\n"),
    "marked": "\ufeffein hund\r\ndie katze".encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_read_as_every_command_reads_it(toy, written, run, monkeypatch, form):
    expected = run("translate", toy, written(b"ein hund\ndie katze\n", "plain"))
    assert run("translate", toy, written(FORMS[form])) == expected
    stdin = type("Stdin", (), {"buffer": BufferedReader(BytesIO(FORMS[form]))})()
    monkeypatch.setattr("sys.stdin", stdin)
    assert run("translate", toy, "-") == expected


def test_lines_with_nul_are_named_and_utf16_without_a_mark_is_guessed(toy, written, run):
    file = written("ein hund\ndie katze\n".encode("utf-16-le"), "a b.de")
    out, said = run.both("translate", toy, file, code=1)
    assert set(out) == {"\n"}
    first, *others = said.splitlines()
    assert f"{file}, line 1: the line is not valid UTF-8 (a NUL byte); the file looks like UTF-16LE." in first
    assert f"Convert it: `iconv -f UTF-16LE -t UTF-8 < '{file}' > NEW`. The line stays empty." in first
    assert len(others) == 2 and not any("iconv" in line for line in others)


def test_a_closed_stdin_is_named(toy, monkeypatch, run):
    monkeypatch.setattr("sys.stdin", None)
    assert "stdin: is closed. Name a file" in run.err(2, "translate", toy)


def test_a_document_keeps_its_format_and_gets_the_translations_of_its_lines(toy, tmp_path, written, run):
    sentences = ["ein hund läuft", "die katze schläft im garten", "ein hund läuft"]
    translations = run.lines("translate", toy, written("\n".join(sentences).encode()))
    body = "".join(f"<w:p>{packages.run(text)}</w:p>" for text in (*sentences[:2], "12", sentences[2]))
    file, output = written(docx(body), "in.docx"), tmp_path / "out.docx"
    assert run("translate", toy, file, "-o", output) == ""
    document = parts_of(output.read_bytes())["word/document.xml"]
    assert re.findall(r"<w:t [^>]*>([^<]*)</w:t>", document) == [*translations[:2], "12", translations[2]]


def test_tags_in_a_document_are_kept_whatever_the_model_writes(toy, tmp_path, written):
    file, output = written("ein **hund** läuft im [garten](http://x.de).\n".encode(), "in.md"), tmp_path / "out.md"
    assert cli.run(["translate", str(toy), file, "--output", str(output)]) == 0
    text = output.read_text("utf-8")
    assert text.count("**") == 2 and text.count("](http://x.de)") == 1


def test_a_sentence_that_is_too_long_is_translated_in_parts(toy, tmp_path, written, run):
    file, output = written(("hund katze " * 8 + ", " + "mann " * 10 + "\n").encode(), "in.txt"), tmp_path / "out.txt"
    assert run.err(0, "translate", toy, file, "-o", output) == "" and output.read_text("utf-8").strip()


def test_a_word_that_is_too_long_is_translated_in_parts_too(toy, tmp_path, written, capsys):
    word = "/".join(["hund"] * 20)
    file, output = written(f"{word}\nein hund\n".encode(), "in.txt"), tmp_path / "out.txt"
    assert cli.run(["translate", str(toy), file, "-o", str(output)]) == 0
    first, second = output.read_text("utf-8").splitlines()
    assert first != word and second != "ein hund"
    assert capsys.readouterr().err == ""


def test_a_sentence_whose_terms_are_too_long_stays_and_is_named(toy, tmp_path, written, capsys):
    entries = "\n".join(f"hund{i}\t{'katze ' * 30}" for i in range(3))
    glossary, output = written(entries.encode(), "glossary.tsv"), tmp_path / "out.txt"
    file = written(b"hund0\nein hund\n", "in.txt")
    assert cli.run(["translate", str(toy), file, "-o", str(output), "--glossary", glossary]) == 1
    first, second = output.read_text("utf-8").splitlines()
    assert first == "hund0" and second != "ein hund"
    assert "hund0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "output", "options", "said"),
    [
        ("in.txt", "in.txt", [], "is the document itself"),
        ("in.txt", "out.docx", [], "a document keeps its format. Name it out.txt"),
        ("in.txt", "none/out.txt", [], "a folder that does not exist"),
        ("in.docx", "out.docx", [], "no zip archive"),
        ("in.txt", "out.txt", ["--n-best", "2"], "--n-best: it is for lines"),
        ("in.txt", "out.txt", ["--json"], "--json: it is for lines"),
    ],
)
def test_what_is_refused_changes_nothing(toy, tmp_path, written, capsys, name, output, options, said):
    file = written(b"ein hund\n", name)
    assert cli.run(["translate", str(toy), file, "-o", str(tmp_path / output), *options]) in (1, 2)
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [name] and (tmp_path / name).read_bytes() == b"ein hund\n"


def test_a_document_is_not_read_as_lines(toy, written, run):
    file = written(docx(f"<w:p>{packages.run('ein hund')}</w:p>"), "in.docx")
    assert "Say where to write it: -o in.translated.docx" in run.err(2, "translate", toy, file)


def test_a_model_that_does_not_translate_gets_no_document(editing_toy, tmp_path, written, run):
    said = run.err(2, "translate", editing_toy, written(b"ein hund\n", "in.txt"), "-o", tmp_path / "o.txt")
    assert "this is a model for post-edit" in said


def test_one_document_is_translated_at_a_time(toy, tmp_path, written, run):
    files = [written(b"ein hund\n", "a.txt"), written(b"ein hund\n", "b.txt")]
    for given in (files, []):
        assert "it takes one document" in run.err(2, "translate", toy, *given, "-o", tmp_path / "out.txt")


def test_every_format_of_documents_is_named_in_the_help_and_on_the_page(run):
    """The help is written out, because interlinear.documents.files is slow to import."""
    named = set(re.findall(r"\w+", run("translate", "--help").partition("is a document:")[2]))
    assert {suffix.removeprefix(".") for suffix in DOCUMENT_FORMATS} <= named
    page = (Path(__file__).parents[4] / "docs/documents.md").read_text(encoding="utf-8")
    table = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `.")]
    assert set(re.findall(r"`(\.\w+)`", " ".join(table))) == set(DOCUMENT_FORMATS)
