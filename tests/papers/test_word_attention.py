"""Word attention (Wu et al., AAAI 2018), rnnsearch: equations 1-4, and 10 without the bold terms, as loops.

The transcription knows only the paper's symbols; the test gives it the model's weights by the names of
docs/parameters.md. Everything is float64; sentences of unequal length stand beside each other in the model's batch.
"""

import math

import pytest
import torch
from torch import Tensor

from seq2seq.batch import collate
from seq2seq.config import ModelConfig, TextVocabulary
from seq2seq.model import Model, build
from seq2seq.text import BEGIN, END

SOURCES = [[5, 9, 6, 11], [7, 8], [10]]
TARGETS = [[6, 7], [8, 5, 9, 11], [10, 6, 5]]
Weights = dict[str, Tensor]


def sigma(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def lstm(w: Weights, side: str, layer: int, x: Tensor, s: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Hochreiter and Schmidhuber 1997, gates in the order i, f, g, o; the encoder's form, with two biases."""
    gates = (
        w[f"{side}.weight_ih_l{layer}"] @ x + w[f"{side}.bias_ih_l{layer}"]
        + w[f"{side}.weight_hh_l{layer}"] @ s + w[f"{side}.bias_hh_l{layer}"]
    )  # fmt: skip
    i, f, g, o = gates.chunk(4)
    c = sigma(f) * c + sigma(i) * torch.tanh(g)
    return sigma(o) * torch.tanh(c), c


def cudnn_gru(w: Weights, side: str, layer: int, x: Tensor, s: Tensor) -> Tensor:
    """Reset after the product; z weighs the old state."""
    from_x = w[f"{side}.weight_ih_l{layer}"] @ x + w[f"{side}.bias_ih_l{layer}"]
    from_s = w[f"{side}.weight_hh_l{layer}"] @ s + w[f"{side}.bias_hh_l{layer}"]
    (rx, zx, nx), (rs, zs, ns) = from_x.chunk(3), from_s.chunk(3)
    r, z = sigma(rx + rs), sigma(zx + zs)
    return (1 - z) * torch.tanh(nx + r * ns) + z * s


def one_way(w: Weights, config: ModelConfig, side: str, stack: int, depth: int, xs: list[Tensor]) -> list[Tensor]:
    """A stack of layers over a sequence, in the order given."""
    for layer in range(depth):
        s = c = torch.zeros(config.hidden, dtype=torch.float64)
        states = []
        for x in xs:
            if config.cell == "lstm":
                s, c = lstm(w, f"encoder.{side}.{stack}", layer, x, s, c)
            elif config.gru == "paper":
                name = f"encoder.{side}.{stack}.layers.{layer}"
                s = paper_gru(w, name, w[f"{name}.words.weight"] @ x + w[f"{name}.words.bias"], None, s)
            else:
                s = cudnn_gru(w, f"encoder.{side}.{stack}", layer, x, s)
            states.append(s)
        xs = states
    return xs


def paper_gru(w: Weights, name: str, given: Tensor, c: Tensor | None, s: Tensor) -> Tensor:
    """Equation (10); `given` is W y of r, z and the candidate, c the contexts (and the layer below)."""
    n = s.shape[0]
    C, U = w[f"{name}.gates.weight"][:, :-n], w[f"{name}.gates.weight"][:, -n:]
    C_s, U_s = w[f"{name}.candidate_inputs.weight"], w[f"{name}.candidate_state.weight"]
    from_c = C @ c if c is not None else 0
    r, z = sigma(given[: 2 * n] + from_c + U @ s).chunk(2)
    s_new = torch.tanh(given[2 * n :] + U_s @ (r * s) + (C_s @ c if c is not None else 0))
    return (1 - z) * s + z * s_new


def annotations(w: Weights, config: ModelConfig, x: list[int]) -> tuple[list[Tensor], Tensor, Tensor]:
    """h_j = [forward_j; backward_j]; and the top layer's last forward and first backward state."""
    h = [w["source_words.weight"][x_j] for x_j in x]
    layers = config.encoder_layers or config.layers
    stacks, depth = (layers, 1) if config.encoder_stacks == "interleaved" else (1, layers)
    for stack in range(stacks):
        forward = one_way(w, config, "forwards", stack, depth, h)
        backward = one_way(w, config, "backwards", stack, depth, h[::-1])[::-1]
        h = [torch.cat(pair) for pair in zip(forward, backward, strict=True)]
    return h, forward[-1], backward[0]


def transcription(w: Weights, config: ModelConfig, x: list[int], y: list[int]) -> tuple[Tensor, Tensor]:
    """log p(y_i | y_<i, x) over the vocabulary (L, V), and alpha (L, T), of one sentence pair."""
    x, y = [*x, END], [*y, END]
    n, layers = config.hidden, config.decoder_layers or config.layers
    h, last, first = annotations(w, config, x)
    summary = {"first_backward": first, "last": last, "mean": sum(h) / len(h)}.get(config.first_state)
    s = [
        torch.zeros(n, dtype=torch.float64)
        if summary is None
        else torch.tanh(w[f"decoder.first.{layer}.weight"] @ summary + w[f"decoder.first.{layer}.bias"])
        for layer in range(layers)
    ]
    memory = [torch.zeros(n, dtype=torch.float64) for _ in range(layers)]
    W_a, U_a, b_a = (
        w["decoder.attention.query.weight"], w["decoder.attention.key.weight"], w["decoder.attention.key.bias"]
    )  # fmt: skip
    v_a = w["decoder.attention.energy.weight"][0]
    log_p, alphas = [], []
    for i in range(len(y)):
        y_before = w["target_words.weight"][BEGIN if i == 0 else y[i - 1]]
        if i == 0 and config.first_word == "zero":
            y_before = torch.zeros_like(y_before)
        e = [v_a @ torch.tanh(W_a @ s[-1] + U_a @ h_j + b_a) for h_j in h]  # (2), (3)
        total = sum(math.e**e_k for e_k in e)
        alpha = [math.e**e_j / total for e_j in e]  # (1)
        c = sum(alpha_j * h_j for alpha_j, h_j in zip(alpha, h, strict=True))  # (4)
        below = None
        for layer in range(layers):  # s_i = f(s_{i-1}, y_{i-1}, c_i); contexts enter every layer
            name = f"decoder.cells.{layer}"
            enters = c if below is None else torch.cat([below, c])
            given = w[f"{name}.words.weight"] @ y_before + w[f"{name}.words.bias"] if layer == 0 else w[f"{name}.bias"]
            if config.cell == "lstm":
                gates = given + w[f"{name}.gates.weight"] @ torch.cat([enters, s[layer]])
                i_, f_, g_, o_ = gates.chunk(4)
                memory[layer] = sigma(f_) * memory[layer] + sigma(i_) * torch.tanh(g_)
                s[layer] = sigma(o_) * torch.tanh(memory[layer])
            elif config.gru == "paper":
                s[layer] = paper_gru(w, name, given, enters, s[layer])  # (10)
            else:
                r, z = sigma(given[: 2 * n] + w[f"{name}.gates.weight"] @ torch.cat([enters, s[layer]])).chunk(2)
                from_s = w[f"{name}.candidate_state.weight"] @ s[layer] + w[f"{name}.candidate_bias"]
                new = torch.tanh(given[2 * n :] + w[f"{name}.candidate_inputs.weight"] @ enters + r * from_s)
                s[layer] = (1 - z) * new + z * s[layer]
            below = s[layer]
        t = w["decoder.readout.weight"] @ torch.cat([y_before, s[-1], c]) + w["decoder.readout.bias"]  # (10)
        if config.readout == "maxout":
            t = torch.stack([torch.max(t[2 * k], t[2 * k + 1]) for k in range(len(t) // 2)])
        elif config.readout == "tanh":
            t = torch.tanh(t)
        scores = w["output.weight"] @ t + w["output.bias"]
        log_p.append(scores - torch.log(torch.exp(scores).sum()))
        alphas.append(torch.stack(alpha))
    return torch.stack(log_p), torch.stack(alphas)


VARIANTS: dict[str, dict[str, object]] = {
    "lstm": {},
    "gru": {"cell": "gru"},
    "paper's gru": {"cell": "gru", "gru": "paper"},
    "two layers": {"layers": 2},
    "four paper's gru layers": {"layers": 4, "cell": "gru", "gru": "paper"},
    "interleaved": {"layers": 2, "encoder_stacks": "interleaved"},
    "unequal depths": {"encoder_layers": 1, "decoder_layers": 3, "cell": "gru"},
    "mean, zero word, maxout": {"first_state": "mean", "first_word": "zero", "readout": "maxout"},
    "last, linear": {"first_state": "last", "readout": "linear"},
    "zero state, tied": {"first_state": "zero", "tie_embeddings": "all"},
}


def small(**variant: object) -> Model:
    torch.manual_seed(3)
    words = TextVocabulary(vocabulary=12)
    sizes = {"embedding": 4, "hidden": 3, "attention_size": 5, "initialization": "uniform", "initialization_scale": 0.8}
    return build(ModelConfig(sources={"source": words}, target=words, **{**sizes, **variant})).double().eval()


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_the_model_is_the_papers(variant: dict[str, object]) -> None:
    model = small(**variant)
    w = dict(model.named_parameters(remove_duplicate=False))
    batch = collate({"source": SOURCES}, TARGETS)
    readouts, looks = model.teacher_forced(model.encode(batch), batch.target_BL[:, None])
    log_p = model.log_probabilities(readouts)[:, 0]
    alpha = looks.weights["source", "attention"][:, 0]

    expected_loss = 0.0
    for row, (x, y) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected, expected_alpha = transcription(w, model.config, x, y)
        torch.testing.assert_close(log_p[row, : len(y) + 1], expected, rtol=0, atol=1e-9)
        torch.testing.assert_close(alpha[row, : len(y) + 1, : len(x) + 1], expected_alpha, rtol=0, atol=1e-9)
        assert (alpha[row, :, len(x) + 1 :] == 0).all()
        expected_loss = expected_loss - sum(expected[i, word] for i, word in enumerate([*y, END]))

    loss = model.loss(batch)
    torch.testing.assert_close(loss.objective, expected_loss, rtol=0, atol=1e-9)
    parameters = list(model.parameters())
    ours = torch.autograd.grad(loss.objective, parameters)
    theirs = torch.autograd.grad(expected_loss, parameters, allow_unused=True)
    for (name, parameter), mine, paper in zip(model.named_parameters(), ours, theirs, strict=True):
        expected_gradient = torch.zeros_like(parameter) if paper is None else paper
        if name in ("source_words.weight", "target_words.weight"):
            expected_gradient[0] = mine[0]  # padding's row is never looked up
        torch.testing.assert_close(mine, expected_gradient, rtol=0, atol=1e-9, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_stepping_gives_what_teacher_forcing_gives(variant: dict[str, object]) -> None:
    model = small(**variant)
    batch = collate({"source": SOURCES}, TARGETS)
    memory = model.encode(batch)
    readouts, looks = model.teacher_forced(memory, batch.target_BL[:, None])
    state, token = model.start(memory), torch.full((len(SOURCES), 1), BEGIN)
    for i in range(batch.target_BL.shape[1]):
        state, readout, seen = model.step(memory, state, token)
        torch.testing.assert_close(readout, readouts[:, :, i], rtol=0, atol=1e-12)
        torch.testing.assert_close(
            seen.weights["source", "attention"], looks.weights["source", "attention"][:, :, i], rtol=0, atol=1e-12
        )
        token = batch.target_BL[:, i : i + 1]
