"""The loss that training minimises: the loss of target words, and the further terms that the model and the batch ask
for."""

from dataclasses import replace

import torch
from torch import Tensor

from interlinear.batch import Batch
from interlinear.devices import to_device
from interlinear.losses.bag_of_words import alignment_loss
from interlinear.losses.forward_pass import ForwardPass
from interlinear.losses.guided_attention import guide_loss
from interlinear.losses.image_words import image_word_loss
from interlinear.losses.loss import Loss
from interlinear.models.model import Model


def training_loss(model: Model, batch: Batch, smoothing: float = 0.0, guide_weight: float = 1.0) -> Loss:
    """The loss of a batch, summed over its target tokens (END included).

    If the batch has a guide, the loss of guided attention is added, times `guide_weight`; with words of images and an
    alignment module their losses. Nats and label smoothing cover the target's words.
    """
    reports_gate = "gated" in model.attention_kinds and not model.training
    passed = ForwardPass.of(model, batch, attention=batch.guide_BLT is not None or reports_gate)
    loss = passed.word_loss(torch.zeros_like(passed.lengths_B), passed.lengths_B, passed.width, smoothing)
    if model.image_words is not None:
        loss = replace(loss, objective=loss.objective + image_word_loss(passed, model.image_words))
    if batch.guide_BLT is not None:
        guide = guide_loss(passed)
        loss = replace(loss, objective=loss.objective + guide_weight * guide.nats, guide=guide)
    if model.alignment is not None:
        loss = replace(loss, objective=loss.objective + alignment_loss(passed, model.alignment))
    return replace(loss, gate=sum_of_gates(passed)) if reports_gate else loss


def sum_of_gates(passed: ForwardPass) -> Tensor:
    """The contextual gates' values, averaged over their dimensions and layers, summed over the target's words."""
    gate_BL = passed.attention_weights.gate
    assert gate_BL is not None
    (words_B,) = to_device([passed.lengths_B], gate_BL.device)
    words_BL = torch.arange(gate_BL.shape[1], device=gate_BL.device) < words_B[:, None]
    return (gate_BL.float() * words_BL).sum()
