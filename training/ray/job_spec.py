"""Specification of a cluster job: what a training on the cluster is started with, and its command line."""

import base64
import shlex
from collections.abc import Sequence

from pydantic import BaseModel

from registry.address import user
from training.ray.job_package import DATA, JobPackage
from training.runs.job import check_run_name

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
