"""The recurrent encoder-decoders with attention of the four papers."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from interlinear.components import ATTENTIONS, COMBINATIONS
from interlinear.config.architecture import Architecture


class RecurrentArchitecture(Architecture):
    """A bidirectional recurrent encoder, and a recurrent decoder that attends to it."""

    kind: Literal["recurrent"] = "recurrent"
    cell: Literal["lstm", "gru"] = "lstm"
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
    first_state: Literal["first_backward", "mean", "last", "zero", "sum", "ends"] = Field(
        "first_backward",
        description="the decoder's first state: tanh(W .) of a summary (`ends`: both directions' last states); zero; "
        "or, layer by layer, the sum of both directions' last states and cell states. With several sources, W applies "
        "to their concatenated summaries",
    )
    readout: Literal["tanh", "linear", "maxout"] | None = Field(None, description="default: tanh")
    state_dropout: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="of the states that enter the cells of encoder and decoder: one mask a sentence and layer for all "
        "steps; the encoder then steps its cells one by one, which takes longer",
    )

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

    @property
    def region_value(self) -> int:
        """Size of the value that attention reads at a region of an image."""
        return self.combined_size if self.has_one_softmax else self.annotation

    def ineffective(self) -> dict[str, tuple[bool, str]]:
        """By key that may be unset: whether it has an effect, and if not, because of what."""
        is_additive: bool = ATTENTIONS[self.attention].is_additive
        return super().ineffective() | {
            "gru": (self.cell == "gru" or self.coverage == "neural", f"cell: {self.cell}"),
            "encoder_stacks": (self.encoder_depth > 1, "one encoder layer"),
            "attention_size": (is_additive, f"attention: {self.attention}"),
            "word_attention_size": (
                self.word_attention and is_additive,
                f"attention: {self.attention}" if self.word_attention else "word_attention: false",
            ),
            "coverage_size": (self.coverage == "neural", f"coverage: {self.coverage}"),
            "fertility": (self.coverage == "linguistic", f"coverage: {self.coverage}"),
            "combination_size": (self.has_common_space, f"combination: {self.combination}"),
            "share_projections": (self.has_common_space, f"combination: {self.combination}"),
            "readout": (self.decoder != "luong", "decoder: luong, whose attentional vector is the readout"),
        }

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
