"""The interface of a feature of search to the table of slots and its steps, which name no feature.

Axes: N sentences in the table (rows), K hypotheses of each, T source positions, L output positions, V vocabulary, C
tokens that may come next, M finished hypotheses of a row, before and after a step.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from interlinear.batch import CandidateInput
from interlinear.components import PROCESSORS
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.memory import Memory, pad_or_trim
from interlinear.search.options import Hypothesis, SearchRequest

OUTPUTS, POSITIONS, WORDS = "output positions", "source positions", "next words"  # the axes L, T and C
OTHER, WORD, JOINED = 0, 1, 2  # kinds of tokens: marks and symbols, tokens that begin a word, tokens that continue one


def round_up_capacity(size: int) -> int:
    """Rounds a number of source positions, candidate tokens or constraint tokens up, so that only a few sizes occur."""
    step = 8 if size <= 64 else 32 if size <= 256 else 64
    return -(-size // step) * step


@dataclass(frozen=True)
class NewRows:
    """New rows, as processors receive them. Tensors are on the host.

    hypotheses: K. kind_V: the kind of each token of the vocabulary (OTHER, WORD or JOINED). candidates: the tokens that
    may come next, if they are limited.
    """

    requests: Sequence[SearchRequest]
    hypotheses: int
    dtype: torch.dtype  # dtype of scores
    kind_V: Tensor
    candidates: CandidateInput | None = None

    @cached_property
    def kind_NC(self) -> Tensor:
        """The kind of each token that may come next."""
        if self.candidates is None:
            return self.kind_V.expand(len(self.requests), -1)
        return self.kind_V[self.candidates.words_BC.cpu()]

    def columns_of(self, token_NX: Tensor) -> Tensor:
        """The columns of tokens among the tokens that may come next in their rows, which contain them."""
        if self.candidates is None:
            return token_NX
        words_NC, lengths_N = self.candidates.words_BC.cpu(), self.candidates.lengths_B.cpu()
        # Candidates are ascending; padding behind them is put above every id.
        ascending_NC = words_NC.masked_fill(torch.arange(words_NC.shape[1]) >= lengths_N[:, None], 2**62)
        return torch.searchsorted(ascending_NC, token_NX.contiguous())

    def zeros(self, *sizes: int, dtype: torch.dtype = torch.long) -> Tensor:
        """Zeros, (N, *sizes)."""
        return torch.zeros(len(self.requests), *sizes, dtype=dtype)


@dataclass(frozen=True)
class Step:
    """The tensors from which a step chooses tokens; none is read on the host.

    word_NC: the ids of the tokens that may come next. score_NK: log-probabilities of the hypotheses. length_N: the
    number of tokens before, at most max_N. beam_N: the current beam width. done_N: True for finished sentences.
    processors: all of the table, as they are in this step.
    """

    memory: Memory
    attention_weights: AttentionWeights
    word_NC: Tensor
    score_NK: Tensor
    length_N: Tensor
    max_N: Tensor
    beam_N: Tensor
    done_N: Tensor
    processors: tuple["Processor", ...] = ()


@dataclass(frozen=True)
class NextWords:
    """The tokens that may come next, END apart.

    log_NKC: their log-probabilities, limited; -inf for END, whose log-probability is end_NK. end_score_NK: scores of
    hypotheses with END; -inf where they may not end.
    """

    log_NKC: Tensor
    end_NK: Tensor
    end_score_NK: Tensor


@dataclass(frozen=True)
class Choice:
    """The hypotheses that stay in the beam: scores, the hypotheses that they extend, the columns of their new tokens,
    and a mark of the processor that chose them, 0 for others; and the hypotheses that end."""

    score_NK: Tensor
    parent_NK: Tensor
    column_NK: Tensor
    ends_NK: Tensor
    mark_NK: Tensor

    def replace_rows(self, index_R: Tensor, other: "Choice") -> "Choice":
        """The choice, with another one's rows at `index_R`."""
        second = vars(other)
        return Choice(**{name: value.index_copy(0, index_R, second[name]) for name, value in vars(self).items()})


@dataclass(frozen=True)
class Written:
    """The tokens that a step has written.

    parent_NK: the hypotheses that are extended; flat_M: the same, as indices of all rows' (N * K). column_NK: the new
    tokens. mark_NK: as `Choice`. length_N: the number of tokens before. here_N1L: True at the step's output position,
    False everywhere in a finished row. kept_NK: the best finished hypotheses, among the previous best (K) and the new
    ones (K).
    """

    parent_NK: Tensor
    flat_M: Tensor
    column_NK: Tensor
    mark_NK: Tensor
    length_N: Tensor
    here_N1L: Tensor
    kept_NK: Tensor

    def of_parents(self, value: Tensor) -> Tensor:
        """Values (N, K, ...) of the hypotheses that are extended."""
        return value.flatten(0, 1).index_select(0, self.flat_M).view(value.shape)


@dataclass(frozen=True)
class Processor:
    """A feature of search, with tensors of its own, whose first axis is N: a frozen dataclass of tensors.

    A table has it while a sentence wants it; rows of other sentences hold neutral values. A step calls `observe`,
    `limit`, `choose`, `end_scores`, `rank` and `advance`, in this order. They read no value on the host.
    A method may change the tensor that it returns.

    axes: for each tensor with an axis that varies: its dimension, the axis, and the value that pads it at the end.
    of_table: tensors whose first axis is not N, which `placed` renews. compiled: whether a step with it is compiled
    (`compiled.py`).
    """

    axes: ClassVar[Mapping[str, tuple[int, str, bool | float]]] = {}
    of_table: ClassVar[Collection[str]] = ()
    compiled: ClassVar[bool] = True

    @classmethod
    def wanted(cls, request: SearchRequest) -> bool:
        """Whether a sentence wants it: by default, if its options name it."""
        return any(PROCESSORS[name] is cls for name in request.options.processors)

    @classmethod
    def start(cls, new: NewRows) -> Self:
        """New rows before their first token, on the host; axes that vary may have any size."""
        raise NotImplementedError

    @classmethod
    def sizes(cls, requests: Sequence[SearchRequest]) -> dict[str, int]:
        """The sizes of axes that only this processor has, for a table of these sentences."""
        return {}

    def placed(self, requests: Sequence[SearchRequest]) -> Self:
        """The processor for these sentences, all of a table, after some have entered or left."""
        return self

    def observe(self, step: Step) -> Self:
        """The processor, updated from the model's step before the next tokens are limited."""
        return self

    def limit(self, log_NKC: Tensor, step: Step) -> Tensor:
        """Log-probabilities of the next tokens, END among them: lowered, or -inf for tokens that may not follow."""
        return log_NKC

    def choose(self, choice: Choice, words: NextWords, step: Step) -> Choice:
        """The choice of the hypotheses that stay and that end, changed in the rows that want this processor."""
        return choice

    def end_scores(self, final_NK: Tensor, step: Step) -> Tensor:
        """Ranking scores of hypotheses that may end in this step."""
        return final_NK

    def rank(self, final_NM: Tensor) -> Tensor:
        """Ranking scores of finished hypotheses; -inf for hypotheses that do not count."""
        return final_NM

    def advance(self, written: Written) -> Self:
        """The state of the hypotheses that a step has chosen."""
        return self

    def to_read(self) -> list[Tensor]:
        """Tensors that `complete` reads on the host."""
        return []

    @classmethod
    def complete(cls, hypothesis: Hypothesis, path: list[int], row: list[Any]) -> Hypothesis:
        """The output, completed by the processor's tensors. path: as `backtrace`. row: its row of `to_read`, as
        lists."""
        return hypothesis

    @classmethod
    def shown_length(cls, hypothesis: Hypothesis) -> int | None:
        """The number of an output's tokens that may be shown before it is finished; None: all."""
        return None

    @classmethod
    def added(cls, request: SearchRequest, ids: Sequence[int]) -> list[float] | None:
        """The sum that it added to the log-probability of each token of an output, which results exclude."""
        return None

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Applies a function to every tensor."""
        return replace(self, **{name: change(value) for name, value in vars(self).items()})

    @property
    def size(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of its tensors, apart from N."""
        return tuple(tuple(t.shape[name not in self.of_table :]) for name, t in vars(self).items())

    def map_rows(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Applies a function to every tensor whose first axis is N."""
        return replace(self, **{name: change(t) for name, t in vars(self).items() if name not in self.of_table})

    def select(self, index: Tensor) -> Self:
        """The rows at these indices."""
        return self.map_rows(lambda tensor: tensor.index_select(0, index))

    def concatenate(self, other: Self) -> Self:
        """These rows followed by other ones of the same sizes."""
        second = vars(other)
        joined = {name: torch.cat([t, second[name]]) for name, t in vars(self).items() if name not in self.of_table}
        return replace(self, **joined)

    def resize(self, sizes: Mapping[str, int]) -> Self:
        """Pads or trims every axis that varies, at the end."""
        return replace(
            self,
            **{
                name: pad_or_trim(getattr(self, name), dimension, sizes[axis], fill)
                for name, (dimension, axis, fill) in self.axes.items()
            },
        )
