"""The configuration of a model of any kind: its architecture, its sources and its target.

A kind of model is an architecture in a file of its own, and a line in each union here.
"""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Discriminator, Field, Tag, model_validator

from interlinear.config.architecture import Architecture
from interlinear.config.recurrent import RecurrentArchitecture
from interlinear.config.sources import ImageGrid, SourceConfig, TextVocabulary
from interlinear.config.transformer import TransformerArchitecture


class ModelConfig(Architecture):
    """The complete configuration that `build` needs, stored in the bundle: an architecture, its sources and target."""

    sources: dict[str, SourceConfig] = Field(min_length=1)
    target: TextVocabulary

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
            raise ValueError("combination: must be set where an image is read")
        if len(self.texts) != 1 and self.alignment_module:
            raise ValueError(f"alignment_module: reads one text's words, and there are {len(self.texts)} texts")
        return self


class RecurrentConfig(RecurrentArchitecture, ModelConfig):
    """The configuration of a recurrent model."""

    @property
    def summaries_size(self) -> int:
        """Size of the concatenated summaries of all sources; an image's summary has the size of an annotation."""
        return len(self.texts) * self.summary_size + len(self.images) * self.annotation

    @model_validator(mode="after")
    def _check_word_attention(self) -> Self:
        if len(self.texts) != 1 and self.word_attention:
            raise ValueError(f"word_attention: reads one text's words, and there are {len(self.texts)} texts")
        return self


class TransformerConfig(TransformerArchitecture, ModelConfig):
    """The configuration of a Transformer."""


def kind_of(model: object) -> str:
    """The kind of a model's settings: recurrent, unless they name another."""
    return str(model.get("kind", "recurrent") if isinstance(model, Mapping) else getattr(model, "kind", ""))


KINDS = ("recurrent", "transformer")
ANY_KIND = Discriminator(
    kind_of, custom_error_type="model_kind", custom_error_message=f"kind: should be {' or '.join(KINDS)}"
)
AnyArchitecture = Annotated[
    Annotated[RecurrentArchitecture, Tag("recurrent")] | Annotated[TransformerArchitecture, Tag("transformer")],
    ANY_KIND,
]
AnyModelConfig = Annotated[
    Annotated[RecurrentConfig, Tag("recurrent")] | Annotated[TransformerConfig, Tag("transformer")],
    ANY_KIND,
]
