"""Jobs of a cluster: their specification and command line, and the files that are uploaded with them: the user's own
recipe, data-set description and, on request, its text.

A recipe is packed as one file with everything that it extends, so that it means the same everywhere. Text files are
packed only on request and within a size limit, over which they go by a storage.
"""

import base64
import hashlib
import io
import json
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from pydantic import BaseModel

from interlinear.errors import DataError, UsageError
from interlinear.registry.address import user
from training.data.dataset import Dataset, open_dataset
from training.data.dataset.description import read_description_file
from training.data.uris import fingerprint
from training.recipe import load_recipe, read_recipe_file
from training.runs.job import check_recipe_fits, check_run_name
from training.storage.storage import Storage
from training.yaml_files import is_yaml_file

MAX_BYTES = 10 << 20  # of the files that are uploaded with a job
RECIPES, DATA = "recipe", "data"  # folders below the job's own
TRAINING_SPLITS = ("train", "dev")


@dataclass(frozen=True)
class JobPackage:
    """Files by their paths below the job's folder. `recipe` and `data` are their names for the job: a path in the
    package, or a name that the cluster knows. `texts`: whether the data set's text is included, below DATA."""

    files: Mapping[str, bytes]
    recipe: str
    data: str
    name: str  # the run's name where the user gives none
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
    """The files of an archive that `JobPackage.to_zip` has made."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {name: file.read(name) for name in file.namelist()}


def build_package(
    recipe: str,
    data: str,
    settings: Sequence[str] = (),
    texts: bool = False,
    data_root: Path | None = None,
    storage: Storage | None = None,
) -> JobPackage:
    """Collect the files for a training job; with `texts`, also the text files of the data set's training splits.

    Text that is too large is uploaded to the storage, if there is one; the description then has its URIs. Raises,
    before anything is sent, RecipeError and UnknownDataError for wrong names or contents, DataError for a data set that
    the recipe does not fit and text that cannot be packed, UsageError for a package that is too large.
    """
    dataset = open_dataset(data, data_root)
    check_recipe_fits(load_recipe(recipe, settings, dataset.defaults), dataset)
    files: dict[str, bytes] = {}
    job_recipe, job_data = recipe, data
    if is_yaml_file(recipe):
        job_recipe = f"{RECIPES}/{Path(recipe).stem}.yaml"
        files[job_recipe] = yaml.safe_dump(read_recipe_file(recipe, ()), sort_keys=False, allow_unicode=True).encode()
    if dataset.path == Path(data):
        job_data = f"{DATA}/{dataset.path.name}"
        files[job_data] = dataset.path.read_bytes()
    text_paths = text_files(dataset) if texts else {}
    too_large = sum(path.stat().st_size for path in text_paths.values()) > MAX_BYTES
    if storage and too_large and not dataset.images("train"):  # images are not read by URI
        job_data = f"{DATA}/{dataset.path.name}"
        files[job_data] = store_texts(dataset, text_paths, storage)
        text_paths, texts = {}, False
    sizes = {path: len(content) for path, content in files.items()}
    sizes |= {path: local_path.stat().st_size for path, local_path in text_paths.items()}
    if (size := sum(sizes.values())) > MAX_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        raise UsageError(
            data,
            f"{size:,} bytes would go along with the job ({largest} has {sizes[largest]:,}), and {MAX_BYTES:,} may",
            "give --storage s3://BUCKET/PREFIX, or bring the data to where the cluster sees it, and name that folder "
            "with --data-root",
        )
    files |= {path: local_path.read_bytes() for path, local_path in text_paths.items()}
    return JobPackage(files, job_recipe, job_data, f"{Path(recipe).stem}-{dataset.name}", texts)


def text_files(dataset: Dataset) -> dict[str, Path]:
    """The files of the training splits, by their paths in the package. Raises DataError."""
    files: dict[str, Path] = {}
    for path in training_paths(dataset):
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise DataError(
                str(dataset.path),
                f"{path} is not below its folder, and cannot be packed",
                "write its path as relative, or leave --pack-data out",
            )
        local_path = files[f"{DATA}/{path}"] = dataset.find_file(path)
        if not local_path.is_file():
            raise DataError(str(local_path), "is no file, and cannot be packed", "leave --pack-data out")
    return files


def store_texts(dataset: Dataset, files: Mapping[str, Path], storage: Storage) -> bytes:
    """Upload the files of the training splits, unless they are on the storage already; returns a description with their
    URIs. Raises StorageError."""
    content = json.dumps({path: fingerprint(local_path) for path, local_path in files.items()}, sort_keys=True)
    storage.check()
    name = f"text/{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    storage.put_once(name, files)
    uris = {path.removeprefix(f"{DATA}/"): storage.uri_of(f"{name}/{path}") for path in files}
    described = training_description(dataset)
    described["splits"] = _with_uris(described["splits"], uris)
    return yaml.safe_dump(described, sort_keys=False, allow_unicode=True).encode()


def training_description(dataset: Dataset) -> dict[str, Any]:
    """The content of the data set's description, with only the splits of a training, and without references to other
    splits."""
    described = read_description_file(dataset.path)
    fields = {field for split in TRAINING_SPLITS for field in dataset.splits[split]}
    joined = described.get("joined", {})
    return {
        **described,
        "languages": {field: code for field, code in described["languages"].items() if field in fields},
        "splits": {split: described["splits"][split] for split in TRAINING_SPLITS},
        "joined": {name: split for name, split in joined.items() if split["split"] in TRAINING_SPLITS},
    }


def _with_uris(content: Any, uris: Mapping[str, str]) -> Any:
    """A part of a description, with the URI in place of each path."""
    if isinstance(content, Mapping):
        return {key: _with_uris(value, uris) for key, value in content.items()}
    if isinstance(content, list):
        return [_with_uris(value, uris) for value in content]
    return uris.get(content, content) if isinstance(content, str) else content


def training_paths(dataset: Dataset) -> list[str]:
    """The files that a training on the data set reads, as its description names them."""
    fields = [field for split in TRAINING_SPLITS for field in dataset.splits.get(split, {}).values()]
    return list(dict.fromkeys(path for field in fields for path in field.paths))


FOLDER = "~/interlinear"  # where jobs run on the cluster; it has to outlive them
MAX_KEPT_BYTES = 48 << 10  # bytes of a package stored with a job. Ray passes them on in an environment variable.
WORKING_DIR = '"$OLDPWD"/'  # the folder of packed files, in which the shell starts


class JobSpec(BaseModel):
    """The specification of a job, stored by the cluster with the job."""

    run: str
    recipe: str
    data: str
    options: tuple[str, ...] = ()  # further options of `interlinear train`
    resume: bool = False
    folder: str = FOLDER
    user: str | None = None
    package: str | None = None  # its files as a ZIP archive in base64; None where that is too large to store
    packed: tuple[str, ...] = ()  # their paths
    texts: bool = False  # whether the data set's text is among them

    def entrypoint(self) -> str:
        """The command line for the cluster's shell. The packed files are in the folder in which the shell starts."""
        words = [
            "train",
            self.shell_path(self.recipe),
            "--data",
            self.shell_path(self.data),
            "--run",
            shlex.quote(self.run),
        ]
        words += ["--data-root", WORKING_DIR + DATA] if self.texts else []
        words += map(shlex.quote, self.options)
        words += ["--resume"] if self.resume else []
        folder = shlex.quote(self.folder)
        if self.folder.startswith("~/"):
            folder = f"~/{shlex.quote(self.folder[2:])}"  # the cluster's shell expands the home folder
        return f"mkdir -p {folder} && cd {folder} && exec interlinear {' '.join(words)} --address auto"

    def shell_path(self, name: str) -> str:
        """A recipe's or data set's name for the shell; a packed one gets its path as seen by the command."""
        return (WORKING_DIR if name in self.packed else "") + shlex.quote(name)


def build_job_spec(package: JobPackage, run: str | None, options: Sequence[str], resume: bool, folder: str) -> JobSpec:
    """The specification of a packaged job. Raises UsageError for an invalid run name."""
    check_run_name(run or package.name)
    archive = base64.b64encode(package.to_zip()).decode() if package.files else None
    return JobSpec(
        run=run or package.name,
        recipe=package.recipe,
        data=package.data,
        options=tuple(options),
        resume=resume,
        folder=folder,
        user=user(),
        package=archive if archive and len(archive) <= MAX_KEPT_BYTES else None,
        packed=tuple(package.files),
        texts=package.texts,
    )
