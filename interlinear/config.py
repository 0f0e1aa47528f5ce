"""Model configuration: `Architecture` is a recipe's `model` section; `ModelConfig` adds the sources and the target.

A field that is None uses the first of its choices. Setting a field that has no effect is an error.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, model_validator

from interlinear.components import ATTENTIONS, COMBINATIONS

CompileChoice = Literal["auto", "on", "off"]  # whether a search is compiled; auto: see interlinear.search.compiled
Precision = Literal["fp32", "bf16", "int8", "auto"]  # of a search; auto: see interlinear.bundle.precision


class Architecture(BaseModel):
    """The parts of a model and their sizes, independent of its vocabularies."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cell: Literal["lstm", "gru"] = "lstm"
    layers: int = Field(1, ge=1, le=8, description="stacked layers on each side")
    encoder_layers: int | None = Field(None, ge=1, le=8, description="layers of the encoder where they differ")
    decoder_layers: int | None = Field(None, ge=1, le=8, description="layers of the decoder where they differ")
    encoder_stacks: Literal["separate", "interleaved"] | None = Field(
        None, description="directions as separate stacks joined at the top, or joined after every layer"
    )
    directions: Literal["concatenated", "summed"] = Field(
        "concatenated", description="how the encoder's two directions are joined: annotations of 2 x hidden, or hidden"
    )
    selective_gate: Literal["none", "sum", "concatenation"] = Field(
        "none",
        description="a gate scales the annotations; it is computed from the sum or the concatenation of both "
        "directions' last states",
    )
    gru: Literal["cudnn", "paper"] | None = Field(
        None, description="cudnn: reset gate after the product, z weighs the old state; paper: Wu et al. 2018, eq. 10"
    )
    layer_norm: bool | None = Field(
        None,
        description="layer normalisation in the cells of encoder and decoder (Ba et al. 2016): of the product of what "
        "enters, of that of the state, and of an LSTM's memory; the encoder then steps its cells one by one, which "
        "takes longer; default: no",
    )
    embedding: int = Field(256, ge=1)
    hidden: int = Field(256, ge=1)
    decoder: Literal["bahdanau", "conditional", "luong"] = Field(
        "bahdanau",
        description="order of a step: attention, cell; cell, attention, cell; or cell, attention, attentional vector, "
        "which is fed back",
    )
    attention: Annotated[str, AfterValidator(ATTENTIONS.check)] = Field(
        "additive", description="additive, bilinear, or one that is registered (extend.md)"
    )
    attention_size: int | None = Field(None, ge=1, description="size of the energy's hidden layer; default: hidden")
    word_attention: bool = Field(False, description="a second attention, over the source's embeddings")
    word_attention_size: Annotated[int, Field(ge=1)] | Literal["embedding"] | None = Field(
        None, description="hidden size of its energy; default: that of the other attention; in the paper: embedding"
    )
    contextual_gates: bool = Field(False, description="a gate in every cell weighs the two attentions' contexts")
    writing: Literal["none", "shared", "separate"] = Field(
        "none",
        description="memory update of the annotations after each step (FORGET, UPDATE), by the attention weights or by "
        "separate weights",
    )
    coverage: Literal["none", "neural", "linguistic"] = Field(
        "none", description="coverage of each source position, an input of the attention energy"
    )
    coverage_size: int | None = Field(
        None, ge=1, description="neural coverage: size of a position's coverage vector; default: 10"
    )
    fertility: float | None = Field(
        None, gt=0, description="linguistic coverage: maximum number of target words per source word; default: 2"
    )
    alignment_module: bool = Field(
        False, description="UAM: a second softmax over the source vocabulary, trained on the source's bag of words"
    )
    alignment_weight: float | None = Field(None, gt=0, description="UAM: C, the divisor of its loss; default: 10")
    alignment_longer: Literal["first", "all", "scaled"] | None = Field(
        None,
        description="UAM, targets longer than their source: sum over the first steps, as many as source tokens; over "
        "all steps; or over all steps, scaled to the number of source tokens",
    )
    combination: Literal["none"] | Annotated[str, AfterValidator(COMBINATIONS.check)] = Field(
        "none",
        description="how several sources are combined: concatenated contexts, one softmax over all positions, or a "
        "second attention over the contexts",
    )
    combination_size: int | None = Field(
        None, ge=1, description="size of the space that flat and hierarchical project contexts to; default: hidden"
    )
    share_projections: bool | None = Field(
        None, description="one matrix for keys and values: U_a = U_c in flat, U_b = U_c in hierarchical; default: no"
    )
    sentinel: bool = Field(False, description="a candidate from the decoder's state that attention may choose instead")
    source_dropout: float | None = Field(
        None, gt=0, lt=1, description="share of sources dropped in training, never all sources of a sentence"
    )
    image_words: float | None = Field(
        None,
        gt=0,
        description="weight of a loss that predicts the target's words from the image alone; helps a network that is "
        "trained from scratch on few images",
    )
    first_state: Literal["first_backward", "mean", "last", "zero", "sum", "ends"] = Field(
        "first_backward",
        description="the decoder's first state: tanh(W .) of a summary (`ends`: both directions' last states); zero; "
        "or, layer by layer, the sum of both directions' last states and cell states. With several sources, W applies "
        "to their concatenated summaries",
    )
    first_word: Literal["symbol", "zero"] = "symbol"
    readout: Literal["tanh", "linear", "maxout"] | None = Field(None, description="default: tanh")
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
    state_dropout: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="of the states that enter the cells of encoder and decoder: one mask a sentence and layer for all "
        "steps; the encoder then steps its cells one by one, which takes longer",
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
    def attention_kinds(self) -> list[str]:
        """The kinds of attention weights in this model's explanations."""
        kinds = {
            "attention": True,
            "word_attention": self.word_attention,
            "gated": self.contextual_gates,
            "uam": self.alignment_module,
        }
        return [kind for kind, used in kinds.items() if used]

    @property
    def annotation(self) -> int:
        """Size of an annotation (the encoder's output at one source position)."""
        return self.hidden if self.directions == "summed" else 2 * self.hidden

    @property
    def summary_size(self) -> int:
        """Size of one source's summary, from which the decoder's first state is computed."""
        if self.first_state == "sum":
            return self.encoder_depth * (2 if self.cell == "lstm" else 1) * self.hidden
        return {"mean": self.annotation, "ends": 2 * self.hidden}.get(self.first_state, self.hidden)

    @property
    def energy_size(self) -> int:
        """Hidden size of the additive energy."""
        return self.attention_size or self.hidden

    @property
    def word_energy_size(self) -> int:
        """Hidden size of word attention's additive energy."""
        if self.word_attention_size == "embedding":
            return self.embedding
        return self.word_attention_size or self.energy_size

    @property
    def has_common_space(self) -> bool:
        """Whether contexts of all sources are projected to one space, in which a sentinel has its place too."""
        return self.combination != "none" and bool(COMBINATIONS[self.combination].has_common_space)

    @property
    def has_one_softmax(self) -> bool:
        """Whether one softmax covers the positions of all sources."""
        return self.combination != "none" and bool(COMBINATIONS[self.combination].has_one_softmax)

    @property
    def combined_size(self) -> int:
        """Size of the common space that flat and hierarchical combination project contexts to."""
        return self.combination_size or self.hidden

    @property
    def readout_size(self) -> int:
        """Input size of the output layer."""
        return self.hidden if self.decoder == "luong" else self.embedding

    @model_validator(mode="after")
    def _check_effects(self) -> Self:
        is_additive: bool = ATTENTIONS[self.attention].is_additive
        needs: dict[str, tuple[bool, str]] = {
            "gru": (self.cell == "gru" or self.coverage == "neural", f"cell: {self.cell}"),
            "encoder_stacks": (self.encoder_depth > 1, "one encoder layer"),
            "initialization_scale": (self.initialization != "xavier", "initialization: xavier"),
            "attention_size": (is_additive, f"attention: {self.attention}"),
            "word_attention_size": (
                self.word_attention and is_additive,
                f"attention: {self.attention}" if self.word_attention else "word_attention: false",
            ),
            "coverage_size": (self.coverage == "neural", f"coverage: {self.coverage}"),
            "fertility": (self.coverage == "linguistic", f"coverage: {self.coverage}"),
            "combination_size": (self.has_common_space, f"combination: {self.combination}"),
            "share_projections": (self.has_common_space, f"combination: {self.combination}"),
            "source_dropout": (self.combination != "none", "one source"),
            "readout": (self.decoder != "luong", "decoder: luong, whose attentional vector is the readout"),
            "alignment_weight": (self.alignment_module, "alignment_module: false"),
            "alignment_longer": (self.alignment_module, "alignment_module: false"),
        }
        for key, (effective, other) in needs.items():
            if getattr(self, key) is not None and not effective:
                raise ValueError(f"{key}: has no effect with {other}")
        if self.encoder_layers and self.decoder_layers and "layers" in self.model_fields_set and self.layers != 1:
            raise ValueError("layers: has no effect where encoder_layers and decoder_layers are both set")
        return self

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        """Reject combinations of parts that are incompatible, each with its reason."""
        if self.contextual_gates and not self.word_attention:
            raise ValueError("contextual_gates: weighs two contexts against each other, and needs word_attention: true")
        if self.contextual_gates and self.decoder == "luong":
            raise ValueError(
                "contextual_gates: weighs contexts as they enter the cells, and with decoder: luong none enters them"
            )
        if self.coverage != "none" and not ATTENTIONS[self.attention].is_additive:
            raise ValueError(
                f"coverage: is a term of the additive energy, which attention: {self.attention} does not have"
            )
        if self.sentinel and not self.has_common_space:
            raise ValueError(
                "sentinel: is one more candidate of a softmax over sources, which combination: "
                f"{self.combination} does not have"
            )
        if self.combination != "none":
            self._check_several_sources()
        if self.first_state == "sum" and self.encoder_depth != self.decoder_depth:
            raise ValueError(
                "first_state: sum goes layer by layer, and needs equal numbers of encoder and decoder layers"
            )
        if self.tie_embeddings != "none" and self.readout_size != self.embedding:
            raise ValueError(
                f"tie_embeddings: the output layer reads {self.readout_size} numbers (hidden), and a word has "
                f"{self.embedding} (embedding)"
            )
        return self

    def _check_several_sources(self) -> None:
        """Reject parts that are defined for a single source only."""
        if not ATTENTIONS[self.attention].is_additive:
            raise ValueError(
                f"attention: {self.attention} has no energy that sources could share, and combination needs one"
            )
        if self.writing != "none":
            raise ValueError("writing: the memory update is not defined for several sources")
        if self.first_state == "sum":
            raise ValueError("first_state: sum goes layer by layer, and the layers of several sources differ")
        if self.share_projections and self.energy_size != self.combined_size:
            shared = "U_a = U_c" if self.has_one_softmax else "U_b = U_c"
            raise ValueError(
                f"share_projections: one matrix makes keys and values ({shared}), and the keys have {self.energy_size} "
                f"numbers (attention_size), the values {self.combined_size} (combination_size): both must be equal, "
                "or unset"
            )


class TextVocabulary(BaseModel):
    """A text source or the target: the size of its vocabulary."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["text"] = "text"
    vocabulary: int = Field(ge=5)

    def __str__(self) -> str:
        return f"text, vocabulary {self.vocabulary:,}"


class ImageNetwork(BaseModel):
    """A convolutional network from pixels to regions. Its weights belong to the model and are stored in the bundle."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["small", "resnet50"] = "small"
    size: int = Field(128, ge=16, le=512, description="images are resized to this many pixels a side")
    frozen: bool = Field(False, description="its weights are not trained")


class ImageGrid(BaseModel):
    """An image source: a grid of rows x columns regions, in row-major order, with `features` numbers each.

    With a `network`, the model computes the features from pixels. Without one, it reads precomputed features, and
    `made_by` identifies the network that computed them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["image"] = "image"
    rows: int = Field(ge=1)
    columns: int = Field(ge=1)
    features: int = Field(ge=1)
    network: ImageNetwork | None = None
    made_by: str = Field("", description="identifies the network that computed precomputed features")

    @property
    def regions(self) -> int:
        return self.rows * self.columns

    def __str__(self) -> str:
        origin = f" from {self.network.size} x {self.network.size} pixels" if self.network else ""
        return f"image, {self.rows} x {self.columns} regions of {self.features} features{origin}"


SourceConfig = Annotated[TextVocabulary | ImageGrid, Discriminator("kind")]


class ModelConfig(Architecture):
    """The complete model configuration that `build` needs; stored in the bundle."""

    sources: dict[str, SourceConfig] = Field(min_length=1)
    target: TextVocabulary

    @property
    def summaries_size(self) -> int:
        """Size of the concatenated summaries of all sources; an image's summary has the size of an annotation."""
        return len(self.texts) * self.summary_size + len(self.images) * self.annotation

    @property
    def texts(self) -> dict[str, TextVocabulary]:
        """The text sources by name."""
        return {name: source for name, source in self.sources.items() if isinstance(source, TextVocabulary)}

    @property
    def first_text(self) -> str:
        """Name of the first text source, the one that alignments and figures show."""
        return next(iter(self.texts))

    @property
    def images(self) -> dict[str, ImageGrid]:
        """The image sources by name."""
        return {name: source for name, source in self.sources.items() if isinstance(source, ImageGrid)}

    @model_validator(mode="after")
    def _check_joint_vocabulary(self) -> Self:
        if self.tie_embeddings == "all" and {s.vocabulary for s in self.texts.values()} != {self.target.vocabulary}:
            raise ValueError("tie_embeddings: all needs one joint vocabulary for source and target")
        return self

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        if not self.texts:
            raise ValueError("sources: one of them at least must be text")
        if len(self.sources) > 1 and self.combination == "none":
            raise ValueError("combination: must be set when there are several sources")
        if self.image_words and not self.images:
            raise ValueError("image_words: has no effect without an image")
        if self.combination == "none" and self.images:
            raise ValueError("combination: an image is read with concat, flat or hierarchical")
        if len(self.texts) != 1:
            for key in ("word_attention", "alignment_module"):
                if getattr(self, key):
                    raise ValueError(f"{key}: reads one text's words, and there are {len(self.texts)} texts")
        return self
