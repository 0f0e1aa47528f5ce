"""Every system's search on torch's meta device, which has shapes and no values (training's updates:
tests/training/loop/test_meta_device.py).

It raises where a GPU would wait for the host to read a value, where the shape of a result depends on values, and where
an operation has inputs on two devices.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from seq2seq.attention_reading import POSTERIOR, READINGS
from seq2seq.batch import Batch, CandidateInput
from seq2seq.model.ensemble import Ensemble, Predictor
from seq2seq.model.model import Model
from seq2seq.search import SearchOptions, SearchRequest, SlotTable
from tests.seq2seq.model.test_precision import EACH_ORDER, each_recipe, small


def on_meta(recipe: str) -> tuple[Model, Batch]:
    """A recipe's model on the meta device, and a batch on the host."""
    model, batch = small(recipe)
    return model.to("meta"), batch


def search_on_meta(model: Predictor, batch: Batch, candidates: Sequence[list[int]] | None = None) -> None:
    """Admits sentences in two parts, takes steps, and removes one, without reading a result. `candidates`: those of
    both rows, for each part."""
    table = SlotTable(model, 3, sync_interval=8)
    options = SearchOptions(beam=3, max_length=6, coverage_penalty=0.3)
    for part in range(2):
        inputs = Batch(batch.sources)
        if candidates:
            words = torch.tensor([candidates[part]] * batch.rows)
            lengths = torch.tensor([words.shape[1], words.shape[1] - 1])
            inputs = replace(inputs, candidates=CandidateInput(words, lengths))
        requests = [SearchRequest((part, row), options, 6, with_attention=True) for row in range(batch.rows)]
        table.admit(inputs, requests)
        table.step()
        assert table.pop_finished() == []
    table.cancel({(0, 0)})
    table.step()
    assert table.active == 3


@each_recipe()
def test_a_search_step_reads_nothing_from_the_device(recipe: str) -> None:
    model, batch = on_meta(recipe)
    search_on_meta(model.eval(), batch)


@each_recipe(quick=EACH_ORDER)
def test_an_ensemble_reads_nothing_from_the_device(recipe: str) -> None:
    (first, batch), (second, _) = on_meta(recipe), on_meta(recipe)
    search_on_meta(Ensemble([first, second]).eval(), batch)


@each_recipe(quick=EACH_ORDER)
def test_a_search_among_candidates_reads_nothing_from_the_device(recipe: str) -> None:
    (first, batch), (second, _) = on_meta(recipe), on_meta(recipe)
    words = [[0, 1, 2, 3, 5], [0, 1, 2, 3, 4, 5, 6, 7, 8]]  # the second part is wider than what is there
    search_on_meta(first.eval(), batch, words)
    search_on_meta(Ensemble([first, second]).eval(), batch, words)


@each_recipe()
def test_attention_to_a_given_output_reads_nothing_from_the_device(recipe: str) -> None:
    model, batch = on_meta(recipe)
    on_device = batch.to("meta")
    assert on_device.target_BL is not None
    with torch.inference_mode():
        memory = model.eval().encode(on_device)
        weights = model.forced_attention(memory, on_device.target_BL[:, None], READINGS["posterior"])
    assert POSTERIOR in {kind for _, kind in weights.weights}
    assert all(tensor.device.type == "meta" for tensor in weights.weights.values())
