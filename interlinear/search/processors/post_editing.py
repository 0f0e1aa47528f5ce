"""Post-editing penalty (PEP; Junczys-Dowmunt and Grundkiewicz 2016): every token of an output that is in none of the
model's inputs lowers its score, so that only changes of which the model is sure remain.

Axes: N sentences in the table (rows), K hypotheses of each, V vocabulary, C tokens that may come next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from interlinear.search.options import SearchRequest
from interlinear.search.processors.processor import NewRows, Processor, Step


@dataclass(frozen=True)
class PostEditingPenalty(Processor):
    """penalty_NV: subtracted from the log-probability of each token; 0 for the tokens of the inputs.

    A hypothesis keeps the model's own log-probability; only its ranking score includes the penalty.
    """

    penalty_NV: Tensor

    @classmethod
    def wanted(cls, request: SearchRequest) -> bool:
        return bool(request.options.post_editing_penalty)

    @classmethod
    def start(cls, new: NewRows) -> Self:
        penalty_NV = new.zeros(len(new.kind_V), dtype=new.dtype)
        for penalty_V, request in zip(penalty_NV, new.requests, strict=True):
            if request.options.post_editing_penalty:
                penalty_V.fill_(request.options.post_editing_penalty)
                penalty_V[list(request.input_words)] = 0
        return cls(penalty_NV)

    def limit(self, log_NKC: Tensor, step: Step) -> Tensor:
        penalty_NC = self.penalty_NV.gather(1, step.word_NC) if step.memory.candidates else self.penalty_NV
        return log_NKC.sub_(penalty_NC[:, None])

    @classmethod
    def added(cls, request: SearchRequest, ids: Sequence[int]) -> list[float] | None:
        if not (penalty := request.options.post_editing_penalty):
            return None
        return [0.0 if token in request.input_words else -penalty for token in ids]
