"""Encoder and decoder equal Hugging Face's MarianMT of random weights, which reads Marian's published models.

It has positions of Vaswani et al.'s scale in Marian's order. Ours of that scale are interleaved: the dimensions of all
its states are taken in that order.
"""

import os
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from interlinear.batch import TextInput
from interlinear.models.memory import Memory
from interlinear.models.state import WRITTEN
from interlinear.models.transformer.attention import SelfAttention, SourceAttention
from interlinear.models.transformer.decoder import DecoderConfig, TransformerDecoder
from interlinear.models.transformer.encoder import TransformerEncoder
from interlinear.models.transformer.layers import FeedForward, LayerConfig, Residual
from interlinear.models.transformer.multi_source import SerialAttention

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")

SIZE, HEADS, INNER, VOCABULARY = 16, 4, 24, 40
ORDER = torch.arange(SIZE).view(2, -1).t().flatten()  # of its dimensions, in ours: sine and cosine of each angle
LENGTHS = [7, 3, 5]


def theirs(activation: str) -> Any:
    """MarianMT, with weights far from zero."""
    torch.manual_seed(3)
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY, d_model=SIZE, encoder_layers=2, decoder_layers=3, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, encoder_ffn_dim=INNER, decoder_ffn_dim=INNER, scale_embedding=True,
        activation_function=activation, pad_token_id=0, eos_token_id=3, forced_eos_token_id=3, decoder_start_token_id=0,
        attn_implementation="eager",
    )  # fmt: skip
    model = transformers.MarianMTModel(config).eval()
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:
            parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def columns(linear: nn.Linear) -> Tensor:
    """A map's weight, whose inputs are states."""
    return linear.weight.detach()[:, ORDER]


def copy(ours: Any, weight: Tensor, bias: Tensor) -> None:
    ours.weight.data, ours.bias.data = weight.detach().clone(), bias.detach().clone()


def copy_output(ours: nn.Linear, their: nn.Linear) -> None:
    """A map whose outputs are states."""
    copy(ours, their.weight[ORDER], their.bias[ORDER])


def copy_self_attention(ours: SelfAttention, their: Any) -> None:
    maps = [their.q_proj, their.k_proj, their.v_proj]
    copy(ours.projection, torch.cat([columns(one) for one in maps]), torch.cat([one.bias for one in maps]))
    copy_output(ours.output, their.out_proj)


def copy_source_attention(ours: SourceAttention, their: Any) -> None:
    maps = [their.k_proj, their.v_proj]
    copy(ours.query, columns(their.q_proj), their.q_proj.bias)
    copy(ours.key_value, torch.cat([columns(one) for one in maps]), torch.cat([one.bias for one in maps]))
    copy_output(ours.output, their.out_proj)


def copy_feedforward(ours: FeedForward, their: Any) -> None:
    copy(ours.inner, columns(their.fc1), their.fc1.bias)
    copy_output(ours.outer, their.fc2)
    copy_norm(ours.residual, their.final_layer_norm)


def copy_norm(ours: Residual, their: nn.LayerNorm) -> None:
    copy(ours.norm, their.weight[ORDER], their.bias[ORDER])


def ours(model: Any, activation: Any) -> tuple[TransformerEncoder, TransformerDecoder]:
    """Our encoder and decoder with its weights."""
    config = LayerConfig(SIZE, HEADS, INNER, activation)
    encoder = TransformerEncoder(config, 2, VOCABULARY).eval()
    decoder = TransformerDecoder(config, DecoderConfig(3, ["source"], SIZE)).eval()
    encoder.words.weight.data = model.model.shared.weight.detach()[:, ORDER].clone()
    for mine, their in zip(encoder.layers, model.model.encoder.layers, strict=True):
        copy_self_attention(mine.attention, their.self_attn)
        copy_norm(mine.residual, their.self_attn_layer_norm)
        copy_feedforward(mine.feedforward, their)
    for mine, their in zip(decoder.decoder_layers, model.model.decoder.layers, strict=True):
        cross = mine.cross
        assert isinstance(cross, SerialAttention)
        copy_self_attention(mine.autoregressive.attention, their.self_attn)  # type: ignore[union-attr]
        copy_norm(mine.residual, their.self_attn_layer_norm)
        copy_source_attention(cross.attention("source"), their.encoder_attn)
        copy_norm(cross.residuals["source"], their.encoder_attn_layer_norm)  # type: ignore[arg-type]
        copy_feedforward(mine.feedforward, their)
    return encoder, decoder


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@torch.inference_mode()
def test_logits_and_attention_equal_those_of_marian_mt(activation: str) -> None:
    model = theirs(activation)
    encoder, decoder = ours(model, activation)
    torch.manual_seed(5)
    lengths_B = torch.tensor(LENGTHS)
    text = TextInput(torch.randint(4, VOCABULARY, (3, 7)), lengths_B)
    target_BL = torch.randint(4, VOCABULARY, (3, 6))
    expected = model(
        input_ids=text.ids_BT, attention_mask=(~text.padding_BT).long(), decoder_input_ids=target_BL,
        output_attentions=True,
    )  # fmt: skip

    memory = Memory(decoder.views("source", encoder(text)))
    words_BKLE = encoder.words(target_BL)[:, None]
    readouts, seen = decoder.unroll(memory, words_BKLE, attention=True)
    bias_V = model.final_logits_bias[0]
    logits_BLV = F.linear(readouts[:, 0], encoder.words.weight, bias_V)
    torch.testing.assert_close(logits_BLV, expected.logits, rtol=0, atol=1e-5)
    weights_BLT = expected.cross_attentions[-1].mean(1)
    torch.testing.assert_close(seen.attention[:, 0], weights_BLT, rtol=0, atol=1e-5)

    state = decoder.start(memory).resize({WRITTEN: 8})
    for t, words_BKE in enumerate(words_BKLE.unbind(2)):
        state, readout_BKR, _ = decoder.step(memory, state, words_BKE)
        logits_BV = F.linear(readout_BKR[:, 0], encoder.words.weight, bias_V)
        torch.testing.assert_close(logits_BV, expected.logits[:, t], rtol=0, atol=1e-5)
