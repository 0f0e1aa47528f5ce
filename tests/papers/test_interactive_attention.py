"""Interactive attention (Meng et al., COLING 2016), equations 5-13, and its baselines of Tu et al. 2016, as loops."""

from typing import Any

import pytest
import torch

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


def coverage_gru(w: Weights, config: Any, C: torch.Tensor, a: torch.Tensor, h_j: torch.Tensor, s: torch.Tensor) -> Any:
    """A GRU without biases over the weight, the annotation and the previous state (Tu et al. 2016, section 3.1.2)."""
    d = C.shape[0]
    known = (
        w["decoder.coverages.source.weight.weight"][:, 0] * a
        + w["decoder.coverages.source.annotation.weight"] @ h_j
        + w["decoder.coverages.source.state.weight"] @ s
    )
    r, z = sigma(known[: 2 * d] + w["decoder.coverages.source.gates.weight"] @ C).chunk(2)
    U = w["decoder.coverages.source.candidate.weight"]
    if config.gru == "paper":
        return (1 - z) * C + z * torch.tanh(known[2 * d :] + U @ (r * C))
    return (1 - z) * torch.tanh(known[2 * d :] + r * (U @ C)) + z * C


def transcription(w: Weights, config: Any, x: list[int], y: list[int]) -> TranscriptionResult:
    """log p(y_t | y_<t, x), and the read attention weights, of one sentence pair."""
    layers = config.decoder_layers or config.layers
    h, last, first, sums = encode(w, config, x)
    s, memory = first_state(w, config, h, last, first, sums)
    N = len(x)
    H = list(h)  # H(0)
    fertility = None
    C: list[Any] | None = None
    if config.coverage == "neural":
        C = [zeros(config.coverage_size or 10) for _ in range(N)]
    elif config.coverage == "linguistic":
        C = [zeros(1) for _ in range(N)]
        U_f = w["decoder.coverages.source.fertility.weight"][0]
        fertility = torch.stack([(config.fertility or 2.0) * sigma(U_f @ h_j) for h_j in h])
    log_p, weights = [], []
    for t in range(len(y)):
        e_y = word_before(w, config, y, t)
        before = s[-1]
        if config.decoder == "conditional":  # s~_{t-1} = GRU(s_{t-1}, e_y)  (5), (7)
            s[0], memory[0] = cell(w, config, "decoder.opening", e_y, zeros(0), s[0], memory[0])
            query = s[0]
        else:
            query = s[-1]
        w_R = softmax(additive_energy(w, "decoder.attention", query, H, C))  # (4), (5) over H(t-1)
        c = weighted(w_R, H)  # (8), (11)
        if config.coverage == "neural":
            C = [coverage_gru(w, config, C[j], w_R[j], H[j], before) for j in range(N)]
        elif config.coverage == "linguistic":
            C = [C[j] + w_R[j] / fertility[j] for j in range(N)]
        for layer in range(layers):  # s_t = GRU(s~_{t-1}, c_t)  (6), (9)
            enters = c if layer == 0 else torch.cat([s[layer - 1], c])
            taken = e_y if layer == 0 and config.decoder == "bahdanau" else None
            s[layer], memory[layer] = cell(w, config, f"decoder.cells.{layer}", taken, enters, s[layer], memory[layer])
        if config.writing != "none":
            w_W = w_R
            if config.writing == "separate":
                w_W = softmax(additive_energy(w, "decoder.writing_attention", s[-1], H))
            F = sigma(w["decoder.writing.forget.weight"] @ s[-1])
            U = sigma(w["decoder.writing.update.weight"] @ s[-1])
            H_tilde = [H[i] * (1 - w_W[i] * F) for i in range(N)]  # (12)
            H = [H_tilde[i] + w_W[i] * U for i in range(N)]  # (13), (10)
        t_t = torch.tanh(w["decoder.readout.weight"] @ torch.cat([e_y, s[-1], c]) + w["decoder.readout.bias"])
        log_p.append(log_softmax_output(w, t_t))
        weights.append(torch.stack(w_R))
    return TranscriptionResult(torch.stack(log_p), {"attention": torch.stack(weights)}, fertility=fertility)


STAR = {"decoder": "conditional", "cell": "gru"}
PAPER = {**STAR, "gru": "paper"}
NEURAL = {**STAR, "coverage": "neural", "coverage_size": 2}
LINGUISTIC = {**STAR, "coverage": "linguistic"}
VARIANTS: dict[str, dict[str, object]] = {
    "rnnsearch_star": STAR,
    "rnnsearch_star, paper's gru": PAPER,
    "rnnsearch_star, lstm, two layers": {"decoder": "conditional", "layers": 2},
    "interactive_attention": {**STAR, "writing": "shared"},
    "interactive_attention, paper's gru": {**PAPER, "writing": "shared"},
    "interactive_attention, own weights of writing": {**STAR, "writing": "separate"},
    "interactive_attention, two lstm layers": {"decoder": "conditional", "writing": "separate", "layers": 2},
    "interactive_attention, look before the cell": {"writing": "shared"},
    "coverage_neural": NEURAL,
    "coverage_neural, paper's gru": {**NEURAL, "gru": "paper"},
    "coverage_neural, three lstm layers": {"decoder": "conditional", "coverage": "neural", "layers": 3},
    "coverage_linguistic": LINGUISTIC,
    "coverage_linguistic, fertility 3, two layers": {**LINGUISTIC, "fertility": 3.0, "layers": 2},
    "coverage_neural and writing": {**NEURAL, "writing": "shared"},
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_the_model_is_the_papers(variant: dict[str, object]) -> None:
    """And a step of search is one of training."""
    model = small(**variant)
    agrees(model, transcription)
    stepping_agrees(model)
