"""The sequence-to-sequence model: encoders, decoder and output layer. Runs on one device.

Axes: B sentences, K hypotheses of each, T source positions, L target positions, E embedding, R readout,
V target vocabulary, C candidate words.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from interlinear.batch import Batch, CandidateInput, SourceInput, positions, target_lengths
from interlinear.config import ModelConfig, TextVocabulary
from interlinear.devices import to_device
from interlinear.losses.cross_entropy import GuideLoss, Loss, bag_of_words, chunked_cross_entropy, log_likelihoods
from interlinear.losses.guided_attention import guided_attention_loss, normalize
from interlinear.models.attention_reading import POSTERIOR, AttentionReading, best_readings
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.initialization import draw_seed, initialize, seed_of
from interlinear.models.layers.dropout import drop_words
from interlinear.models.layers.int8 import Int8Linear
from interlinear.models.layers.step_linear import StepInputs
from interlinear.models.memory import SUMMARY, Candidates, Memory, View, pad_or_trim
from interlinear.models.recurrent.attend import STATES
from interlinear.models.recurrent.encoders import ImageEncoder, TextEncoder
from interlinear.models.recurrent.posterior_attention import posterior_attention
from interlinear.models.recurrent.step_orders import build_decoder
from interlinear.models.state import State
from interlinear.text import BEGIN, END, PAD

OUTPUT = "output"  # the key of a model's own candidates in its memory
GUIDED_KINDS = (STATES, "gated")  # kinds of attention weights that a guide supervises


class Model(nn.Module):
    """A recurrent encoder-decoder with the attention mechanisms that the config selects."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        seed = draw_seed()
        self.encoders = nn.ModuleDict()
        for name, source in config.sources.items():
            if isinstance(source, TextVocabulary):
                self.encoders[name] = TextEncoder(config, source.vocabulary)
                continue
            with torch.random.fork_rng(devices=[]):  # an image network initialises its own weights
                torch.default_generator.manual_seed(seed_of(seed, f"encoders.{name}"))
                self.encoders[name] = ImageEncoder(config, source)
        # The alignment module pads targets with <null>, which is PAD: its embedding must then be trained.
        null = None if config.alignment_module else PAD
        self.target_words = nn.Embedding(config.target.vocabulary, config.embedding, padding_idx=null)
        self.decoder = build_decoder(config)
        self.output = nn.Linear(config.readout_size, config.target.vocabulary)
        self.alignment = None
        if config.alignment_module:
            ((self.source, words),) = config.texts.items()
            self.alignment = nn.Linear(config.readout_size, words.vocabulary)
        read = config.combined_size if config.has_one_softmax else config.annotation
        self.image_words = (
            nn.ModuleDict({name: nn.Linear(read, config.target.vocabulary) for name in config.images})
            if config.image_words
            else None
        )
        if config.tie_embeddings in ("output", "all"):
            self.output.weight = self.target_words.weight
        if config.tie_embeddings == "all":
            for text in self.texts.values():
                text.words.weight = self.target_words.weight
        self.output_dropout = config.dropout if config.output_dropout is None else config.output_dropout
        networks = [image.network for image in self.images.values() if image.network is not None]
        initialize(self, config, seed, self.embeddings, networks)

    @property
    def target_vocabulary(self) -> int:
        """The number of words that the output layer knows."""
        return self.config.target.vocabulary

    @property
    def attention_kinds(self) -> list[str]:
        """The attention kinds that explanations can return."""
        return self.config.attention_kinds

    @property
    def readings(self) -> list[AttentionReading]:
        """The weights that words can be aligned by, the best first."""
        return best_readings(self.attention_kinds, self.config.decoder)

    @property
    def readout_size(self) -> int:
        """The size of what the output layer reads."""
        return self.config.readout_size

    @property
    def texts(self) -> dict[str, TextEncoder]:
        """Encoders of the text sources, by name."""
        return {name: cast(TextEncoder, self.encoders[name]) for name in self.config.texts}

    @property
    def images(self) -> dict[str, ImageEncoder]:
        """Encoders of the image sources, by name."""
        return {name: cast(ImageEncoder, self.encoders[name]) for name in self.config.images}

    def encode(self, batch: Batch) -> Memory:
        """Encodes the sources of a batch into the memory that the decoder attends to; source dropout in training."""
        return self.encode_present(self.with_source_dropout(batch))

    def with_source_dropout(self, batch: Batch) -> Batch:
        """The batch as training reads it, without the sources that source dropout drops."""
        if self.training and self.config.source_dropout:
            return drop_sources(batch, self.config.source_dropout)
        return batch

    def encode_present(self, batch: Batch) -> Memory:
        """Encodes the sources that are present in each row."""
        views: dict[str, View] = {}
        summaries = []
        for name in self.config.sources:
            read = self.encoders[name](batch.sources[name])
            views |= self.decoder.views(name, read)
            if self.config.combination != "none":  # the summary of an absent source is 0
                read = replace(read, summary_BS=read.summary_BS * ~views[f"{name}.{STATES}"].absent_B1)
            summaries.append(read.summary_BS)
        tokens = {}
        if self.alignment is not None:
            text = batch.text(self.source)
            tokens[self.source] = text.ids_BT.masked_fill(text.padding_BT, PAD)
        candidates = {} if batch.candidates is None else {OUTPUT: self.gather_candidates(batch.candidates)}
        return Memory(views, {SUMMARY: torch.cat(summaries, -1)}, tokens, candidates)

    def gather_candidates(self, candidates: CandidateInput) -> Candidates:
        """The rows of the output layer for the words that search may write; none of a layer in int8."""
        in_int8, words_BC = isinstance(self.output, Int8Linear), candidates.words_BC
        weight_VR = self.output.weight[:, :0] if in_int8 else self.output.weight
        bias_V = torch.zeros_like(self.output.bias) if in_int8 else self.output.bias
        bias_BC = bias_V[words_BC].masked_fill(candidates.padding_BC, -torch.inf)
        return Candidates(words_BC, F.embedding(words_BC, weight_VR), bias_BC)

    def start(self, memory: Memory) -> State:
        """The decoder's initial state, with one hypothesis per sentence."""
        return self.decoder.start(memory)

    def step(self, memory: Memory, state: State, token_BK: Tensor) -> tuple[State, Tensor, AttentionWeights]:
        """Decodes one word of each hypothesis: the new state, the readout (B, K, R) and the attention weights."""
        words_BKE = self.embed(token_BK)
        state, output = self.decoder.advance(memory, state, StepInputs(self.decoder.precompute(words_BKE)))
        return state, self.decoder.read(words_BKE, output.hidden, output.contexts), output.attention_weights

    def teacher_forced(self, memory: Memory, target_BKL: Tensor) -> tuple[Tensor, AttentionWeights]:
        """Teacher forcing on K targets per sentence: readouts (B, K, L, R) and attention weights of every position."""
        readouts_BKLR, attention_weights = self.unroll(memory, target_BKL)
        return readouts_BKLR, self.with_fertility(memory, AttentionWeights.stack(attention_weights))

    def forced_attention(
        self, memory: Memory, target_BKL: Tensor, reading: AttentionReading | None = None
    ) -> AttentionWeights:
        """Attention weights of targets by forced decoding, with the additions of `with_explanation_weights`, and the
        kind `posterior` if the reading is of it."""
        words_BKLE = self.embed(F.pad(target_BKL, (1, -1), value=BEGIN))
        states, outputs = zip(*self.decoder.each_step(memory, words_BKLE), strict=True)
        weights = self.with_explanation_weights(
            memory,
            self.decoder.read_steps(words_BKLE, list(outputs)),
            AttentionWeights.stack([output.attention_weights for output in outputs]),
            bool(reading and reading.vocabulary),
        )
        if not (reading and reading.posterior):
            return weights
        text = self.config.first_text
        posterior_BKLT = posterior_attention(
            self.decoder,
            self.log_probabilities,
            memory,
            states,
            words_BKLE,
            target_BKL,
            weights.weights[text, STATES],
        )
        return replace(weights, weights=weights.weights | {(text, POSTERIOR): posterior_BKLT})

    def forced_log_probabilities(self, memory: Memory, target_BKL: Tensor) -> Tensor:
        """The log-probability of each target token, given those before it, (B, K, L), in at least fp32."""
        readouts_BKLR = self.unroll(memory, target_BKL)[0]
        # Step by step: the logits of all positions together may not fit into memory.
        steps = zip(readouts_BKLR.unbind(2), target_BKL.unbind(2), strict=True)
        return torch.stack(
            [self.log_probabilities(r_BKR).gather(-1, t_BK[..., None]).squeeze(-1) for r_BKR, t_BK in steps], 2
        )

    def with_explanation_weights(
        self, memory: Memory, readouts_BKLR: Tensor, attention_weights: AttentionWeights, vocabulary: bool = False
    ) -> AttentionWeights:
        """Adds what only explanations need: fertilities (linguistic coverage) and kind `uam` (alignment module).

        `uam` assigns the probability q_j of each source token to its position. A token that occurs several times
        counts at the occurrence with the most attention, divided among ties. A row sums to the probability of all
        source tokens, at most 1. `vocabulary`: keep only the most probable token of the whole source vocabulary; a
        row is 0 if the source does not contain it.
        """
        attention_weights = self.with_fertility(memory, attention_weights)
        log_q = self.source_log_probabilities(readouts_BKLR)
        if log_q is None:
            return attention_weights
        tokens_BT = memory.tokens[self.source]
        index_BKLT = tokens_BT[:, None, None].expand(*log_q.shape[:3], -1)
        q_BKLT = log_q.gather(-1, index_BKLT).exp().masked_fill(index_BKLT == PAD, 0.0)
        if vocabulary:
            q_BKLT = q_BKLT * (index_BKLT == log_q.argmax(-1, keepdim=True))
        attention_BKLT = attention_weights.weights[self.source, STATES].to(q_BKLT.dtype)
        most_BKLV = torch.zeros_like(log_q).scatter_reduce(-1, index_BKLT, attention_BKLT, "amax")
        there_BKLT = (attention_BKLT == most_BKLV.gather(-1, index_BKLT)).to(q_BKLT.dtype)
        places_BKLV = torch.zeros_like(log_q).scatter_add(-1, index_BKLT, there_BKLT)
        uam_BKLT = q_BKLT * there_BKLT / places_BKLV.gather(-1, index_BKLT)
        return replace(attention_weights, weights=attention_weights.weights | {(self.source, "uam"): uam_BKLT})

    def with_fertility(self, memory: Memory, attention_weights: AttentionWeights) -> AttentionWeights:
        """Adds the fertility of every source position if coverage is linguistic."""
        if self.config.coverage != "linguistic":
            return attention_weights
        views = {view.source: view for name, view in memory.views.items() if name.endswith(f".{STATES}")}
        return replace(attention_weights, fertility={name: view.covered_BTC[..., 0] for name, view in views.items()})

    def unroll(self, memory: Memory, target_BKL: Tensor) -> tuple[Tensor, list[AttentionWeights]]:
        """Readouts (B, K, L, R), and the attention weights of each step."""
        before_BKL = F.pad(target_BKL, (1, -1), value=BEGIN)
        words_BKLE = drop_words(self.embed(before_BKL), self.config.word_dropout, self.training)
        words_BKLE = F.dropout(words_BKLE, self.config.dropout, self.training)
        return self.decoder.unroll(memory, words_BKLE)

    def source_log_probabilities(self, readout: Tensor) -> Tensor | None:
        """The alignment module's log q over the source vocabulary, (..., V_x) (Kiyono et al. 2018, equation 13).

        None without the module. Used by training, `align` and explanations; search never calls it.
        """
        if self.alignment is None:
            return None
        return log_softmax(self.alignment(readout))

    def embed(self, token: Tensor) -> Tensor:
        """Embeddings of the previous words; a zero vector for BEGIN if `first_word` is "zero"."""
        words: Tensor = self.target_words(token)
        if self.config.first_word == "zero":
            words = words.masked_fill((token == BEGIN)[..., None], 0.0)
        return words

    def logits(self, readout: Tensor) -> Tensor:
        """Logits of the output layer, (..., R) -> (..., V)."""
        logits: Tensor = self.output(readout)
        return logits

    def log_probabilities(self, readout: Tensor) -> Tensor:
        """Log-probabilities over the vocabulary, (..., R) -> (..., V), in at least fp32."""
        return log_softmax(self.logits(readout))

    def next_words(self, memory: Memory, readout_BKR: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities (B, K, C) of the words that search may write next, in at least fp32, and their ids (B, C).

        C is the whole vocabulary, or each sentence's candidates, among which alone the probabilities are normalised;
        padding has the log-probability -inf. A special symbol's column is its id.
        """
        if OUTPUT not in memory.candidates:
            words_V = torch.arange(self.config.target.vocabulary, device=readout_BKR.device)
            return self.log_probabilities(readout_BKR), words_V.expand(readout_BKR.shape[0], -1)
        own = memory.candidates[OUTPUT]
        if isinstance(self.output, Int8Linear):
            # The product with the whole matrix, which all sentences share, takes less time than those with own rows.
            index_BKC = own.words_BC[:, None].expand(-1, readout_BKR.shape[1], -1)
            logits_BKC = self.logits(readout_BKR).gather(-1, index_BKC) + own.bias_BC[:, None]
        else:
            # The larger matrix is the left one, which on a CPU takes half the time of the transposed product.
            logits_BKC = torch.baddbmm(own.bias_BC[..., None], own.weight_BCR, readout_BKR.mT).mT.contiguous()
        return log_softmax(logits_BKC), own.words_BC

    def loss(self, batch: Batch, smoothing: float = 0.0, guide_weight: float = 1.0) -> Loss:
        """The loss of a batch, summed over its target words (END included).

        If the batch has a guide, the loss of guided attention is added, times `guide_weight`.

        With the alignment module every target is padded with <null> to its source's length, and the bag-of-words
        loss is added (Kiyono et al. 2018, equation 19); nats and label smoothing still cover only the real words.
        """
        assert batch.target_BL is not None
        target_BL, width, on_host = batch.target_BL, batch.target_BL.shape[1], batch.target_lengths is not None
        targets_B = target_lengths(target_BL) if batch.target_lengths is None else torch.tensor(batch.target_lengths)
        if self.alignment is not None:
            target_BL = pad_or_trim(target_BL, 1, max(width, batch.text(self.source).ids_BT.shape[1]), PAD)
        batch = self.with_source_dropout(batch)
        memory = self.encode_present(batch)
        readouts_BKLR, steps = self.unroll(memory, target_BL[:, None])
        readouts_BLR = readouts_BKLR[:, 0]
        readouts_BLR = F.dropout(readouts_BLR, self.output_dropout, self.training)
        loss = self.word_loss(
            readouts_BLR[:, :width], target_BL[:, :width], torch.zeros_like(targets_B), targets_B, smoothing, on_host
        )
        if self.image_words is not None:
            loss = replace(loss, objective=loss.objective + self.image_word_loss(memory, batch))
        if batch.guide_BLT is not None:
            guide = self.guide_loss(batch, steps[:width])
            loss = replace(loss, objective=loss.objective + guide_weight * guide.nats, guide=guide)
        if self.config.contextual_gates and not self.training:
            gate_BL = torch.stack([cast(Tensor, step.gate) for step in steps[:width]], -1)[:, 0]
            (words_B,) = to_device([targets_B], gate_BL.device)
            words_BL = torch.arange(width, device=gate_BL.device) < words_B[:, None]
            loss = replace(loss, gate=(gate_BL.float() * words_BL).sum())
        if self.alignment is None:
            return loss
        text = batch.text(self.source)
        sources_B = text.lengths_B if text.lengths is None else torch.tensor(text.lengths)
        steps_BL = bag_of_words_steps(targets_B, sources_B, target_BL.shape[1], self.config.alignment_longer)
        # No smoothing here: <null>s soon become certain and are most of the target, so it would dominate the loss.
        nulls = self.word_loss(readouts_BLR, target_BL, targets_B, sources_B, 0.0, on_host)
        words_BT = text.ids_BT.masked_fill(text.padding_BT, PAD)
        bags = bag_of_words(
            readouts_BLR, self.alignment.weight, self.alignment.bias, steps_BL, words_BT,
            self.config.alignment_weight or 10.0, on_host,
        )  # fmt: skip
        return replace(loss, objective=loss.objective + nulls.objective + bags)

    def guide_loss(self, batch: Batch, steps: Sequence[AttentionWeights]) -> GuideLoss:
        """The loss of guided attention: on the attention over the first text's annotations at the step that outputs
        each word; with contextual gates the mean of it and of the same on the gated weights, o alpha + (1 - o) beta."""
        assert batch.guide_BLT is not None
        source = self.config.first_text
        present_B = batch.text(source).lengths_B > 0  # source dropout may drop it
        guide_BLT = batch.guide_BLT * present_B[:, None, None]
        matrices = AttentionWeights.stack(steps).matrices(source)
        kinds = [matrices[kind][:, 0] for kind in GUIDED_KINDS if kind in matrices]
        if self.config.has_one_softmax:
            kinds = [normalize(weights_BLT) for weights_BLT in kinds]
        losses = [guided_attention_loss(weights_BLT, guide_BLT) for weights_BLT in kinds]
        return GuideLoss(torch.stack([loss.nats for loss in losses]).mean(), losses[0].words)

    def image_word_loss(self, memory: Memory, batch: Batch) -> Tensor:
        """Auxiliary loss: negative log-likelihood of the target's bag of words given only each image, weighted.

        p(w | image) = 1/T sum_t softmax(W v_t)_w, where v_t is the value that attention reads at region t, and T the
        number of regions. Every region predicts words, so that the values of regions differ by their content.
        """
        assert self.image_words is not None and batch.target_BL is not None
        total = memory.first.values_BTD.new_zeros((), dtype=memory.score_dtype)
        for name, head in self.image_words.items():
            values_BTD = memory.views[f"{name}.{STATES}"].values_BTD
            image, words_NL = batch.image(name), batch.target_BL
            if image.lengths is None:
                words_NL = words_NL.masked_fill((image.lengths_B == 0)[:, None], PAD)
            else:
                present_N = positions([0] * len(image.lengths), image.lengths, 1, values_BTD.device)
                values_BTD, words_NL = values_BTD.index_select(0, present_N), words_NL.index_select(0, present_N)
            log_p_NTV = torch.log_softmax(head(values_BTD), -1, dtype=total.dtype)
            log_p_NTL = log_p_NTV.gather(-1, words_NL[:, None].expand(-1, log_p_NTV.shape[1], -1))
            log_p_NL = torch.logsumexp(log_p_NTL, 1) - math.log(log_p_NTV.shape[1])
            total = total - (log_p_NL * (words_NL > END)).sum()
        return total * (self.config.image_words or 0.0)

    def log_likelihoods(self, memory: Memory, target_BKL: Tensor, lengths: Sequence[int]) -> Tensor:
        """log P(y | x) of K targets per sentence that end with END, (B, K); 0 for a target of no length.

        `lengths`: of all targets, (B x K), END counted, on the host. Without the alignment module's <null>s, which
        exist only in training on pairs and never in search outputs.
        """
        readouts_BKLR = self.unroll(memory, target_BKL)[0]
        readouts_BKLR = F.dropout(readouts_BKLR, self.output_dropout, self.training)
        chosen_N = positions([0] * len(lengths), lengths, target_BKL.shape[-1], target_BKL.device)
        readouts_NR = readouts_BKLR.flatten(0, 2).index_select(0, chosen_N)
        targets_N = target_BKL.flatten().index_select(0, chosen_N)
        words_N = log_likelihoods(readouts_NR, self.output.weight, self.output.bias, targets_N)
        return words_N.new_zeros(target_BKL.numel()).index_copy(0, chosen_N, words_N).view_as(target_BKL).sum(-1)

    def word_loss(
        self,
        readouts_BLR: Tensor,
        target_BL: Tensor,
        first_B: Tensor,
        last_B: Tensor,
        smoothing: float,
        on_host: bool = True,
    ) -> Loss:
        """Cross-entropy of each row's positions first <= l < last.

        Where these are known on the host, only their logits are computed; else those of all positions, of which the
        others do not count.
        """
        position_L = torch.arange(target_BL.shape[1], device=first_B.device)
        counted_N = ((position_L >= first_B[:, None]) & (position_L < last_B[:, None])).flatten()
        readouts_NR, targets_N = readouts_BLR.flatten(0, 1), target_BL.flatten()
        if on_host:
            (chosen_N,) = to_device([counted_N.nonzero().squeeze(1)], target_BL.device)
            readouts_NR, targets_N = readouts_NR.index_select(0, chosen_N), targets_N.index_select(0, chosen_N)
        return chunked_cross_entropy(
            readouts_NR, self.output.weight, self.output.bias, targets_N, smoothing, None if on_host else counted_N
        )

    @property
    def embeddings(self) -> list[nn.Embedding]:
        """Word embeddings of every text source and of the target."""
        return [*(text.words for text in self.texts.values()), self.target_words]

    def parameter_counts(self) -> dict[str, int]:
        """Number of parameters by part of the model; shared parameters count once."""
        output: set[int] = set()
        counts: dict[str, int] = {}
        for name, parameter in self.named_parameters():
            part = ".".join(name.split(".")[: {"decoder": 2, "encoders": 3}.get(name.split(".")[0], 1)])
            counts[part] = counts.get(part, 0) + (0 if id(parameter) in output else parameter.numel())
            output.add(id(parameter))
        return counts


def log_softmax(logits: Tensor) -> Tensor:
    """The logarithm of the softmax over the last axis, in at least fp32."""
    return torch.log_softmax(logits, -1, dtype=torch.promote_types(logits.dtype, torch.float32))


def drop_sources(batch: Batch, share: float) -> Batch:
    """Source dropout: drops each source of a sentence with probability `share`, unless that would drop all of them.

    Drawn on the host where the lengths are known there, else on their device.
    """
    on_host = batch.target_lengths is not None
    lengths_NB = (
        torch.tensor([source.host_lengths for source in batch.sources.values()])
        if on_host
        else torch.stack([source.lengths_B for source in batch.sources.values()])
    )
    kept_NB = (lengths_NB > 0) & (torch.rand(lengths_NB.shape, device=lengths_NB.device) >= share)
    kept_NB = kept_NB | ~kept_NB.any(0)
    sources: dict[str, SourceInput] = {}
    for (name, source), lengths_B in zip(batch.sources.items(), lengths_NB * kept_NB, strict=True):
        (on_device,) = to_device([lengths_B], source.lengths_B.device)
        sources[name] = replace(source, lengths_B=on_device, lengths=tuple(lengths_B.tolist()) if on_host else None)
    return replace(batch, sources=sources)


def bag_of_words_steps(targets_B: Tensor, sources_B: Tensor, steps: int, longer: str | None) -> Tensor:
    """Weight of each step in the sum over steps that is matched with the source's bag of words, (B, L).

    A source of I tokens has I steps (Kiyono et al. 2018, section 4.1). A longer target, J + 1 > I, has no <null>, and
    `longer` chooses the steps that count: the first I, all, or all scaled by I / (J + 1). The weights are on the device
    of the lengths.
    """
    all_B = torch.maximum(targets_B, sources_B)
    counted_B = sources_B if longer in (None, "first") else all_B
    position_L = torch.arange(steps, device=targets_B.device)
    steps_BL = (position_L < counted_B[:, None]).to(torch.get_default_dtype())
    return steps_BL * (sources_B.double() / all_B)[:, None] if longer == "scaled" else steps_BL


def build(config: ModelConfig) -> Model:
    """Builds a model with random weights from torch's default generator."""
    return Model(config)
