"""A loss that predicts the words of the target from each image alone, for networks that are trained on few images.

Axes: B sentences, N sentences with the image, T regions, L target positions, D values, V target vocabulary.
"""

import math

import torch
from torch import Tensor, nn

from interlinear.batch import positions
from interlinear.losses.forward_pass import ForwardPass
from interlinear.text import END, PAD


def image_word_loss(passed: ForwardPass, heads: nn.ModuleDict) -> Tensor:
    """Negative log-likelihood of the target's bag of words given only each image, weighted by `image_words`.

    p(w | image) = 1/T sum_t softmax(W v_t)_w, where v_t is the attention's value at region t, and T the
    number of regions. Every region predicts words, so that the values of regions differ by their content.
    `heads`: W by image.
    """
    memory, target_BL = passed.memory, passed.batch.target_BL
    assert target_BL is not None
    total = memory.first.values_BTD.new_zeros((), dtype=memory.score_dtype)
    for name, head in heads.items():
        values_BTD = memory.view_of(name).values_BTD
        image, words_NL = passed.batch.image(name), target_BL
        if image.lengths is None:
            words_NL = words_NL.masked_fill((image.lengths_B == 0)[:, None], PAD)
        else:
            present_N = positions([0] * len(image.lengths), image.lengths, 1, values_BTD.device)
            values_BTD, words_NL = values_BTD.index_select(0, present_N), words_NL.index_select(0, present_N)
        log_p_NTV = torch.log_softmax(head(values_BTD), -1, dtype=total.dtype)
        log_p_NTL = log_p_NTV.gather(-1, words_NL[:, None].expand(-1, log_p_NTV.shape[1], -1))
        log_p_NL = torch.logsumexp(log_p_NTL, 1) - math.log(log_p_NTV.shape[1])
        total = total - (log_p_NL * (words_NL > END)).sum()
    return total * (passed.model.config.image_words or 0.0)
