"""With one seed, systems that share parts begin with the same weights in those parts."""

from typing import Any

import pytest
import torch
from torch import Tensor

from interlinear.config import ImageGrid, ImageNetwork, RecurrentConfig, TextVocabulary
from interlinear.models.model import Model, build
from training.recipe import load_recipe

E, H = 6, 5
D = 2 * H


def model_of(system: str, seed: int = 3, **changes: Any) -> Model:
    recipe = load_recipe(system)
    architecture = recipe.model.model_dump(exclude={"embedding", "hidden"}) | {"embedding": E, "hidden": H} | changes
    words = TextVocabulary(vocabulary=11)
    sources: dict[str, Any] = dict.fromkeys(recipe.texts, words)
    if "multimodal" in system:
        network = ImageNetwork(kind="small", size=32)
        sources["image"] = ImageGrid(rows=2, columns=2, features=128, network=network)
    torch.manual_seed(seed)
    return build(RecurrentConfig(**architecture, sources=sources, target=words))


def weights(model: Model) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in model.named_parameters()}


@pytest.mark.parametrize(
    ("system", "baseline"),
    [
        ("uam", "selective_gate"), ("selective_gate", "luong"), ("coverage_neural", "rnnsearch_star"),
        ("interactive_attention", "rnnsearch_star"), ("coverage_linguistic", "rnnsearch_star"),
        ("rnnsearch_guided", "rnnsearch"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("initialization", ["xavier", "uniform", "orthogonal"])
def test_an_added_part_leaves_the_others_as_they_are(system: str, baseline: str, initialization: str) -> None:
    larger = weights(model_of(system, initialization=initialization))
    smaller = weights(model_of(baseline, initialization=initialization))
    assert set(smaller) <= set(larger)
    for name, value in smaller.items():
        # Without an alignment module PAD's embedding is zero; with one it is trained, as <null>.
        one, other = (value[1:], larger[name][1:]) if name == "target_words.weight" else (value, larger[name])
        assert torch.equal(one, other), name


def test_matrices_beside_each_other_are_the_same_whatever_stands_beside_them() -> None:
    """Wu et al. 2018, equations 10 and 12: U, C^a and C^b of the cell; W_y, W, W^a and W^b of the output."""
    plain, words, gated = (weights(model_of(s)) for s in ("rnnsearch", "word_attention", "contextual_gates"))
    cell, readout = "decoder.cells.0.gates.weight", "decoder.readout.weight"
    assert torch.equal(plain[cell][:, :D], words[cell][:, :D])  # C^a
    assert torch.equal(plain[cell][:, D:], words[cell][:, D + E :])  # U
    assert torch.equal(plain[readout], words[readout][:, : E + H + D])
    assert torch.equal(gated[readout], words[readout])
    assert torch.equal(gated[cell], plain[cell][:, D:])
    assert torch.equal(gated["decoder.gates.0.annotation_context.weight"][: 4 * H], plain[cell][:, :D])
    assert torch.equal(gated["decoder.gates.0.word_context.weight"][: 4 * H], words[cell][:, D : D + E])
    same = set(plain) - {cell, readout}
    assert all(torch.equal(plain[name], words[name]) and torch.equal(plain[name], gated[name]) for name in same)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_two_layers_and_either_cell_share_their_matrices(cell: str) -> None:
    plain = weights(model_of("rnnsearch", cell=cell, layers=2))
    gated = weights(model_of("contextual_gates", cell=cell, layers=2))
    for layer, below in ((0, 0), (1, H)):
        name = f"decoder.cells.{layer}.gates.weight"
        rows = plain[name].shape[0]
        assert torch.equal(plain[name][:, below + D :], gated[name][:, below:])
        assert torch.equal(plain[name][:, :below], gated[name][:, :below])
        contexts = gated[f"decoder.gates.{layer}.annotation_context.weight"]
        assert torch.equal(plain[name][:, below : below + D], contexts[:rows])
        if cell == "gru":
            candidate = plain[f"decoder.cells.{layer}.candidate_inputs.weight"]
            assert torch.equal(candidate[:, below : below + D], contexts[rows : rows + H])


def in_cells_own_order(stack: dict[str, Tensor], layer: int) -> tuple[Tensor, Tensor]:
    """A decoder layer's maps of what enters, all gates, and of the state, of cells with or without layer_norm."""
    cell = f"decoder.cells.{layer}"
    if f"{cell}.state.weight" in stack:
        maps = [stack[f"{cell}.state.weight"]]
        if f"{cell}.candidate_state.weight" in stack:
            maps.append(stack[f"{cell}.candidate_state.weight"])
        return stack[f"{cell}.inputs.weight"], torch.cat(maps)
    gates = stack[f"{cell}.gates.weight"]
    if f"{cell}.candidate_state.weight" not in stack:
        return gates[:, :-H], gates[:, -H:]
    inputs = torch.cat([gates[:, :-H], stack[f"{cell}.candidate_inputs.weight"]])
    return inputs, torch.cat([gates[:, -H:], stack[f"{cell}.candidate_state.weight"]])


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("system", ["rnnsearch", "word_attention", "contextual_gates", "rnnsearch_star", "luong"])
def test_layer_normalisation_leaves_the_matrices_as_they_are(system: str, cell: str) -> None:
    plain = weights(model_of(system, cell=cell, layers=2))
    normalised = weights(model_of(system, cell=cell, layers=2, layer_norm=True))
    for layer in range(2):
        pairs = zip(in_cells_own_order(plain, layer), in_cells_own_order(normalised, layer), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)
    outside = [name for name in plain if not name.startswith(("encoders.", "decoder.cells.", "decoder.opening."))]
    assert all(torch.equal(plain[name], normalised[name]) for name in outside)


@pytest.mark.parametrize("keys", [{"layer_norm": True}, {"state_dropout": 0.2}])
def test_an_lstm_encoder_has_the_same_matrices_whatever_computes_it(keys: dict[str, Any]) -> None:
    fused, stepped = weights(model_of("rnnsearch", layers=2)), weights(model_of("rnnsearch", layers=2, **keys))
    for side in ("forwards", "backwards"):
        for layer in range(2):
            own, torchs = (f"encoders.source.recurrent.{side}.0{rest}" for rest in (f".layers.{layer}", ""))
            state = f"{own}.state.weight" if "layer_norm" in keys else f"{own}.gates.weight"
            assert torch.equal(stepped[f"{own}.words.weight"], fused[f"{torchs}.weight_ih_l{layer}"])
            assert torch.equal(stepped[state], fused[f"{torchs}.weight_hh_l{layer}"])


@pytest.mark.parametrize("initialization", ["xavier", "uniform", "orthogonal"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_untrained_gains_are_one_and_biases_zero(initialization: str, cell: str) -> None:
    """But for an LSTM's forget gate with Glorot's initialization, which starts open."""
    found = weights(model_of("contextual_gates", cell=cell, layer_norm=True, initialization=initialization))
    norms = {name: value for name, value in found.items() if "norm." in name}
    assert len(norms) == 3 * (8 if cell == "gru" else 6)
    for name, value in norms.items():
        expected = torch.full_like(value, float(name.endswith("weight")))
        if initialization == "xavier" and cell == "lstm" and name.endswith(".input_norm.bias"):
            expected[H : 2 * H] = 1
        assert torch.equal(value, expected), name


def test_multi_source_systems_share_encoders_and_attentions() -> None:
    """Images and their network too, whatever is built before them."""
    systems = [weights(model_of(f"multimodal_{kind}")) for kind in ("concat", "flat", "hierarchical")]
    text = weights(model_of("rnnsearch_star"))
    for name in systems[0]:
        if name.startswith("encoders."):
            assert all(torch.equal(systems[0][name], other[name]) for other in systems[1:]), name
    attention = "decoder.combination.attentions.source.key.weight"
    assert torch.equal(systems[0][attention], systems[2][attention])
    assert torch.equal(text["decoder.attention.key.weight"], systems[2][attention])
    assert torch.equal(systems[1]["decoder.combination.values.source.weight"],
                       systems[2]["decoder.combination.values.source.map.weight"])  # fmt: skip


def test_every_part_has_values_of_its_own_and_another_seed_other_ones() -> None:
    first, again, other = (weights(model_of("contextual_gates", seed)) for seed in (1, 1, 2))
    drawn = [name for name, value in first.items() if value.dim() > 1]
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in drawn)
    firsts = [float(first[name].flatten()[-1] / first[name].std()) for name in drawn]
    assert len(set(firsts)) == len(drawn)


def test_each_matrix_has_glorots_bound() -> None:
    """Glorot and Bengio 2010: sqrt(6 / (rows + columns)), here 4H + D for C^a of an LSTM and 4H + H for U."""
    cell = weights(model_of("word_attention"))["decoder.cells.0.gates.weight"]
    for block, inputs in ((cell[:, :D], D), (cell[:, D : D + E], E), (cell[:, D + E :], H)):
        bound = (6 / (4 * H + inputs)) ** 0.5
        assert 0.8 * bound < float(block.abs().max()) <= bound
