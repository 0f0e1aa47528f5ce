"""Minimum risk training (Shen et al. 2016): minimises the expected risk of the model's own outputs under a metric.

Axes: B sentences, K candidates of each, L target positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from seq2seq.batch import Batch, pad
from seq2seq.losses.cross_entropy import Loss
from seq2seq.metrics import sentence
from seq2seq.minimum_risk.sampling import sample
from seq2seq.model.model import Model
from seq2seq.search import SearchOptions, SearchRequest, SlotTable
from seq2seq.text import END, PAD

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
        """The maximum number of words of a sentence's candidates, from its reference's number of words."""
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
        target_BKL, chosen_BK = (own.to(device, non_blocking=True) for own in (self.target_BKL, self.chosen_BK))
        return Candidates(target_BKL, chosen_BK, self.lengths)


def minimum_risk_loss(
    model: Model, batch: Batch, options: RiskOptions, smoothing: float = 0.0, guide_weight: float = 1.0
) -> Loss:
    """Expected risk summed over the sentences of a batch; the nats are those of the references.

    Candidates are generated without dropout; the risk is computed with it. `smoothing` and `guide_weight` are
    those of the likelihood loss, if `options.likelihood` adds it: the risk of candidates has no guide.
    """
    loss = expected_risk(model, batch, generate_candidates(model, batch, options), options)
    if not options.likelihood:
        return loss
    likelihood = model.loss(batch, smoothing, guide_weight)
    return Loss(loss.objective + options.likelihood * likelihood.objective, likelihood.nats, likelihood.guide)


def expected_risk(model: Model, batch: Batch, candidates: Candidates, options: RiskOptions) -> Loss:
    """The approximated risk R~ over these candidates (Shen et al. 2016, equations 10-12).

    R~ = sum_s sum_{y in S(x)} Q(y | x) Delta(y, y*)      Q(y | x) = P(y | x)^alpha / sum_{y' in S(x)} P(y' | x)^alpha
    """
    log_p_BK = model.log_likelihoods(model.encode(batch), candidates.target_BKL, candidates.lengths)
    q_BK = torch.softmax((options.alpha * log_p_BK).masked_fill(~candidates.chosen_BK, -torch.inf), -1)
    delta_BK = 1 - candidate_quality(candidates, options)
    return Loss((q_BK * delta_BK.to(q_BK.dtype)).sum(), -log_p_BK[:, 0].detach().sum())


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
