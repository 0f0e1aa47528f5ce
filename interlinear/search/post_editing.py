"""Post-editing penalty (PEP; Junczys-Dowmunt and Grundkiewicz 2016): the score of an output falls with every word that
is in none of the model's inputs, so that a text is changed no more than the model is sure of.

Axes: N sentences in the table (rows), V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from interlinear.search.options import Hypothesis, SearchRequest


def word_penalties(requests: Sequence[SearchRequest], vocabulary: int, dtype: torch.dtype) -> Tensor | None:
    """The penalty of every word, (N, V), on the host; 0 for the words of the inputs. None if no request has one."""
    if not any(request.options.post_editing_penalty for request in requests):
        return None
    penalty_NV = torch.zeros(len(requests), vocabulary, dtype=dtype)
    for penalty_V, request in zip(penalty_NV, requests, strict=True):
        if request.options.post_editing_penalty:
            penalty_V.fill_(request.options.post_editing_penalty)
            penalty_V[list(request.input_words)] = 0
    return penalty_NV


def without_penalty(hypothesis: Hypothesis, request: SearchRequest) -> Hypothesis:
    """The hypothesis with the model's own log-probability; its score, by which it is ranked, has the penalty."""
    total = sum(token_penalties(hypothesis.ids, request))
    return replace(hypothesis, log_probability=hypothesis.log_probability + total) if total else hypothesis


def token_penalties(ids: Sequence[int], request: SearchRequest) -> list[float]:
    """The penalty of each token of an output."""
    penalty = request.options.post_editing_penalty
    return [penalty if penalty and token not in request.input_words else 0.0 for token in ids]
