"""Ranking of hypotheses: length penalty, when a sentence is finished, its best hypotheses and their paths.

Axes: N sentences in the table (rows), K hypotheses of each, L output positions.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from interlinear.devices import to_host
from interlinear.search.options import Hypothesis
from interlinear.search.prefix import PrefixState, best_of_branches
from interlinear.search.state import SlotState


def active_beam(rows: SlotState) -> Tensor:
    """Current beam width of each sentence, (N,); at least 1, also for a sentence whose beam has shrunk to 0."""
    return (rows.beam_N - rows.shrink_N * rows.ended_N).clamp(min=1)


def prefix_of(rows: SlotState) -> PrefixState | None:
    """The prefixes of the rows, if there are any."""
    return None if rows.constraints is None else rows.constraints.prefix


def length_penalty_factor(rows: SlotState, length_NK: Tensor) -> Tensor:
    """Divisor of the log-probability for outputs of this length (END counted): the length penalty."""
    offset_N1, alpha_N1 = rows.offset_N[:, None], rows.alpha_N[:, None]
    return ((offset_N1 + length_NK) / (offset_N1 + 1)) ** alpha_N1


def finished_mask(rows: SlotState) -> Tensor:
    """True for sentences (N,) with a beam full of finished hypotheses, at the maximum length, or with final n-best.

    A sentence with branches needs its n-best, which are of different ones, in any case.
    """
    # The n-best are final if no active hypothesis can overtake them: its log-probability only falls, and its length
    # penalty is at most that of the longest output.
    longest_N1 = rows.max_N[:, None] + 1
    bound_N = (rows.score_NK.amax(1, keepdim=True) / length_penalty_factor(rows, longest_N1)).squeeze(1)
    last_best_N = rows.final_NK.gather(1, rows.n_best_N[:, None] - 1).squeeze(1)
    settled_N = (last_best_N > -torch.inf) & (last_best_N >= bound_N)
    full_N = rows.ended_N >= rows.beam_N
    if (prefix := prefix_of(rows)) is not None:
        full_N = full_N & ((prefix.branches_N == 0) | (last_best_N > -torch.inf))
    return full_N | (rows.length_N > rows.max_N) | settled_N


def rank_finished(rows: SlotState, final_NK: Tensor, log_NK: Tensor, ends_NK: Tensor) -> SlotState:
    """Merges new finished hypotheses into the best K; those of a finished sentence stay unchanged."""
    hypothesis_NK = torch.arange(final_NK.shape[1], device=final_NK.device).expand_as(final_NK)
    candidate_NM, prefix = torch.cat([rows.final_NK, final_NK], 1), prefix_of(rows)
    if prefix is not None:
        candidate_NM = best_of_branches(prefix, candidate_NM)
    selected_NK = candidate_NM.topk(final_NK.shape[1], 1).indices
    selected_NK = torch.where(rows.done_N[:, None], hypothesis_NK, selected_NK)  # topk may reorder ties

    def pick(old_NK: Tensor, new_NK: Tensor) -> Tensor:
        return torch.cat([old_NK, new_NK], 1).gather(1, selected_NK)

    constraints = rows.constraints
    if constraints is not None and prefix is not None:
        branch_NK = pick(prefix.final_branch_NK, prefix.branch_NK)
        constraints = replace(constraints, prefix=replace(prefix, final_branch_NK=branch_NK))
    return replace(
        rows,
        final_NK=candidate_NM.gather(1, selected_NK),
        final_log_NK=pick(rows.final_log_NK, log_NK),
        final_length_NK=pick(rows.final_length_NK, rows.length_N[:, None].expand_as(final_NK)),
        final_parent_NK=pick(rows.final_parent_NK, hypothesis_NK),
        ended_N=rows.ended_N + ends_NK.sum(1),
        constraints=constraints,
    )


def read_hypotheses(rows: SlotState, n_best: Sequence[int]) -> list[list[tuple[Hypothesis, list[int]]]]:
    """The best finished hypotheses of each row with their paths, from the back-pointers, on the host."""
    tensors = [rows.written_NKL, rows.parent_NKL, rows.final_NK, rows.final_log_NK]
    tensors += [rows.final_length_NK, rows.final_parent_NK, *tensors_of_constraints(rows)]
    written, parent, final, log_probabilities, lengths, final_parent, *constrained = lists(tensors)
    constraints = ConstraintTable(*constrained) if constrained else None
    hypotheses: list[list[tuple[Hypothesis, list[int]]]] = []
    for row, count in enumerate(n_best):
        row_hypotheses = []
        for k in range(count):
            if final[row][k] == -torch.inf:
                break
            path = backtrace(parent[row], final_parent[row][k], lengths[row][k])
            hypothesis = Hypothesis(tokens_along(written[row], path), final[row][k], log_probabilities[row][k])
            if constraints:
                hypothesis = replace(hypothesis, constraints=constraints.along(row, path))
            row_hypotheses.append((hypothesis, path))
        hypotheses.append(row_hypotheses)
    return hypotheses


def lists(tensors: Sequence[Tensor]) -> list[Any]:
    """Tensors as lists of numbers, which are read from the device at once."""
    return [tensor.tolist() for tensor in to_host(tensors)]


def tensors_of_constraints(rows: SlotState) -> list[Tensor]:
    """What a ConstraintTable is made of; nothing without constraints."""
    constraints = rows.constraints
    return [] if constraints is None else [constraints.written_NKL, constraints.index_NC, constraints.constrained_N1]


class ConstraintTable:
    """The constraint tokens that were written, on the host."""

    def __init__(self, written: list[list[list[int]]], index: list[list[int]], constrained: list[list[bool]]) -> None:
        """The lists of `tensors_of_constraints`."""
        self._written, self._index, self._constrained = written, index, constrained

    def along(self, row: int, path: list[int]) -> list[int | None]:
        """The index of the constraint that each token along a path writes; empty for a row without constraints."""
        if not self._constrained[row][0]:
            return []
        return [self._index[row][token - 1] if token else None for token in tokens_along(self._written[row], path)]


def free_length(constraints: Sequence[int | None]) -> int | None:
    """The number of tokens before the first that writes a constraint; None if none does."""
    return next((position for position, index in enumerate(constraints) if index is not None), None)


def common_prefix(lists: Sequence[list[int]]) -> list[int]:
    """The longest common prefix of several lists; empty if there are none."""
    length = 0
    for tokens in zip(*lists, strict=False):
        if len(set(tokens)) > 1:
            break
        length += 1
    return lists[0][:length] if lists else []


def backtrace(parent: list[list[int]], hypothesis: int, length: int) -> list[int]:
    """The path of a hypothesis with `length` words: its index before each word and after the last, (length + 1)."""
    path = [hypothesis]
    for position in range(length - 1, -1, -1):
        path.append(parent[path[-1]][position])
    return path[::-1]


def tokens_along(written: list[list[int]], path: list[int]) -> list[int]:
    """The token ids along a path."""
    return [written[k][position] for position, k in enumerate(path[1:])]
