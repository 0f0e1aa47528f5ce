"""Properties of every system: sizes, attention that never includes padding, and refused combinations."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch.nn import functional as F

from interlinear.batch import collate
from interlinear.config import RecurrentArchitecture, RecurrentConfig, TextVocabulary
from interlinear.losses.training_loss import training_loss
from interlinear.models.model import build
from tests.interlinear.systems import SYSTEMS, every_system, model_of
from training.recipe import load_recipe

WORDS = st.lists(st.integers(4, 8), min_size=0, max_size=9)


@every_system
@settings(max_examples=8)
@given(pairs=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5), multiple=st.sampled_from([1, 4, 16]))
def test_attention_weights_are_on_words_and_sum_to_one(
    system: str, pairs: list[tuple[list[int], list[int]]], multiple: int
) -> None:
    model = model_of(system)
    batch = collate({"source": [source for source, _ in pairs]}, [target for _, target in pairs], multiple)
    attention_weights = model.forced_attention(model.encode(batch), batch.target_BL[:, None])
    padding = batch.sources["source"].padding_BT[:, None, None]
    matrices = attention_weights.matrices("source")
    assert matrices.keys() == set(model.config.attention_kinds)
    for kind, weights in matrices.items():
        assert (weights >= 0).all()
        assert (weights.masked_select(padding.expand_as(weights)) == 0).all(), kind
        rows = weights.sum(-1)
        if kind == "uam":  # a distribution over the vocabulary, to which the source's own tokens contribute
            assert (rows <= 1 + 1e-9).all()
        else:
            torch.testing.assert_close(rows, torch.ones_like(rows), rtol=0, atol=1e-9)
    if (gate := attention_weights.gate) is not None:
        assert ((gate > 0) & (gate < 1)).all()
    for fertility in attention_weights.fertility.values():
        real = fertility[~batch.sources["source"].padding_BT]
        assert ((real > 0) & (real < (model.config.fertility or 2.0))).all()


@every_system
def test_an_empty_row_does_not_change_the_loss_of_others(system: str) -> None:
    model = model_of(system)
    alone = training_loss(model, collate({"source": [[5, 6, 7]]}, [[6, 8]]))
    empty = training_loss(model, collate({"source": [[]]}, [[]]))
    both = training_loss(model, collate({"source": [[5, 6, 7], []]}, [[6, 8], []]))
    torch.testing.assert_close(both.objective, alone.objective + empty.objective, rtol=0, atol=1e-9)
    torch.testing.assert_close(both.nats, alone.nats + empty.nats, rtol=0, atol=1e-9)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("decoder", ["bahdanau", "conditional", "luong"])
def test_dropout_is_applied_between_layers_only(decoder: str, layers: int) -> None:
    """Applies to the inputs of a step; the top layer's state goes to the readout, which has its own dropout."""
    words = TextVocabulary(vocabulary=9)
    config = RecurrentConfig(
        decoder=decoder, layers=layers, embedding=6, hidden=5, dropout=0.4, sources={"source": words}, target=words
    )
    model = build(config).train()
    memory = model.encode(collate({"source": [[5, 6, 7], [8]]}))
    state, token_BK = model.start(memory), torch.full((2, 1), 4)
    torch.manual_seed(1)
    model.step(memory, state, token_BK)
    after = torch.get_rng_state()
    torch.manual_seed(1)
    for _ in range(layers - 1):
        F.dropout(torch.ones(2, 1, config.hidden), config.dropout)
    assert torch.get_rng_state().equal(after)


def millions(recipe: str) -> float:
    """Parameters, in millions, at the sizes of Wu et al. 2018, table 3: two layers a side, E = H = 256."""
    vocabularies = {"source": 32009, "target": 22822}
    config = load_recipe(recipe, ["model.layers=2"]).model_for(vocabularies, {})
    assert (config.embedding, config.hidden) == (256, 256)
    with torch.device("meta"):
        return sum(build(config).parameter_counts().values()) / 1e6


@pytest.mark.parametrize("paper", ["", "paper/"])
def test_parameter_counts_equal_the_papers(paper: str) -> None:
    plain, words, gates = (millions(paper + name) for name in ("rnnsearch", "word_attention", "contextual_gates"))
    assert (plain, words, gates) == pytest.approx((24.3, 24.9, 25.6), rel=0.03)
    assert words - plain == pytest.approx(0.6, abs=0.15)
    assert gates - words == pytest.approx(0.7, abs=0.15)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("paper", ["", "paper/"])
def test_every_recipe_is_complete_and_builds(system: str, paper: str) -> None:
    recipe = load_recipe(paper + system)
    assert recipe.about
    with torch.device("meta"):
        build(recipe.model_for({"source": 50, "target": 50}, {}))


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"contextual_gates": True}, "contextual_gates: weighs two contexts"),
        ({"contextual_gates": True, "word_attention": True, "decoder": "luong"}, "none enters them"),
        ({"coverage": "neural", "attention": "bilinear"}, "coverage: is a term of the additive energy"),
        ({"coverage_size": 4}, "coverage_size: has no effect"),
        ({"word_attention_size": "embedding"}, "word_attention_size: has no effect with word_attention: false"),
        (
            {"word_attention": True, "attention": "bilinear", "word_attention_size": 8},
            "word_attention_size: has no effect with attention: bilinear",
        ),
        ({"coverage": "neural", "fertility": 3.0}, "fertility: has no effect"),
        ({"attention": "bilinear", "attention_size": 8}, "attention_size: has no effect"),
        ({"decoder": "luong", "readout": "tanh"}, "readout: has no effect"),
        ({"alignment_weight": 5.0}, "alignment_weight: has no effect"),
        ({"alignment_longer": "all"}, "alignment_longer: has no effect"),
        ({"first_state": "sum", "encoder_layers": 2}, "first_state: sum goes layer by layer"),
        ({"decoder": "luong", "hidden": 8, "embedding": 4, "tie_embeddings": "output"}, "tie_embeddings"),
        ({"initialization_scale": 0.1}, "initialization_scale: has no effect"),
        ({"writing": "always"}, "writing"),
    ],
)
def test_invalid_combinations_are_refused_with_a_reason(keys: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        RecurrentArchitecture(**keys)


def test_orthogonal_initialization_equals_the_papers() -> None:
    """Meng et al. 2016, section 4.2: orthogonal recurrent weights, zero biases, the rest normal(0, 0.01^2)."""
    torch.manual_seed(1)
    words = TextVocabulary(vocabulary=500)
    config = RecurrentConfig(
        cell="gru", decoder="conditional", initialization="orthogonal", embedding=60, hidden=40,
        sources={"source": words}, target=words,
    )  # fmt: skip
    parameters = dict(build(config).named_parameters())
    recurrent = [
        *parameters["encoders.source.recurrent.forwards.0.weight_hh_l0"].split(40),
        *parameters["decoder.opening.gates.weight"][:, -40:].split(40),
        parameters["decoder.cells.0.candidate_state.weight"],
    ]
    for weight in recurrent:
        torch.testing.assert_close(weight @ weight.T, torch.eye(40), rtol=0, atol=1e-5)
    for name, parameter in parameters.items():
        if parameter.dim() == 1:
            assert (parameter == 0).all(), name
    assert float(parameters["output.weight"].detach().std()) == pytest.approx(0.01, rel=0.05)
    assert float(parameters["encoders.source.words.weight"].detach().std()) == pytest.approx(0.01, rel=0.05)


def test_a_selective_gate_is_open_at_initialization() -> None:
    """Under Glorot's uniform initialization it passes most of each annotation; weights drawn by a paper's scheme stay
    as drawn."""
    words = TextVocabulary(vocabulary=50)
    states_BTD, sentence_BS = torch.randn(2, 3, 40), torch.randn(2, 40)
    passes = {}
    for initialization in ("xavier", "orthogonal"):
        torch.manual_seed(1)
        config = RecurrentConfig(
            embedding=40, hidden=40, directions="summed", selective_gate="sum", initialization=initialization,
            sources={"source": words}, target=words,
        )  # fmt: skip
        gate = build(config).get_submodule("encoders.source.gate")
        passes[initialization] = float((gate(states_BTD, sentence_BS) / states_BTD).mean().detach())
    assert passes["xavier"] > 0.75
    assert passes["orthogonal"] == pytest.approx(0.5, abs=0.05)
