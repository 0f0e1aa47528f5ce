"""Dropout of whole words and of recurrent states, in training only.

Kept values are divided by the share that is kept, so that the expectation does not change. Masks are drawn on the
tensor's device. Axes: leading ones are free, E embedding, H hidden.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def drop_words(words: Tensor, share: float | None, training: bool) -> Tensor:
    """Embeddings (..., E) of which each is zero as a whole with probability `share`.

    As Nematus' `dropout_source` and `dropout_target` (Sennrich and Zhang 2019), each occurrence of a word is drawn
    independently, and so are begin and end symbols. Gal and Ghahramani (2016) draw once per word of the vocabulary.
    """
    if not (training and share):
        return words
    return words * F.dropout(words.new_ones(*words.shape[:-1], 1), share)


def draw_state_mask(state: Tensor, share: float) -> Tensor:
    """A mask of the shape of a state (..., H), 0 with probability `share`, to be used at all steps of a sequence."""
    return F.dropout(torch.ones_like(state), share)
