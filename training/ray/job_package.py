"""What a job needs and the cluster lacks: a recipe and a data set's description of the user's own, and no more.

A recipe goes along with all that it extends laid into one file, so that it means the same wherever it lies. The text
that a description names stays where it is, unless it is asked for and small.
"""

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml

from seq2seq.errors import DataError, UsageError
from training.data.dataset import Dataset, locate
from training.recipe import load_recipe, read_recipe_file

MAX_BYTES = 10 << 20  # bytes that go along with a job
RECIPES, DATA = "recipe", "data"  # folders below the job's own
TRAINING_SPLITS = ("train", "dev")


@dataclass(frozen=True)
class JobPackage:
    """Files by their paths below the job's folder, and what the recipe and the data set are called there: a path of
    the package, or a name that the cluster knows. `texts`: whether the data set's text is among them, below DATA."""

    files: Mapping[str, bytes]
    recipe: str
    data: str
    name: str  # the run's, where the user gives none
    texts: bool = False

    def write(self, folder: Path) -> None:
        for path, content in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)

    def to_zip(self) -> bytes:
        """The files as a ZIP archive."""
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for path, content in self.files.items():
                file.writestr(path, content)
        return archive.getvalue()


def unzip(archive: bytes) -> dict[str, bytes]:
    """What `JobPackage.to_zip` has put away."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {name: file.read(name) for name in file.namelist()}


def build_package(
    recipe: str, data: str, settings: Sequence[str] = (), texts: bool = False, data_root: Path | None = None
) -> JobPackage:
    """The files that go along with a training; with `texts` also what the data set's splits for training name.

    Raises, before anything is sent, RecipeError and UnknownDataError for what is wrong with their names or contents,
    DataError for text that cannot go along, CallError for too much of it.
    """
    dataset = locate(data, data_root)
    load_recipe(recipe, settings, dataset.defaults)
    files: dict[str, bytes] = {}
    recipe_there, data_there = recipe, data
    if recipe.endswith((".yaml", ".yml")):
        recipe_there = f"{RECIPES}/{Path(recipe).stem}.yaml"
        files[recipe_there] = yaml.safe_dump(read_recipe_file(recipe, ()), sort_keys=False, allow_unicode=True).encode()
    if dataset.path == Path(data):
        data_there = f"{DATA}/{dataset.path.name}"
        files[data_there] = dataset.path.read_bytes()
    text_paths = text_files(dataset) if texts else {}
    sizes = {path: len(content) for path, content in files.items()}
    sizes |= {path: path_here.stat().st_size for path, path_here in text_paths.items()}
    if (size := sum(sizes.values())) > MAX_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        raise UsageError(
            data,
            f"{size:,} bytes would go along with the job ({largest} has {sizes[largest]:,}), and {MAX_BYTES:,} may",
            "bring the data to where the cluster sees it, and name that folder with --data-root",
        )
    files |= {path: path_here.read_bytes() for path, path_here in text_paths.items()}
    return JobPackage(files, recipe_there, data_there, f"{Path(recipe).stem}-{dataset.name}", texts)


def text_files(dataset: Dataset) -> dict[str, Path]:
    """Where the files of the splits for training lie, by their paths in the package. Raises DataError."""
    if dataset.generate is not None:
        raise DataError(dataset.name, "its text is generated, on the cluster too", "leave --pack-data out")
    found: dict[str, Path] = {}
    for path in training_paths(dataset):
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise DataError(
                str(dataset.path),
                f"{path} is not below its folder, and cannot go along",
                "write its path as relative, or leave --pack-data out",
            )
        path_here = found[f"{DATA}/{path}"] = dataset.find_file(path)
        if not path_here.is_file():
            raise DataError(str(path_here), "is no file, and cannot go along", "leave --pack-data out")
    return found


def training_paths(dataset: Dataset) -> list[str]:
    """The files that a training on the data set reads, as its description names them."""
    fields = [field for split in TRAINING_SPLITS for field in dataset.splits.get(split, {}).values()]
    return list(dict.fromkeys(path for field in fields for path in field.paths))
