"""Minimum risk training (Shen et al. 2016): minimises the expected risk of the model's own outputs under a metric.

Axes: B sentences, K candidates of each, L target positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from interlinear.batch import Batch, pad, positions
from interlinear.devices import to_device
from interlinear.losses.cross_entropy import chunk_rows, log_likelihoods
from interlinear.losses.loss import Loss
from interlinear.losses.training_loss import training_loss
from interlinear.metrics import sentence
from interlinear.models.memory import Memory
from interlinear.models.model import Model
from interlinear.models.state import WRITTEN, State
from interlinear.search import SearchOptions, SearchRequest, SlotTable
from interlinear.text import BEGIN, END, PAD

# Steps between two checks, on a GPU, which outputs have ended. Each makes the host wait; on a CPU it costs nothing.
HOST_READ_STEPS = 8


@torch.no_grad()
def sample(model: Model, memory: Memory, count: int, max_lengths: Sequence[int]) -> Tensor:
    """Samples `count` outputs of each sentence, (B, K, L): each ends with END, followed by PAD.

    PAD and BEGIN are never drawn, as in search. An output of sentence b without END is cut after `max_lengths[b]`
    tokens. Seed the device's torch generator to reproduce samples.
    """
    state = model.start(memory).resize(memory.positions | {WRITTEN: max(max_lengths) + 1}).repeat(count)
    device = model.output.weight.device
    (limits_B,) = to_device([torch.tensor(max_lengths)], device)
    token_BK = torch.full((memory.rows, count), BEGIN, device=device)
    live_BK = torch.ones_like(token_BK, dtype=torch.bool)
    interval = 1 if device.type == "cpu" else HOST_READ_STEPS
    words = []
    for length in range(max(max_lengths) + 1):
        if length % interval == 0:
            rows_N = live_BK.flatten().nonzero().squeeze(1)  # the host waits for the device here
            if not len(rows_N):
                break
        state, token_BK, live_BK = sample_step(model, memory, state, token_BK, live_BK, rows_N, length >= limits_B)
        words.append(token_BK)
    return torch.stack(words, -1)


def sample_step(
    model: Model, memory: Memory, state: State, token_BK: Tensor, live_BK: Tensor, rows_N: Tensor, last_B: Tensor
) -> tuple[State, Tensor, Tensor]:
    """The next state, the next token of every output, and which outputs continue after it.

    `rows_N`: the outputs, as indices of the flattened (B, K), for which tokens are drawn. They include all live
    outputs; the tokens of the others are PAD. `last_B`: sentences whose live outputs end here.
    """
    state, readout_BKR, _ = model.step(memory, state, token_BK)
    drawn_N = draw(model.logits(readout_BKR.flatten(0, 1).index_select(0, rows_N)))
    drawn_BK = torch.full_like(token_BK, PAD).flatten().index_copy(0, rows_N, drawn_N).view_as(token_BK)
    token_BK = drawn_BK.masked_fill(~live_BK, PAD).masked_fill(live_BK & last_B[:, None], END)
    return state, token_BK, live_BK & (token_BK != END)


def draw(logits_NV: Tensor) -> Tensor:
    """Samples one token per row by inverse transform sampling, (N,); never PAD or BEGIN.

    Faster than torch.multinomial, which draws one random number per token of the vocabulary
    (benchmarks/results/risk.md).
    """
    _, rows = chunk_rows(logits_NV.shape[1], logits_NV.device)
    return torch.cat([draw_token_block(block_NV) for block_NV in logits_NV.split(rows)])


def draw_token_block(logits_NV: Tensor) -> Tensor:
    """`draw` for a block of rows."""
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32), copy=True)
    for token in (PAD, BEGIN):
        logits_NV[:, token] = -torch.inf
    logits_NV -= logits_NV.amax(1, keepdim=True)
    sums_NV = logits_NV.exp_().cumsum(1)
    number_N1 = torch.rand(len(sums_NV), 1, dtype=sums_NV.dtype, device=sums_NV.device) * sums_NV[:, -1:]
    # Rounding can make the number equal to the total, which is past the last token.
    return torch.searchsorted(sums_NV, number_N1, right=True).squeeze(1).clamp(max=sums_NV.shape[1] - 1)


MAX_BEAM = 64  # widest beam of a search

METRICS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "bleu": sentence.bleu,
    "rouge-l": sentence.rouge_l,
}


class RiskOptions(BaseModel):
    """Options of minimum risk training: the metric, and the candidates over which the risk is averaged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metric: Literal["bleu", "rouge-l"] = Field(
        "bleu", description="risk is 1 - smoothed sentence BLEU, or 1 - ROUGE-L F1, over the vocabulary's units"
    )
    alpha: float = Field(0.005, gt=0, description="sharpness: candidates weigh as their probability to this power")
    draw: Literal["samples", "beam", "both"] = Field("samples", description="where the candidates come from")
    candidates: int = Field(
        20, ge=2, le=1000, description="outputs of each sentence, of each kind; equal ones count once"
    )
    reference: bool = Field(True, description="the reference is a candidate too")
    max_length: int | None = Field(
        None, ge=1, description="words of a candidate at most; by default 1.5 x reference + 5"
    )
    likelihood: float = Field(0.0, ge=0, description="how much of the likelihood's loss is added")

    @model_validator(mode="after")
    def _beam(self) -> Self:
        if self.draw != "samples" and self.candidates > MAX_BEAM:
            raise ValueError(f"candidates: {self.candidates} cannot come from a beam, which is at most {MAX_BEAM} wide")
        return self

    def max_lengths(self, words: Sequence[int]) -> list[int]:
        """The maximum number of tokens of a sentence's candidates, from its reference's number of tokens."""
        return [self.max_length or reference * 3 // 2 + 5 for reference in words]


@dataclass(frozen=True)
class Candidates:
    """The reference and the candidates of each sentence.

    target_BKL: the reference first, then the candidates, each with END and then PAD. chosen_BK: True for members of
    S(x); sentences have different numbers of candidates, and the reference may be present only for its likelihood.
    lengths: of all (B x K), END counted, on the host.
    """

    target_BKL: Tensor
    chosen_BK: Tensor
    lengths: tuple[int, ...]

    def to(self, device: torch.device | str) -> "Candidates":
        target_BKL, chosen_BK = to_device([self.target_BKL, self.chosen_BK], device)
        return Candidates(target_BKL, chosen_BK, self.lengths)


def minimum_risk_loss(
    model: Model, batch: Batch, options: RiskOptions, smoothing: float = 0.0, guide_weight: float = 1.0
) -> Loss:
    """Expected risk summed over the sentences of a batch; nats are counted for the references.

    Candidates are generated without dropout; the risk is computed with it. `smoothing` and `guide_weight` apply to the
    likelihood loss, if `options.likelihood` adds it: the risk of candidates has no guide.
    """
    loss = expected_risk(model, batch, generate_candidates(model, batch, options), options)
    if not options.likelihood:
        return loss
    likelihood = training_loss(model, batch, smoothing, guide_weight)
    return Loss(loss.objective + options.likelihood * likelihood.objective, likelihood.nats, likelihood.guide)


def expected_risk(model: Model, batch: Batch, candidates: Candidates, options: RiskOptions) -> Loss:
    """The approximated risk R~ over these candidates (Shen et al. 2016, equations 10-12).

    R~ = sum_s sum_{y in S(x)} Q(y | x) Delta(y, y*)      Q(y | x) = P(y | x)^alpha / sum_{y' in S(x)} P(y' | x)^alpha
    """
    log_p_BK = target_log_likelihoods(model, model.encode(batch), candidates.target_BKL, candidates.lengths)
    q_BK = torch.softmax((options.alpha * log_p_BK).masked_fill(~candidates.chosen_BK, -torch.inf), -1)
    delta_BK = 1 - candidate_quality(candidates, options)
    return Loss((q_BK * delta_BK.to(q_BK.dtype)).sum(), -log_p_BK[:, 0].detach().sum())


def target_log_likelihoods(model: Model, memory: Memory, target_BKL: Tensor, lengths: Sequence[int]) -> Tensor:
    """log P(y | x) of K targets per sentence that end with END, (B, K); 0 for a target of no length.

    `lengths`: of all targets, (B x K), END counted, on the host. Without the alignment module's <null>s, which
    exist only in training on pairs and never in search outputs.
    """
    readouts_BKLR = model.unroll(memory, target_BKL, attention=False).readouts_BKLR
    readouts_BKLR = F.dropout(readouts_BKLR, model.output_dropout, model.training)
    chosen_N = positions([0] * len(lengths), lengths, target_BKL.shape[-1], target_BKL.device)
    readouts_NR = readouts_BKLR.flatten(0, 2).index_select(0, chosen_N)
    targets_N = target_BKL.flatten().index_select(0, chosen_N)
    words_N = log_likelihoods(readouts_NR, model.output.weight, model.output.bias, targets_N)
    return words_N.new_zeros(target_BKL.numel()).index_copy(0, chosen_N, words_N).view_as(target_BKL).sum(-1)


def candidate_quality(candidates: Candidates, options: RiskOptions) -> Tensor:
    """The metric of each candidate against its reference, 0 to 1, (B, K)."""
    target_BKL = candidates.target_BKL
    words_BK = (target_BKL != PAD).sum(-1) - 1  # without END
    return METRICS[options.metric](target_BKL, words_BK.clamp(min=0), target_BKL[:, 0], words_BK[:, 0])


@torch.no_grad()
def generate_candidates(model: Model, batch: Batch, options: RiskOptions) -> Candidates:
    """Generates candidates for every sentence of a batch with the current weights, without dropout."""
    assert batch.target_BL is not None and batch.target_lengths is not None
    found = [[reference] for reference in strip_padding(batch.target_BL)]
    max_lengths = options.max_lengths([length - 1 for length in batch.target_lengths])
    training = model.training
    model.eval()
    try:
        if options.draw != "beam":
            samples_BKL = sample(model, model.encode(batch), options.candidates, max_lengths).cpu()
            for own, drawn in zip(found, samples_BKL, strict=True):
                own += strip_padding(drawn)
        if options.draw != "samples":
            for own, best in zip(found, beam_candidates(model, batch, options.candidates, max_lengths), strict=True):
                own += best
    finally:
        model.train(training)
        # Autocast caches the weights that it cast under no_grad; training must not reuse them without a gradient.
        torch.clear_autocast_cache()
    return pack_candidates(found, options.reference).to(batch.target_BL.device)


def beam_candidates(model: Model, batch: Batch, beam: int, max_lengths: Sequence[int]) -> list[list[list[int]]]:
    """The final hypotheses of a beam search, by sentence."""
    options = SearchOptions(beam=beam, n_best=beam)
    table = SlotTable(model, beam)
    table.admit(batch, [SearchRequest(row, options, words) for row, words in enumerate(max_lengths)])
    found: list[list[list[int]]] = [[] for _ in max_lengths]
    while table.active:
        table.step()
        for done in table.pop_finished():
            found[int(str(done.key))] = [hypothesis.ids for hypothesis in done.hypotheses]
    return found


def strip_padding(target_KL: Tensor) -> list[list[int]]:
    """Token ids of each row, up to its first END."""
    return [row[: row.index(END)] for row in target_KL.tolist()]


def pack_candidates(found: Sequence[Sequence[list[int]]], reference: bool) -> Candidates:
    """Packs token ids into tensors without duplicates; the first entry of each sentence is its reference."""
    sets: list[list[Sequence[int]]] = []
    for first, *others in found:
        distinct = dict.fromkeys(map(tuple, others))
        if reference:
            distinct.pop(tuple(first), None)
        sets.append([first, *distinct])
    width = max(map(len, sets))
    rows = [ids for own in sets for ids in [*own, *[()] * (width - len(own))]]
    counts_B1 = torch.tensor([[len(own)] for own in sets])
    number_K = torch.arange(width)
    chosen_BK = (number_K < counts_B1) & (number_K >= (0 if reference else 1))
    ids_NL, lengths_N = pad(rows)
    return Candidates(ids_NL.unflatten(0, (-1, width)), chosen_BK, tuple(lengths_N.tolist()))
