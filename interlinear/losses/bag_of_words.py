"""The loss of the alignment module: the source's bag of words, predicted by the steps of the target together.

Axes: B sentences, L target positions, T source positions, N target positions of all sentences, R readout, V source
vocabulary.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from interlinear.devices import autocast_disabled, autocast_dtype, to_device
from interlinear.losses.cross_entropy import chunk_rows, with_zero_rows
from interlinear.losses.forward_pass import ForwardPass
from interlinear.text import PAD


def alignment_loss(passed: ForwardPass, head: nn.Linear) -> Tensor:
    """The loss of <null>s, with which targets are padded to the lengths of their sources, and of the source's bag of
    words (Kiyono et al. 2018, equation 19). `head`: the alignment module's output layer."""
    config = passed.model.config
    text = passed.batch.text(config.first_text)
    sources_B = text.lengths_B if text.lengths is None else torch.tensor(text.lengths)
    width = passed.target_BL.shape[1]
    steps_BL = bag_of_words_steps(passed.lengths_B, sources_B, width, config.alignment_longer)
    # No smoothing here: <null>s soon become certain and are most of the target, so it would dominate the loss.
    nulls = passed.word_loss(passed.lengths_B, sources_B, width, 0.0)
    words_BT = text.ids_BT.masked_fill(text.padding_BT, PAD)
    c = config.alignment_weight or 10.0
    return nulls.objective + bag_of_words(
        passed.readouts_BLR, head.weight, head.bias, steps_BL, words_BT, c, passed.on_host
    )


def bag_of_words(
    readouts_BLR: Tensor, weight_VR: Tensor, bias_V: Tensor, steps_BL: Tensor, words_BT: Tensor, c: float,
    on_host: bool = True,
) -> Tensor:  # fmt: skip
    """The alignment module's loss, sum over sentences of |q~ - x~|^2 / C (Kiyono et al. 2018, equations 13, 16, 18).

    q~ = sum_j steps_j softmax(W z_j + b), and x~ counts each word of the source; PAD in `words_BT` does not count.
    `on_host`: the weights of the steps, `steps_BL`, are on the host, and logits are computed only for steps with a
    weight; otherwise for all. As in `chunked_cross_entropy`, gradients are computed in the forward pass and no
    distribution is kept.
    """
    dtype = autocast_dtype(readouts_BLR.device) or weight_VR.dtype
    loss: Tensor = _BagOfWords.apply(
        readouts_BLR, weight_VR, bias_V, steps_BL, words_BT, c, on_host, dtype, torch.is_grad_enabled()
    )
    return loss


class _BagOfWords(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, readouts: Tensor, weight: Tensor, bias: Tensor, steps: Tensor, words: Tensor, c: float,
        on_host: bool, dtype: torch.dtype, gradients: bool,
    ) -> Tensor:  # fmt: skip
        weight_cast, bias_cast, size = weight.to(dtype), bias.to(dtype), weight.shape[0]
        full = torch.promote_types(dtype, torch.float32)
        loss = readouts.new_zeros((), dtype=full)
        d_readouts, d_weight, d_bias = torch.zeros_like(readouts), torch.zeros_like(weight), torch.zeros_like(bias)
        many, few = chunk_rows(size * steps.shape[1], readouts.device)  # sentences
        for start in range(0, readouts.shape[0], many):
            part = slice(start, start + many)
            rows = readouts[part].flatten(0, 1)
            if on_host:
                (chosen,) = to_device([steps[part].flatten().nonzero().squeeze(1)], readouts.device)
                rows = rows.index_select(0, chosen)
            count = len(rows)
            rows = with_zero_rows(rows.to(dtype))
            logits = F.linear(rows, weight_cast, bias_cast)
            counts = [int((own > 0).sum()) if on_host else own.numel() for own in steps[part].split(few)]
            blocks = logits[:count].split(counts)
            sentences = (column[part].split(few) for column in (steps, words))
            with autocast_disabled(readouts.device):
                for block, own_steps, bags in zip(blocks, *sentences, strict=True):
                    sentence, scale = sentences_and_weights(own_steps, on_host)
                    sentence, scale = to_device([sentence, scale.to(full)], readouts.device)
                    q = torch.softmax(block.to(full), 1)
                    share = scale * (sentence == torch.arange(len(bags), device=sentence.device)[:, None])
                    off = (share @ q).scatter_add_(1, bags, -(bags != 0).to(full))  # q~ - x~
                    loss += off.square().sum() / c
                    if gradients:  # overwrites the logits
                        slope = off.index_select(0, sentence)
                        slope -= (q @ off.t()).gather(1, sentence[:, None])
                        slope.mul_(q).mul_(scale[:, None] * (2 / c))
                        d_bias += slope.sum(0)
                        block.copy_(slope)
            if gradients:
                d_rows = (logits @ weight_cast)[:count].to(d_readouts.dtype)
                if on_host:
                    d_readouts[part].flatten(0, 1).index_copy_(0, chosen, d_rows)
                else:
                    d_readouts[part] = d_rows.view_as(d_readouts[part])
                d_weight += logits.t() @ rows
        ctx.save_for_backward(d_readouts, d_weight, d_bias)
        return loss

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return *(gradient * upstream[0] for gradient in ctx.saved_tensors), *[None] * 6


def sentences_and_weights(steps_BL: Tensor, only_counted: bool) -> tuple[Tensor, Tensor]:
    """The sentence and the weight of every step, or only of steps with a weight other than 0: (N) each."""
    if only_counted:
        sentence_N, step_N = steps_BL.nonzero(as_tuple=True)
        return sentence_N, steps_BL[sentence_N, step_N]
    sentence_B1 = torch.arange(steps_BL.shape[0], device=steps_BL.device)[:, None]
    return sentence_B1.expand_as(steps_BL).flatten(), steps_BL.flatten()


def bag_of_words_steps(targets_B: Tensor, sources_B: Tensor, steps: int, longer: str | None) -> Tensor:
    """Weight of each step in the sum over steps that is matched with the source's bag of words, (B, L).

    A source of I tokens has I steps (Kiyono et al. 2018, section 4.1). A longer target, J + 1 > I, has no <null>, and
    `longer` chooses the steps that count: the first I, all, or all scaled by I / (J + 1). The weights are on the device
    of the lengths.
    """
    all_B = torch.maximum(targets_B, sources_B)
    counted_B = sources_B if longer in (None, "first") else all_B
    position_L = torch.arange(steps, device=targets_B.device)
    steps_BL = (position_L < counted_B[:, None]).to(torch.get_default_dtype())
    return steps_BL * (sources_B.double() / all_B)[:, None] if longer == "scaled" else steps_BL
