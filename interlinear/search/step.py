"""One step of beam search for all rows of a table: a function of tensors that reads no value on the host, so that it
can be compiled (`compiled.py`).

Axes: N sentences in the table (rows), K hypotheses of each, T source positions, L output positions, C tokens that may
come next, R readout.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.memory import Memory
from interlinear.models.protocol import EncoderDecoder
from interlinear.search.best_columns import best_columns
from interlinear.search.processors.processor import Choice, NextWords, Step, Written
from interlinear.search.ranking import active_beam, finished_mask, length_penalty_factor, rank_finished
from interlinear.search.state import SlotState
from interlinear.text import BEGIN, END, PAD


@dataclass(frozen=True)
class StepResult:
    """The rows after a step, and the step's attention weights (N, K, ...) and readouts."""

    rows: SlotState
    attention_weights: AttentionWeights
    readout_NKR: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> "StepResult":
        """Applies a function to every tensor."""
        return StepResult(self.rows.map(change), self.attention_weights.map_all(change), change(self.readout_NKR))

    def map_rows(self, change: Callable[[Tensor], Tensor]) -> "StepResult":
        """Applies a function to every tensor, apart from processors' tensors of the table as a whole."""
        return replace(self.map(change), rows=self.rows.map_rows(change))


# `search_step`, compiled or captured.
SearchStep = Callable[[EncoderDecoder, Memory, SlotState], StepResult]


def search_step(model: EncoderDecoder, memory: Memory, rows: SlotState) -> StepResult:
    """Extends each hypothesis of each unfinished sentence by one token. Never waits for the device."""
    width = rows.token_NK.shape[1]
    state, readout_NKR, attention_weights = model.step(memory, rows.state, rows.token_NK)
    log_NKC, word_NC = model.next_words(memory, readout_NKR)  # a special symbol's column is its id
    log_NKC[..., PAD] = log_NKC[..., BEGIN] = -torch.inf
    beam_N = active_beam(rows)
    step = Step(memory, attention_weights, word_NC, rows.score_NK, rows.length_N, rows.max_N, beam_N, rows.done_N)
    processors = tuple(processor.observe(step) for processor in rows.processors)
    step = replace(step, processors=processors)
    for processor in processors:
        log_NKC = processor.limit(log_NKC, step)
    end_NK = log_NKC[..., END].clone()
    log_NKC[..., END] = -torch.inf

    # Continuations: the best K tokens of each hypothesis, and of these the best K in total.
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
    worst_N1 = ranked_NK.gather(1, beam_N[:, None] - 1)
    ends_NK = (end_score_NK >= worst_N1) & (end_score_NK > -torch.inf)
    column_NK = column_NKk.flatten(1).gather(1, chosen_NK)
    choice = Choice(score_NK, chosen_NK // k, column_NK, ends_NK, torch.zeros_like(chosen_NK))
    words = NextWords(log_NKC, end_NK, end_score_NK)
    for processor in processors:
        choice = processor.choose(choice, words, step)
    score_NK, parent_NK, token_NK = choice.score_NK, choice.parent_NK, word_NC.gather(1, choice.column_NK)
    done_N1 = rows.done_N[:, None]
    ends_NK = choice.ends_NK & ~done_N1
    final_NK = end_score_NK / length_penalty_factor(rows, rows.length_N[:, None] + 1)
    for processor in processors:
        final_NK = processor.end_scores(final_NK, step)
    final_NK = final_NK.masked_fill(~ends_NK, -torch.inf)
    rows, kept_NK = rank_finished(rows, final_NK, end_score_NK, ends_NK, [each.rank for each in processors])

    # Mask beams narrower than the table, then reorder the states of the selected hypotheses.
    hypothesis_K = torch.arange(width, device=token_NK.device)
    score_NK = score_NK.masked_fill(hypothesis_K >= active_beam(rows)[:, None], -torch.inf)
    # The output position of this step, (N, 1, L), as a mask: a finished row may have no position left to index.
    position_L = torch.arange(rows.written_NKL.shape[2], device=token_NK.device)
    here_N1L = ((position_L == rows.length_N[:, None]) & ~done_N1)[:, None]
    row_N1 = torch.arange(token_NK.shape[0], device=token_NK.device)[:, None]
    flat_M = (row_N1 * width + parent_NK).flatten()
    written = Written(parent_NK, flat_M, choice.column_NK, choice.mark_NK, rows.length_N, here_N1L, kept_NK)
    rows = replace(
        rows,
        state=state.reorder(flat_M, width),  # the state of a finished row is never read
        token_NK=token_NK,
        score_NK=torch.where(done_N1, rows.score_NK, score_NK),
        length_N=rows.length_N + ~rows.done_N,
        written_NKL=torch.where(here_N1L, token_NK[..., None], rows.written_NKL),
        parent_NKL=torch.where(here_N1L, parent_NK[..., None], rows.parent_NKL),
        processors=tuple(processor.advance(written) for processor in processors),
    )
    return StepResult(replace(rows, done_N=finished_mask(rows)), attention_weights, readout_NKR)
