"""Components that the papers reuse, as loops over words in float64: cells, encoders, the initial state, a softmax.

`w` holds a model's weights by the names of docs/parameters.md, `config` its sizes. Nothing here imports the package.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Weights = dict[str, Tensor]
BEGIN, END = 2, 3  # the symbols before the first word and after the last one


def sigma(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def softmax(e: Sequence[Tensor]) -> list[Tensor]:
    total = sum(torch.exp(e_k) for e_k in e)
    return [torch.exp(e_j) / total for e_j in e]


def zeros(n: int) -> Tensor:
    return torch.zeros(n, dtype=torch.float64)


def lstm(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Hochreiter and Schmidhuber 1997, gates in the order i, f, g, o: the new state and memory."""
    i, f, g, o = gates.chunk(4)
    c = sigma(f) * c + sigma(i) * torch.tanh(g)
    return sigma(o) * torch.tanh(c), c


def kernel_cell(w: Weights, config: Any, name: str, layer: int, x: Tensor, s: Tensor, c: Tensor) -> Any:
    """A layer of an encoder's stack in the form that kernels compute, with two biases."""
    from_x = w[f"{name}.weight_ih_l{layer}"] @ x + w[f"{name}.bias_ih_l{layer}"]
    from_s = w[f"{name}.weight_hh_l{layer}"] @ s + w[f"{name}.bias_hh_l{layer}"]
    if config.cell == "lstm":
        return lstm(from_x + from_s, c)
    (rx, zx, nx), (rs, zs, ns) = from_x.chunk(3), from_s.chunk(3)
    r, z = sigma(rx + rs), sigma(zx + zs)
    return (1 - z) * torch.tanh(nx + r * ns) + z * s, c


def cell(
    w: Weights,
    config: Any,
    name: str,
    y: Tensor | None,
    enters: Tensor,
    s: Tensor,
    c: Tensor,
    mixed: Tensor | float = 0,
) -> tuple[Tensor, Tensor]:
    """One step of a cell that is stepped in Python: `y` is the previous word's embedding, if the cell takes it;
    `enters` are its further inputs; `mixed` is what gated contexts add to its gates and its candidate, in their
    order. `w` may have a mask of the state, `NAME.state_mask`, which applies where the state enters a product (Gal and
    Ghahramani 2016, section 4.2)."""
    n = s.shape[0]
    kept = s * w.get(f"{name}.state_mask", torch.ones_like(s))
    if f"{name}.state_norm.weight" in w:
        return layer_norm_cell(w, config, name, y, enters, kept, s, c, mixed)
    given = w[f"{name}.bias"] if y is None else w[f"{name}.words.weight"] @ y + w[f"{name}.words.bias"]
    given = given + mixed
    if config.cell == "lstm":
        return lstm(given + w[f"{name}.gates.weight"] @ torch.cat([enters, kept]), c)
    r, z = sigma(given[: 2 * n] + w[f"{name}.gates.weight"] @ torch.cat([enters, kept])).chunk(2)
    candidate = given[2 * n :] + w[f"{name}.candidate_inputs.weight"] @ enters
    U = w[f"{name}.candidate_state.weight"]
    if config.gru == "paper":  # Wu et al. 2018, equation (10)
        return (1 - z) * s + z * torch.tanh(candidate + U @ (r * kept)), c
    new = torch.tanh(candidate + r * (U @ kept + w[f"{name}.candidate_bias"]))
    return (1 - z) * new + z * s, c


def layer_norm(w: Weights, name: str, a: Tensor) -> Tensor:
    """Ba et al. 2016, equations 3 and 4; epsilon is that of their implementation."""
    mu = sum(a) / len(a)
    variance = sum((a_i - mu) ** 2 for a_i in a) / len(a)
    return w[f"{name}.weight"] * (a - mu) / torch.sqrt(variance + 1e-5) + w[f"{name}.bias"]


def layer_norm_cell(
    w: Weights,
    config: Any,
    name: str,
    y: Tensor | None,
    enters: Tensor,
    kept: Tensor,
    s: Tensor,
    c: Tensor,
    mixed: Tensor | float,
) -> tuple[Tensor, Tensor]:
    """Ba et al. 2016, equations 20 - 22 for an LSTM and those of the GRU after them; `kept` is the masked state."""
    n = s.shape[0]
    x = w[f"{name}.inputs.weight"] @ enters + mixed
    x = x if y is None else x + w[f"{name}.words.weight"] @ y
    state = w[f"{name}.state.weight"] @ kept
    if config.cell == "lstm":
        i, f, g, o = (layer_norm(w, f"{name}.input_norm", x) + layer_norm(w, f"{name}.state_norm", state)).chunk(4)
        c = sigma(f) * c + sigma(i) * torch.tanh(g)
        return sigma(o) * torch.tanh(layer_norm(w, f"{name}.memory_norm", c)), c
    gates = layer_norm(w, f"{name}.input_norm", x[: 2 * n]) + layer_norm(w, f"{name}.state_norm", state)
    r, z = sigma(gates).chunk(2)
    candidate = layer_norm(w, f"{name}.candidate_input_norm", x[2 * n :])
    U, norm = w[f"{name}.candidate_state.weight"], f"{name}.candidate_state_norm"
    if config.gru == "paper":
        return (1 - z) * s + z * torch.tanh(candidate + layer_norm(w, norm, U @ (r * kept))), c
    return (1 - z) * torch.tanh(candidate + r * layer_norm(w, norm, U @ kept)) + z * s, c


def one_way(w: Weights, config: Any, side: str, stack: int, depth: int, xs: list[Tensor]) -> Any:
    """A stack of layers over a sequence, in the given order: the top layer's states, and every layer's last state and
    memory."""
    ends = []
    for layer in range(depth):
        s = c = zeros(config.hidden)
        states = []
        stepped = f"encoders.source.recurrent.{side}.{stack}.layers.{layer}"
        for x in xs:
            if f"{stepped}.words.weight" in w:
                s, c = cell(w, config, stepped, x, zeros(0), s, c)
            else:
                s, c = kernel_cell(w, config, f"encoders.source.recurrent.{side}.{stack}", layer, x, s, c)
            states.append(s)
        xs = states
        ends.append((s, c))
    return xs, ends


def encode(w: Weights, config: Any, x: list[int]) -> tuple[list[Tensor], Tensor, Tensor, list[Any]]:
    """h_j of every word; the top layer's last forward and first backward state; and for every layer the last states and
    memories of both directions, summed."""
    h = [w["encoders.source.words.weight"][x_j] for x_j in x]
    layers = config.encoder_layers or config.layers
    stacks, depth = (layers, 1) if config.encoder_stacks == "interleaved" else (1, layers)
    sums: list[Any] = []
    for stack in range(stacks):
        forward, ends = one_way(w, config, "forwards", stack, depth, h)
        backward, back_ends = one_way(w, config, "backwards", stack, depth, h[::-1])
        backward = backward[::-1]
        pairs = zip(forward, backward, strict=True)
        h = [a + b if config.directions == "summed" else torch.cat([a, b]) for a, b in pairs]
        sums += [(s + t, c + d) for (s, c), (t, d) in zip(ends, back_ends, strict=True)]
    return h, forward[-1], backward[0], sums


def first_state(
    w: Weights, config: Any, h: list[Tensor], last: Tensor, first: Tensor, sums: list[Any]
) -> tuple[list[Tensor], list[Tensor]]:
    """The decoder's states and memories before the first word, layer by layer."""
    layers = config.decoder_layers or config.layers
    if config.first_state == "sum":
        return [s for s, _ in sums], [c for _, c in sums]
    nothing = [zeros(config.hidden) for _ in range(layers)]
    if config.first_state == "zero":
        return nothing, list(nothing)
    summary = {"first_backward": first, "last": last, "mean": sum(h) / len(h)}[config.first_state]
    names = [f"decoder.first.{layer}" for layer in range(layers)]
    return [torch.tanh(w[f"{name}.weight"] @ summary + w[f"{name}.bias"]) for name in names], nothing


def word_before(w: Weights, config: Any, y: list[int], i: int) -> Tensor:
    """The embedding of y_{i-1}."""
    if i == 0 and config.first_word == "zero":
        return zeros(config.embedding)
    return w["target_words.weight"][BEGIN if i == 0 else y[i - 1]]


def log_softmax_output(w: Weights, t: Tensor) -> Tensor:
    scores = w["output.weight"] @ t + w["output.bias"]
    return scores - torch.log(torch.exp(scores).sum())


def additive_energy(
    w: Weights, name: str, s: Tensor, h: list[Tensor], covered: list[Any] | None = None
) -> list[Tensor]:
    """v . tanh(W s + U h_j [+ V C_j])."""
    W, U, b = w[f"{name}.query.weight"], w[f"{name}.key.weight"], w[f"{name}.key.bias"]
    v = w[f"{name}.energy.weight"][0]
    extra = [0] * len(h) if covered is None else [w[f"{name}.covered.weight"] @ C_j for C_j in covered]
    return [v @ torch.tanh(W @ s + U @ h_j + b + e_j) for h_j, e_j in zip(h, extra, strict=True)]


def weighted(weights: list[Tensor], values: list[Tensor]) -> Tensor:
    return sum((a * v for a, v in zip(weights, values, strict=True)), zeros(values[0].shape[0]))
