"""Ranking of hypotheses: length penalty, when a sentence is finished, its best hypotheses and their paths.

Axes: N sentences in the table (rows), K hypotheses of each, L output positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from interlinear.devices import to_host
from interlinear.search.options import Hypothesis
from interlinear.search.processors.processor import Processor
from interlinear.search.state import SlotState


def active_beam(rows: SlotState) -> Tensor:
    """Current beam width of each sentence, (N,); at least 1, also for a sentence whose beam has shrunk to 0."""
    return (rows.beam_N - rows.shrink_N * rows.ended_N).clamp(min=1)


def length_penalty_factor(rows: SlotState, length_NK: Tensor) -> Tensor:
    """Divisor of the log-probability for outputs of this length (END counted): the length penalty."""
    offset_N1, alpha_N1 = rows.offset_N[:, None], rows.alpha_N[:, None]
    return ((offset_N1 + length_NK) / (offset_N1 + 1)) ** alpha_N1


def finished_mask(rows: SlotState) -> Tensor:
    """True for sentences (N,) with a beam full of finished hypotheses whose n-best all count, at the maximum length, or
    with final n-best."""
    # The n-best are final if no active hypothesis can overtake them: its log-probability only falls, and its length
    # penalty is at most the longest output's.
    longest_N1 = rows.max_N[:, None] + 1
    bound_N = (rows.score_NK.amax(1, keepdim=True) / length_penalty_factor(rows, longest_N1)).squeeze(1)
    last_best_N = rows.final_NK.gather(1, rows.n_best_N[:, None] - 1).squeeze(1)
    counting_N = last_best_N > -torch.inf
    settled_N = counting_N & (last_best_N >= bound_N)
    full_N = counting_N & (rows.ended_N >= rows.beam_N)
    return full_N | (rows.length_N > rows.max_N) | settled_N


def rank_finished(
    rows: SlotState,
    final_NK: Tensor,
    log_NK: Tensor,
    ends_NK: Tensor,
    rank: Sequence[Callable[[Tensor], Tensor]] = (),
) -> tuple[SlotState, Tensor]:
    """Merges new finished hypotheses into the best K; a finished sentence's best stay unchanged. Also returns the
    indices of the best, among the previous best (K) and the new ones (K). rank: as `Processor.rank`."""
    hypothesis_NK = torch.arange(final_NK.shape[1], device=final_NK.device).expand_as(final_NK)
    candidate_NM = torch.cat([rows.final_NK, final_NK], 1)
    for ranked in rank:
        candidate_NM = ranked(candidate_NM)
    selected_NK = candidate_NM.topk(final_NK.shape[1], 1).indices
    selected_NK = torch.where(rows.done_N[:, None], hypothesis_NK, selected_NK)  # topk may reorder ties

    def pick(old_NK: Tensor, new_NK: Tensor) -> Tensor:
        return torch.cat([old_NK, new_NK], 1).gather(1, selected_NK)

    rows = replace(
        rows,
        final_NK=candidate_NM.gather(1, selected_NK),
        final_log_NK=pick(rows.final_log_NK, log_NK),
        final_length_NK=pick(rows.final_length_NK, rows.length_N[:, None].expand_as(final_NK)),
        final_parent_NK=pick(rows.final_parent_NK, hypothesis_NK),
        ended_N=rows.ended_N + ends_NK.sum(1),
    )
    return rows, selected_NK


def read_finished(rows: SlotState, n_best: Sequence[int]) -> list[list[tuple[Hypothesis, list[int]]]]:
    """The best finished hypotheses of each row with their paths, from the back-pointers, on the host."""
    tensors = [rows.final_NK, rows.final_log_NK, rows.final_length_NK, rows.final_parent_NK]
    reader, (final, log_probabilities, lengths, final_parent) = read(rows, tensors)
    hypotheses: list[list[tuple[Hypothesis, list[int]]]] = []
    for row, count in enumerate(n_best):
        best = [k for k in range(count) if final[row][k] > -torch.inf]
        ends = [(final_parent[row][k], lengths[row][k], final[row][k], log_probabilities[row][k]) for k in best]
        hypotheses.append([reader.hypothesis(row, *end) for end in ends])
    return hypotheses


def stable_prefixes(rows: SlotState) -> list[list[int]]:
    """The common prefix of all active hypotheses of each row and the best finished one, up to the length that may be
    shown."""
    finished = rows.final_NK, rows.final_length_NK, rows.final_parent_NK
    reader, (scores, lengths, *finals) = read(rows, [rows.score_NK, rows.length_N, *finished])
    prefixes = []
    for row, own in enumerate(scores):
        ends = [(k, lengths[row]) for k, score in enumerate(own) if score > -torch.inf]
        final_score, final_length, final_parent = (values[row][0] for values in finals)
        if final_score > -torch.inf:
            ends.append((final_parent, final_length))
        prefixes.append(common_prefix([reader.shown(row, *end) for end in ends]))
    return prefixes


def read(rows: SlotState, tensors: Sequence[Tensor]) -> tuple["HypothesisReader", list[Any]]:
    """A reader of hypotheses, and other tensors as lists: all by one transfer from the device."""
    of_processors = [processor.to_read() for processor in rows.processors]
    flat = [tensor for each in of_processors for tensor in each]
    written, parent, *others = lists([rows.written_NKL, rows.parent_NKL, *tensors, *flat])
    remaining = iter(others[len(tensors) :])
    own = [(type(p), [next(remaining) for _ in each]) for p, each in zip(rows.processors, of_processors, strict=True)]
    return HypothesisReader(written, parent, own), others[: len(tensors)]


@dataclass(frozen=True)
class HypothesisReader:
    """Hypotheses from the back-pointers, on the host.

    written, parent: of each row (K, L). processors: each with its tensors (`Processor.to_read`), of all rows.
    """

    written: list[list[list[int]]]
    parent: list[list[list[int]]]
    processors: list[tuple[type[Processor], list[Any]]]

    def hypothesis(
        self, row: int, k: int, length: int, score: float, log_probability: float
    ) -> tuple[Hypothesis, list[int]]:
        """The output that ends with hypothesis k, and its path."""
        path = backtrace(self.parent[row], k, length)
        found = Hypothesis([self.written[row][before][i] for i, before in enumerate(path[1:])], score, log_probability)
        for processor, values in self.processors:
            found = processor.complete(found, path, [value[row] for value in values])
        return found, path

    def shown(self, row: int, k: int, length: int) -> list[int]:
        """The tokens of an unfinished output that may be shown."""
        found, _ = self.hypothesis(row, k, length, 0.0, 0.0)
        limits = [processor.shown_length(found) for processor, _ in self.processors]
        return found.ids[: min((limit for limit in limits if limit is not None), default=None)]


def lists(tensors: Sequence[Tensor]) -> list[Any]:
    """Tensors as lists of numbers, by one transfer from the device."""
    return [tensor.tolist() for tensor in to_host(tensors)]


def common_prefix(lists: Sequence[list[int]]) -> list[int]:
    """The longest common prefix of several lists; empty if there are none."""
    length = 0
    for tokens in zip(*lists, strict=False):
        if len(set(tokens)) > 1:
            break
        length += 1
    return lists[0][:length] if lists else []


def backtrace(parent: list[list[int]], hypothesis: int, length: int) -> list[int]:
    """The path of a hypothesis with `length` tokens: its index before each token and after the last, (length + 1)."""
    path = [hypothesis]
    for position in range(length - 1, -1, -1):
        path.append(parent[path[-1]][position])
    return path[::-1]
