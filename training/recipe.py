"""A recipe: what is made of a data set, and how. One YAML file, validated; `extends` builds one on another."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from seq2seq.config import Architecture, ImageGrid, ImageNetwork, ModelConfig, Precision, TextVocabulary
from seq2seq.errors import RecipeError
from seq2seq.minimum_risk.minimum_risk import RiskOptions
from seq2seq.search import SearchOptions
from training.package_files import resource_folder
from training.yaml_files import error_message, read_mapping


class RecipeSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TextSettings(RecipeSection):
    """How a text becomes ids."""

    kind: Literal["text"] = "text"
    units: Literal["bpe", "words"] = "bpe"
    vocabulary: int = Field(8000, ge=5, description="entries at most, the special ones included")
    lowercase: bool = Field(False, description="learn from lower-cased text")


class TargetSettings(TextSettings):
    """How the output becomes ids: its text, or the edit operations that make it of a source."""

    operations_on: str | None = Field(
        None, description="a text source: the model keeps and deletes its pieces, and inserts others (Libovicky 2016)"
    )


class ImageSettings(RecipeSection):
    """How a picture becomes regions: by a network from its pixels, or from a grid of features that the data has."""

    kind: Literal["image"]
    encoder: Literal["network", "grid"] = "network"
    network: Literal["small", "resnet50"] | None = Field(None, description="encoder: network; default: small")
    size: int | None = Field(
        None, ge=16, le=512, description="encoder: network; pixels a side that pictures are brought to; default: 128"
    )
    weights: str | None = Field(None, description="encoder: network; a file of weights to begin with")
    frozen: bool = Field(False, description="encoder: network; the network is not trained")

    @model_validator(mode="after")
    def _check_unused_keys(self) -> Self:
        for key in ("network", "size", "weights", "frozen"):
            if self.encoder == "grid" and getattr(self, key):
                raise ValueError(f"{key}: has no effect with encoder: grid")
        return self

    @property
    def pixels(self) -> int | None:
        """Pixels a side that pictures are brought to; None where their features are given."""
        return None if self.encoder == "grid" else self.size or 128

    @property
    def grid(self) -> ImageGrid | None:
        """The regions that its network makes; None where they are given, and only the data knows."""
        if self.pixels is None:
            return None
        from seq2seq.images.networks import grid_shape

        network = ImageNetwork(kind=self.network or "small", size=self.pixels, frozen=self.frozen)
        rows, columns, features = grid_shape(network)
        return ImageGrid(rows=rows, columns=columns, features=features, network=network)


def kind_of(source: object) -> str:
    """What a source is: text, unless it says so."""
    if isinstance(source, BaseModel):
        return str(getattr(source, "kind", "text"))
    return "image" if isinstance(source, Mapping) and source.get("kind") == "image" else "text"


SourceSettings = Annotated[
    Annotated[TextSettings, Tag("text")] | Annotated[ImageSettings, Tag("image")], Discriminator(kind_of)
]


class TrainingSettings(RecipeSection):
    """How the weights come to be."""

    objective: Literal["likelihood", "risk"] = Field(
        "likelihood", description="what an update minimises; risk is a second stage, from a trained model"
    )
    risk: RiskOptions | None = Field(None, description="objective: risk only")
    optimizer: Literal["adam", "adamw", "adadelta"] = "adam"
    learning_rate: float = Field(0.001, gt=0)
    weight_decay: float | None = Field(None, ge=0, description="adamw only; default 0.01")
    rho: float | None = Field(None, gt=0, lt=1, description="adadelta only; default 0.95")
    epsilon: float | None = Field(None, gt=0, description="default: 1e-8, adadelta 1e-6")
    schedule: Literal["constant", "halve_on_plateau", "halve_from_epoch", "inverse_square_root"] = "halve_on_plateau"
    plateau: int | None = Field(None, ge=1, description="halve_on_plateau: epochs without a better score; default 1")
    halve_from: int | None = Field(
        None, ge=1, description="halve_from_epoch: the last epoch at the full rate; default 9"
    )
    warmup: int = Field(0, ge=0, description="updates over which the rate rises from 0")
    clip: float | None = Field(1.0, gt=0, description="largest norm of the gradient; null: none")
    batch_tokens: int | None = Field(
        None, ge=1, description="target tokens in one update's batch, of all workers together"
    )
    batch_sentences: int | None = Field(None, ge=1, description="the same in sentences; one of the two")
    accumulation: int = Field(1, ge=1, description="parts in which each worker takes its share of a batch")
    divide_by: Literal["tokens", "sentences"] | None = Field(
        None, description="an update minimises the loss of its batch a target token, the default, or a sentence"
    )
    init_from: str | None = Field(None, description="a trained model to start from: a bundle's folder, models:/...")
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    precision: Precision = "bf16"
    epochs: int = Field(20, ge=1)
    epoch_updates: int | None = Field(
        None, ge=1, description="updates in an epoch at most, of batches drawn anew for each; null: all the data"
    )
    patience: int | None = Field(5, ge=1, description="epochs without a better dev score before training stops")
    score: Literal["bleu", "rouge-l", "perplexity"] = Field(
        "bleu", description="the dev score that decides what is better"
    )
    dev_beam: int = Field(1, ge=1, le=64, description="beam of the search on the dev set, after every epoch")
    dev_sentences: int = Field(2000, ge=1, description="dev sentences that are searched, evenly spread over the set")
    average: int = Field(1, ge=1, description="the weights of so many best epochs are averaged at the end")
    keep_last: int = Field(2, ge=1, description="training states kept")
    save_minutes: float = Field(5, gt=0, description="minutes between training states within an epoch")
    max_length: int = Field(100, ge=1, description="longer pairs, in tokens of either side, are left out")
    seed: int = 1

    @model_validator(mode="after")
    def _check_unused_keys(self) -> Self:
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
        return self


class Recipe(RecipeSection):
    """One system: its sources and target, its model, its training and its search."""

    about: str = ""
    sources: dict[str, SourceSettings] = Field(min_length=1)
    target: TargetSettings
    joint_vocabulary: bool = Field(False, description="one vocabulary for all that is text, sources and target")
    model: Architecture
    training: TrainingSettings
    search: SearchOptions = SearchOptions()

    @property
    def texts(self) -> dict[str, TextSettings]:
        """The sources that are text."""
        return {name: source for name, source in self.sources.items() if isinstance(source, TextSettings)}

    @property
    def images(self) -> dict[str, ImageSettings]:
        """The sources that are images."""
        return {name: source for name, source in self.sources.items() if isinstance(source, ImageSettings)}

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        if not self.texts:
            raise ValueError("sources: one of them must be text")
        if "target" in self.sources:
            raise ValueError("sources.target: is the name of what is written, and of no source")
        for name, image in self.images.items():
            if image.frozen and not image.weights and not self.training.init_from:
                raise ValueError(
                    f"sources.{name}.frozen: would keep a network as it was drawn; it needs weights, or "
                    "training.init_from"
                )
        return self

    @model_validator(mode="after")
    def _check_joint_settings(self) -> Self:
        text = TextSettings.model_validate(self.target.model_dump(exclude={"operations_on"}))
        if self.joint_vocabulary and any(source != text for source in self.texts.values()):
            raise ValueError("joint_vocabulary: source and target must have the same units and vocabulary size")
        if self.model.tie_embeddings == "all" and not self.joint_vocabulary:
            raise ValueError("model.tie_embeddings: all needs joint_vocabulary: true")
        if len(self.sources) > 1 and self.model.combination == "none":
            raise ValueError("model.combination: says how several sources are read together, and must be set for them")
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

    def model_for(self, vocabularies: Mapping[str, int], grids: Mapping[str, ImageGrid]) -> ModelConfig:
        """The model's config, with the sizes that the vocabularies came to have: by source name, and 'target'.

        `grids`: by source name, those of features that are given. Raises RecipeError where parts do not go together.
        """
        sources = {
            name: TextVocabulary(vocabulary=vocabularies[name])
            if isinstance(source, TextSettings)
            else source.grid or grids[name]
            for name, source in self.sources.items()
        }
        try:
            return ModelConfig(
                **self.model.model_dump(), sources=sources, target=TextVocabulary(vocabulary=vocabularies["target"])
            )
        except ValidationError as error:
            raise RecipeError("model", error.errors()[0]["msg"].removeprefix("Value error, ")) from None

    def as_yaml(self) -> str:
        """The recipe in full, with everything that it extends."""
        return yaml.safe_dump(self.model_dump(mode="json", exclude_none=True), sort_keys=False, allow_unicode=True)


def load_recipe(name: str, overrides: Sequence[str] = (), defaults: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe by name or path, changed by a data set's defaults, then by `key=value` overrides (dotted keys).

    A default gives way to a recipe that unsets its key (`null`): one that counts a batch in sentences, not in tokens;
    and one for a source is for recipes that have the source.
    Raises RecipeError that names the file or the key.
    """
    content = read_recipe_file(name, ())
    for key, value in (defaults or {}).items():
        if not is_unset(content, key) and not is_for_missing_source(content, key):
            set_key(content, key, value, name)
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise RecipeError(override, "this is no setting", "write --set key=value, for example model.layers=2")
        try:
            set_key(content, key.strip(), yaml.safe_load(value), name)
        except yaml.YAMLError:
            raise RecipeError(key, f"the value {value!r} is no YAML") from None
    return validate_recipe(name, content)


def stated_keys(name: str, overrides: Sequence[str] = (), defaults: Mapping[str, Any] | None = None) -> frozenset[str]:
    """The dotted keys that somebody has set for a training: by overrides, a data set's defaults, or a recipe
    file of their own. The values of a recipe that ships are defaults, and their keys are not among them.

    Takes what `load_recipe` has accepted.
    """
    stated = set(defaults or {})
    for override in overrides:
        key, _, value = override.partition("=")
        stated |= leaves({key.strip(): yaml.safe_load(value)})
    shipped_recipes = resource_folder("recipes").resolve()
    own: str | None = name
    while own and own.endswith((".yaml", ".yml")) and not Path(own).resolve().is_relative_to(shipped_recipes):
        content = read_mapping(Path(own), RecipeError, own, "docs/recipes.md")
        own = content.pop("extends", None)
        stated |= leaves(content)
    return frozenset(stated)


def leaves(content: Mapping[str, Any], chain: str = "") -> set[str]:
    """The dotted keys of nested settings, without those of sections."""
    keys = set[str]()
    for key, value in content.items():
        keys |= leaves(value, f"{chain}{key}.") if isinstance(value, Mapping) else {f"{chain}{key}"}
    return keys


def validate_recipe(name: str, content: Mapping[str, Any]) -> Recipe:
    """The recipe of a file's content, without `extends`. Raises RecipeError that names the recipe and the key."""
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise recipe_error(name, error) from None


def recipe_names() -> list[str]:
    """The recipes that ship with Interlinear."""
    folder = resource_folder("recipes")
    return sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml"))


def read_recipe_file(name: str, chain: tuple[str, ...]) -> dict[str, Any]:
    """A recipe file's content laid over what it extends."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else resource_folder("recipes") / f"{name}.yaml"
    if not path.is_file():
        near = difflib.get_close_matches(name, recipe_names(), 1)
        guess = f"did you mean {near[0]}?" if near else f"there are {', '.join(recipe_names())}, or give a YAML file"
        raise RecipeError(name, "there is no such recipe", guess)
    if name in chain:
        raise RecipeError(name, f"the recipe extends itself (by {' -> '.join([*chain, name])})")
    content = read_mapping(path, RecipeError, name, "docs/recipes.md")
    base = content.pop("extends", None)
    return content if base is None else deep_merge(read_recipe_file(str(base), (*chain, name)), content)


def deep_merge(base: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """The base with the content's keys in their place, section by section."""
    merged = dict(base)
    for key, value in content.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = deep_merge(base[key], value) if both else value
    return merged


def set_key(content: dict[str, Any], key: str, value: Any, recipe: str) -> None:
    """Set one dotted key."""
    *sections, last = key.split(".")
    for section in sections:
        content = content.setdefault(section, {})
        if not isinstance(content, dict):
            raise RecipeError(f"{recipe}: {key}", f"'{section}' holds a value, and no keys")
    content[last] = value


def is_unset(content: Mapping[str, Any], key: str) -> bool:
    """Whether a recipe says `null` at a dotted key."""
    *sections, last = key.split(".")
    for section in sections:
        content = content.get(section, {})
        if not isinstance(content, Mapping):
            return False
    return last in content and content[last] is None


def is_for_missing_source(content: Mapping[str, Any], key: str) -> bool:
    """Whether a dotted key is of a source that a recipe does not have."""
    section, _, rest = key.partition(".")
    sources = content.get("sources")
    return section == "sources" and isinstance(sources, Mapping) and rest.partition(".")[0] not in sources


def recipe_error(name: str, error: ValidationError) -> RecipeError:
    """The first thing that is wrong, with the key and the nearest right one."""
    first = error.errors()[0]
    place = list(first["loc"])
    section: type[BaseModel] = TextSettings
    if place[:1] == ["sources"] and len(place) > 2 and place.pop(2) == "image":  # the kind, which is no key
        section = ImageSettings
    key = ".".join(str(part) for part in place if not is_union_branch(part))
    if first["type"] == "extra_forbidden":
        models: dict[str, type[BaseModel]] = {
            "": Recipe,
            "model": Architecture,
            "training": TrainingSettings,
            "training.risk": RiskOptions,
            "search": SearchOptions,
            "target": TargetSettings,
        }
        section = models.get(key.rpartition(".")[0], section)
        near = difflib.get_close_matches(str(first["loc"][-1]), section.model_fields, 1)
        known = f"did you mean {near[0]}?" if near else f"known here: {', '.join(section.model_fields)}"
        return RecipeError(f"{name}: {key}", "unknown key", known)
    message = error_message(first)
    if place and is_union_branch(place[-1]):  # a value may be of several types, and is of none of them
        told = (other["msg"] for other in error.errors() if other["loc"][:-1] == first["loc"][:-1])
        message = ", or ".join(one.removeprefix("Input should be ") if i else one for i, one in enumerate(told))
    if first["type"] == "value_error" and ": " in message:  # a rule between keys names its key itself
        rule, _, message = message.partition(": ")
        key = f"{key}.{rule}" if key else rule
    return RecipeError(f"{name}: {key}", message[:1].lower() + message[1:])


def is_union_branch(part: object) -> bool:
    """Whether a part of an error's place is no key, but one of the types that a value may have."""
    return part in ("float", "constrained-int") or str(part).startswith("literal[")
