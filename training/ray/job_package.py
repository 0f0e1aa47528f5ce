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

from seq2seq.errors import CallError, DataError
from training.data.dataset import Dataset, locate
from training.recipe import load_recipe, read

MOST = 10 << 20  # bytes that go along with a job
RECIPES, DATA = "recipe", "data"  # folders below the job's own
TRAINED_ON = ("train", "dev")


@dataclass(frozen=True)
class Package:
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

    def zipped(self) -> bytes:
        """The files as a ZIP archive."""
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for path, content in self.files.items():
                file.writestr(path, content)
        return archive.getvalue()


def unzipped(archive: bytes) -> dict[str, bytes]:
    """What `Package.zipped` has put away."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {name: file.read(name) for name in file.namelist()}


def pack(
    recipe: str, data: str, settings: Sequence[str] = (), texts: bool = False, data_root: Path | None = None
) -> Package:
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
        files[recipe_there] = yaml.safe_dump(read(recipe, ()), sort_keys=False, allow_unicode=True).encode()
    if dataset.where == Path(data):
        data_there = f"{DATA}/{dataset.where.name}"
        files[data_there] = dataset.where.read_bytes()
    there = texts_of(dataset) if texts else {}
    sizes = {path: len(content) for path, content in files.items()}
    sizes |= {path: place.stat().st_size for path, place in there.items()}
    if (size := sum(sizes.values())) > MOST:
        largest = max(sizes, key=lambda path: sizes[path])
        raise CallError(
            data,
            f"{size:,} bytes would go along with the job ({largest} has {sizes[largest]:,}), and {MOST:,} may",
            "bring the data to where the cluster sees it, and name that folder with --data-root",
        )
    files |= {path: place.read_bytes() for path, place in there.items()}
    return Package(files, recipe_there, data_there, f"{Path(recipe).stem}-{dataset.name}", texts)


def texts_of(dataset: Dataset) -> dict[str, Path]:
    """Where the files of the splits for training lie, by their paths in the package. Raises DataError."""
    if dataset.generate is not None:
        raise DataError(dataset.name, "its text is generated, on the cluster too", "leave --pack-data out")
    found: dict[str, Path] = {}
    for path in paths_of(dataset):
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise DataError(
                str(dataset.where),
                f"{path} is not below its folder, and cannot go along",
                "write its path as relative, or leave --pack-data out",
            )
        place = found[f"{DATA}/{path}"] = dataset.find(path)
        if not place.is_file():
            raise DataError(str(place), "is no file, and cannot go along", "leave --pack-data out")
    return found


def paths_of(dataset: Dataset) -> list[str]:
    """The files that a training on the data set reads, as its description names them."""
    fields = [field for split in TRAINED_ON for field in dataset.splits.get(split, {}).values()]
    return list(dict.fromkeys(path for field in fields for path in field.paths))
