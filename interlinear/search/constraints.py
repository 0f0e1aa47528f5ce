"""Constraints of a search: sequences of tokens that an output must contain, and how far each hypothesis has met them;
with the tokens with which it must begin.

Axes: N sentences in the table (rows), K hypotheses of each, C constraint tokens, L output positions, V words that may
come next, T source positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from interlinear.batch import CandidateInput
from interlinear.models.memory import pad_or_trim
from interlinear.search.prefix import PrefixState
from interlinear.text import PAD


@dataclass(frozen=True)
class Constraint:
    """Token ids that an output contains, one after the other.

    positions: the source positions [start, end) of the words that it stands for, where attention must be when it
    begins (Hasler et al. 2018); None: it may begin anywhere.
    """

    ids: tuple[int, ...]
    positions: tuple[int, int] | None = None


@dataclass(frozen=True)
class ConstraintState:
    """The constraints of every row, token by token, and the progress of its hypotheses. The first axis of every tensor
    is N, so that rows are selected as in `SlotState`.

    A row with fewer tokens is padded with the column PAD, which no constraint has.
    """

    column_NC: Tensor  # the token's column among the words that may come next
    first_NC: Tensor  # True at a constraint's first token
    index_NC: Tensor  # the constraint's index in the request
    start_NC: Tensor  # source positions [start, end) of the constraint; [0, 0) where it may begin anywhere
    end_NC: Tensor
    joined_NV: Tensor  # True for words that would continue the word before them; V = 0 if no word does
    met_NKC: Tensor  # True for tokens that are written
    latest_NK: Tensor  # 1 + the constraint token that the last step wrote; 0 for another word
    written_NKL: Tensor  # the same of each step, with the back-pointers of `SlotState.parent_NKL`
    prefix: PrefixState | None = None  # None while no row has a prefix

    @property
    def real_NC(self) -> Tensor:
        """True for tokens, False for padding."""
        return self.column_NC != PAD

    @property
    def anywhere_NC(self) -> Tensor:
        """True for tokens of constraints that may begin anywhere."""
        return self.end_NC == 0

    @property
    def constrained_N1(self) -> Tensor:
        """True for rows with constraints."""
        return self.real_NC.any(1, keepdim=True)

    @property
    def met_count_NK(self) -> Tensor:
        """The number of constraint tokens that a hypothesis has written: its bank."""
        return self.met_NKC.sum(-1)

    @property
    def missing_NK(self) -> Tensor:
        """The number of constraint tokens that a hypothesis has still to write."""
        return self.real_NC.sum(1, keepdim=True) - self.met_count_NK

    @property
    def following_NKC(self) -> Tensor:
        """True for the next token of a constraint that is begun and not complete."""
        before_NKC = F.pad(self.met_NKC, (1, -1))  # whether the token before is written
        return before_NKC & ~self.met_NKC & (~self.first_NC & self.real_NC)[:, None]

    def map(self, change: Callable[[Tensor], Tensor]) -> "ConstraintState":
        """Applies a function to every tensor."""
        tensors = {name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return ConstraintState(**tensors, prefix=self.prefix and self.prefix.map(change))

    def concatenate(self, other: "ConstraintState") -> "ConstraintState":
        """These rows followed by those of `other`, which has the same widths, and prefixes if these have some."""
        first, second = vars(self), vars(other)
        tensors = {n: torch.cat([value, second[n]]) for n, value in first.items() if isinstance(value, Tensor)}
        prefix = self.prefix.concatenate(other.prefix) if self.prefix and other.prefix else None
        return ConstraintState(**tensors, prefix=prefix)

    def resize(self, tokens: int, outputs: int, words: int) -> "ConstraintState":
        """Pads or trims to so many constraint tokens, output positions and words that may come next."""
        of_tokens = {
            name: pad_or_trim(getattr(self, name), 1, tokens, fill)
            for name, fill in (("column_NC", PAD), ("first_NC", False), ("index_NC", 0), ("start_NC", 0), ("end_NC", 0))
        }
        return replace(
            self,
            **of_tokens,
            joined_NV=pad_or_trim(self.joined_NV, 1, words, False),
            met_NKC=pad_or_trim(self.met_NKC, 2, tokens, False),
            written_NKL=pad_or_trim(self.written_NKL, 2, outputs, 0),
            prefix=self.prefix and self.prefix.resize(outputs),
        )


def token_count(constraints: Sequence[Constraint]) -> int:
    """The number of tokens of all constraints together."""
    return sum(len(constraint.ids) for constraint in constraints)


def initial_constraints(
    rows: Sequence[Sequence[Constraint]],
    hypotheses: int,
    outputs: int,
    candidates: CandidateInput | None = None,
    joined_V: Tensor | None = None,
) -> ConstraintState:
    """The constraints of rows at their begin, on the host, as all arguments are. `candidates`: the words that search
    may write, if they are limited; they contain the constraints' tokens. `joined_V`: the vocabulary's words that
    continue the one before."""
    width = max(map(token_count, rows), default=0)
    padded = [[*table_of(row), *[(PAD, 0, 0, 0, 0)] * (width - token_count(row))] for row in rows]
    token_NC, first_NC, index_NC, start_NC, end_NC = (
        torch.tensor(padded, dtype=torch.long).view(len(rows), width, 5).unbind(-1)
    )
    column_NC = columns_of(candidates, token_NC)
    if joined_V is None:
        joined_NV = torch.zeros(len(rows), 0, dtype=torch.bool)
    elif candidates is None:
        joined_NV = joined_V.cpu().expand(len(rows), -1)
    else:
        joined_NV = joined_V.cpu()[candidates.words_BC.cpu()]
    none_NK = torch.zeros(len(rows), hypotheses, dtype=torch.long)
    return ConstraintState(
        column_NC,
        first_NC.bool(),
        index_NC,
        start_NC,
        end_NC,
        joined_NV,
        none_NK.bool()[..., None].expand(-1, -1, width),
        none_NK,
        none_NK[..., None].expand(-1, -1, outputs),
    ).map(Tensor.contiguous)


def table_of(constraints: Sequence[Constraint]) -> list[tuple[int, int, int, int, int]]:
    """For each token of a row's constraints: id, whether it is the first, index of the constraint, source positions."""
    return [
        (token, int(position == 0), index, *(constraint.positions or (0, 0)))
        for index, constraint in enumerate(constraints)
        for position, token in enumerate(constraint.ids)
    ]


def columns_of(candidates: CandidateInput | None, token_NC: Tensor) -> Tensor:
    """The columns of tokens among the candidates of their rows; their ids if words are not limited."""
    if candidates is None:
        return token_NC
    width = candidates.words_BC.shape[1]
    words_BC = candidates.words_BC.cpu()
    # Candidates are ascending; padding behind them is put above every id.
    ascending_BC = words_BC.masked_fill(torch.arange(width) >= candidates.lengths_B.cpu()[:, None], 2**62)
    return torch.searchsorted(ascending_BC, token_NC.contiguous())
