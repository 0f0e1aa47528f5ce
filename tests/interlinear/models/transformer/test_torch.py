"""Encoder and decoder equal torch's own layers of the same weights."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from interlinear.batch import collate
from interlinear.models.memory import Memory
from interlinear.models.protocol import EncoderOutput
from interlinear.models.transformer.attention import SelfAttention, SourceAttention
from interlinear.models.transformer.decoder import DecoderConfig, TransformerDecoder
from interlinear.models.transformer.encoder import TransformerEncoder
from interlinear.models.transformer.layers import FeedForward, LayerConfig, Residual, with_positions
from interlinear.models.transformer.multi_source import SerialAttention

SIZE, HEADS, INNER, LAYERS = 16, 4, 24, 3
VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm, ReLU": {"norm": "post", "activation": "relu"},
    "pre-norm, GELU": {"norm": "pre", "activation": "gelu"},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def copy(ours: nn.Linear | nn.LayerNorm, weight: Tensor, bias: Tensor) -> None:
    ours.weight.data, ours.bias.data = weight.detach().clone(), bias.detach().clone()


def copy_self_attention(ours: SelfAttention, theirs: nn.MultiheadAttention) -> None:
    copy(ours.projection, theirs.in_proj_weight, theirs.in_proj_bias)
    copy(ours.output, theirs.out_proj.weight, theirs.out_proj.bias)


def copy_source_attention(ours: SourceAttention, theirs: nn.MultiheadAttention) -> None:
    copy(ours.query, theirs.in_proj_weight[:SIZE], theirs.in_proj_bias[:SIZE])
    copy(ours.key_value, theirs.in_proj_weight[SIZE:], theirs.in_proj_bias[SIZE:])
    copy(ours.output, theirs.out_proj.weight, theirs.out_proj.bias)


def copy_rest(residuals: list[Residual], feedforward: FeedForward, theirs: Any) -> None:
    for i, residual in enumerate([*residuals, feedforward.residual]):
        norm = getattr(theirs, f"norm{i + 1}")
        copy(residual.norm, norm.weight, norm.bias)
    copy(feedforward.inner, theirs.linear1.weight, theirs.linear1.bias)
    copy(feedforward.outer, theirs.linear2.weight, theirs.linear2.bias)


def drawn(module: Any) -> Any:
    for parameter in module.double().eval().parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return module


def of_torch(variant: str, layer: type[nn.Module]) -> Any:
    """A stack of torch's layers; with pre-norm, the last normalisation."""
    torch.manual_seed(3)
    options = {"dropout": 0.0, "batch_first": True, "norm_first": VARIANTS[variant]["norm"] == "pre"}
    one: Any = layer(SIZE, HEADS, INNER, activation=VARIANTS[variant]["activation"], **options)
    norm = nn.LayerNorm(SIZE) if options["norm_first"] else None
    if isinstance(one, nn.TransformerEncoderLayer):
        return drawn(nn.TransformerEncoder(one, LAYERS, norm, enable_nested_tensor=False))
    return drawn(nn.TransformerDecoder(one, LAYERS, norm))


@every_variant
def test_the_encoder_is_torch_s(variant: str) -> None:
    theirs = of_torch(variant, nn.TransformerEncoderLayer)
    config = LayerConfig(SIZE, HEADS, INNER, **VARIANTS[variant])
    ours: TransformerEncoder = drawn(TransformerEncoder(config, LAYERS, 12))
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        copy_self_attention(mine.attention, other.self_attn)
        copy_rest([mine.residual], mine.feedforward, other)
    if ours.top.norm is not None:
        copy(ours.top.norm, theirs.norm.weight, theirs.norm.bias)
    text = collate({"source": [[5, 9, 6, 11], [7, 8], [10, 10, 5, 6, 6]]}).text("source")
    entering_BTD = with_positions(ours.words(text.ids_BT), torch.arange(text.ids_BT.shape[1]), config, False)
    expected_BTD = theirs(entering_BTD, src_key_padding_mask=text.padding_BT)
    found_BTD = ours(text).states_BTD
    real = ~text.padding_BT
    torch.testing.assert_close(found_BTD[real], expected_BTD[real], rtol=0, atol=1e-6)


@every_variant
def test_the_decoder_is_torch_s(variant: str) -> None:
    theirs = of_torch(variant, nn.TransformerDecoderLayer)
    config = LayerConfig(SIZE, HEADS, INNER, **VARIANTS[variant])
    ours: TransformerDecoder = drawn(TransformerDecoder(config, DecoderConfig(LAYERS, ["source"], SIZE)))
    for mine, other in zip(ours.decoder_layers, theirs.layers, strict=True):
        cross = mine.cross
        assert isinstance(cross, SerialAttention)
        copy_self_attention(mine.autoregressive.attention, other.self_attn)  # type: ignore[union-attr]
        copy_source_attention(cross.attention("source"), other.multihead_attn)
        copy_rest([mine.residual, cross.residuals["source"]], mine.feedforward, other)  # type: ignore[list-item]
    if ours.top.norm is not None:
        copy(ours.top.norm, theirs.norm.weight, theirs.norm.bias)
    states_BTD = torch.randn(3, 6, SIZE, dtype=torch.float64)
    padding_BT = torch.arange(6) >= torch.tensor([6, 2, 4])[:, None]
    words_BLE = torch.randn(3, 5, SIZE, dtype=torch.float64)
    memory = Memory(ours.views("source", EncoderOutput(states_BTD, states_BTD[:, 0], padding_BT)))
    found_BKLR, _ = ours.unroll(memory, words_BLE[:, None])
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    entering_BLD = with_positions(words_BLE, torch.arange(5), config, False)
    expected_BLR = theirs(entering_BLD, states_BTD, causal, memory_key_padding_mask=padding_BT)
    torch.testing.assert_close(found_BKLR[:, 0], expected_BLR, rtol=0, atol=1e-6)
