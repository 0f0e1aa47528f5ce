"""Parses model names: a folder, `models:/NAME/3`, `models:/NAME@ALIAS` or `runs:/ID/model`.

`models:/NAME` means `models:/NAME@champion`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from interlinear.errors import UsageError

CHAMPION = "champion"  # the alias of the version to use
FORMS = "a model is a bundle folder, models:/NAME/3, models:/NAME@champion or runs:/ID/model"


@dataclass(frozen=True)
class FolderName:
    """A bundle on this machine."""

    path: Path


@dataclass(frozen=True)
class VersionName:
    """`models:/NAME/3`."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"models:/{self.name}/{self.version}"


@dataclass(frozen=True)
class AliasName:
    """`models:/NAME@ALIAS`."""

    name: str
    alias: str

    def __str__(self) -> str:
        return f"models:/{self.name}@{self.alias}"


@dataclass(frozen=True)
class RunName:
    """`runs:/ID/model`: the model that a run logged under that name, registered or not."""

    run_id: str
    model: str

    def __str__(self) -> str:
        return f"runs:/{self.run_id}/{self.model}"


ModelName = FolderName | VersionName | AliasName | RunName


# Registered names become part of addresses and of paths in an artifact store, so path separators are excluded.
# Commands separate names by commas.
_WORD = r"[^\s/\\:@,.\-\x00-\x1f\x7f][^/\\:@,\x00-\x1f\x7f]*"
_VERSION = re.compile(rf"models:/(?P<name>{_WORD})/(?P<version>[1-9]\d*)")
_ALIAS = re.compile(rf"models:/(?P<name>{_WORD})@(?P<alias>[A-Za-z_][\w.-]*)")
_CHAMPION = re.compile(rf"models:/(?P<name>{_WORD})")
_NEW_ALIAS = re.compile(r"(?!(?i:latest|v\d+)$)[A-Za-z_][\w-]*")  # the rest MLflow refuses or reserves
_RUN = re.compile(rf"runs:/(?P<run>\w[\w-]*)/(?P<model>{_WORD}(?:/{_WORD})*)")


def parse_model_name(text: str) -> ModelName:
    """Parse a model's name, without checking that the model exists.

    Raises UsageError for a name of none of the four forms.
    """
    if match := _VERSION.fullmatch(text):
        return VersionName(match["name"], match["version"])
    if match := _ALIAS.fullmatch(text):
        return AliasName(match["name"], match["alias"])
    if match := _CHAMPION.fullmatch(text):
        return AliasName(match["name"], CHAMPION)
    if match := _RUN.fullmatch(text):
        return RunName(match["run"], match["model"])
    if re.match(r"(models|runs):", text):
        raise UsageError(repr(text), "is not a model's name", FORMS)
    if not text.strip() or "\0" in text or re.match(r"\w[\w+.-]*://", text):
        raise UsageError(repr(text), "is neither a folder nor a model's name", FORMS)
    return FolderName(Path(text))


def is_registrable(name: str) -> bool:
    """Whether a registered model may have this name."""
    return bool(re.fullmatch(_WORD, name))


def check_name(name: str) -> None:
    """Raises UsageError unless models can be registered under this name."""
    if not is_registrable(name):
        raise UsageError(repr(name), "cannot be a registered model's name", "letters, digits, '-' and '_' can")


def check_alias(alias: str) -> None:
    """Raises UsageError unless an alias of this name can be set."""
    if not _NEW_ALIAS.fullmatch(alias):
        raise UsageError(
            repr(alias), "cannot be an alias", "letters, digits, '-' and '_' can, but not latest, v1, v2, ..."
        )
