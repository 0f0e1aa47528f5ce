"""Posterior attention: where a target word came from, once it is known.

The attention of the step that outputs word y_l is computed before y_l is known. By Bayes' rule, with attention as the
prior of a hidden position j and the model's own output as its likelihood (Shankar and Sarawagi 2019, section 3),

    P(j | y_1 .. y_l, x)  ~  a_lj P(y_l | y_1 .. y_{l-1}, attention on j alone)

A step with attention on position j alone is the model's own step over a source of that position alone, from the state
that the attention over all positions has led to. It needs no training, and works for every model.

It costs L T steps, each over one position: of short sentences as much as a decoding, of long ones several times that.

Axes: B sentences, K hypotheses of each, L target positions, T source positions, P pairs of a target and a source
position, N of them at once, V target vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from interlinear.models.memory import Memory
from interlinear.models.protocol import EncoderDecoder
from interlinear.models.state import WRITTEN, State
from interlinear.text import BEGIN

MAX_PROBABILITIES = 1 << 24  # logits of the output layer that are computed at once


def posterior_attention(
    model: EncoderDecoder, memory: Memory, source: str, target_BKL: Tensor, prior_BKLT: Tensor
) -> Tensor:
    """The posterior attention over a source of given targets, (B, K, L, T), in at least fp32.

    prior_BKLT: the attention over that source. A row sums to 1, and to 0 where the prior does.
    """
    before_BKL = F.pad(target_BKL, (1, -1), value=BEGIN)
    states = states_before(model, memory, before_BKL)
    prior_BKLT = prior_BKLT.to(torch.promote_types(prior_BKLT.dtype, torch.float32))
    log_p_BKLT = torch.empty_like(prior_BKLT)
    for b in range(target_BKL.shape[0]):
        own = memory.map(lambda tensor: tensor[b : b + 1])  # noqa: B023
        for k in range(target_BKL.shape[1]):
            states_1L = steps_as_hypotheses(states, b, k)
            log_p_BKLT[b, k] = hard_log_likelihoods(model, own, source, states_1L, before_BKL[b, k], target_BKL[b, k])
    logits_BKLT = prior_BKLT.log() + log_p_BKLT
    return torch.softmax(logits_BKLT.masked_fill(prior_BKLT == 0, -torch.inf), -1).nan_to_num(0.0)


def states_before(model: EncoderDecoder, memory: Memory, before_BKL: Tensor) -> list[State]:
    """The state before every step, of the words that the steps take."""
    hypotheses, steps = before_BKL.shape[1:]
    states = [model.start(memory).resize(memory.positions | {WRITTEN: steps}).repeat(hypotheses)]
    for token_BK in before_BKL.unbind(2)[:-1]:
        states.append(model.step(memory, states[-1], token_BK).state)
    return states


def steps_as_hypotheses(states: Sequence[State], row: int, hypothesis: int) -> State:
    """One hypothesis' states before each step, as L hypotheses of one sentence."""
    first = states[0]
    leaves = {
        name: torch.cat([state.leaves[name][row : row + 1, hypothesis : hypothesis + 1] for state in states], 1)
        for name in first.leaves
    }
    return State(leaves, first.axes)


def hard_log_likelihoods(
    model: EncoderDecoder, memory: Memory, source: str, states_1L: State, before_L: Tensor, target_L: Tensor
) -> Tensor:
    """log P of each target word with attention on one source position alone, (L, T), of one sentence.

    states_1L: the states before all steps, as hypotheses of the sentence. before_L: the word before each.
    """
    steps, positions = len(target_L), memory.positions[source]
    pair_P = torch.arange(steps * positions, device=target_L.device)
    step_P, position_P = pair_P // positions, pair_P % positions
    rows = max(1, MAX_PROBABILITIES // model.target_vocabulary)
    parts = []
    for step_N, position_N in zip(step_P.split(rows), position_P.split(rows), strict=True):
        state_N1 = states_at(states_1L, source, step_N, position_N)
        step = model.step(memory_at(memory, source, position_N), state_N1, before_L[step_N][:, None])
        log_p_N1V = model.log_probabilities(step.readout_BKR)
        parts.append(log_p_N1V[:, 0].gather(-1, target_L[step_N][:, None]).squeeze(-1))
    return torch.cat(parts).view(steps, positions)


def memory_at(memory: Memory, source: str, position_N: Tensor) -> Memory:
    """One sentence's memory as N rows, each with one position of a source, to which all attention then goes."""

    def repeat(tensor: Tensor) -> Tensor:
        return tensor.expand(len(position_N), *tensor.shape[1:])

    views = {
        name: view.map((lambda tensor: tensor[0, position_N][:, None]) if view.source == source else repeat)
        for name, view in memory.views.items()
    }
    return Memory(views, {name: repeat(summary) for name, summary in memory.summaries.items()})


def states_at(states_1L: State, source: str, step_N: Tensor, position_N: Tensor) -> State:
    """The states before N steps as one hypothesis of N sentences, with one position of a source each."""
    leaves = {
        name: leaf[0, step_N, position_N][:, None, None]
        if states_1L.axes.get(name) == source
        else leaf[0, step_N][:, None]
        for name, leaf in states_1L.leaves.items()
    }
    return State(leaves, states_1L.axes)
