"""The folder in which this machine caches downloads."""

import os
from pathlib import Path


def cache_folder(kind: str) -> Path:
    """The cache folder for one kind of content (`models`, `prepared`, ...): under `INTERLINEAR_CACHE`, else
    `$XDG_CACHE_HOME/interlinear`, else `~/.cache/interlinear`."""
    if configured := os.environ.get("INTERLINEAR_CACHE"):
        return Path(configured).absolute() / kind
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "interlinear" / kind
