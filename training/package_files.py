"""Location of the recipes and data-set descriptions that ship with the program."""

from pathlib import Path
from typing import Literal

PACKAGE = Path(__file__).parent


def resource_folder(folder: Literal["recipes", "corpora"]) -> Path:
    """The folder with that name: inside this package in an installed wheel, beside the packages in a checkout."""
    installed = PACKAGE / folder
    return installed if installed.is_dir() else PACKAGE.parent / folder
