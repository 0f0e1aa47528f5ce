"""The kinds of models, by the `kind` of their configs: the functions that build and initialise each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from interlinear.models.initialization import Matrices
from interlinear.models.protocol import Decoder
from interlinear.models.recurrent import composition as recurrent
from interlinear.models.recurrent import initial_weights
from interlinear.models.recurrent.encoders import TextEncoder
from interlinear.models.transformer import composition as transformer


@dataclass(frozen=True)
class Kind:
    """The functions that build the parts of a model from a config of the kind.

    text_encoder: builds one for a vocabulary's size; its embeddings are `words`. matrices: the matrices that parameters
    consist of, for their initial values. set_weights: sets values after all are drawn, from a seed.
    """

    text_encoder: Callable[[Any, int], nn.Module]
    decoder: Callable[[Any], Decoder]
    matrices: Callable[[Any], Matrices]
    set_weights: Callable[[nn.Module, Any, int], None] | None = None


KINDS = {
    "recurrent": Kind(TextEncoder, recurrent.build_decoder, initial_weights.matrices, initial_weights.set_weights),
    "transformer": Kind(transformer.build_encoder, transformer.build_decoder, transformer.matrices),
}
