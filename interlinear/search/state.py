"""The state of the sentences in a table: their hypotheses, back-pointers, and encoder memory.

Axes: N sentences in the table (rows), K hypotheses of each, T source positions, L output positions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from interlinear.batch import moved
from interlinear.models.memory import Candidates, Memory, pad_or_trim
from interlinear.models.state import WRITTEN, State
from interlinear.search.constraints import ConstraintState, initial_constraints
from interlinear.search.prefix import initial_prefixes
from interlinear.search.repetition import RepetitionState, no_limits
from interlinear.text import PAD


@dataclass(frozen=True)
class SlotState:
    """The search state of all sentences in the table; the first axis of every tensor is N.

    penalty_NV: None while no sentence has a post-editing penalty. constraints, repetition: None while no sentence has
    any, or limits repetition.
    """

    state: State
    token_NK: Tensor  # the last word of each active hypothesis
    score_NK: Tensor  # log-probability; -inf where there is no hypothesis
    length_N: Tensor  # number of words decoded so far
    written_NKL: Tensor  # the word that each step appended to each hypothesis
    parent_NKL: Tensor  # back-pointer to the hypothesis that was extended, so that no history is copied
    final_NK: Tensor  # ranking scores of finished hypotheses, best first; -inf for unused entries
    final_log_NK: Tensor  # their log-probability
    final_length_NK: Tensor  # their number of words
    final_parent_NK: Tensor  # the hypothesis that ended
    ended_N: Tensor  # number of finished hypotheses
    done_N: Tensor  # True if the sentence is finished; a step no longer changes its results
    coverage_NKT: Tensor  # sum of attention weights of each source position
    beam_N: Tensor
    shrink_N: Tensor  # 1 where each finished hypothesis shrinks the beam by one
    n_best_N: Tensor
    alpha_N: Tensor  # exponent of the length penalty
    offset_N: Tensor  # 0 or GNMT's 5
    min_N: Tensor
    max_N: Tensor
    beta_N: Tensor
    penalty_NV: Tensor | None = None  # subtracted from the log-probability of each word of the vocabulary
    constraints: ConstraintState | None = None
    repetition: RepetitionState | None = None

    def map(self, change: Callable[[Tensor], Tensor]) -> "SlotState":
        tensors = {name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)}
        constraints = self.constraints and self.constraints.map(change)
        repetition = self.repetition and self.repetition.map(change)
        return SlotState(state=self.state.map(change), constraints=constraints, repetition=repetition, **tensors)

    def concatenate(self, other: "SlotState") -> "SlotState":
        """These rows followed by those of `other`, which has the same widths, and constraints and limits if these have
        some."""
        first, second = vars(self), vars(other)
        tensors = {n: torch.cat([v, second[n].to(v.dtype)]) for n, v in first.items() if isinstance(v, Tensor)}
        state = replace(
            self.state, leaves={n: torch.cat([leaf, other.state.leaves[n]]) for n, leaf in self.state.leaves.items()}
        )
        constraints = None
        if self.constraints is not None and other.constraints is not None:
            constraints = self.constraints.concatenate(other.constraints)
        repetition = self.repetition and other.repetition and self.repetition.concatenate(other.repetition)
        return SlotState(state=state, constraints=constraints, repetition=repetition, **tensors)

    def resize(self, written: int, capacity: dict[str, int]) -> "SlotState":
        """Pads or trims to `written` output positions and `capacity` source positions; constraints are left to
        `resize_constraints`."""
        return replace(
            self,
            state=self.state.resize(capacity | {WRITTEN: written}),
            written_NKL=pad_or_trim(self.written_NKL, 2, written, PAD),
            parent_NKL=pad_or_trim(self.parent_NKL, 2, written, 0),
            coverage_NKT=pad_or_trim(self.coverage_NKT, 2, next(iter(capacity.values())), 0.0),
        )

    def with_penalty(self, vocabulary: int | None) -> "SlotState":
        """The rows with a penalty of 0 where they have none; without any for None."""
        if vocabulary is None:
            return replace(self, penalty_NV=None)
        if self.penalty_NV is not None:
            return self
        return replace(self, penalty_NV=self.score_NK.new_zeros(len(self.done_N), vocabulary))

    def resize_constraints(self, tokens: int, words: int, prefixed: bool) -> "SlotState":
        """The rows with a table of so many constraint tokens, and of `words` that may come next, or without one for 0
        tokens; `prefixed`: with prefixes."""
        if not tokens:
            return replace(self, constraints=None)
        n, k, outputs = self.written_NKL.shape
        device = self.token_NK.device
        constraints = self.constraints or moved(initial_constraints([()] * n, k, outputs), device)
        prefix = constraints.prefix if prefixed else None
        if prefixed and prefix is None:
            prefix = moved(initial_prefixes([None] * n, [1] * n, k, outputs), device)
        constraints = replace(constraints, prefix=prefix)
        return replace(self, constraints=constraints.resize(tokens, outputs, words))

    def resize_repetition(self, grams: int | None, words: int) -> "SlotState":
        """The rows with limits on n-grams of so many tokens, 0 for other limits only, and of `words` that may come
        next; without any for None."""
        if grams is None:
            return replace(self, repetition=None)
        outputs = self.written_NKL.shape[2]
        repetition = self.repetition or no_limits(self.score_NK)
        return replace(self, repetition=repetition.resize(outputs, self.coverage_NKT.shape[2], words, grams))


def round_up_capacity(size: int) -> int:
    """Rounds a number of source positions or of candidate words up, so that only a few tensor widths occur."""
    step = 8 if size <= 64 else 32 if size <= 256 else 64
    return -(-size // step) * step


def round_up_outputs(length: int) -> int:
    """Rounds a number of output positions up, to 32, 64, 128, ..."""
    return max(32, 1 << (length - 1).bit_length())


def concatenate_memories(first: Memory, second: Memory) -> Memory:
    """Concatenates the rows of two memories of the same capacity."""
    views = {
        name: replace(
            view,
            keys_BTA=torch.cat([view.keys_BTA, second.views[name].keys_BTA]),
            values_BTD=torch.cat([view.values_BTD, second.views[name].values_BTD]),
            covered_BTC=torch.cat([view.covered_BTC, second.views[name].covered_BTC]),
            padding_BT=torch.cat([view.padding_BT, second.views[name].padding_BT]),
        )
        for name, view in first.views.items()
    }
    summaries = {name: torch.cat([own, second.summaries[name]]) for name, own in first.summaries.items()}
    tokens = {source: torch.cat([ids, second.tokens[source]]) for source, ids in first.tokens.items()}
    assert first.candidates.keys() == second.candidates.keys(), "some rows have limited words, and others all"
    candidates = {
        name: Candidates(
            torch.cat([rows.words_BC, second.candidates[name].words_BC]),
            torch.cat([rows.weight_BCR, second.candidates[name].weight_BCR]),
            torch.cat([rows.bias_BC, second.candidates[name].bias_BC]),
        )
        for name, rows in first.candidates.items()
    }
    return Memory(views, summaries, tokens, candidates)
