"""Builds the parts of a Transformer from its config."""

from interlinear.config import TransformerConfig
from interlinear.models.initialization import Block, Matrices, whole
from interlinear.models.transformer.decoder import DecoderConfig, TransformerDecoder
from interlinear.models.transformer.encoder import TransformerEncoder
from interlinear.models.transformer.layers import LayerConfig

STACKED = {"projection": 3, "key_value": 2, "maps": 2}  # how many matrices are stacked in a map's weight


def build_encoder(config: TransformerConfig, vocabulary: int) -> TransformerEncoder:
    """The encoder of a text."""
    return TransformerEncoder(layer_config(config), config.encoder_depth, vocabulary, config.word_dropout or 0.0)


def build_decoder(config: TransformerConfig) -> TransformerDecoder:
    """The decoder of a config."""
    own = DecoderConfig(
        layers=config.decoder_depth,
        sources=tuple(config.sources),
        annotation=config.annotation,
        autoregressive=config.decoder,
        strategy="serial" if config.combination == "none" else config.combination,
        aligned_layer=(config.aligned_layer or config.decoder_depth) - 1,
        aligned_head=None if config.aligned_head is None else config.aligned_head - 1,
    )
    return TransformerDecoder(layer_config(config), own)


def layer_config(config: TransformerConfig) -> LayerConfig:
    """The settings that all layers share."""
    return LayerConfig(
        size=config.embedding,
        heads=config.heads,
        feedforward=config.feed_forward,
        activation=config.activation,
        norm=config.norm,
        norm_epsilon=config.norm_epsilon,
        positions=config.positions,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        feedforward_dropout=config.feed_forward_dropout,
        layer_drop=config.layer_drop,
    )


def matrices(config: TransformerConfig) -> Matrices:
    """The matrices of each parameter: matrices of queries, keys and values, or of gates, are rows of one weight."""
    rows = STACKED | ({"inner": 2} if config.activation == "swiglu" else {})
    sizes = {"inner": config.feed_forward}

    def blocks(name: str) -> list[Block]:
        owner, _, kind = name.rpartition(".")
        part = owner.rpartition(".")[2]
        if kind != "weight" or part not in rows:
            return whole(name)
        size = sizes.get(part, config.embedding)
        return [Block(f"{name}, {i}", slice(i * size, (i + 1) * size), slice(None)) for i in range(rows[part])]

    return blocks
