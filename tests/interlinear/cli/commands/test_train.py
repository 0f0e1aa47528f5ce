"""Invalid calls of `train` are refused in one sentence and leave no files; notable decisions are reported."""

from pathlib import Path

import pytest

from interlinear import cli
from tests.training.toy import SETTINGS, write_corpus

QUICK = [word for setting in [*SETTINGS, "training.epochs=1", "training.average=1"] for word in ("--set", setting)]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    write_corpus(tmp_path)
    monkeypatch.chdir(tmp_path)
    return "toy.yaml"


def called(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.run(["train", "rnnsearch", "--data", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workers", "640"], "--workers 640: each needs a processor of its own, and this machine has"),
        (["--workers", "640:700"], "--workers 640: each needs a processor of its own"),
        (["--set", "model.hidden=400000"], "GiB of memory for them, and"),
        (["--workers", "64", "--gpu"], "--workers 64: each needs a GPU of its own, and this machine has"),
        (["--tracking", "none", "--register", "x"], "--tracking none: --register needs a registry. Leave one of them"),
        (["--trackin", "none"], "No such option: --trackin (Possible options: --tracking). See `interlinear train"),
        (["--precision", "bf16"], "No such option: --precision. See `interlinear train --help`."),
        (["--set", "model.layrs=2"], "model.layrs"),
        (["--no-ray", "--resume"], "there is no run of that name to resume"),
    ],
)
def test_an_invalid_call_leaves_no_files(
    corpus: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = set(tmp_path.iterdir())
    code, out, err = called(capsys, corpus, *words)
    assert code in (1, 2) and out == "" and said in err and err.count("\n") == 1
    assert set(tmp_path.iterdir()) == before


def test_unexpected_settings_are_reported(corpus: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = [corpus, "--no-ray", "--run", "cc", "--register", "toy", *QUICK]
    code, first, err = called(capsys, *words)
    assert code == 0, err
    assert "registered as models:/toy/1\n" in err and "already" not in err
    on = f"--if-better-on {corpus}:test"
    assert err.splitlines()[-3:] == [
        "interlinear: serve it: interlinear serve --model toy=models:/toy@champion",
        f"interlinear: evaluate it: interlinear evaluate models:/toy/1 --data {corpus} --split test",
        "interlinear: version 1 is the champion; compare a later one with it, and promote that: "
        f"interlinear promote toy VERSION {on}",
    ]
    code, second, err = called(capsys, *words)
    assert (code, second) == (0, first), err
    assert "there is a run 'cc' already: this one is 'cc-2'. To go on with the newest, give --resume." in err
    assert "registered as models:/toy/2, with the same weights as version 1" in err
    assert "serve it: interlinear serve --model toy=models:/toy/2\n" in err
    assert err.endswith(f"version 1 is still the champion; compare and promote: interlinear promote toy 2 {on}\n")
    assert sorted(folder.name for folder in (tmp_path / "runs").iterdir()) == ["cc", "cc-2"]
