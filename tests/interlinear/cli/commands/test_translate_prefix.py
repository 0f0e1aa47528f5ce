"""`translate --target-prefix`."""

import pytest


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "in.de"
    path.write_text("ein hund läuft im garten\n\nein hund\n", "utf-8")
    return str(path)


def test_every_output_begins_with_the_prefix_and_goes_on_with_another_word(toy, texts, run):
    rows = [
        line.split(" ||| ")
        for line in run.lines("translate", toy, texts, "--target-prefix", "Ü: a ", "--n-best", "3", "--beam-size", "3")
    ]
    assert [number for number, *_ in rows] == ["1", "1", "1", "2", "3", "3", "3"]
    outputs = [text for number, text, _ in rows if number != "2"]
    assert all(text.startswith("Ü: a ") for text in outputs)
    for own in (outputs[:3], outputs[3:]):
        assert len({text.removeprefix("Ü: a ").split(" ")[0] for text in own}) == 3


@pytest.mark.parametrize(("option", "said"), [("--tokenised", "it is raw text"), ("-oout.txt", "--output writes")])
def test_what_has_no_prefix_is_refused(toy, texts, run, option, said):
    assert said in run.err(2, "translate", toy, texts, "--target-prefix", "a", option)
