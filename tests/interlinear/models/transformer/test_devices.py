"""The Transformer on the meta device, and in the precisions of search and training."""

import copy

import pytest
import torch
from torch import Tensor

from interlinear.batch import collate
from interlinear.models.layers.int8 import Int8Linear, available_kernels, quantise
from interlinear.models.layers.packed import pack
from interlinear.models.memory import Memory
from interlinear.models.transformer.decoder import DecoderConfig, TransformerDecoder
from interlinear.models.transformer.encoder import TransformerEncoder
from interlinear.models.transformer.layers import LayerConfig
from tests.interlinear.models.transformer.systems import KINDS, SIZE, System, batch_of, system, words

SENTENCES = [[5, 9, 6, 11], [7, 8], None]
every_kind = pytest.mark.parametrize("kind", KINDS)


def read(made: System, memory: Memory, words_BKLE: Tensor) -> Tensor:
    """Readouts of all steps."""
    state, found = made.start(memory, words_BKLE.shape[1], 8), []
    for words_BKE in words_BKLE.unbind(2):
        state, readout_BKR, _ = made.decoder.step(memory, state, words_BKE)
        found.append(readout_BKR)
    return torch.stack(found, 2)


@every_kind
@torch.inference_mode()
def test_nothing_is_read_from_the_device(kind: str) -> None:
    """The meta device has no values."""
    made = system(kind).map(lambda module: module.to("meta"))
    memory = made.encode(batch_of(made, SENTENCES).without_host_lengths().to("meta"))
    words_BKLE = words(3, 2, 4).to("meta")
    readouts, seen = made.decoder.unroll(memory, words_BKLE, attention=True)
    assert readouts.shape == read(made, memory, words_BKLE).shape == (3, 2, 4, SIZE)
    assert all(weights.device.type == "meta" for weights in seen.weights.values())


@every_kind
@torch.inference_mode()
def test_bf16_is_close_and_its_steps_are_its_pass(kind: str) -> None:
    """Weights in bf16, as a search has them, and bf16 products of fp32 weights, as training has them."""
    made = system(kind)
    batch, words_BKLE = batch_of(made, SENTENCES), words(3, 2, 4)
    expected = made.decoder.unroll(made.encode(batch), words_BKLE)[0]
    halved = system(kind).map(lambda module: module.bfloat16())
    memory = halved.encode(batch)
    assert {view.keys_BTA.dtype for view in memory.views.values()} == {torch.bfloat16}
    readouts, _ = halved.decoder.unroll(memory, words_BKLE.bfloat16())
    assert readouts.dtype == torch.bfloat16
    near(readouts, expected)
    near(read(halved, memory, words_BKLE.bfloat16()), readouts.double())
    single = system(kind).map(lambda module: module.float())
    with torch.autocast("cpu", torch.bfloat16):
        memory = single.encode(batch)
        near(single.decoder.unroll(memory, words_BKLE.float())[0], expected)
        near(read(single, memory, words_BKLE.float()), expected)


def near(found: Tensor, expected: Tensor) -> None:
    assert (found.double() - expected).abs().mean() < 0.04
    assert expected.abs().mean() > 0.5


@pytest.mark.parametrize("autoregressive", ["transformer", "ssru"])
@torch.inference_mode()
def test_products_are_packed_or_in_int8(autoregressive: str) -> None:
    torch.manual_seed(0)
    config = LayerConfig(64, 4, 128)
    made = System(
        torch.nn.ModuleDict({"source": TransformerEncoder(config, 2, 12)}),
        TransformerDecoder(config, DecoderConfig(2, ["source"], 64, autoregressive)),
    ).map(lambda module: module.eval())
    batch, words_BKLE = collate({"source": SENTENCES}), torch.randn(3, 2, 4, 64)
    expected = read(made, made.encode(batch), words_BKLE)
    packed = made.map(copy.deepcopy)
    pack(packed.encoders)
    pack(packed.decoder)
    torch.testing.assert_close(read(packed, packed.encode(batch), words_BKLE), expected, rtol=0, atol=1e-4)
    if available_kernels():
        quantise(made.encoders)
        quantise(made.decoder)
        assert sum(isinstance(layer, Int8Linear) for layer in made.decoder.modules()) >= 12
        near(read(made, made.encode(batch), words_BKLE), expected.double())
