"""Records of the store: a model's location, a logged bundle, a registered version, a promotion."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from interlinear.registry.address import user


@dataclass(frozen=True)
class StoredModel:
    """The location of a model in the store: MLflow's folder around a bundle."""

    name: str | None
    version: str | None
    location: str  # the artifacts' address
    folder: Path | None  # the same as a folder, where this machine sees it
    source: str | None = None  # of a version: the logged model, or an address

    def __str__(self) -> str:
        return f"models:/{self.name}/{self.version}" if self.name else self.location


@dataclass(frozen=True)
class RegisteredVersion:
    """A version as the registry names it. A number alone does not identify a model: a name that was deleted and
    registered again begins at 1."""

    version: str
    source: str  # the logged model, or an address


@dataclass(frozen=True)
class LoggedBundle:
    """A bundle that was logged as a run's model."""

    model_id: str
    run_id: str
    description: str  # Markdown, for the registry's page


@dataclass(frozen=True)
class ModelRecord:
    """One registered version, as listed by `interlinear models`."""

    name: str
    version: str
    aliases: tuple[str, ...]
    run_id: str | None
    created: datetime
    task: str | None
    languages: str | None
    recipe: str | None
    dataset: str | None
    dev_bleu: float | None
    dev_bleu_of: str | None  # the number of sentences and the search settings


@dataclass(frozen=True)
class Promotion:
    """The reason for moving an alias to another version. `figures`: by how much it is better, and on what."""

    instead_of: str | None
    why: str | None = None
    figures: str | None = None

    def tags(self, version: str) -> dict[str, str]:
        """The promotion as tags of the version; they replace the tags of an earlier promotion."""
        details = {"why": self.why or "-", "figures": self.figures or "-"}
        before = "-" if self.instead_of in (None, version) else str(self.instead_of)
        return {"by": user(), "at": datetime.now(UTC).isoformat(timespec="seconds"), "instead_of": before, **details}
