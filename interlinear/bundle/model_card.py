"""The model card: the content of a bundle's `model.json`."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from interlinear.config import AnyModelConfig, Task
from interlinear.errors import UsageError
from interlinear.metrics.score import Score
from interlinear.search import LONGEST, SearchOptions

FORMAT = 1


class Limits(BaseModel):
    """Maximum lengths of the source and of the output, in tokens."""

    source_length: int = Field(200, ge=1, le=LONGEST)
    target_length: int = Field(400, ge=1, le=LONGEST)


def direction_of(languages: Mapping[str, str]) -> str:
    """The language direction, such as `de to en` or `en and de to de`; empty if no language is known. `languages`: the
    code of every source and of the target."""
    sources = [code for field, code in languages.items() if field != "target"]
    return " to ".join(filter(None, [" and ".join(sources), languages.get("target")]))


class ModelCard(BaseModel):
    """The content of `model.json`."""

    model_config = ConfigDict(extra="ignore")

    format: int = FORMAT
    task: Task = "translation"
    languages: dict[str, str] = Field({}, description="language code of every source and of the target")
    model: AnyModelConfig
    search: SearchOptions = Field(SearchOptions(), description="the recipe's search options")
    limits: Limits = Limits()
    recipe: dict[str, Any] = Field({}, description="the training recipe, kept as a record")
    data: dict[str, Any] = Field({}, description="name and fingerprints of the data, kept as a record")
    metrics: dict[str, Score] = {}
    examples: list[dict[str, str]] = Field([], description="inputs of the dev set, by source name; images in base64")
    git_commit: str | None = None
    versions: dict[str, str] = {}
    created: str = ""
    weights_sha256: str = Field("", description="SHA-256 of the weights (`hash_weights`), not of their file")
    files: dict[str, str] = Field({}, description="SHA-256 of the other files, except README.md")
    content_sha256: str = Field("", description="SHA-256 of the card without this key")

    @property
    def direction(self) -> str:
        """The language direction (`direction_of`)."""
        return direction_of(self.languages)

    def check_opposite(self, reverse: "ModelCard", where: str) -> None:
        """Raises UsageError, located at `where`, if a reverse model does not translate in the opposite direction.

        A card that does not say its languages fits every other.
        """
        source, target = self.languages.get(self.model.first_text), self.languages.get("target")
        reverse_source = reverse.languages.get(reverse.model.first_text)
        reverse_target = reverse.languages.get("target")
        languages = (source, target, reverse_source, reverse_target)
        if None not in languages and (reverse_source, reverse_target) != (target, source):
            raise UsageError(
                where,
                f"it goes from {reverse_source} to {reverse_target}, and MODEL from {source} to {target}",
                f"name a model from {target} to {source}",
            )

    @property
    def guide(self) -> str:
        """The guide of attention in training, such as `hmm, weight 1`; empty without one."""
        guide = self.recipe.get("training", {}).get("guide")
        return f"{guide['from']}, weight {guide['weight']:g}" if guide else ""

    @property
    def dev_search(self) -> str:
        """How the dev scores by search were computed, such as `1,014 sentences, beam 1`; empty if not recorded."""
        sentences, beam = self.data.get("dev_sentences"), self.recipe.get("training", {}).get("dev_beam")
        return f"{sentences:,} sentences, beam {beam}" if sentences and beam else ""
