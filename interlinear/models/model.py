"""The sequence-to-sequence model: encoders, decoder and output layer. Runs on one device.

Axes: B sentences, K hypotheses of each, T source positions, L target positions, E embedding, R readout,
V target vocabulary, C candidate tokens.
"""

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from interlinear.batch import Batch, CandidateInput, SourceInput
from interlinear.config import ModelConfig, TextVocabulary
from interlinear.devices import to_device
from interlinear.models.attention_reading import POSTERIOR, READINGS, AttentionReading
from interlinear.models.attention_weights import STATES, AttentionWeights
from interlinear.models.image_encoders.encoder import ImageEncoder
from interlinear.models.initialization import draw_seed, initialize, seed_of
from interlinear.models.kinds import KINDS
from interlinear.models.layers.dropout import drop_words
from interlinear.models.layers.int8 import Int8Linear
from interlinear.models.memory import SUMMARY, Candidates, Memory, View
from interlinear.models.posterior_attention import posterior_attention
from interlinear.models.protocol import Step, Unrolled
from interlinear.models.state import State
from interlinear.text import BEGIN, PAD

OUTPUT = "output"  # the key of a model's own candidates in its memory


class Model(nn.Module):
    """Encoders of the sources, a decoder and an output layer, of the kind and with the parts that the config names."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config, kind = config, KINDS[config.kind]
        seed = draw_seed()
        self.encoders = nn.ModuleDict()
        for name, source in config.sources.items():
            if isinstance(source, TextVocabulary):
                self.encoders[name] = kind.text_encoder(config, source.vocabulary)
                continue
            with torch.random.fork_rng(devices=[]):  # an image network initialises its own weights
                torch.default_generator.manual_seed(seed_of(seed, f"encoders.{name}"))
                self.encoders[name] = ImageEncoder(config, source)
        # The alignment module pads targets with <null>, which is PAD: its embedding must then be trained.
        null = None if config.alignment_module else PAD
        self.target_words = nn.Embedding(config.target.vocabulary, config.embedding, padding_idx=null)
        self.decoder = kind.decoder(config)
        self.output = nn.Linear(config.readout_size, config.target.vocabulary)
        self.alignment = None
        if config.alignment_module:
            ((self.source, words),) = config.texts.items()
            self.alignment = nn.Linear(config.readout_size, words.vocabulary)
        self.image_words = (
            nn.ModuleDict({name: nn.Linear(config.region_value, config.target.vocabulary) for name in config.images})
            if config.image_words
            else None
        )
        if config.tie_embeddings in ("output", "all"):
            self.output.weight = self.target_words.weight
        if config.tie_embeddings == "all":
            for embedding in self.source_words:
                embedding.weight = self.target_words.weight
        self.output_dropout = config.dropout if config.output_dropout is None else config.output_dropout
        networks = [image.network for image in self.images.values() if image.network is not None]
        initialize(self, config, seed, kind.matrices(config), self.embeddings, networks)
        if kind.set_weights:
            kind.set_weights(self, config, seed)

    @property
    def target_vocabulary(self) -> int:
        """The size of the vocabulary of the output layer."""
        return self.config.target.vocabulary

    @property
    def attention_kinds(self) -> list[str]:
        """The attention kinds that explanations can return."""
        return self.config.attention_kinds

    @property
    def readings(self) -> list[AttentionReading]:
        """The weights that words can be aligned by, the best first."""
        readings = [READINGS[name] for name in self.decoder.best_readings]
        return [reading for reading in readings if reading.kind in self.attention_kinds]

    @property
    def readout_size(self) -> int:
        """The size R of a readout, the input of the output layer."""
        return self.config.readout_size

    @property
    def source_words(self) -> list[nn.Embedding]:
        """The word embeddings of every text source."""
        return [cast(nn.Embedding, self.encoders[name].words) for name in self.config.texts]

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
                read = replace(read, summary_BS=read.summary_BS * ~read.absent_B1)
            summaries.append(read.summary_BS)
        tokens = {}
        if self.alignment is not None:
            text = batch.text(self.source)
            tokens[self.source] = text.ids_BT.masked_fill(text.padding_BT, PAD)
        candidates = {} if batch.candidates is None else {OUTPUT: self.gather_candidates(batch.candidates)}
        return Memory(views, {SUMMARY: torch.cat(summaries, -1)}, tokens, candidates)

    def gather_candidates(self, candidates: CandidateInput) -> Candidates:
        """The rows of the output layer for the tokens that search may write; none of a layer in int8."""
        in_int8, words_BC = isinstance(self.output, Int8Linear), candidates.words_BC
        weight_VR = self.output.weight[:, :0] if in_int8 else self.output.weight
        bias_V = torch.zeros_like(self.output.bias) if in_int8 else self.output.bias
        bias_BC = bias_V[words_BC].masked_fill(candidates.padding_BC, -torch.inf)
        return Candidates(words_BC, F.embedding(words_BC, weight_VR), bias_BC)

    def start(self, memory: Memory) -> State:
        """The decoder's initial state, with one hypothesis per sentence."""
        return self.decoder.start(memory)

    def step(self, memory: Memory, state: State, token_BK: Tensor) -> Step:
        """Decodes one token of each hypothesis: the new state, the readout (B, K, R) and the attention weights."""
        return self.decoder.step(memory, state, self.embed(token_BK))

    def unroll(self, memory: Memory, target_BKL: Tensor, attention: bool = True) -> Unrolled:
        """Teacher forcing on K targets per sentence; with dropout in training."""
        before_BKL = F.pad(target_BKL, (1, -1), value=BEGIN)
        words_BKLE = drop_words(self.embed(before_BKL), self.config.word_dropout, self.training)
        return self.decoder.unroll(memory, words_BKLE, attention)

    def forced_attention(
        self, memory: Memory, target_BKL: Tensor, reading: AttentionReading | None = None
    ) -> AttentionWeights:
        """Attention weights of targets by forced decoding, with the additions of `with_explanation_weights`, and the
        kind `posterior` if the reading is posterior."""
        vocabulary = bool(reading and reading.vocabulary)
        weights = self.with_explanation_weights(memory, *self.unroll(memory, target_BKL), vocabulary)
        if not (reading and reading.posterior):
            return weights
        source = self.config.first_text
        prior_BKLT = weights.weights[source, reading.kind]
        posterior_BKLT = posterior_attention(self, memory, source, target_BKL, prior_BKLT)
        return replace(weights, weights=weights.weights | {(source, POSTERIOR): posterior_BKLT})

    def with_explanation_weights(
        self, memory: Memory, readouts_BKLR: Tensor, attention_weights: AttentionWeights, vocabulary: bool = False
    ) -> AttentionWeights:
        """Adds the weights that only explanations need: the decoder's additions, and kind `uam` (alignment module).

        `uam` assigns the probability q_j of each source token to its position. A token that occurs several times
        counts at the occurrence with the most attention, divided among ties. A row sums to the probability of all
        source tokens, at most 1. `vocabulary`: keep only the most probable token of the whole source vocabulary; a
        row is 0 if the source does not contain it.
        """
        attention_weights = self.decoder.with_explanation_weights(memory, attention_weights)
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
        """Log-probabilities (B, K, C) of the tokens that search may write next, in at least fp32, and their ids (B, C).

        C is the whole vocabulary, or each sentence's candidates, among which alone the probabilities are normalised;
        padding has the log-probability -inf. A special symbol's column is its id.
        """
        if OUTPUT not in memory.candidates:
            words_V = torch.arange(self.config.target.vocabulary, device=readout_BKR.device)
            return self.log_probabilities(readout_BKR), words_V.expand(readout_BKR.shape[0], -1)
        own = memory.candidates[OUTPUT]
        if isinstance(self.output, Int8Linear):
            # The product with the whole matrix, which all sentences share, takes less time than products with each
            # sentence's rows.
            index_BKC = own.words_BC[:, None].expand(-1, readout_BKR.shape[1], -1)
            logits_BKC = self.logits(readout_BKR).gather(-1, index_BKC) + own.bias_BC[:, None]
        else:
            # The larger matrix is the left one, which on a CPU takes half the time of the transposed product.
            logits_BKC = torch.baddbmm(own.bias_BC[..., None], own.weight_BCR, readout_BKR.mT).mT.contiguous()
        return log_softmax(logits_BKC), own.words_BC

    @property
    def embeddings(self) -> list[nn.Embedding]:
        """Word embeddings of every text source and of the target."""
        return [*self.source_words, self.target_words]

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


def build(config: ModelConfig) -> Model:
    """Builds a model with random weights from torch's default generator."""
    return Model(config)
