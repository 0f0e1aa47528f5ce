"""Transformers (Vaswani et al. 2017), whose decoder reads its own words by self-attention or by an SSRU."""

from typing import Literal, Self

from pydantic import Field, model_validator

from interlinear.config.architecture import Architecture


class TransformerArchitecture(Architecture):
    """Layers of attention in the encoder and the decoder; every layer has the size of an embedding."""

    kind: Literal["transformer"] = "transformer"
    layers: int = Field(3, ge=1, le=12, description="layers on each side")
    encoder_layers: int | None = Field(None, ge=1, le=12, description="layers of the encoder where they differ")
    decoder_layers: int | None = Field(None, ge=1, le=12, description="layers of the decoder where they differ")
    heads: int = Field(4, ge=1, description="heads of every attention; they divide `embedding`")
    feed_forward: int = Field(1024, ge=1, description="size of the feed-forward layers")
    activation: Literal["relu", "gelu", "swiglu"] = "relu"
    norm: Literal["post", "pre"] = Field(
        "post", description="layer normalisation after each residual connection, or before each part and at the end"
    )
    norm_epsilon: float = Field(1e-5, gt=0, description="of layer normalisation; Marian has 1e-9")
    positions: Literal["interleaved", "concatenated"] = Field(
        "interleaved", description="sines and cosines in turn (Vaswani et al. 2017), or sines first (Marian)"
    )
    decoder: Literal["transformer", "ssru"] = Field(
        "transformer",
        description="how a layer reads the words before: self-attention, or a simpler simple recurrent unit (Kim et "
        "al. 2019)",
    )
    combination: Literal["none", "serial", "parallel", "flat", "hierarchical"] = Field(
        "none", description="how several sources are combined in every layer (Libovicky, Helcl and Marecek 2018)"
    )
    initialization: Literal["xavier", "uniform"] = "xavier"
    output_dropout: float | None = Field(0.0, ge=0, lt=1, description="before the softmax")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="of attention weights")
    feed_forward_dropout: float = Field(0.0, ge=0, lt=1, description="inside the feed-forward layers")
    layer_drop: float = Field(0.0, ge=0, lt=1, description="share of layers skipped in training, for each sentence")
    aligned_layer: int | None = Field(
        None, ge=1, description="the decoder's layer whose attention aligns words, from 1; default: the last"
    )
    aligned_head: int | None = Field(
        None, ge=1, description="one of its heads, which a guide trains; default: the mean of all heads"
    )

    @property
    def attention_kinds(self) -> list[str]:
        """The kinds of attention weights in this model's explanations."""
        return ["attention", *(["uam"] if self.alignment_module else [])]

    @property
    def annotation(self) -> int:
        """Size of an annotation (the encoder's output at one source position)."""
        return self.embedding

    @property
    def readout_size(self) -> int:
        """Input size of the output layer."""
        return self.embedding

    @property
    def region_value(self) -> int:
        """Size of the value that attention reads at a region of an image."""
        return self.embedding

    @property
    def has_one_softmax(self) -> bool:
        """Whether one softmax covers the positions of all sources."""
        return self.combination == "flat"

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.embedding % self.heads:
            raise ValueError(f"heads: {self.heads} of them do not divide {self.embedding} (embedding)")
        if self.embedding % 2:
            raise ValueError(f"embedding: positions are pairs of sine and cosine, and {self.embedding} is odd")
        if (self.aligned_layer or 1) > self.decoder_depth:
            raise ValueError(f"aligned_layer: {self.aligned_layer} of {self.decoder_depth} layers of the decoder")
        if (self.aligned_head or 1) > self.heads:
            raise ValueError(f"aligned_head: {self.aligned_head} of {self.heads} heads")
        return self
