"""The files that are uploaded with a job: all that it needs, and nothing else."""

import random
import subprocess
from pathlib import Path

import pytest
import yaml

from interlinear.errors import DataError, RecipeError, UnknownDataError, UsageError
from tests.training.toy import write_corpus
from training.data.dataset import open_dataset, read_lines
from training.ray.job_package import FOLDER, MAX_BYTES, MAX_KEPT_BYTES, JobSpec, build_job_spec, build_package, unzip
from training.recipe import load_recipe
from training.storage.storage import Storage


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with many private files; it is the current directory."""
    write_corpus(tmp_path)
    for path in (".env", ".venv/bin/python", "runs/old/bundle/weights.safetensors", "mlflow.db", "data/private.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("SECRET=1\n")
    (tmp_path / "base.yaml").write_text("about: mine\nextends: rnnsearch\nmodel: {hidden: 16, embedding: 16}\n")
    (tmp_path / "mine.yaml").write_text("about: mine, longer\nextends: base.yaml\nmodel: {hidden: 24}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_packages_installed_on_the_cluster_are_not_uploaded():
    package = build_package("rnnsearch", "demo", ["model.hidden=16"])
    assert (dict(package.files), package.recipe, package.data, package.name) == (
        {},
        "rnnsearch",
        "demo",
        "rnnsearch-demo",
    )


def test_only_the_recipe_and_the_description_are_uploaded(folder: Path):
    package = build_package("mine.yaml", "toy.yaml")
    assert set(package.files) == {"recipe/mine.yaml", "data/toy.yaml"}
    assert (package.recipe, package.data, package.name) == ("recipe/mine.yaml", "data/toy.yaml", "mine-toy")
    assert package.files["data/toy.yaml"] == (folder / "toy.yaml").read_bytes()
    assert "extends" not in yaml.safe_load(package.files["recipe/mine.yaml"])  # it extends no other recipe
    assert not any(b"SECRET" in content for content in package.files.values())

    package.write(folder / "there")
    assert load_recipe(str(folder / "there/recipe/mine.yaml")) == load_recipe("mine.yaml")
    assert unzip(package.to_zip()) == package.files


def test_text_is_uploaded_when_requested(folder: Path):
    package = build_package("rnnsearch", "toy.yaml", texts=True)
    splits = {f"data/{split}.{side}" for split in ("train", "dev") for side in ("source", "target")}
    assert set(package.files) == splits | {"data/toy.yaml"}  # without the test split, which training does not read
    assert package.files["data/dev.source"] == (folder / "dev.source").read_bytes()


def test_text_that_ships_is_uploaded_when_requested():
    package = build_package("rnnsearch", "demo", texts=True)
    assert set(package.files) == {
        f"data/demo/{split}.{name}.gz" for split in ("train", "dev") for name in ("de", "en", "align")
    }
    assert package.data == "demo"


def test_large_text_goes_by_the_storage(folder: Path):
    lines = (folder / "train.source").read_text().splitlines()
    (folder / "train.source").write_text("".join(f"{line} {'x' * 20_000}\n" for line in lines))
    storage = Storage((folder / "storage").as_uri())
    package = build_package("rnnsearch", "toy.yaml", texts=True, storage=storage)
    assert (set(package.files), package.data, package.texts) == ({"data/toy.yaml"}, "data/toy.yaml", False)
    there = folder / "there"
    package.write(there)
    local, stored = open_dataset("toy.yaml"), open_dataset(str(there / "data/toy.yaml"))
    for split in ("train", "dev"):
        for name in ("source", "target"):
            assert list(read_lines(stored.field(split, name))) == list(read_lines(local.field(split, name)))
    assert stored.field("train", "source").files[0].is_relative_to(folder / "storage")
    written = {path: path.stat().st_mtime_ns for path in (folder / "storage").rglob("*") if path.is_file()}
    assert build_package("rnnsearch", "toy.yaml", texts=True, storage=storage) == package
    assert {path: path.stat().st_mtime_ns for path in (folder / "storage").rglob("*") if path.is_file()} == written

    (folder / "train.source").write_text("".join(f"{line}\n" for line in lines))
    assert build_package("rnnsearch", "toy.yaml", texts=True, storage=storage).texts  # small text needs no storage


def test_a_description_of_stored_text_has_nothing_of_the_splits_that_stay_here(folder: Path):
    lines = (folder / "train.source").read_text().splitlines()
    (folder / "train.source").write_text("".join(f"{line} {'x' * 20_000}\n" for line in lines))
    described = yaml.safe_load((folder / "toy.yaml").read_text())
    described["languages"]["mt"] = "en"
    described["splits"]["test"]["mt"] = "test.target"
    long = {"over": 5, "up_to": 10, "seed": 1}
    described["joined"] = {"test_joined": {"split": "test", **long}, "dev_joined": {"split": "dev", **long}}
    (folder / "toy.yaml").write_text(yaml.safe_dump(described))
    package = build_package("rnnsearch", "toy.yaml", texts=True, storage=Storage((folder / "storage").as_uri()))
    package.write(folder / "there")
    stored = open_dataset(str(folder / "there/data/toy.yaml"))
    assert set(stored.languages) == {"source", "target"} and stored.has_split("dev_joined")
    assert not stored.has_split("test") and not stored.has_split("test_joined")


@pytest.mark.parametrize("texts", [False, True])
def test_a_data_set_that_the_recipe_cannot_train_on_is_refused_before_anything_is_uploaded(folder: Path, texts: bool):
    described = yaml.safe_load((folder / "toy.yaml").read_text())
    del described["splits"]["dev"]
    (folder / "toy.yaml").write_text(yaml.safe_dump(described))
    (folder / "train.source").write_bytes(b"x" * 12_000_000)
    storage = Storage((folder / "storage").as_uri())
    with pytest.raises(DataError, match="the data set has no dev split"):
        build_package("rnnsearch", "toy.yaml", texts=texts, storage=storage)
    assert not (folder / "storage").exists()


def test_refused_uploads(folder: Path):
    with pytest.raises(UsageError, match=r"toy.yaml: 12,\d+,\d+ bytes would go along .*\(data/train.source has 12,000"):
        (folder / "train.source").write_bytes(b"x" * 12_000_000)
        assert MAX_BYTES < 12_000_000
        build_package("rnnsearch", "toy.yaml", texts=True)
    description = (folder / "toy.yaml").read_text()
    for path, problem in (
        (folder / "dev.source", "is not below its folder"),
        ("../dev.source", "is not below its folder"),
    ):
        (folder / "toy.yaml").write_text(description.replace("dev.source", str(path)))
        with pytest.raises(DataError, match=problem):
            build_package("rnnsearch", "toy.yaml", texts=True)
    (folder / "toy.yaml").write_text(description.replace("dev.source", "nowhere.source"))
    with pytest.raises(DataError, match=r"nowhere.source was not found"):
        build_package("rnnsearch", "toy.yaml", texts=True)
    assert "data/toy.yaml" in build_package("rnnsearch", "toy.yaml").files  # the cluster may have it


def test_errors_are_found_before_anything_is_uploaded(folder: Path):
    for recipe, data, settings, error in (
        ("no-such", "demo", [], RecipeError),
        ("nowhere.yaml", "demo", [], RecipeError),
        ("rnnsearch", "no-such", [], UnknownDataError),
        ("rnnsearch", "demo", ["model.hiden=3"], RecipeError),
    ):
        with pytest.raises(error):
            build_package(recipe, data, settings)


def test_the_command_line_is_parsed_by_the_shell_as_train(folder: Path):
    (folder / "odd name's.yaml").write_text((folder / "toy.yaml").read_text())
    package = build_package("mine.yaml", "odd name's.yaml", texts=True)
    options = ["--set", "training.precision='fp32'", "--experiment", "a b; exit 3"]
    call = build_job_spec(package, "first", options, resume=True, folder=str(folder / "work here"))
    (folder / "bin").mkdir()
    command = folder / "bin/interlinear"  # a program in place of the command, which prints its folder and arguments
    command.write_text('#!/bin/sh\npwd\nprintf "%s\\n" "$@"\n')
    command.chmod(0o755)
    package.write(there := folder / "packed")
    said = subprocess.run(
        call.entrypoint(), shell=True, cwd=there, check=True, capture_output=True, text=True,
        env={"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": str(folder)},
    ).stdout.splitlines()  # fmt: skip
    where, *words = said
    assert where == str(folder / "work here")
    assert words == [
        "train", f"{there}/recipe/mine.yaml", "--data", f"{there}/data/odd name's.yaml", "--run", "first",
        "--data-root", f"{there}/data", *options, "--resume", "--address", "auto",
    ]  # fmt: skip
    assert all(Path(path).exists() for path in (words[1], words[3]))


def test_a_job_stores_its_arguments(folder: Path):
    call = build_job_spec(build_package("mine.yaml", "toy.yaml"), None, ["--workers", "2"], resume=False, folder=FOLDER)
    assert call.run == "mine-toy" and call.entrypoint().startswith(
        "mkdir -p ~/interlinear && cd ~/interlinear && exec "
    )
    assert JobSpec.model_validate_json(call.model_dump_json()) == call
    assert call.package and len(call.package) < MAX_KEPT_BYTES
    (folder / "train.source").write_bytes(random.Random(1).randbytes(100_000))
    large = build_job_spec(build_package("mine.yaml", "toy.yaml", texts=True), None, [], resume=False, folder=FOLDER)
    assert large.packed and large.package is None
    with pytest.raises(UsageError, match="is no name for a run"):
        build_job_spec(build_package("rnnsearch", "demo"), "a/b", [], resume=False, folder=FOLDER)
