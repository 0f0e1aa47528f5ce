"""Word attention and contextual gates (Wu et al., AAAI 2018), equations 1-12, as loops over the paper's symbols."""

from typing import Any

import pytest
import torch

from interlinear.models.model import build
from tests.papers.agreement import TranscriptionResult, agrees, small, stepping_agrees
from tests.papers.literal import (
    Weights,
    additive_energy,
    cell,
    encode,
    first_state,
    log_softmax_output,
    sigma,
    softmax,
    weighted,
    word_before,
    zeros,
)  # fmt: skip
from training.recipe import load_recipe


def transcription(w: Weights, config: Any, x: list[int], y: list[int]) -> TranscriptionResult:
    """log p(y_i | y_<i, x) over the vocabulary, alpha, beta, and o of every layer, of one sentence pair."""
    n, layers = config.hidden, config.decoder_layers or config.layers
    h, last, first, sums = encode(w, config, x)
    s, memory = first_state(w, config, h, last, first, sums)
    embeddings = [w["encoders.source.words.weight"][x_j] for x_j in x]
    log_p, alphas, betas, gates = [], [], [], [[] for _ in range(layers)]
    for i in range(len(y)):
        y_before = word_before(w, config, y, i)
        e = additive_energy(w, "decoder.attention", s[-1], h)  # (2), (3)
        alpha = softmax(e)  # (1)
        c_alpha = weighted(alpha, h)  # (4)
        contexts = [c_alpha]
        if config.word_attention:
            e_beta = additive_energy(w, "decoder.word_attention", s[-1], embeddings)  # (6)
            beta = softmax(e_beta)  # (5)
            c_beta = weighted(beta, embeddings)  # (7)
            contexts.append(c_beta)
            betas.append(torch.stack(beta))
        for layer in range(layers):  # (8): s_i = f(s_{i-1}, y_{i-1}, c^alpha, c^beta), in every layer
            below = [] if layer == 0 else [s[layer - 1]]
            name, taken = f"decoder.cells.{layer}", y_before if layer == 0 else None
            if not config.contextual_gates:
                enters = torch.cat([*below, *contexts])
                s[layer], memory[layer] = cell(w, config, name, taken, enters, s[layer], memory[layer])  # (10)
                continue
            g = f"decoder.gates.{layer}"
            C_alpha, C_o_alpha = w[f"{g}.annotation_context.weight"].split(
                [w[f"{g}.annotation_context.weight"].shape[0] - n, n]
            )
            C_beta, C_o_beta = w[f"{g}.word_context.weight"].split([w[f"{g}.word_context.weight"].shape[0] - n, n])
            W_o_y = w[f"{g}.words.weight"] @ y_before + w[f"{g}.words.bias"] if layer == 0 else w[f"{g}.bias"]
            U_o, kept = w[f"{g}.state.weight"], s[layer] * w.get(f"{name}.state_mask", torch.ones_like(s[layer]))
            o = sigma(W_o_y + U_o @ torch.cat([*below, kept]) + C_o_alpha @ c_alpha + C_o_beta @ c_beta)  # (11)
            gates[layer].append(o)
            mixed = torch.cat(  # (12), gate by gate
                [
                    o * (C_a @ c_alpha) + (1 - o) * (C_b @ c_beta)
                    for C_a, C_b in zip(C_alpha.split(n), C_beta.split(n), strict=True)
                ]
            )
            enters = torch.cat(below) if below else zeros(0)
            s[layer], memory[layer] = cell(w, config, name, taken, enters, s[layer], memory[layer], mixed)
        t = w["decoder.readout.weight"] @ torch.cat([y_before, s[-1], *contexts]) + w["decoder.readout.bias"]  # (10)
        if config.readout == "maxout":
            t = torch.stack([torch.max(t[2 * k], t[2 * k + 1]) for k in range(len(t) // 2)])
        elif config.readout != "linear":
            t = torch.tanh(t)
        log_p.append(log_softmax_output(w, t))  # (9)
        alphas.append(torch.stack(alpha))
    attention_weights = {"attention": torch.stack(alphas)} | ({"word_attention": torch.stack(betas)} if betas else {})
    return TranscriptionResult(torch.stack(log_p), attention_weights, [torch.stack(layer) for layer in gates if layer])


WORDS = {"word_attention": True}
GATES = {"word_attention": True, "contextual_gates": True}
PAPER = {"cell": "gru", "gru": "paper"}
VARIANTS: dict[str, dict[str, object]] = {
    "lstm": {},
    "gru": {"cell": "gru"},
    "paper's gru": PAPER,
    "two layers": {"layers": 2},
    "four paper's gru layers": {"layers": 4, **PAPER},
    "interleaved": {"layers": 2, "encoder_stacks": "interleaved"},
    "unequal depths": {"encoder_layers": 1, "decoder_layers": 3, "cell": "gru"},
    "mean, zero word, maxout": {"first_state": "mean", "first_word": "zero", "readout": "maxout"},
    "last, linear": {"first_state": "last", "readout": "linear"},
    "zero state, tied": {"first_state": "zero", "tie_embeddings": "all"},
    "first state of sums, two layers": {"first_state": "sum", "layers": 2},
    "words": WORDS,
    "words, gru": {**WORDS, "cell": "gru"},
    "words, four layers": {**WORDS, "layers": 4},
    "words, v_b of the embedding's size": {**WORDS, "word_attention_size": "embedding"},
    "gates, v_b of a size of its own": {**GATES, "word_attention_size": 2},
    "words, two paper's gru layers": {**WORDS, **PAPER, "layers": 2},
    "gates": GATES,
    "gates, gru": {**GATES, "cell": "gru"},
    "gates, paper's gru": {**GATES, **PAPER},
    "gates, two layers": {**GATES, "layers": 2},
    "gates, four gru layers": {**GATES, "cell": "gru", "layers": 4},
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_the_model_is_the_papers(variant: dict[str, object]) -> None:
    """And a step of search is one of training."""
    model = small(**variant)
    agrees(model, transcription)
    stepping_agrees(model)


@pytest.mark.parametrize("key", ["embedding", 2, None])
def test_equation_6_has_the_sizes_of_the_recipe(key: str | int | None) -> None:
    """v_b in R^m, W_b in R^{m x n}, U_b in R^{m x m} in the paper's reading; without the key the sizes of the other
    attention."""
    model = small(word_attention=True, word_attention_size=key)
    n, m = 3, 4  # hidden, embedding
    size = {"embedding": m, 2: 2, None: 5}[key]
    words = model.get_submodule("decoder.word_attention")
    shapes = {name: tuple(weight.shape) for name, weight in words.named_parameters()}
    assert shapes == {
        "query.weight": (size, n), "key.weight": (size, m), "key.bias": (size,), "energy.weight": (1, size),
    }  # fmt: skip
    assert model.get_parameter("decoder.attention.energy.weight").shape == (1, 5)


@pytest.mark.parametrize("recipe", ["word_attention", "word_attention_2", "contextual_gates", "contextual_gates_2"])
def test_the_papers_recipes_use_equation_6_as_printed(recipe: str) -> None:
    model = load_recipe(f"paper/{recipe}", ["model.embedding=300"])
    with torch.device("meta"):
        built = build(model.model_for({"source": 50, "target": 50}, {}))
    assert built.get_parameter("decoder.word_attention.energy.weight").shape == (1, 300)
    assert built.get_parameter("decoder.attention.energy.weight").shape == (1, 256)
