"""`Architecture`: settings of every kind of model, the base of the `model` sections of recipes.

A field that is None uses the first of its choices. Setting a field that has no effect is an error.
"""

from abc import abstractmethod
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Architecture(BaseModel):
    """The parts of a model and their sizes, independent of its vocabularies. A subclass is a kind of model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    combination: str
    layers: int = Field(1, ge=1, le=8, description="stacked layers on each side")
    encoder_layers: int | None = Field(None, ge=1, le=8, description="layers of the encoder where they differ")
    decoder_layers: int | None = Field(None, ge=1, le=8, description="layers of the decoder where they differ")
    embedding: int = Field(256, ge=1)
    alignment_module: bool = Field(
        False, description="UAM: a second softmax over the source vocabulary, trained on the source's bag of words"
    )
    alignment_weight: float | None = Field(None, gt=0, description="UAM: C, the divisor of its loss; default: 10")
    alignment_longer: Literal["first", "all", "scaled"] | None = Field(
        None,
        description="UAM, targets longer than their source: sum over the first steps, as many as source tokens; over "
        "all steps; or over all steps, scaled to the number of source tokens",
    )
    source_dropout: float | None = Field(
        None, gt=0, lt=1, description="share of sources dropped in training, never all sources of a sentence"
    )
    image_words: float | None = Field(
        None,
        gt=0,
        description="weight of a loss that predicts the target's words from the image alone; helps a network that is "
        "trained from scratch on few images",
    )
    first_word: Literal["symbol", "zero"] = "symbol"
    tie_embeddings: Literal["none", "output", "all"] = Field(
        "none", description="output: target embedding and output layer share one matrix; all: source embedding too"
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="on embeddings, except those that word attention reads, and between layers"
    )
    output_dropout: float | None = Field(None, ge=0, lt=1, description="before the softmax; default: dropout")
    word_dropout: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="share of source and target words whose whole embedding is dropped, except for word attention",
    )
    initialization: Literal["xavier", "uniform", "orthogonal"] = "xavier"
    initialization_scale: float | None = Field(
        None,
        gt=0,
        description="uniform: bound, default 0.05; orthogonal: standard deviation of other weights, default 0.01",
    )

    @property
    def encoder_depth(self) -> int:
        return self.encoder_layers or self.layers

    @property
    def decoder_depth(self) -> int:
        return self.decoder_layers or self.layers

    @property
    @abstractmethod
    def attention_kinds(self) -> list[str]:
        """The kinds of attention weights in this model's explanations."""

    @property
    @abstractmethod
    def annotation(self) -> int:
        """Size of an annotation (the encoder's output at one source position)."""

    @property
    @abstractmethod
    def readout_size(self) -> int:
        """Input size of the output layer."""

    @property
    @abstractmethod
    def region_value(self) -> int:
        """Size of the value that attention reads at a region of an image."""

    @property
    @abstractmethod
    def has_one_softmax(self) -> bool:
        """Whether one softmax covers the positions of all sources."""

    def ineffective(self) -> dict[str, tuple[bool, str]]:
        """By key that may be unset: whether it has an effect, and if not, because of what."""
        return {
            "initialization_scale": (self.initialization != "xavier", "initialization: xavier"),
            "source_dropout": (self.combination != "none", "one source"),
            "alignment_weight": (self.alignment_module, "alignment_module: false"),
            "alignment_longer": (self.alignment_module, "alignment_module: false"),
        }

    @model_validator(mode="after")
    def _check_effects(self) -> Self:
        for key, (effective, other) in self.ineffective().items():
            if getattr(self, key) is not None and not effective:
                raise ValueError(f"{key}: has no effect with {other}")
        unused = self.encoder_layers and self.decoder_layers and "layers" in self.model_fields_set
        if unused and self.layers != type(self).model_fields["layers"].default:
            raise ValueError("layers: has no effect where encoder_layers and decoder_layers are both set")
        return self

    @model_validator(mode="after")
    def _check_tied_embeddings(self) -> Self:
        if self.tie_embeddings != "none" and self.readout_size != self.embedding:
            raise ValueError(
                f"tie_embeddings: the output layer reads {self.readout_size} numbers (hidden), and a word has "
                f"{self.embedding} (embedding)"
            )
        return self
