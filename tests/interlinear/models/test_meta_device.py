"""Every system's attention to given outputs on torch's meta device, which has shapes and no values (searches:
tests/interlinear/search/test_pretended_gpu.py).

It raises where a GPU would wait for the host to read a value, where the shape of a result depends on values, and where
an operation has inputs on two devices.
"""

import torch

from interlinear.batch import Batch
from interlinear.models.attention_reading import POSTERIOR, READINGS
from interlinear.models.model import Model
from tests.interlinear.recipes import each_recipe, small


def on_meta(recipe: str) -> tuple[Model, Batch]:
    """A recipe's model on the meta device, and a batch on the host."""
    model, batch = small(recipe)
    return model.to("meta"), batch


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
