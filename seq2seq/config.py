"""What a model is made of: a recipe's `model` section is an `Architecture`, and with vocabularies a `ModelConfig`.

A field that is None takes the first of its choices; a field that is set where it has no effect is an error.
"""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Architecture(BaseModel):
    """The parts of a model and their sizes, whatever the vocabularies."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cell: Literal["lstm", "gru"] = "lstm"
    layers: int = Field(1, ge=1, le=8, description="stacked layers on each side")
    encoder_layers: int | None = Field(None, ge=1, le=8, description="layers of the encoder where they differ")
    decoder_layers: int | None = Field(None, ge=1, le=8, description="layers of the decoder where they differ")
    encoder_stacks: Literal["separate", "interleaved"] | None = Field(
        None, description="directions as separate stacks joined at the top, or joined after every layer"
    )
    gru: Literal["cudnn", "paper"] | None = Field(
        None, description="reset after the product, z weighs the old state; or Wu et al. 2018, equation 10"
    )
    embedding: int = Field(256, ge=1)
    hidden: int = Field(256, ge=1)
    attention: Literal["additive"] = "additive"
    attention_size: int | None = Field(None, ge=1, description="size of the energy's hidden layer; default: hidden")
    first_state: Literal["first_backward", "mean", "last", "zero"] = "first_backward"
    first_word: Literal["symbol", "zero"] = "symbol"
    readout: Literal["tanh", "linear", "maxout"] = "tanh"
    tie_embeddings: Literal["none", "output", "all"] = Field(
        "none", description="output: target words and output layer share one matrix; all: the source words too"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="on words and between layers")
    output_dropout: float | None = Field(None, ge=0, lt=1, description="before the softmax; default: dropout")
    initialization: Literal["xavier", "uniform"] = "xavier"
    initialization_scale: float | None = Field(None, gt=0, description="bound of the uniform; default: 0.05")

    @property
    def layers_up(self) -> int:
        return self.encoder_layers or self.layers

    @property
    def layers_down(self) -> int:
        return self.decoder_layers or self.layers

    @model_validator(mode="after")
    def _pointless(self) -> Self:
        if self.gru and self.cell != "gru":
            raise ValueError(f"gru: has no effect with cell: {self.cell}")
        if self.encoder_stacks and self.layers_up == 1:
            raise ValueError("encoder_stacks: has no effect with one encoder layer")
        if self.initialization_scale and self.initialization != "uniform":
            raise ValueError(f"initialization_scale: has no effect with initialization: {self.initialization}")
        if self.encoder_layers and self.decoder_layers and "layers" in self.model_fields_set and self.layers != 1:
            raise ValueError("layers: has no effect where encoder_layers and decoder_layers are both set")
        return self


class TextVocabulary(BaseModel):
    """A text source, or the target, as the model sees it: so many ids."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["text"] = "text"
    vocabulary: int = Field(ge=5)


class ModelConfig(Architecture):
    """Everything that `build` needs; it travels in the bundle."""

    sources: dict[str, TextVocabulary] = Field(min_length=1, max_length=1)
    target: TextVocabulary

    @model_validator(mode="after")
    def _shared(self) -> Self:
        if self.tie_embeddings == "all" and {s.vocabulary for s in self.sources.values()} != {self.target.vocabulary}:
            raise ValueError("tie_embeddings: all needs one joint vocabulary for source and target")
        return self
