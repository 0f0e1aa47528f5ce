"""Dropout of words and of states: what is dropped together, how often, and that evaluation has none."""

from typing import Any

import pytest
import torch
from torch import Tensor

from interlinear.batch import Batch, collate
from interlinear.config import RecurrentConfig, TextVocabulary
from interlinear.losses.training_loss import training_loss
from interlinear.models.layers.dropout import drop_words
from interlinear.models.model import Model, build

WORDS = TextVocabulary(vocabulary=40)
LENGTH = 30


def model_of(**keys: Any) -> Model:
    torch.manual_seed(5)
    sizes: dict[str, Any] = {"embedding": 6, "hidden": 5, "initialization": "uniform", "initialization_scale": 0.9}
    return build(RecurrentConfig(**{**sizes, **keys}, sources={"source": WORDS}, target=WORDS)).double()


def batch_of(rows: int = 20) -> Batch:
    ids = [[4 + (row + place) % 30 for place in range(LENGTH)] for row in range(rows)]
    return collate({"source": ids}, ids)


def test_a_word_is_dropped_as_a_whole_and_the_mean_stays() -> None:
    torch.manual_seed(1)
    words_BTE = torch.rand(200, 50, 8) + 1
    dropped_BTE = drop_words(words_BTE, 0.3, training=True)
    kept_BT = dropped_BTE[..., 0] != 0
    assert torch.equal(dropped_BTE != 0, kept_BT[..., None].expand_as(dropped_BTE))
    assert float(kept_BT.double().mean()) == pytest.approx(0.7, abs=0.02)
    torch.testing.assert_close(dropped_BTE[kept_BT], words_BTE[kept_BT] / 0.7)
    # Occurrences are drawn one by one: the number of dropped words of a sentence has a binomial's variance.
    assert float((~kept_BT).double().sum(1).var()) == pytest.approx(50 * 0.3 * 0.7, rel=0.3)


def entering(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    """The embeddings that enter the encoder's cells and the decoder's, (B, T, E)."""
    found: list[Tensor] = []
    parts = [model.get_submodule(name) for name in ("encoders.source.recurrent", "decoder.cells.0.words")]
    hooks = [part.register_forward_pre_hook(lambda _, inputs: found.append(inputs[0])) for part in parts]
    training_loss(model, batch)
    for hook in hooks:
        hook.remove()
    source_BTE, target_LBKE = found
    return source_BTE, target_LBKE[:, :, 0].transpose(0, 1)


def test_words_of_source_and_target_are_dropped_in_training_only() -> None:
    model, batch = model_of(word_dropout=0.4), batch_of()
    torch.manual_seed(1)
    for words_BTE in entering(model.train(), batch):
        dropped_BT = (words_BTE == 0).all(-1)[:, : LENGTH + 1]
        assert torch.equal((words_BTE == 0).any(-1)[:, : LENGTH + 1], dropped_BT)
        assert float(dropped_BT.double().mean()) == pytest.approx(0.4, abs=0.07)
    model.eval()
    before = torch.get_rng_state()
    for words_BTE in entering(model, batch):
        assert not (words_BTE[:, : LENGTH + 1] == 0).any()
    assert torch.get_rng_state().equal(before)


def test_word_attention_reads_words_that_the_encoder_does_not() -> None:
    model, batch = model_of(word_dropout=0.9, word_attention=True).train(), batch_of(3)
    words = model.get_submodule("encoders.source.words")
    values_BTD = model.encode(batch).views["source.word_attention"].values_BTD
    assert torch.equal(values_BTD, words(batch.text("source").ids_BT))


def test_padding_stays_zero_and_rows_do_not_depend_on_it() -> None:
    model = model_of(word_dropout=0.5).train()
    short, batch = [[5, 6]], collate({"source": [[5, 6], [4] * LENGTH]}, [[5, 6], [4] * LENGTH])
    assert torch.isfinite(training_loss(model, batch).objective)
    source_BTE, _ = entering(model, batch)
    assert not source_BTE[0, len(short[0]) + 1 :].any()


@pytest.mark.parametrize("decoder", ["bahdanau", "conditional", "luong"])
def test_each_sentence_and_layer_has_a_mask_of_states_in_training_only(decoder: str) -> None:
    model = model_of(state_dropout=0.3, layers=2, hidden=60, decoder=decoder).train()
    batch = batch_of(50)
    torch.manual_seed(1)
    memory = model.encode(batch)
    starts = [model.start(memory) for _ in range(2)]
    masks = [start.leaves[f"state_mask.{layer}"] for start in starts for layer in range(2)]
    for mask in masks:
        assert mask.shape == (50, 1, 60)
        assert float((mask == 0).double().mean()) == pytest.approx(0.3, abs=0.03)
        torch.testing.assert_close(mask[mask != 0], torch.full_like(mask[mask != 0], 1 / 0.7))
        assert len({tuple(row) for row in mask[:, 0].tolist()}) == 50
    assert not any(torch.equal(masks[0], other) for other in masks[1:])
    model.eval()
    before = torch.get_rng_state()
    assert not [name for name in model.start(model.encode(batch)).leaves if name.startswith("state_mask")]
    assert torch.get_rng_state().equal(before)


def test_hypotheses_of_a_sentence_share_its_mask() -> None:
    """As candidates of minimum risk training are compared with each other."""
    model, batch = model_of(state_dropout=0.5).train(), batch_of(2)
    memory = model.encode(batch)
    assert batch.target_BL is not None
    readouts_BKLR, _ = model.unroll(memory, torch.stack([batch.target_BL] * 3, 1))
    for k in (1, 2):
        torch.testing.assert_close(readouts_BKLR[:, k], readouts_BKLR[:, 0], rtol=0, atol=1e-12)
