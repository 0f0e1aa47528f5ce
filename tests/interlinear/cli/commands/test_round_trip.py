"""`round-trip`: artificial post-edits beside real ones, in a data set that `train` takes as it is."""

import gzip
import json
import random
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

import interlinear
from interlinear import cli
from tests import processes
from tests.interlinear.cli.conftest import ENGLISH, GERMAN, write_toy
from tests.training.toy import SETTINGS
from training.data.dataset import open_dataset, read_rows

SIDES = ("source", "mt", "target")
LINES = 60


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[str, str]:
    """The last line of a command that succeeds, and its messages."""
    code = cli.run([str(word) for word in words])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out.splitlines()[-1], captured.err


def written(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path.name


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """From English to German, and back."""
    folder = tmp_path_factory.mktemp("models")
    keys = {"initialization": "uniform", "initialization_scale": 1.0}
    return write_toy(folder / "en-de", 3, back=True, **keys), write_toy(folder / "de-en", 1, **keys)


@pytest.fixture
def english(tmp_path: Path) -> Path:
    """Text in English, of which one line is empty, as one side of parallel text."""
    draw = random.Random(5)
    lines = [" ".join(draw.choices(ENGLISH, k=5)) for _ in range(LINES)]
    lines[3] = ""
    train = {"source": written(tmp_path / "text.de", ["x"] * LINES), "target": written(tmp_path / "text.en", lines)}
    path = tmp_path / "text.yaml"
    content = {"task": "translation", "about": "text", "licence": "none", "languages": {"source": "de", "target": "en"}}
    path.write_text(yaml.safe_dump({**content, "splits": {"train": train}}))
    return path


def post_edits(folder: Path, name: str = "edits", tokenised: bool = False, repeat: int = 1, **keys: object) -> Path:
    """Real post-edits, from German to English, of translations as bad as those of untrained models."""
    draw = random.Random(6)
    splits: dict[str, dict[str, object]] = {}
    for split in ("train", "dev", "test"):
        texts = {
            side: [" ".join(draw.choices(words, k=length)) for _ in range(20)]
            for side, words, length in (("source", GERMAN, 5), ("mt", ENGLISH, 10), ("target", ENGLISH, 5))
        }
        splits[split] = {
            side: {
                "files": [
                    {
                        "file": written(folder / f"{name}.{split}.{side}", lines),
                        "repeat": repeat if split == "train" else 1,
                    }
                ],
                "tokenised": tokenised,
            }
            for side, lines in texts.items()
        }
    path = folder / f"{name}.yaml"
    languages = {"source": "de", "mt": "en", "target": "en"}
    content = {"task": "post-edit", "about": "edits", "licence": "none", "languages": languages, "splits": splits}
    path.write_text(yaml.safe_dump({**content, **keys}))
    return path


def command(models: tuple[Path, Path], text: Path, real: Path, output: Path, *words: object) -> list[object]:
    there, back = models
    return [
        "round-trip", "--data", text, "--post-edits", real, "--to-source", there, "--to-target", back, "-o", output,
        *words,
    ]  # fmt: skip


def triples(description: Path | str, split: str = "train") -> list[tuple[str, ...]]:
    return [row.texts for row in read_rows(open_dataset(str(description)), split, SIDES)]


def test_triples_are_a_text_and_what_two_models_make_of_it(models, english, tmp_path, capsys):
    real = post_edits(tmp_path, joined={"test_long": {"split": "test", "over": 6, "up_to": 12, "seed": 1}})
    made, said = run(capsys, *command(models, english, real, tmp_path / "new", "--repeat", 3))
    assert made == str(tmp_path / "new" / "new.yaml")
    rows, edits = triples(made), triples(real)
    artificial = rows[: len(rows) - 3 * len(edits)]
    assert rows[len(artificial) :] == edits * 3
    assert all(triples(made, split) == triples(real, split) for split in ("dev", "test", "test_long"))

    german = run_lines(capsys, "translate", models[0], tmp_path / "text.en", "--no-protect")
    back = run_lines(capsys, "translate", models[1], written_to(tmp_path / "back", german), "--no-protect")
    every = [
        triple
        for triple in zip(german, back, (tmp_path / "text.en").read_text().splitlines(), strict=True)
        if all(triple)
    ]
    assert len(artificial) > 0 and not Counter(artificial) - Counter(every)
    assert f"{len(artificial)} of {len(every)} triples are selected" in said
    record = json.loads((tmp_path / "new" / "round_trip.json").read_text())
    assert [record[side][0]["weights_sha256"] for side in ("to_source", "to_target")] == [
        interlinear.load(model).card.weights_sha256 for model in models
    ]


def run_lines(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    cli.run([str(word) for word in words])
    return capsys.readouterr().out.splitlines()


def written_to(path: Path, lines: list[str]) -> Path:
    written(path, lines)
    return path


def test_a_post_editing_model_is_trained_on_the_data_set(models, english, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made, _ = run(capsys, *command(models, english, post_edits(tmp_path), tmp_path / "new", "--triples", 40))
    settings = [*SETTINGS, "sources.mt.units=words", "training.epochs=1"]
    words = [word for setting in settings for word in ("--set", setting)]
    run(capsys, "train", "postedit_flat", "--data", made, "--run", "ape", "--no-ray", "--tracking", "none", *words)
    assert interlinear.load(tmp_path / "runs" / "ape" / "bundle").card.data["name"] == "new"


def test_the_text_is_written_as_the_real_post_edits_are(models, english, tmp_path, capsys):
    written(tmp_path / "text.en", [f"{word}, dog." for word in ENGLISH * 5][:LINES])
    real = post_edits(tmp_path, tokenised=True)
    made, _ = run(capsys, *command(models, english, real, tmp_path / "new", "--triples", 50))
    targets = {target for _, _, target in triples(made)[:-400]}
    assert targets and targets <= {f"{word} , dog ." for word in ENGLISH}
    assert yaml.safe_load(Path(made).read_text())["splits"]["train"]["target"]["tokenised"] is True


def test_another_selection_needs_no_new_translations(models, english, tmp_path, capsys):
    real, output = post_edits(tmp_path), tmp_path / "new"
    run(capsys, *command(models, english, real, output, "--triples", 10))
    before = (output / "translations.mt").stat().st_mtime_ns
    contents = {side: gzip.decompress((output / f"new.train.{side}.gz").read_bytes()) for side in SIDES}
    assert "it is there already" in run(capsys, *command(models, english, real, output, "--triples", 10))[1]
    run(capsys, *command(models, english, real, output, "--triples", 40))
    assert (output / "translations.mt").stat().st_mtime_ns == before
    more = {side: gzip.decompress((output / f"new.train.{side}.gz").read_bytes()) for side in SIDES}
    assert all(len(more[side]) > len(contents[side]) for side in SIDES)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["source", "mt"])
def test_a_killed_command_continues_where_it_stopped(models, english, tmp_path, capsys, name: str):
    real = post_edits(tmp_path)
    (tmp_path / "text.en").write_text((tmp_path / "text.en").read_text() * 20)
    (tmp_path / "text.de").write_text("x\n" * 20 * LINES)
    whole, _ = run(capsys, *command(models, english, real, tmp_path / "whole"))
    words = command(models, english, real, tmp_path / "cut")
    process = processes.command(tmp_path, *words)
    part = tmp_path / "cut" / f"translations.{name}.part"
    while not (part.exists() and part.stat().st_size):
        assert process.is_alive(), "it ended before it could be killed"
        time.sleep(0.002)
    process.kill()
    process.join()
    assert not (tmp_path / "cut" / "cut.yaml").exists()
    made, said = run(capsys, *words)
    assert f"translations.{name}: going on after line" in said
    assert triples(made) == triples(whole)


def test_models_text_and_post_edits_that_do_not_fit_are_refused(models, editing_toy, english, tmp_path, capsys):
    real = post_edits(tmp_path)
    dropping = post_edits(tmp_path, "dropping", cleaning={"duplicates": "drop"})
    often = post_edits(tmp_path, "often", repeat=100)
    plain = tmp_path / "plain.yaml"
    plain.write_text(english.read_text().replace("target: en", "target: fr"))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for words, code, said in (
        (command(models[::-1], english, real, tmp_path / "new"), 2, "--to-source: the model's 'source' is de"),
        (command((models[0], editing_toy), english, real, tmp_path / "new"), 2, "--to-target: it reads source and mt"),
        (command(models, english, english, tmp_path / "new"), 1, "has no field 'mt'"),
        (command(models, plain, real, tmp_path / "new"), 2, "ame one with --field: source, target"),
        (command(models, english, dropping, tmp_path / "new"), 2, "--repeat: dropping is cleaned"),
        (command(models, english, often, tmp_path / "new"), 2, "--repeat: often reads its post-edits 100 times"),
        (command(models, english, real, tmp_path), 2, "is there already, and is no data set of round trips"),
    ):
        assert cli.run([str(word) for word in words]) == code
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
