"""Dropout of a Transformer's parts and layers, in training only; sizes that do not fit are refused."""

from typing import Any

import pytest
import torch
from torch import Tensor

from interlinear.batch import collate
from interlinear.models.transformer.attention import Heads
from interlinear.models.transformer.layers import LayerConfig, skip_layer
from tests.interlinear.models.transformer.systems import batch_of, system, words

SENTENCES = [[5, 9, 6, 11], [7, 8], [10, 10, 5, 6, 6]]


@pytest.mark.parametrize("part", ["dropout", "attention_dropout", "feedforward_dropout", "layer_drop"])
@pytest.mark.parametrize("autoregressive", ["transformer", "ssru"])
def test_each_dropout_is_of_training_only(part: str, autoregressive: str) -> None:
    made, plain = (system({"autoregressive": autoregressive}, **options) for options in ({part: 0.5}, {}))
    words_BKLE = words(3, 1, 4)

    def readouts(made: Any) -> Tensor:
        return made.decoder.unroll(made.encode(batch_of(made, SENTENCES)), words_BKLE)[0]

    assert torch.equal(readouts(made), readouts(plain))
    trained, plain = (each.map(lambda module: module.train()) for each in (made, plain))
    assert torch.equal(readouts(plain), readouts(plain))
    assert not torch.equal(readouts(trained), readouts(trained))


def test_the_mean_of_dropped_attention_is_attention_with_and_without_weights() -> None:
    torch.manual_seed(0)
    query_BQA, keys_BTA, values_BTA = torch.randn(3, 1, 4, 6).double()
    masked = torch.zeros(1, 1, 1, 4, dtype=torch.bool)
    heads = Heads(LayerConfig(6, 2, 6, attention_dropout=0.3)).train()
    expected, _ = heads.eval()(query_BQA, keys_BTA, values_BTA, masked)
    heads.train()
    query_NQA, keys_NTA, values_NTA = (each.expand(4000, -1, -1) for each in (query_BQA, keys_BTA, values_BTA))
    for with_weights in (False, True):
        contexts_NQA, weights = heads(query_NQA, keys_NTA, values_NTA, masked, with_weights=with_weights)
        torch.testing.assert_close(contexts_NQA.mean(0, keepdim=True), expected, rtol=0, atol=0.1)
        assert (contexts_NQA[0] - contexts_NQA[1]).abs().max() > 0.01
        if weights is not None:  # those of explanations and of a guide are whole
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_a_layer_is_dropped_for_each_sentence() -> None:
    torch.manual_seed(0)
    before_BQD, after_BQD = torch.zeros(2000, 3, 2), torch.ones(2000, 3, 2)
    left_B = skip_layer(before_BQD, after_BQD, 0.25, training=True).flatten(1)
    assert ((left_B == 0).all(1) | (left_B == 1).all(1)).all()
    assert abs(left_B.mean() - 0.75) < 0.05
    assert skip_layer(before_BQD, after_BQD, 0.25, training=False) is after_BQD


def test_an_encoder_without_its_layers_is_embeddings_and_positions() -> None:
    made = system({}, layer_drop=1.0).map(lambda module: module.train())
    text = collate({"source": SENTENCES}).text("source")
    encoder = made.encoders["source"]
    states_BTD = encoder(text).states_BTD
    weight = encoder.words.weight.detach()
    size = weight.shape[1]
    for row, ids in enumerate(SENTENCES):
        for t, word in enumerate(ids):
            angles = t / 10000 ** (torch.arange(size // 2, dtype=torch.float64) / (size // 2))
            position_D = torch.stack([angles.sin(), angles.cos()], 1).flatten()
            torch.testing.assert_close(states_BTD[row, t], weight[word] * size**0.5 + position_D, rtol=0, atol=1e-12)


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="size of 8 cannot be divided among 3 heads"):
        LayerConfig(8, 3, 4)
    with pytest.raises(ValueError, match="size of 9 is odd"):
        LayerConfig(9, 3, 4)
