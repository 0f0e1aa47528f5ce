"""Posterior attention: where a target word came from, once it is known.

The attention of the step that outputs word y_l is computed before y_l is known. By Bayes' rule, with attention as the
prior of a hidden position j and the model's own output as its likelihood (Shankar and Sarawagi 2019, section 3),

    P(j | y_1 .. y_l, x)  ~  a_lj P(y_l | y_1 .. y_{l-1}, attention on j alone)

A step with attention on position j alone is the model's own step over a source whose other positions are masked, from
the state that the attention over all positions has led to. It needs no training, and works for every order of a step.

Axes: B sentences, K hypotheses of each, L target positions, T source positions, N of them at once, E embedding, R
readout, V target vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from seq2seq.layers.state import Memory, State
from seq2seq.layers.step_linear import StepInputs
from seq2seq.model.decoder import Decoder

MAX_PROBABILITIES = 1 << 24  # of the output layer, computed at once

LogProbabilities = Callable[[Tensor], Tensor]  # of readouts (..., R), over the vocabulary (..., V)


def posterior_attention(
    decoder: Decoder,
    log_probabilities: LogProbabilities,
    memory: Memory,
    states: Sequence[State],
    words_BKLE: Tensor,
    target_BKL: Tensor,
    prior_BKLT: Tensor,
) -> Tensor:
    """The posterior attention over the first text of targets by forced decoding, (B, K, L, T), in at least fp32.

    states: those before every step. words_BKLE: the embeddings of the words before those of the target. prior_BKLT: the
    attention over that text. A row sums to 1, and to 0 where the prior does.
    """
    prior_BKLT = prior_BKLT.to(torch.promote_types(prior_BKLT.dtype, torch.float32))
    posterior_BKLT = torch.zeros_like(prior_BKLT)
    for b in range(target_BKL.shape[0]):
        own = replace(memory, candidates={}).map(lambda tensor: tensor[b : b + 1])  # noqa: B023
        for k in range(target_BKL.shape[1]):
            state_1L = steps_as_hypotheses(states, b, k)
            log_p_TL = hard_log_likelihoods(
                decoder, log_probabilities, own, state_1L, words_BKLE[b, k], target_BKL[b, k]
            )
            prior_LT = prior_BKLT[b, k]
            logits_LT = (prior_LT.log() + log_p_TL.T.to(prior_LT.dtype)).masked_fill(prior_LT == 0, -torch.inf)
            posterior_BKLT[b, k] = torch.softmax(logits_LT, -1).nan_to_num(0.0)
    return posterior_BKLT


def steps_as_hypotheses(states: Sequence[State], row: int, hypothesis: int) -> State:
    """One hypothesis' states before each step, as L hypotheses of one sentence."""
    first = states[0]
    leaves = {
        name: torch.cat([state.leaves[name][row : row + 1, hypothesis : hypothesis + 1] for state in states], 1)
        for name in first.leaves
    }
    return State(leaves, first.positions)


def hard_log_likelihoods(
    decoder: Decoder,
    log_probabilities: LogProbabilities,
    memory: Memory,
    state_1L: State,
    words_LE: Tensor,
    target_L: Tensor,
) -> Tensor:
    """log P of each target word with attention on one source position alone, (T, L), of one sentence.

    state_1L: the states before all steps, as hypotheses of the sentence.
    """
    source = decoder.config.first_text
    position_T = torch.arange(memory.positions[source], device=target_L.device)
    rows = max(1, MAX_PROBABILITIES // (len(target_L) * decoder.config.target.vocabulary))
    parts = []
    for chosen_N in position_T.split(rows):
        count = len(chosen_N)
        other_NT = position_T != chosen_N[:, None]
        repeated, state_NL = repeat_rows(memory, state_1L, count)
        views = {
            name: replace(view, padding_BT=view.padding_BT | other_NT) if view.source == source else view
            for name, view in repeated.views.items()
        }
        words_NLE = words_LE.expand(count, *words_LE.shape)
        step = StepInputs(decoder.precompute(words_NLE))
        _, output = decoder.advance(replace(repeated, views=views), state_NL, step)
        log_p_NLV = log_probabilities(decoder.read(words_NLE, output.hidden, output.contexts))
        parts.append(log_p_NLV.gather(-1, target_L.expand(count, -1)[..., None]).squeeze(-1))
    return torch.cat(parts)


def repeat_rows(memory: Memory, state: State, count: int) -> tuple[Memory, State]:
    """One sentence, and its state, as so many equal ones."""

    def repeat(tensor: Tensor) -> Tensor:
        return tensor.expand(count, *tensor.shape[1:])

    return memory.map(repeat), state.map(repeat)
