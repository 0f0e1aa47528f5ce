"""`train` on the user's own text: one command from two files or a TMX to a model, and what it refuses."""

from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from interlinear import cli
from interlinear.cli.parallel_text import OwnText
from tests.training.toy import SETTINGS, write_corpus
from training.data.dataset import open_dataset, read_rows
from training.ray.job_package import build_package

QUICK = [word for setting in [*SETTINGS, "training.epochs=1", "training.average=1"] for word in ("--set", setting)]
HERE = ["--no-ray", "--tracking", "none", *QUICK]


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The pairs of a text that is easily learned; the folder is the current one, and empty."""
    (tmp_path / "toy").mkdir()
    dataset = open_dataset(str(write_corpus(tmp_path / "toy")))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return [(row.texts[0], row.texts[1]) for row in read_rows(dataset, "train", ("source", "target"))]


def write_two(pairs: list[tuple[str, str]]) -> None:
    """train.de and train.en, as Windows writes them: one in UTF-8 with a byte-order mark, one in UTF-16."""
    for name, lines, encoding in zip(
        ("train.de", "train.en"), zip(*pairs, strict=True), ("utf-8-sig", "utf-16"), strict=True
    ):
        Path(name).write_bytes("".join(f"{line}\r\n" for line in lines).encode(encoding))


def write_tmx(pairs: list[tuple[str, str]]) -> None:
    def variant(code: str, text: str) -> str:
        return f'<tuv xml:lang="{code}"><seg>{escape(text)}</seg></tuv>'

    units = "".join(f"<tu>{variant('en-US', target)}{variant('de-DE', source)}</tu>" for source, target in pairs)
    Path("manuals.tmx").write_text(f'<tmx version="1.4"><header srclang="de-DE"/><body>{units}</body></tmx>')


def called(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.run(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_one_command_from_two_files_to_a_model(pairs: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]):
    write_two(pairs)
    words = ["train", "rnnsearch", "--source", "train.de", "--target", "train.en", *HERE]
    code, weights, err = called(capsys, *words)
    assert code == 0, err
    description = Path("data/train-de-en/train-de-en.yaml")
    assert "pairs of train.de and train.en: train " in err and ", dev 30, test 30" in err
    assert f"is described in {description}" in err and "languages: {source: de, target: en}\n" in err
    evaluate = f"interlinear evaluate {Path('runs/rnnsearch-train-de-en/bundle').resolve()} --data {description}"
    assert f"evaluate it: {evaluate} --split test\n" in err
    assert called(capsys, *evaluate.split()[1:], "--split", "test")[0] == 0

    description.write_text(description.read_text().replace("licence: not stated", "licence: ours"))
    code, again, err = called(capsys, *words)
    assert (code, again) == (0, weights), err
    assert "data/train-de-en was made of this text before, and is used" in err and "licence: ours" in err
    Path("train.de").write_bytes(Path("train.de").read_bytes().replace(b"ka", b"KA"))
    code, out, err = called(capsys, *words)
    assert (code, out) == (2, "") and "data/train-de-en: was made of other text (changed: train.de)" in err
    assert called(capsys, "prepare", "rnnsearch", "--data", str(description), *QUICK)[0] == 0


def test_one_command_from_a_tmx_to_a_registered_model(pairs: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]):
    write_tmx(pairs)
    code, _, err = called(
        capsys, "train", "rnnsearch", "--source", "manuals.tmx", "--register", "manuals", "--no-ray", *QUICK
    )
    assert code == 0, err
    dataset = open_dataset("data/manuals-de-en/manuals-de-en.yaml")
    assert dataset.languages == {"source": "de", "target": "en"}
    dev, test = ([row.texts for row in read_rows(dataset, split, ("source", "target"))] for split in ("dev", "test"))
    assert (len(dev), len(test)) == (30, 30) and not set(dev + test) - set(pairs)
    assert "evaluate it: interlinear evaluate models:/manuals/1 --data " in err
    words = ["manuals.tmx", "--output", "data/other", "--dev", "20", "--test", "10%", "--seed", "3"]
    code, described, err = called(capsys, "data", "split", *words)
    assert code == 0 and "dev 20, test 60" in err
    code, prepared, err = called(capsys, "prepare", "rnnsearch", "--data", described.strip(), *QUICK)
    assert code == 0 and Path(prepared.strip()).parent == Path("prepared")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--data: is missing, and so is text of your own"),
        (["--source", "train.de"], "train.de: is neither a .tsv, a .tmx nor a folder. Of two text files, name both"),
        (["--target", "train.en"], "--target train.en: is one side of the pairs. Add --source."),
        (["--data", "demo", "--source", "."], "--data demo: is a data set, and"),
        (["--data", "demo", "--languages", "de,en"], "--data demo: is a data set, and"),
        (["--source", "."], ".: a folder does not say its languages"),
        (["--source", "train.de", "--target", "none.en"], "none.en: there is no such file"),
        (["--source", ".", "--languages", "de,en", "--set", "model.layrs=2"], "model.layrs"),
    ],
)
def test_an_invalid_call_leaves_no_files(
    pairs: list[tuple[str, str]], words: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    write_two(pairs)
    code, out, err = called(capsys, "train", "rnnsearch", "--no-ray", *words)
    assert code in (1, 2) and out == "" and said in err and err.count("\n") == 1
    assert sorted(path.name for path in Path().iterdir()) == ["train.de", "train.en"]


def test_a_recipe_of_images_is_refused_before_text_is_read(
    pairs: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
):
    write_two(pairs)
    code, _, err = called(
        capsys, "train", "multimodal_hierarchical", "--source", "train.de", "--target", "train.en", "--no-ray"
    )
    assert code == 2 and "multimodal_hierarchical: reads image and source, and pairs have a source only" in err
    assert not Path("data").exists()


def test_the_text_goes_along_with_a_job(pairs: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]):
    write_two(pairs)
    description = OwnText(Path("train.de"), Path("train.en")).make()
    package = build_package("rnnsearch", str(description), texts=True)
    texts = {f"data/train-de-en.{split}.{language}" for split in ("train", "dev") for language in ("de", "en")}
    assert set(package.files) == texts | {"data/train-de-en.yaml"}
    package.write(Path("job"))
    data = ["--data", "job/data/train-de-en.yaml", "--data-root", "job/data", "--prepared", "job"]
    code, prepared, err = called(capsys, "prepare", "rnnsearch", *data, *QUICK)
    assert code == 0 and Path(prepared.strip()).is_dir(), err


def test_different_numbers_of_lines_leave_no_files(pairs: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]):
    write_two(pairs)
    Path("train.en").write_bytes("one\r\ntwo\r\n".encode("utf-16"))
    code, _, err = called(capsys, "train", "rnnsearch", "--source", "train.de", "--target", "train.en", "--no-ray")
    assert code == 1 and "train.de and train.en: have 600 and 2 lines" in err and err.count("\n") == 1
    assert sorted(path.name for path in Path().iterdir()) == ["train.de", "train.en"]
