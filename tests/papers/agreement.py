"""Comparison of a transcription with the model: outputs, attention weights, loss and gradients to 1e-9 in float64.

Sentences of unequal length are batched in the model and computed one by one in the transcription.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from interlinear.batch import Batch, collate
from interlinear.config import RecurrentConfig, TextVocabulary
from interlinear.losses.training_loss import training_loss
from interlinear.models.model import Model, build
from interlinear.text import BEGIN, END

SOURCES = [[5, 9, 6, 11], [7, 8], [10, 10, 5, 6, 6]]
TARGETS = [[6, 7], [8, 5, 9, 11], [10]]


@dataclass
class TranscriptionResult:
    """A transcription's results for one pair: log p (L, V); attention weights by kind, each (L, ...); and the loss
    terms beyond the words' negative log-likelihood."""

    log_p: Tensor
    attention_weights: dict[str, Tensor]
    gates: list[Tensor] = field(default_factory=list)  # o (L, H) of every layer
    fertility: Tensor | None = None
    extra_loss: Tensor | float = 0.0


Transcription = Callable[[dict[str, Tensor], RecurrentConfig, list[int], list[int]], TranscriptionResult]


def small(**variant: Any) -> Model:
    """A tiny model in float64, every weight far from zero."""
    torch.manual_seed(3)
    words = TextVocabulary(vocabulary=12)
    sizes: dict[str, Any] = {"embedding": 4, "hidden": 3, "initialization": "uniform", "initialization_scale": 0.8}
    if variant.get("attention", "additive") == "additive":
        sizes["attention_size"] = 5
    return build(RecurrentConfig(sources={"source": words}, target=words, **{**sizes, **variant})).double().eval()


def close(ours: Tensor, theirs: Tensor, what: str) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9, msg=lambda message: f"{what}: {message}")


def agrees(model: Model, transcription: Transcription) -> None:
    """Assert that the model's teacher-forced outputs, attention weights, loss and gradients equal the
    transcription's."""
    w = dict(model.named_parameters(remove_duplicate=False))
    batch = collate({"source": SOURCES}, TARGETS)
    memory = model.encode(batch)
    readouts, attention_weights = model.unroll(memory, batch.target_BL[:, None])
    fertility = model.decoder.with_explanation_weights(memory, attention_weights).fertility
    log_p = model.log_probabilities(readouts)[:, 0]
    theirs_loss: Tensor | float = 0.0
    for row, (x, y) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected = transcription(w, model.config, [*x, END], [*y, END])
        steps, width = len(y) + 1, len(x) + 1
        close(log_p[row, :steps], expected.log_p[:steps], "log p")
        assert expected.attention_weights.keys() == {kind for _, kind in attention_weights.weights}
        for kind, weights in expected.attention_weights.items():
            ours = attention_weights.weights["source", kind][row, 0]
            close(ours[:steps, :width], weights[:steps], kind)
            assert (ours[:, width:] == 0).all()
            close(ours.sum(-1), torch.ones_like(ours[:, 0]), f"sum of {kind}")
        assert len(expected.gates) == len(attention_weights.gates)
        for ours_gate, gate in zip(attention_weights.gates, expected.gates, strict=True):
            close(ours_gate[row, 0, :steps], gate[:steps], "gate")
        if expected.fertility is not None:
            close(fertility["source"][row, :width], expected.fertility, "fertility")
        words = -sum(expected.log_p[i, word] for i, word in enumerate([*y, END]))
        theirs_loss = theirs_loss + words + expected.extra_loss

    loss = training_loss(model, batch)
    close(loss.objective, torch.as_tensor(theirs_loss), "loss")
    ours_gradients = torch.autograd.grad(loss.objective, list(model.parameters()))
    theirs_gradients = torch.autograd.grad(theirs_loss, list(model.parameters()), allow_unused=True)
    for (name, parameter), mine, paper in zip(model.named_parameters(), ours_gradients, theirs_gradients, strict=True):
        gradient = torch.zeros_like(parameter) if paper is None else paper
        if name in ("encoders.source.words.weight", "target_words.weight") and not model.config.alignment_module:
            gradient[0] = mine[0]  # padding's embedding is never used
        close(mine, gradient, f"gradient of {name}")


def stepping_agrees(model: Model, batch: Batch | None = None) -> None:
    """Assert that stepping word by word equals teacher forcing, in training too. `batch`: else that of `agrees`."""
    batch = batch or collate({"source": SOURCES}, TARGETS)
    assert batch.target_BL is not None
    memory = model.encode(batch)
    torch.manual_seed(2)
    readouts, attention_weights = model.unroll(memory, batch.target_BL[:, None])
    torch.manual_seed(2)
    state, token = model.start(memory), torch.full((batch.rows, 1), BEGIN)
    for i in range(batch.target_BL.shape[1]):
        state, readout, seen = model.step(memory, state, token)
        torch.testing.assert_close(readout, readouts[:, :, i], rtol=0, atol=1e-12)
        for name, weights in attention_weights.weights.items():
            torch.testing.assert_close(seen.weights[name], weights[:, :, i], rtol=0, atol=1e-12)
        for name, weights in attention_weights.source_weights.items():
            torch.testing.assert_close(seen.source_weights[name], weights[:, :, i], rtol=0, atol=1e-12)
        for ours, stacked in zip(seen.gates, attention_weights.gates, strict=True):
            torch.testing.assert_close(ours, stacked[:, :, i], rtol=0, atol=1e-12)
        token = batch.target_BL[:, i : i + 1]
