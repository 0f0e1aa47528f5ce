"""The Transformer (Vaswani et al. 2017), its decoder with SSRUs (Kim et al. 2019), and its attention to several sources
(Libovicky, Helcl and Marecek 2018), as loops over the papers' symbols in float64.

A target position's words are those before it, with their BEGIN: the model's previous words. Sentences of unequal length
are batched in the model and computed one by one here.
"""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from interlinear.batch import collate
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.memory import Memory
from interlinear.models.transformer.decoder import DecoderConfig, TransformerDecoder
from interlinear.models.transformer.encoder import TransformerEncoder
from interlinear.models.transformer.layers import LayerConfig
from tests.papers.agreement import close
from tests.papers.literal import Weights, sigma, softmax, weighted, zeros

END = 3
SOURCES = [[5, 9, 6, 11], [7, 8], [10, 10, 5, 6, 6]]
D, H = 6, 3  # sizes of a layer, and number of heads


def matrix(w: Weights, name: str, x: Tensor) -> Tensor:
    return w[f"{name}.weight"] @ x + w.get(f"{name}.bias", 0)


def layer_norm(w: Weights, name: str, x: Tensor, epsilon: float) -> Tensor:
    mu = sum(x) / len(x)
    variance = sum((x_i - mu) ** 2 for x_i in x) / len(x)
    return w[f"{name}.weight"] * (x - mu) / torch.sqrt(variance + epsilon) + w[f"{name}.bias"]


def position(p: int, order: str) -> Tensor:
    """Vaswani et al. 2017, section 3.5: PE(pos, 2i), PE(pos, 2i + 1); or Marian's order and scale."""
    P = zeros(D)
    for i in range(D // 2):
        if order == "interleaved":
            P[2 * i] = math.sin(p / 10000 ** (2 * i / D))
            P[2 * i + 1] = math.cos(p / 10000 ** (2 * i / D))
        else:
            P[i] = math.sin(p / 10000 ** (i / (D / 2 - 1)))
            P[D // 2 + i] = math.cos(p / 10000 ** (i / (D / 2 - 1)))
    return P


def rows(w: Weights, name: str, part: int) -> tuple[Tensor, Tensor]:
    """The part's D rows of a map, and of its bias."""
    return w[f"{name}.weight"][part * D : part * D + D], w[f"{name}.bias"][part * D : part * D + D]


def multi_head(
    Q: Tensor, K: Sequence[Tensor], V: Sequence[Tensor], w: Weights, output: str
) -> tuple[Tensor, list[list[Tensor]]]:
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O of projected vectors (section 3.2.2), and each head's
    weights."""
    heads, d_k, alphas = [], D // H, []
    for h in range(H):
        of_head = slice(h * d_k, h * d_k + d_k)
        alpha = softmax([Q[of_head] @ k[of_head] / math.sqrt(d_k) for k in K])  # (1)
        heads.append(weighted(alpha, [v[of_head] for v in V]))
        alphas.append(alpha)
    return matrix(w, output, torch.cat(heads)), alphas


def self_attention(w: Weights, name: str, x: Sequence[Tensor], last: int) -> Tensor:
    """Position `last` of a sequence, attending to all of it."""
    (W_Q, b_Q), (W_K, b_K), (W_V, b_V) = (rows(w, f"{name}.projection", part) for part in range(3))
    K, V = [W_K @ x_j + b_K for x_j in x], [W_V @ x_j + b_V for x_j in x]
    return multi_head(W_Q @ x[last] + b_Q, K, V, w, f"{name}.output")[0]


def source_attention(w: Weights, name: str, x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, list[list[Tensor]]]:
    """A(Q, K, V) of a decoder's state and a source's states; nothing for an absent source."""
    if not states:
        return zeros(D), [[] for _ in range(H)]
    (W_K, b_K), (W_V, b_V) = rows(w, f"{name}.key_value", 0), rows(w, f"{name}.key_value", 1)
    K, V = [W_K @ s + b_K for s in states], [W_V @ s + b_V for s in states]
    return multi_head(matrix(w, f"{name}.query", x), K, V, w, f"{name}.output")


def activation(kind: str, inner: Tensor) -> Tensor:
    if kind == "swiglu":  # Shazeer 2020, equation 6
        g, v = inner.chunk(2)
        return g * sigma(g) * v
    if kind == "relu":
        return torch.stack([max(x, x * 0) for x in inner])
    return inner * (1 + torch.erf(inner / math.sqrt(2))) / 2  # Hendrycks and Gimpel 2016


class Layers:
    """The parts of layers that both sides have."""

    def __init__(self, w: Weights, config: LayerConfig) -> None:
        self.w, self.config = w, config

    def residual(self, name: str, x: Sequence[Tensor], part: Any) -> list[Tensor]:
        """LayerNorm(x + Sublayer(x)) (section 3.1); or with pre-norm x + Sublayer(LayerNorm(x))."""
        norm = lambda v: layer_norm(self.w, f"{name}.norm", v, self.config.norm_epsilon)  # noqa: E731
        if self.config.norm == "pre":
            entering = [norm(x_t) for x_t in x]
            return [x_t + part(entering, t) for t, x_t in enumerate(x)]
        return [norm(x_t + part(x, t)) for t, x_t in enumerate(x)]

    def feedforward(self, name: str, x: Sequence[Tensor]) -> list[Tensor]:
        def part(x: Sequence[Tensor], t: int) -> Tensor:  # (2)
            inner = activation(self.config.activation, matrix(self.w, f"{name}.inner", x[t]))
            return matrix(self.w, f"{name}.outer", inner)

        return self.residual(f"{name}.residual", x, part)

    def enter(self, words: Sequence[Tensor]) -> list[Tensor]:
        return [math.sqrt(D) * word + position(p, self.config.positions) for p, word in enumerate(words)]

    def leave(self, x: list[Tensor]) -> list[Tensor]:
        norm = self.config.norm == "pre"
        return [layer_norm(self.w, "top.norm", x_t, self.config.norm_epsilon) for x_t in x] if norm else x

    def encode(self, ids: Sequence[int], depth: int) -> list[Tensor]:
        x = self.enter([self.w["words.weight"][i] for i in ids])
        for layer in range(depth):
            name = f"layers.{layer}"
            x = self.residual(
                f"{name}.residual", x, lambda x, t, name=name: self_attention(self.w, f"{name}.attention", x, t)
            )
            x = self.feedforward(f"{name}.feedforward", x)
        return self.leave(x)

    def ssru(self, name: str, x: Sequence[Tensor], t: int) -> Tensor:
        """h_t = relu(c_t), c_t = f_t c_{t-1} + (1 - f_t) W x_t (Kim et al. 2019, section 3.1)."""
        W_f, W = self.w[f"{name}.maps.weight"].split(D)
        c = zeros(D)
        for x_t in x[: t + 1]:
            f = sigma(W_f @ x_t + self.w[f"{name}.forget_bias"])
            c = f * c + (1 - f) * (W @ x_t)
        return activation("relu", c)

    def decode(self, words: Sequence[Tensor], sources: dict[str, list[Tensor]], own: DecoderConfig) -> Any:
        """States of the last layer, and the last layer's attention: by source alpha[t][head], and beta[t][head]."""
        x = self.enter(words)
        for layer in range(own.layers):
            name = f"layers.{layer}"

            def before(x: Sequence[Tensor], t: int, name: str = name) -> Tensor:
                if own.autoregressive == "ssru":
                    return self.ssru(f"{name}.autoregressive", x, t)
                return self_attention(self.w, f"{name}.autoregressive.attention", x[: t + 1], t)

            x = self.residual(f"{name}.residual", x, before)
            alpha: dict[str, list[Any]] = {source: [] for source in sources}
            beta: list[list[list[Tensor]]] = []
            if own.strategy == "serial":  # section 3.1
                for source, states in sources.items():
                    x = self.residual(
                        f"{name}.cross.residuals.{source}",
                        x,
                        lambda x, t, name=f"{name}.cross.attentions.{source}", states=states, seen=alpha[source]: kept(
                            source_attention(self.w, name, x[t], states), seen
                        ),
                    )
            else:
                combine = getattr(self, own.strategy)
                x = self.residual(
                    f"{name}.cross.residual",
                    x,
                    lambda x, t, name=name, combine=combine, a=alpha, b=beta: combine(
                        f"{name}.cross", x[t], sources, a, b
                    ),
                )
            x = self.feedforward(f"{name}.feedforward", x)
        return self.leave(x), alpha, beta

    def parallel(self, name: str, x: Tensor, sources: Any, alpha: Any, beta: Any) -> Tensor:
        """sum_i A(Q, K_i, V_i) (section 3.2)."""
        read = [(s, source_attention(self.w, f"{name}.attentions.{s}", x, h)) for s, h in sources.items()]
        return sum((kept(one, alpha[s]) for s, one in read), zeros(D))

    def flat(self, name: str, x: Tensor, sources: Any, alpha: Any, beta: Any) -> Tensor:
        """A(Q, K_flat, V_flat), K_flat = V_flat = concat_i(K_i) (section 3.3)."""
        added, alphas = source_attention(self.w, f"{name}.attention", x, [s for h in sources.values() for s in h])
        first = 0
        for source, states in sources.items():
            alpha[source].append([of_head[first : first + len(states)] for of_head in alphas])
            first += len(states)
        beta.append([[sum(alpha[source][-1][h], zeros(())) for source in sources] for h in range(H)])
        return added

    def hierarchical(self, name: str, x: Tensor, sources: Any, alpha: Any, beta: Any) -> Tensor:
        """A(Q, K_hier, V_hier), K_hier = V_hier = concat_i(A(Q, K_i, V_i)) (section 3.4)."""
        contexts = {
            source: kept(source_attention(self.w, f"{name}.attentions.{source}", x, states), alpha[source])
            for source, states in sources.items()
        }
        present = [source for source, states in sources.items() if states]
        added, weights = source_attention(self.w, f"{name}.combination", x, [contexts[s] for s in present])
        by_source = [dict(zip(present, of_head, strict=True)) for of_head in weights]
        beta.append([[of_head.get(source, zeros(())) for source in sources] for of_head in by_source])
        return added


def kept(read: tuple[Tensor, Any], seen: list[Any]) -> Tensor:
    seen.append(read[1])
    return read[0]


def drawn(module: torch.nn.Module) -> Any:
    """The module in float64, with every weight far from zero."""
    module = module.double()
    for parameter in module.parameters():
        torch.nn.init.uniform_(parameter, -0.8, 0.8)
    return module.eval()


def agree(config: LayerConfig, own: DecoderConfig, texts: dict[str, list[list[int] | None]], steps: int = 4) -> None:
    """Assert that states and weights of both sides equal the transcription's."""
    torch.manual_seed(3)
    batch = collate(texts)
    encoders = {source: drawn(TransformerEncoder(config, 2, 12)) for source in texts}
    decoder: TransformerDecoder = drawn(TransformerDecoder(config, own))
    read = {source: encoders[source](batch.text(source)) for source in texts}
    memory = Memory({n: view for source in texts for n, view in decoder.views(source, read[source]).items()})
    words_BKLE = torch.randn(batch.rows, 2, steps, D, dtype=torch.float64)
    readouts, seen = decoder.unroll(memory, words_BKLE, attention=True)
    for row in range(batch.rows):
        states = {}
        for source, sentences in texts.items():
            ids = sentences[row]
            ids = [] if ids is None else [*ids, END]
            states[source] = Layers(dict(encoders[source].named_parameters()), config).encode(ids, 2)
            for t, state in enumerate(states[source]):
                close(read[source].states_BTD[row, t], state, "encoder")
        for k in range(2):
            layers = Layers(dict(decoder.named_parameters()), config)
            expected, alpha, beta = layers.decode(list(words_BKLE[row, k]), states, own)
            close(readouts[row, k], torch.stack(expected), "readout")
            weights_agree(seen, row, k, alpha, beta)


def weights_agree(seen: AttentionWeights, row: int, k: int, alpha: dict[str, list[Any]], beta: list[Any]) -> None:
    """Assert that the mean of the heads' weights equals the transcription's; padding and absent sources get 0."""
    for n, (source, steps) in enumerate(alpha.items()):
        ours = seen.weights[source, "attention"][row, k]
        for t, heads in enumerate(steps):
            length = len(heads[0])
            assert (ours[t, length:] == 0).all()
            if length:
                theirs = torch.stack([torch.stack(list(head)) for head in heads]).mean(0)
                close(ours[t, :length], theirs, "alpha")
            if beta:
                theirs = torch.stack([head[n] for head in beta[t]]).mean()
                close(seen.source_weights[source][row, k, t], theirs, "beta")
    assert bool(beta) == bool(seen.source_weights)


@pytest.mark.parametrize("autoregressive", ["transformer", "ssru"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_both_sides_are_the_papers(autoregressive: str, norm: Any, activation: Any) -> None:
    positions: Any = "interleaved" if activation == "relu" else "concatenated"
    config = LayerConfig(D, H, 5, activation, norm, 1e-9 if norm == "post" else 1e-5, positions)
    agree(config, DecoderConfig(2, ["source"], D, autoregressive), {"source": list(SOURCES)})


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("strategy", ["serial", "parallel", "flat", "hierarchical"])
def test_several_sources_are_the_papers(strategy: str, norm: Any) -> None:
    texts: dict[str, list[list[int] | None]] = {"source": [[5, 9, 6], [7], None], "mt": [[6, 7], None, [5, 5, 9, 10]]}
    agree(LayerConfig(D, H, 5, norm=norm), DecoderConfig(2, list(texts), D, strategy=strategy), texts)
