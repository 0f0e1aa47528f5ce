"""One step of beam search for all rows of a table: a function of tensors that reads no value on the host, so that it
can be compiled (`compiled.py`).

Axes: N sentences in the table (rows), K hypotheses of each, T source positions, L output positions, C words that may
come next, R readout.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.memory import Memory
from interlinear.models.protocol import EncoderDecoder
from interlinear.search.constrained import advance_constraints, allocate, attention_on, constrain, exclude_repetitions
from interlinear.search.constraints import ConstraintState
from interlinear.search.prefix import force_prefix, next_log_probability
from interlinear.search.ranking import active_beam, finished_mask, length_penalty_factor, rank_finished
from interlinear.search.state import SlotState
from interlinear.text import BEGIN, END, PAD

BLOCK = 64  # columns


@dataclass(frozen=True)
class StepResult:
    """The rows after a step, and the step's attention weights (N, K, ...) and readouts."""

    rows: SlotState
    attention_weights: AttentionWeights
    readout_NKR: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> "StepResult":
        """Applies a function to every tensor."""
        return StepResult(self.rows.map(change), self.attention_weights.map_all(change), change(self.readout_NKR))


@dataclass(frozen=True)
class Choice:
    """The hypotheses that go on: scores, the hypotheses that they extend, the columns of their new words, and 1 + the
    constraint token that is written, 0 for another word; and those that end."""

    score_NK: Tensor
    parent_NK: Tensor
    column_NK: Tensor
    ends_NK: Tensor
    constraint_NK: Tensor

    def replace_rows(self, index_R: Tensor, other: "Choice") -> "Choice":
        """The choice with the rows of another one in place of those at `index_R`."""
        second = vars(other)
        return Choice(**{name: value.index_copy(0, index_R, second[name]) for name, value in vars(self).items()})


# `search_step`, compiled or captured.
SearchStep = Callable[[EncoderDecoder, Memory, SlotState, bool, Tensor | None], StepResult]


def search_step(
    model: EncoderDecoder, memory: Memory, rows: SlotState, with_coverage: bool, constrained_R: Tensor | None = None
) -> StepResult:
    """Extends each hypothesis of each unfinished sentence by one word.

    with_coverage: whether any row has a coverage penalty. constrained_R: the indices of the rows with constraints, if
    `rows.constraints` is there; an index may be repeated. Never waits for the device.
    """
    width = rows.token_NK.shape[1]
    state, readout_NKR, attention_weights = model.step(memory, rows.state, rows.token_NK)
    log_NKC, word_NC = model.next_words(memory, readout_NKR)  # a special symbol's column is its id
    if rows.penalty_NV is not None:
        penalty_NC = rows.penalty_NV.gather(1, word_NC) if memory.candidates else rows.penalty_NV
        log_NKC -= penalty_NC[:, None]
    log_NKC[..., PAD] = log_NKC[..., BEGIN] = -torch.inf
    repetition, said_of_NK = rows.repetition, None
    if repetition is not None:
        said_of_NK = repetition.said_of(attention_weights.attention)
        log_NKC = repetition.limit(log_NKC, said_of_NK, rows.length_N)
    end_NK = log_NKC[..., END].clone()
    log_NKC[..., END] = -torch.inf
    coverage_NKT = rows.coverage_NKT
    if with_coverage:
        coverage_NKT = coverage_NKT + attention_weights.attention

    # Continuations: the best K words of each hypothesis, and of these the best K in total.
    last_N1 = (rows.length_N >= rows.max_N)[:, None]
    k = min(width, log_NKC.shape[-1])
    best_NKk, column_NKk = best_columns(log_NKC, k)
    continuation_NM = (rows.score_NK[..., None] + best_NKk).flatten(1).masked_fill(last_N1, -torch.inf)
    score_NK, chosen_NK = continuation_NM.topk(width, 1)

    # A hypothesis ends where END is among the best of all candidates, continuations and ends together.
    end_score_NK = rows.score_NK + end_NK
    too_short_NK = (rows.length_N < rows.min_N)[:, None] & (best_NKk[..., 0] > -torch.inf)  # unless nothing may follow
    end_score_NK = end_score_NK.masked_fill(too_short_NK, -torch.inf)
    ranked_NK = torch.cat([score_NK, end_score_NK], 1).topk(width, 1).values
    worst_N1 = ranked_NK.gather(1, active_beam(rows)[:, None] - 1)
    done_N1 = rows.done_N[:, None]
    ends_NK = (end_score_NK >= worst_N1) & (end_score_NK > -torch.inf)
    column_NK = column_NKk.flatten(1).gather(1, chosen_NK)
    choice = Choice(score_NK, chosen_NK // k, column_NK, ends_NK, torch.zeros_like(chosen_NK))
    if rows.constraints is not None and constrained_R is not None:

        def select(tensor: Tensor) -> Tensor:
            return tensor.index_select(0, constrained_R)

        tensors = (log_NKC, end_NK, end_score_NK, attention_weights.attention, rows.score_NK)
        limits = (rows.length_N, rows.max_N, active_beam(rows))
        constrained = choose_constrained(rows.constraints.map(select), *map(select, (*tensors, *limits)))
        choice = choice.replace_rows(constrained_R, constrained)
    score_NK, parent_NK, token_NK = choice.score_NK, choice.parent_NK, word_NC.gather(1, choice.column_NK)
    ends_NK = choice.ends_NK & ~done_N1
    final_NK = end_score_NK / length_penalty_factor(rows, rows.length_N[:, None] + 1)
    if with_coverage:
        final_NK = final_NK + coverage_penalty(memory, rows, coverage_NKT)
    rows = rank_finished(rows, final_NK.masked_fill(~ends_NK, -torch.inf), end_score_NK, ends_NK)

    # Mask beams narrower than the table, then reorder the states of the selected hypotheses.
    hypothesis_K = torch.arange(width, device=token_NK.device)
    score_NK = score_NK.masked_fill(hypothesis_K >= active_beam(rows)[:, None], -torch.inf)
    # The output position of this step, (N, 1, L), as a mask: a finished row may have no position left to index.
    position_L = torch.arange(rows.written_NKL.shape[2], device=token_NK.device)
    position_mask_N1L = ((position_L == rows.length_N[:, None]) & ~done_N1)[:, None]
    row_N1 = torch.arange(token_NK.shape[0], device=token_NK.device)[:, None]
    flat_M = (row_N1 * width + parent_NK).flatten()
    if with_coverage:
        coverage_NKT = coverage_NKT.flatten(0, 1).index_select(0, flat_M).unflatten(0, (-1, width))
    constraints = rows.constraints
    if constraints is not None:
        written = (choice.column_NK, choice.constraint_NK, rows.length_N, position_mask_N1L)
        constraints = advance_constraints(constraints, parent_NK, *written)
    if repetition is not None and said_of_NK is not None:
        repetition = repetition.advance(flat_M, choice.column_NK, said_of_NK, position_mask_N1L)
    rows = replace(
        rows,
        state=state.reorder(flat_M, width),  # the state of a finished row is never read
        token_NK=token_NK,
        score_NK=torch.where(done_N1, rows.score_NK, score_NK),
        length_N=rows.length_N + ~rows.done_N,
        written_NKL=torch.where(position_mask_N1L, token_NK[..., None], rows.written_NKL),
        parent_NKL=torch.where(position_mask_N1L, parent_NK[..., None], rows.parent_NKL),
        coverage_NKT=coverage_NKT,
        constraints=constraints,
        repetition=repetition,
    )
    return StepResult(replace(rows, done_N=finished_mask(rows)), attention_weights, readout_NKR)


def choose_constrained(
    constraints: ConstraintState,
    log_NKC: Tensor,
    end_NK: Tensor,
    end_score_NK: Tensor,
    attention_NKT: Tensor,
    score_NK: Tensor,
    position_N: Tensor,
    max_N: Tensor,
    beam_N: Tensor,
) -> Choice:
    """The choice of rows with constraints, by dynamic beam allocation.

    log_NKC: without END, whose log-probability is end_NK; it is overwritten. end_score_NK: scores of the hypotheses
    that may end. position_N: the number of words before, at most max_N. beam_N: the current beam width.
    """
    width, prefix = score_NK.shape[1], constraints.prefix
    k, tokens = min(width, log_NKC.shape[-1]), constraints.column_NC.shape[1]
    column_NKC = constraints.column_NC[:, None].expand(-1, width, -1)
    token_NKC = log_NKC.gather(-1, column_NKC)
    next_NK1 = None if prefix is None else next_log_probability(prefix, position_N, log_NKC)
    attention_NKC = attention_on(constraints, attention_NKT)
    best_NKk, column_NKk = best_columns(exclude_repetitions(constraints, log_NKC, attention_NKC, position_N), k)
    late_NK = end_NK >= best_NKk[..., 0]
    step = constrain(constraints, token_NKC, attention_NKC, late_NK, position_N, max_N - position_N)
    if prefix is not None and next_NK1 is not None:
        best_NKk, column_NKk = force_prefix(prefix, position_N, next_NK1, best_NKk, column_NKk)
        beam_N = torch.where(prefix.branching_N(position_N), torch.minimum(beam_N, prefix.branches_N), beam_N)

    last_N11 = (position_N >= max_N)[:, None, None]
    word_NKk = (score_NK[..., None] + best_NKk).masked_fill(~step.free_NK[..., None] | last_N11, -torch.inf)
    token_NKC = (score_NK[..., None] + step.token_NKC).masked_fill(last_N11, -torch.inf)
    end_score_NK = end_score_NK.masked_fill(~step.complete_NK, -torch.inf)
    chosen_NK, ends_NK = allocate(constraints, word_NKk, token_NKC, end_score_NK, beam_N)

    chosen_score_NK = torch.cat([word_NKk, token_NKC], -1).flatten(1).gather(1, chosen_NK)
    outside_NK = torch.arange(width, device=beam_N.device) >= beam_N[:, None]
    return Choice(
        chosen_score_NK.masked_fill(outside_NK, -torch.inf),
        chosen_NK // (k + tokens),
        torch.cat([column_NKk, column_NKC], -1).flatten(1).gather(1, chosen_NK),
        ends_NK,
        (chosen_NK % (k + tokens) - k + 1).clamp(min=0),
    )


def best_columns(log_NKC: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest values of each row and their columns, (N, K, k), as `topk`.

    On a CPU `topk` reads a row value by value. The k blocks with the largest maxima contain the k largest values, and
    maxima are computed by vector instructions.
    """
    blocks = log_NKC.shape[-1] // BLOCK
    if blocks < 4 * k or log_NKC.device.type != "cpu":
        best_NKk, column_NKk = log_NKC.topk(k, -1)
        return best_NKk, column_NKk
    block_NKCB = log_NKC[..., : blocks * BLOCK].unflatten(-1, (blocks, BLOCK))
    chosen_NKk = block_NKCB.amax(-1).topk(k, -1).indices
    column_B = torch.arange(BLOCK, device=log_NKC.device)
    candidate_NKC = (chosen_NKk[..., None] * BLOCK + column_B).flatten(-2)  # of the chosen blocks, then of the rest
    rest_C = torch.arange(blocks * BLOCK, log_NKC.shape[-1], device=log_NKC.device)
    candidate_NKC = torch.cat([candidate_NKC, rest_C.expand(*log_NKC.shape[:-1], -1)], -1)
    best_NKk, position_NKk = log_NKC.gather(-1, candidate_NKC).topk(k, -1)
    return best_NKk, candidate_NKC.gather(-1, position_NKk)


def coverage_penalty(memory: Memory, rows: SlotState, coverage_NKT: Tensor) -> Tensor:
    """GNMT's coverage penalty, beta * sum_j log(min(coverage_j, 1)), (N, K)."""
    real_N1T = ~next(iter(memory.views.values())).padding_BT[:, None]
    logs_NKT = coverage_NKT.clamp(1e-6, 1.0).log() * real_N1T
    return rows.beta_N[:, None] * logs_NKT.sum(-1)
