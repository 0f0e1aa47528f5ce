"""What Sennrich and Zhang (2019) use on small data, in the other papers' equations.

Dropout of recurrent states (Gal and Ghahramani 2016, section 4.2): a mask where a state enters a product, the same at
all steps. Layer normalisation in the cells (Ba et al. 2016).
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from interlinear.batch import collate
from interlinear.models.layers.layer_norm import LayerNorm
from interlinear.models.model import Model
from interlinear.text import END
from tests.papers import test_interactive_attention, test_unsupervised_alignment, test_word_attention
from tests.papers.agreement import SOURCES, TARGETS, Transcription, agrees, small, stepping_agrees

SHARE = 0.4
Variant = tuple[dict[str, Any], Transcription]
WORDS, STAR, UAM = (
    module.transcription for module in (test_word_attention, test_interactive_attention, test_unsupervised_alignment)
)
VARIANTS: dict[str, Variant] = {
    "lstm": ({}, WORDS),
    "two gru layers": ({"cell": "gru", "layers": 2}, WORDS),
    "paper's gru, interleaved": (
        {"cell": "gru", "gru": "paper", "layers": 2, "encoder_stacks": "interleaved"},
        WORDS,
    ),
    "first state of sums, two layers": ({"first_state": "sum", "layers": 2}, WORDS),
    "words": ({"word_attention": True}, WORDS),
    "gates, two layers": ({"word_attention": True, "contextual_gates": True, "layers": 2}, WORDS),
    "gates, gru": ({"word_attention": True, "contextual_gates": True, "cell": "gru"}, WORDS),
    "conditional": (test_interactive_attention.STAR, STAR),
    "luong, UAM": (test_unsupervised_alignment.UAM, UAM),
}


def normalised(**keys: Any) -> Model:
    """With layer normalisation whose gains and biases are not those of an untrained model."""
    model = small(**keys, layer_norm=True)
    for module in model.modules():
        if isinstance(module, LayerNorm):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.uniform_(module.bias, -0.5, 0.5)
    return model


def masked_weights(model: Model) -> list[dict[str, Tensor]]:
    """Each sentence's weights with its masks of states, which are read where the model draws them: in the decoder's
    first state, and in the encoder from the states that enter its cells at the second step."""
    w = dict(model.named_parameters(remove_duplicate=False))
    found: dict[str, list[Tensor]] = {}
    hooks = [
        cell.register_forward_pre_hook(
            lambda _, args, kwargs, name=name: found.setdefault(name, []).append(kwargs["dropped"] / args[2][0]),
            with_kwargs=True,
        )
        for name, cell in model.named_modules()
        if name.startswith("encoders.") and name.split(".")[-2] == "layers"
    ]
    state = model.start(model.encode(collate({"source": SOURCES})))
    for hook in hooks:
        hook.remove()
    masks_BH = {f"{name}.state_mask": steps[1] for name, steps in found.items()}
    for name, steps in found.items():
        for mask in steps[2:]:
            torch.testing.assert_close(mask, steps[1], rtol=0, atol=1e-12, msg=name)
    for layer in range(len(model.decoder.layers)):
        masks_BH[f"decoder.cells.{layer}.state_mask"] = state.leaves[f"state_mask.{layer}"][:, 0]
    masks_BH["decoder.opening.state_mask"] = masks_BH["decoder.cells.0.state_mask"]
    return [w | {name: mask[row] for name, mask in masks_BH.items()} for row in range(len(SOURCES))]


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_layer_normalisation_is_the_papers(variant: Variant) -> None:
    """And a step of search is one of training."""
    keys, transcription = variant
    model = normalised(**keys)
    agrees(model, transcription)
    stepping_agrees(model)


@pytest.mark.parametrize("make", [small, normalised])
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_the_state_is_masked_where_it_enters_a_product(variant: Variant, make: Callable[..., Model]) -> None:
    keys, transcription = variant
    model = make(**keys, state_dropout=SHARE).train()
    torch.manual_seed(2)
    weights = masked_weights(model)
    masks = [w[name] for w in weights for name in w if name.endswith(".state_mask")]
    assert {round(value, 9) for mask in masks for value in mask.tolist()} == {0.0, round(1 / (1 - SHARE), 9)}
    batch = collate({"source": SOURCES}, TARGETS)
    torch.manual_seed(2)
    readouts, _ = model.unroll(model.encode(batch), batch.target_BL[:, None])
    log_p = model.log_probabilities(readouts)[:, 0]
    for row, (w, x, y) in enumerate(zip(weights, SOURCES, TARGETS, strict=True)):
        expected = transcription(w, model.config, [*x, END], [*y, END])
        steps = len(y) + 1
        torch.testing.assert_close(log_p[row, :steps], expected.log_p[:steps], rtol=0, atol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_stepping_goes_on_with_the_mask_of_the_start(variant: Variant) -> None:
    stepping_agrees(small(**variant[0], state_dropout=SHARE).train())
