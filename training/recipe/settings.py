"""The settings of a recipe: text, images, training, and the recipe itself."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from interlinear.components import IMAGE_NETWORKS, OPTIMIZERS
from interlinear.config import AnyArchitecture, AnyModelConfig, ImageGrid, ImageNetwork, ModelConfig, TextVocabulary
from interlinear.errors import RecipeError
from interlinear.minimum_risk.minimum_risk import RiskOptions
from interlinear.search import LONGEST, SearchOptions
from interlinear.source_names import MT

MODEL_CONFIG: TypeAdapter[ModelConfig] = TypeAdapter(AnyModelConfig)


class RecipeSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TextSettings(RecipeSection):
    """How a text is turned into token ids."""

    kind: Literal["text"] = "text"
    units: Literal["bpe", "unigram", "words"] = "bpe"
    vocabulary: int = Field(8000, ge=5, description="maximum number of entries, special symbols included")
    lowercase: bool = Field(False, description="learn from lower-cased text")
    subword_dropout: float = Field(
        0.0, ge=0, lt=1, description="units: bpe; the part of the merges left out, anew in every epoch (BPE-dropout)"
    )
    subword_sampling: float | None = Field(
        None,
        gt=0,
        le=100,
        description="units: unigram; segmentations x are drawn from P(x) to this power, anew in every epoch "
        "(subword regularization)",
    )

    @property
    def sampled(self) -> bool:
        """Whether training text is segmented at random."""
        return self.subword_dropout > 0 or self.subword_sampling is not None

    @model_validator(mode="after")
    def _check_units(self) -> Self:
        for key, units in (("subword_dropout", "bpe"), ("subword_sampling", "unigram")):
            if getattr(self, key) and self.units != units:
                raise ValueError(f"{key}: has no effect with units: {self.units}")
        return self


class TargetSettings(TextSettings):
    """How the output is turned into token ids: its text, or the edit operations that turn a source into it."""

    operations_on: str | None = Field(
        None,
        description="a text source; the model keeps or deletes its tokens and inserts others (Libovicky 2016)",
    )


class ImageSettings(RecipeSection):
    """How an image is turned into regions: by a network from its pixels, or from a grid of features in the data."""

    kind: Literal["image"]
    encoder: Literal["network", "grid"] = "network"
    network: Annotated[str, AfterValidator(IMAGE_NETWORKS.check)] | None = Field(
        None, description="encoder: network; default: small"
    )
    size: int | None = Field(
        None,
        ge=16,
        le=512,
        description="encoder: network; side length in pixels to which images are resized; default: 128",
    )
    weights: str | None = Field(None, description="encoder: network; a file of initial weights")
    frozen: bool = Field(False, description="encoder: network; the network is not trained")

    @model_validator(mode="after")
    def _check_unused_keys(self) -> Self:
        for key in ("network", "size", "weights", "frozen"):
            if self.encoder == "grid" and getattr(self, key):
                raise ValueError(f"{key}: has no effect with encoder: grid")
        return self

    @property
    def pixels(self) -> int | None:
        """Side length in pixels to which images are resized; None where the data holds features."""
        return None if self.encoder == "grid" else self.size or 128

    @property
    def grid(self) -> ImageGrid | None:
        """The grid of regions that the network produces; None where the data holds features, which alone define its
        shape."""
        if self.pixels is None:
            return None
        from interlinear.models.image_encoders.networks import grid_shape

        network = ImageNetwork(kind=self.network or "small", size=self.pixels, frozen=self.frozen)
        rows, columns, features = grid_shape(network)
        return ImageGrid(rows=rows, columns=columns, features=features, network=network)


def kind_of(source: object) -> str:
    """The kind of a source: `text`, unless its settings name another."""
    if isinstance(source, BaseModel):
        return str(getattr(source, "kind", "text"))
    return "image" if isinstance(source, Mapping) and source.get("kind") == "image" else "text"


SourceSettings = Annotated[
    Annotated[TextSettings, Tag("text")] | Annotated[ImageSettings, Tag("image")], Discriminator(kind_of)
]


ALIGNERS = ("hmm", "eflomal", "fast_align")  # aligners of the training pairs during preparation
SELF = "self"


class GuideSettings(RecipeSection):
    """Guided attention: word alignments of the training pairs, and the weight of their loss."""

    model_config = ConfigDict(serialize_by_alias=True)

    links: str = Field(
        alias="from",
        min_length=1,
        description="hmm, eflomal, fast_align, self, or a file of links in Pharaoh format, a line for each pair",
    )
    weight: float = Field(0.3, gt=0, description="of the guide's loss beside the word's, per target token")
    epochs: int | None = Field(None, ge=1, description="epochs with the guide's loss, from its first; null: all")
    reverse: str | None = Field(
        None, description="from: self only; a trained model of the opposite direction: a bundle's folder, models:/..."
    )
    after: int | None = Field(
        None, ge=1, description="from: self only; the epoch after which both models align the training pairs"
    )

    @property
    def file(self) -> Path | None:
        """The file of links, if they come from one."""
        return None if self.links in (*ALIGNERS, SELF) else Path(self.links)

    def applies_to(self, epoch: int) -> bool:
        """Whether an epoch, from 1, is trained with the guide's loss."""
        first = (self.after or 0) + 1
        return epoch >= first and (self.epochs is None or epoch < first + self.epochs)

    @model_validator(mode="after")
    def _check_self(self) -> Self:
        for key in ("reverse", "after"):
            if self.links != SELF and getattr(self, key) is not None:
                raise ValueError(f"{key}: has no effect with from: {self.links}")
            if self.links == SELF and getattr(self, key) is None:
                raise ValueError(f"{key}: from: self needs it")
        return self


class TrainingSettings(RecipeSection):
    """How the weights are trained."""

    objective: Literal["likelihood", "risk"] = Field(
        "likelihood", description="what an update minimises; risk is a second stage, from a trained model"
    )
    risk: RiskOptions | None = Field(None, description="objective: risk only")
    optimizer: Annotated[str, AfterValidator(OPTIMIZERS.check)] = Field(
        "adam", description="adam, adamw, adadelta, or one that is registered (extend.md)"
    )
    learning_rate: float = Field(0.001, gt=0)
    weight_decay: float | None = Field(None, ge=0, description="adamw only; default 0.01")
    rho: float | None = Field(None, gt=0, lt=1, description="adadelta only; default 0.95")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] | None = Field(
        None, description="adam and adamw; default: [0.9, 0.999]"
    )
    epsilon: float | None = Field(None, gt=0, description="default: 1e-8, adadelta 1e-6")
    schedule: Literal["constant", "halve_on_plateau", "halve_from_epoch", "inverse_square_root", "linear"] = Field(
        "halve_on_plateau", description="linear: from the full rate at the first update to 0 after the last epoch"
    )
    plateau: int | None = Field(None, ge=1, description="halve_on_plateau: epochs without a better score; default 1")
    halve_from: int | None = Field(
        None, ge=1, description="halve_from_epoch: the last epoch at the full rate; default 9"
    )
    warmup: int = Field(0, ge=0, description="updates over which the rate rises from 0")
    clip: float | None = Field(1.0, gt=0, description="largest norm of the gradient; null: none")
    batch_tokens: int | None = Field(
        None, ge=1, description="target tokens in one update's batch, of all workers together"
    )
    batch_sentences: int | None = Field(None, ge=1, description="the same in sentences; set one of the two")
    accumulation: int = Field(1, ge=1, description="parts into which each worker splits its share of a batch")
    divide_by: Literal["tokens", "sentences"] | None = Field(
        None, description="an update minimises its batch's loss per target token (default) or per sentence"
    )
    init_from: str | None = Field(None, description="a trained model to start from: a bundle's folder, models:/...")
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    guide: GuideSettings | None = Field(
        None, description="guided attention: attention is trained towards word alignments; `guide: hmm` for `from: hmm`"
    )
    lexicon: float = Field(
        0.0,
        ge=0,
        le=1,
        description="lines of single words and lists, from a lexicon of the training pairs, as a share of their number",
    )
    precision: Literal["fp32", "bf16"] = "bf16"
    epochs: int = Field(20, ge=1)
    epoch_updates: int | None = Field(
        None,
        ge=1,
        description="maximum number of updates in an epoch, its batches drawn anew for each; null: all the data",
    )
    patience: int | None = Field(5, ge=1, description="epochs without a better dev score before training stops")
    score: Literal["bleu", "rouge-l", "perplexity"] = Field(
        "bleu", description="the dev score that decides which weights are better"
    )
    dev_beam: int = Field(1, ge=1, le=64, description="beam of the search on the dev set, after every epoch")
    dev_sentences: int = Field(2000, ge=1, description="dev sentences that are searched, evenly spread over the set")
    average: int = Field(1, ge=1, description="number of best epochs whose weights are averaged at the end")
    keep_last: int = Field(2, ge=1, description="training states kept")
    save_minutes: float = Field(5, gt=0, description="minutes between training states within an epoch")
    max_length: int = Field(
        100, ge=1, le=LONGEST // 2, description="longer pairs, in tokens of either side, are left out"
    )
    seed: int = Field(1, ge=0)

    @model_validator(mode="after")
    def _check_unused_keys(self) -> Self:
        if self.betas is not None and self.optimizer not in ("adam", "adamw"):
            raise ValueError(f"betas: has no effect with optimizer: {self.optimizer}")
        needs = {
            "weight_decay": ("optimizer", "adamw"),
            "rho": ("optimizer", "adadelta"),
            "plateau": ("schedule", "halve_on_plateau"),
            "halve_from": ("schedule", "halve_from_epoch"),
        }
        for key, (other, value) in needs.items():
            if getattr(self, key) is not None and getattr(self, other) != value:
                raise ValueError(f"{key}: has no effect with {other}: {getattr(self, other)}")
        if self.schedule == "inverse_square_root" and not self.warmup:
            raise ValueError("warmup: inverse_square_root needs one, in updates")
        if (self.batch_tokens is None) == (self.batch_sentences is None):
            raise ValueError("batch_tokens: set this or batch_sentences, and not both (null unsets the other)")
        return self

    @model_validator(mode="after")
    def _check_risk(self) -> Self:
        if self.objective == "likelihood":
            if self.risk is not None:
                raise ValueError("risk: has no effect with objective: likelihood")
            return self
        if self.init_from is None:
            raise ValueError("init_from: objective: risk is a second stage, and needs a trained bundle to start from")
        if self.divide_by == "tokens":
            raise ValueError("divide_by: risk is a sentence's, and objective: risk is always divided by sentences")
        if self.score == "perplexity":
            raise ValueError(
                "score: objective: risk gives up perplexity for its metric, and is judged by score: bleu or rouge-l"
            )
        if self.label_smoothing and not (self.risk and self.risk.likelihood):
            raise ValueError("label_smoothing: has no effect with objective: risk unless risk.likelihood adds some")
        if self.guide and not (self.risk and self.risk.likelihood):
            raise ValueError("guide: has no effect with objective: risk unless risk.likelihood adds some")
        return self

    @field_validator("guide", mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        return {"from": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_guide(self) -> Self:
        if self.guide and self.guide.after is not None and self.guide.after >= self.epochs:
            raise ValueError(f"guide.after: training.epochs is {self.epochs}, so that no epoch would be guided")
        return self


class Recipe(RecipeSection):
    """One system: its sources and target, its model, its training and its search."""

    about: str = ""
    sources: dict[str, SourceSettings] = Field(min_length=1)
    target: TargetSettings
    joint_vocabulary: bool = Field(False, description="one vocabulary for all texts, sources and target")
    model: AnyArchitecture
    training: TrainingSettings
    search: SearchOptions = SearchOptions()

    @property
    def texts(self) -> dict[str, TextSettings]:
        """The text sources."""
        return {name: source for name, source in self.sources.items() if isinstance(source, TextSettings)}

    @property
    def images(self) -> dict[str, ImageSettings]:
        """The image sources."""
        return {name: source for name, source in self.sources.items() if isinstance(source, ImageSettings)}

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        if not self.texts:
            raise ValueError("sources: one of them must be text")
        if "target" in self.sources:
            raise ValueError("sources.target: is reserved for the output")
        for name, image in self.images.items():
            if image.frozen and not image.weights and not self.training.init_from:
                raise ValueError(
                    f"sources.{name}.frozen: would freeze randomly initialised weights; it needs weights, or "
                    "training.init_from"
                )
        return self

    @model_validator(mode="after")
    def _check_joint_settings(self) -> Self:
        settings = {(text.units, text.vocabulary, text.lowercase) for text in (*self.texts.values(), self.target)}
        if self.joint_vocabulary and len(settings) > 1:
            raise ValueError("joint_vocabulary: source and target must have the same units and vocabulary size")
        if self.model.tie_embeddings == "all" and not self.joint_vocabulary:
            raise ValueError("model.tie_embeddings: all needs joint_vocabulary: true")
        if len(self.sources) > 1 and self.model.combination == "none":
            raise ValueError("model.combination: must be set when there are several sources")
        return self

    @model_validator(mode="after")
    def _check_operations(self) -> Self:
        source = self.target.operations_on
        if source is None:
            return self
        if source not in self.texts:
            raise ValueError(f"target.operations_on: '{source}' is no text source; there are {', '.join(self.texts)}")
        if self.training.objective == "risk":
            raise ValueError("target.operations_on: objective: risk compares words, and the model writes operations")
        return self

    @model_validator(mode="after")
    def _check_sampled(self) -> Self:
        sampled = [name for name, text in (*self.texts.items(), ("target", self.target)) if text.sampled]
        if not sampled:
            return self
        key = "subword_dropout" if self.target.subword_dropout else "subword_sampling"
        if self.target.operations_on:
            raise ValueError(f"target.operations_on: operations apply to pieces, and those of {sampled[0]} are random")
        if self.training.objective == "risk" and self.target.sampled:
            raise ValueError(
                f"target.{key}: objective: risk compares pieces, and those of the reference would be random"
            )
        return self

    @model_validator(mode="after")
    def _check_search(self) -> Self:
        if self.search.post_editing_confidence and MT not in self.texts:
            raise ValueError(
                f"search.post_editing_confidence: is for post-editing, and there is no source '{MT}'; there are "
                f"{', '.join(self.sources)}"
            )
        return self

    @model_validator(mode="after")
    def _check_guide(self) -> Self:
        if self.training.guide is None:
            return self
        for name in self.images:
            raise ValueError(f"training.guide: links words, and source '{name}' is an image, which has none")
        if self.target.operations_on:
            raise ValueError("training.guide: links words, and the model writes operations")
        return self

    @model_validator(mode="after")
    def _check_lexicon(self) -> Self:
        if not self.training.lexicon:
            return self
        if len(self.sources) > 1:
            raise ValueError(f"training.lexicon: has words of one source, and there are {', '.join(self.sources)}")
        if self.target.operations_on:
            raise ValueError("training.lexicon: has words, and the model writes operations")
        if self.training.guide and self.training.guide.file:
            raise ValueError("training.lexicon: adds lines, for which the file of training.guide has no links")
        return self

    def model_for(self, vocabularies: Mapping[str, int], grids: Mapping[str, ImageGrid]) -> ModelConfig:
        """The model's config, with the actual vocabulary sizes by source name and 'target'.

        `grids`: by source name, for sources whose features come with the data. Raises RecipeError for parts that do not
        fit together.
        """
        sources = {
            name: TextVocabulary(vocabulary=vocabularies[name])
            if isinstance(source, TextSettings)
            else source.grid or grids[name]
            for name, source in self.sources.items()
        }
        try:
            target = TextVocabulary(vocabulary=vocabularies["target"])
            return MODEL_CONFIG.validate_python(self.model.model_dump() | {"sources": sources, "target": target})
        except ValidationError as error:
            raise RecipeError("model", error.errors()[0]["msg"].removeprefix("Value error, ")) from None

    def as_yaml(self) -> str:
        """The complete recipe as YAML, with everything that it inherits by `extends`.

        Keys without a value are written too: `null` is not the default of all of them, and keeps a data set's default
        from being applied.
        """
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
