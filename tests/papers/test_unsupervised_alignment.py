"""Unsupervised token-wise alignment (Kiyono et al. 2018), equations 1-19, and the selective gate, as loops."""

from typing import Any

import pytest
import torch

from interlinear.batch import collate
from interlinear.losses.training_loss import training_loss
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

NULL = 0


def gated(
    w: Weights, config: Any, h: list[torch.Tensor], last: torch.Tensor, first: torch.Tensor
) -> list[torch.Tensor]:
    """sGate_i = sigma(W h_i + U s + b), h'_i = h_i * sGate_i (Zhou et al. 2017)."""
    s = last + first if config.selective_gate == "sum" else torch.cat([last, first])
    W, b = w["encoders.source.gate.annotation.weight"], w["encoders.source.gate.annotation.bias"]
    U = w["encoders.source.gate.sentence.weight"]
    return [h_i * sigma(W @ h_i + U @ s + b) for h_i in h]


def transcription(w: Weights, config: Any, x: list[int], y: list[int]) -> TranscriptionResult:
    """log o_j over the vocabulary and the attention weights of one pair; with UAM over Y', and its loss term."""
    layers = config.decoder_layers or config.layers
    h, last, first, sums = encode(w, config, x)  # (2) - (4)
    s, memory = first_state(w, config, h, last, first, sums)  # (6)
    if config.selective_gate != "none":
        h = gated(w, config, h, last, first)
    words = [w["encoders.source.words.weight"][x_i] for x_i in x]
    I, J1 = len(x), len(y)  # noqa: E741 - the paper's I, and J + 1
    nulls = max(0, I - J1) if config.alignment_module else 0
    y_prime = [*y, *[NULL] * nulls]  # Y'
    z = zeros(config.hidden)
    log_o, alphas, betas, readouts = [], [], [], []
    for j in range(len(y_prime)):
        y_before = word_before(w, config, y_prime, j)
        if config.decoder == "luong":
            for layer in range(layers):  # (5)
                enters = z if layer == 0 else s[layer - 1]
                taken = y_before if layer == 0 else None
                s[layer], memory[layer] = cell(
                    w, config, f"decoder.cells.{layer}", taken, enters, s[layer], memory[layer]
                )
        query = s[-1]
        if config.attention == "bilinear":
            W_alpha = w["decoder.attention.key.weight"].T
            alpha = softmax([h_i @ W_alpha @ query for h_i in h])  # (7)
        else:
            alpha = softmax(additive_energy(w, "decoder.attention", query, h))
        c = [weighted(alpha, h)]  # (8)
        if config.word_attention:
            if config.attention == "bilinear":
                beta = softmax([x_i @ w["decoder.word_attention.key.weight"].T @ query for x_i in words])
            else:
                beta = softmax(additive_energy(w, "decoder.word_attention", query, words))
            c.append(weighted(beta, words))
            betas.append(torch.stack(beta))
        if config.decoder == "luong":
            z = torch.tanh(w["decoder.mixing.weight"] @ torch.cat([*c, s[-1]]))  # (9)
            readout = z
        else:
            for layer in range(layers):
                enters = torch.cat(([] if layer == 0 else [s[layer - 1]]) + c)
                taken = y_before if layer == 0 else None
                s[layer], memory[layer] = cell(
                    w, config, f"decoder.cells.{layer}", taken, enters, s[layer], memory[layer]
                )
            readout = torch.tanh(
                w["decoder.readout.weight"] @ torch.cat([y_before, s[-1], *c]) + w["decoder.readout.bias"]
            )
        log_o.append(log_softmax_output(w, readout))  # (10)
        alphas.append(torch.stack(alpha))
        readouts.append(readout)
    extra: Any = 0.0
    if config.alignment_module:
        extra = -sum(log_o[j][NULL] for j in range(J1, len(y_prime)))  # the <null>s' share of (15)
        q = []
        for readout in readouts:  # (13)
            scores = w["alignment.weight"] @ readout + w["alignment.bias"]
            q.append(torch.exp(scores) / torch.exp(scores).sum())
        if J1 <= I or config.alignment_longer in (None, "first"):
            q_tilde = sum(q[j] for j in range(I))
        else:
            q_tilde = sum(q) * (I / J1 if config.alignment_longer == "scaled" else 1.0)
        x_tilde = zeros(w["alignment.weight"].shape[0])
        for x_i in x:
            x_tilde[x_i] += 1
        extra = extra + ((q_tilde - x_tilde) ** 2).sum() / (config.alignment_weight or 10.0)  # (18), (19)
    attention_weights = {"attention": torch.stack(alphas)} | ({"word_attention": torch.stack(betas)} if betas else {})
    return TranscriptionResult(torch.stack(log_o), attention_weights, extra_loss=extra)


LUONG = {"decoder": "luong", "directions": "summed", "attention": "bilinear", "first_state": "sum"}
SGATE = {**LUONG, "selective_gate": "sum"}
UAM = {**SGATE, "alignment_module": True}
VARIANTS: dict[str, dict[str, object]] = {
    "luong": LUONG,
    "luong, two layers": {**LUONG, "layers": 2},
    "luong, gru": {**LUONG, "cell": "gru"},
    "luong, two paper's gru layers": {**LUONG, "cell": "gru", "gru": "paper", "layers": 2},
    "luong, interleaved": {**LUONG, "layers": 2, "encoder_stacks": "interleaved"},
    "luong, additive, concatenated": {"decoder": "luong"},
    "luong with words": {**LUONG, "word_attention": True},
    "bilinear, look before the cell": {"attention": "bilinear"},
    "selective_gate": SGATE,
    "selective_gate, concatenation": {**SGATE, "selective_gate": "concatenation", "layers": 2},
    "selective_gate under additive attention": {"selective_gate": "sum"},
    "uam": UAM,
    "uam, two layers": {**UAM, "layers": 2},
    "uam, all steps, C = 3": {**UAM, "alignment_longer": "all", "alignment_weight": 3.0},
    "uam, scaled": {**UAM, "alignment_longer": "scaled"},
    "uam with word attention": {"word_attention": True, "alignment_module": True},
    "uam, tied": {**UAM, "embedding": 3, "tie_embeddings": "all"},
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_the_model_is_the_papers(variant: dict[str, object]) -> None:
    """And a step of search is one of training."""
    model = small(**variant)
    agrees(model, transcription)
    stepping_agrees(model)


def test_null_tokens_are_not_smoothed() -> None:
    """With label smoothing the loss grows by the real words' share, whatever follows them."""
    model = small(**UAM)
    batch = collate({"source": [[5, 6, 7, 8, 5, 6]]}, [[6, 7]])
    target_BL = batch.target_BL
    log_p_BLV = model.log_probabilities(model.unroll(model.encode(batch), target_BL[:, None])[0][:, 0])
    smoothed = 0.2 * (log_p_BLV.gather(-1, target_BL[..., None])[..., 0] - log_p_BLV.mean(-1)).sum()
    grown = training_loss(model, batch, 0.2).objective - training_loss(model, batch).objective
    torch.testing.assert_close(grown, smoothed, rtol=0, atol=1e-9)
