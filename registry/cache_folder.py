"""Where this machine keeps what it has fetched, and can fetch again."""

import os
from pathlib import Path


def cache_folder(kind: str) -> Path:
    """The folder for one kind of things (`models`, `prepared`, ...): under `INTERLINEAR_CACHE`, else
    `$XDG_CACHE_HOME/interlinear`, else `~/.cache/interlinear`."""
    if given := os.environ.get("INTERLINEAR_CACHE"):
        return Path(given).absolute() / kind
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "interlinear" / kind
