"""The model: sources to memory, words to readouts, readouts to probabilities. Single-device code.

Axes: B sentences, K hypotheses of each, T source positions, L target positions, E embedding, R readout,
V target vocabulary.
"""

import math
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.batch import Batch
from seq2seq.config import ModelConfig, TextVocabulary
from seq2seq.explain import AttentionWeights
from seq2seq.layers.cells import GRUCell, LSTMCell
from seq2seq.layers.encoders import ImageEncoder, TextEncoder
from seq2seq.layers.gates import SelectiveGate
from seq2seq.layers.state import Memory, State, View, pad_or_trim
from seq2seq.layers.step_linear import StepInputs
from seq2seq.losses.cross_entropy import Loss, bag_of_words, chunked_cross_entropy, log_likelihoods
from seq2seq.model.attend import STATES
from seq2seq.model.step_orders import build_decoder
from seq2seq.text import BEGIN, END, PAD


class Model(nn.Module):
    """A recurrent encoder, a recurrent decoder, and the ways of looking that the config names."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoders = nn.ModuleDict(
            {
                name: TextEncoder(config, source.vocabulary)
                if isinstance(source, TextVocabulary)
                else ImageEncoder(config, source)
                for name, source in config.sources.items()
            }
        )
        # The alignment module's <null>, which a target is filled up with, is PAD: then a word that is learned.
        null = None if config.alignment_module else PAD
        self.target_words = nn.Embedding(config.target.vocabulary, config.embedding, padding_idx=null)
        self.decoder = build_decoder(config)
        self.output = nn.Linear(config.readout_size, config.target.vocabulary)
        self.alignment = None
        if config.alignment_module:
            ((self.source, words),) = config.texts.items()
            self.alignment = nn.Linear(config.readout_size, words.vocabulary)
        read = config.combined_size if config.combination == "flat" else config.annotation
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
        self.initialize()

    @property
    def attention_kinds(self) -> list[str]:
        """The kinds of looks that it explains itself by."""
        return self.config.attention_kinds

    @property
    def texts(self) -> dict[str, TextEncoder]:
        """The encoders of sources that are text."""
        return {name: cast(TextEncoder, self.encoders[name]) for name in self.config.texts}

    @property
    def images(self) -> dict[str, ImageEncoder]:
        """The encoders of sources that are images."""
        return {name: cast(ImageEncoder, self.encoders[name]) for name in self.config.images}

    def encode(self, batch: Batch) -> Memory:
        """What the decoder reads, computed once a sentence."""
        if self.training and self.config.source_dropout:
            batch = drop_sources(batch, self.config.source_dropout)
        views: dict[str, View] = {}
        summaries = []
        for name in self.config.sources:
            read = self.encoders[name](batch.sources[name])
            views |= self.decoder.views(name, read)
            if self.config.combination != "none":  # an absent source says nothing
                read = replace(read, summary_BS=read.summary_BS * ~views[f"{name}.{STATES}"].absent_B1)
            summaries.append(read.summary_BS)
        tokens = {}
        if self.alignment is not None:
            text = batch.text(self.source)
            tokens[self.source] = text.ids_BT.masked_fill(text.padding_BT, PAD)
        return Memory(views, torch.cat(summaries, -1), tokens)

    def start(self, memory: Memory) -> State:
        """The decoder's state before the first word, one hypothesis a sentence."""
        return self.decoder.start(memory)

    def step(self, memory: Memory, state: State, token_BK: Tensor) -> tuple[State, Tensor, AttentionWeights]:
        """One word of every hypothesis: the state behind it, the readout (B, K, R) and what was looked at."""
        words_BKE = self.embed(token_BK)
        state, output = self.decoder.advance(memory, state, StepInputs(self.decoder.precompute(words_BKE)))
        return state, self.decoder.read(words_BKE, output.hidden, output.contexts), output.attention_weights

    def teacher_forced(self, memory: Memory, target_BKL: Tensor) -> tuple[Tensor, AttentionWeights]:
        """Readouts (B, K, L, R) and looks at every position of K targets a sentence, given the words before it."""
        readouts_BKLR, attention_weights = self.unroll(memory, target_BKL)
        return readouts_BKLR, self.with_fertility(memory, AttentionWeights.stack(attention_weights))

    def forced_attention(self, memory: Memory, target_BKL: Tensor, vocabulary: bool = False) -> AttentionWeights:
        """What targets look at, by forced decoding, with all that `with_explanation_weights` adds."""
        readouts_BKLR, attention_weights = self.unroll(memory, target_BKL)
        return self.with_explanation_weights(
            memory, readouts_BKLR, AttentionWeights.stack(attention_weights), vocabulary
        )

    def with_explanation_weights(
        self, memory: Memory, readouts_BKLR: Tensor, attention_weights: AttentionWeights, vocabulary: bool = False
    ) -> AttentionWeights:
        """The looks of steps with what only explanations need: with linguistic coverage the fertilities; with the
        alignment module kind `uam`: q_j of the source's own tokens, each at its place, and of several at the one with
        the most attention (divided among equals). A row sums to what q_j gives to the source's tokens, at most 1.

        `vocabulary`: only of the token that q_j is largest for in the whole source vocabulary; a row is 0 where the
        source does not have that token.
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
        """With linguistic coverage: what it expects of every source position."""
        if self.config.coverage != "linguistic":
            return attention_weights
        views = {view.source: view for name, view in memory.views.items() if name.endswith(f".{STATES}")}
        return replace(attention_weights, fertility={name: view.covered_BTC[..., 0] for name, view in views.items()})

    def unroll(self, memory: Memory, target_BKL: Tensor) -> tuple[Tensor, list[AttentionWeights]]:
        """Readouts (B, K, L, R), and the looks of each step."""
        before_BKL = F.pad(target_BKL, (1, -1), value=BEGIN)
        words_BKLE = F.dropout(self.embed(before_BKL), self.config.dropout, self.training)
        return self.decoder.unroll(memory, words_BKLE)

    def source_log_probabilities(self, readout: Tensor) -> Tensor | None:
        """The alignment module's log q over the source vocabulary (..., V_x), or None without one: equation 13 of
        Kiyono et al. 2018. For training, `align` and explanations only; search never calls it."""
        if self.alignment is None:
            return None
        logits = self.alignment(readout)
        return torch.log_softmax(logits, -1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def embed(self, token: Tensor) -> Tensor:
        """The words before; the first may be a zero vector by `first_word`."""
        words: Tensor = self.target_words(token)
        if self.config.first_word == "zero":
            words = words.masked_fill((token == BEGIN)[..., None], 0.0)
        return words

    def logits(self, readout: Tensor) -> Tensor:
        """(..., R) -> (..., V)."""
        logits: Tensor = self.output(readout)
        return logits

    def log_probabilities(self, readout: Tensor) -> Tensor:
        """The output layer: (..., R) -> log p over the vocabulary (..., V), in fp32 or better."""
        logits = self.logits(readout)
        return torch.log_softmax(logits, -1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def loss(self, batch: Batch, smoothing: float = 0.0) -> Loss:
        """The loss of a batch, summed over its target words (END counted).

        With the alignment module every target is filled up with <null> to its source's length, and the bag-of-words
        loss is added (Kiyono et al. 2018, equation 19); the nats and the smoothing remain those of the real words.
        """
        assert batch.target_BL is not None
        target_BL = batch.target_BL
        if self.alignment is not None:
            target_BL = pad_or_trim(target_BL, 1, max(target_BL.shape[1], batch.text(self.source).ids_BT.shape[1]), PAD)
        memory = self.encode(batch)
        readouts_BLR = self.unroll(memory, target_BL[:, None])[0][:, 0]
        readouts_BLR = F.dropout(readouts_BLR, self.output_dropout, self.training)
        real_BL = target_BL != PAD
        loss = self.word_loss(readouts_BLR, target_BL, real_BL, smoothing)
        if self.image_words is not None:
            loss = replace(loss, objective=loss.objective + self.image_word_loss(memory, batch.target_BL))
        if self.alignment is None:
            return loss
        text = batch.text(self.source)
        steps_BL = bag_of_words_steps(real_BL.sum(1), text.lengths_B, target_BL.shape[1], self.config.alignment_longer)
        null_BL = ~real_BL & (torch.arange(target_BL.shape[1], device=real_BL.device) < text.lengths_B[:, None])
        # Never smoothed: of what is soon certain, and most of the target, that would be all there is to learn from.
        nulls = self.word_loss(readouts_BLR, target_BL, null_BL, 0.0)
        words_BT = text.ids_BT.masked_fill(text.padding_BT, PAD)
        bags = bag_of_words(
            readouts_BLR, self.alignment.weight, self.alignment.bias, steps_BL, words_BT,
            self.config.alignment_weight or 10.0,
        )  # fmt: skip
        return Loss(loss.objective + nulls.objective + bags, loss.nats)

    def image_word_loss(self, memory: Memory, target_BL: Tensor) -> Tensor:
        """The negative log-likelihood of every target's bag of words given each of its images alone, weighted.

        Every region foretells words, p(w | image) = 1/T sum_t softmax(W v_t)_w, so that regions come to differ by what
        is in them, which is what attention looks for. v_t is what attention reads, T the regions.
        """
        assert self.image_words is not None
        total = memory.summary_BS.new_zeros((), dtype=torch.promote_types(memory.summary_BS.dtype, torch.float32))
        for name, head in self.image_words.items():
            view = memory.views[f"{name}.{STATES}"]
            there = ~view.absent_B1[:, 0]
            log_p_NTV = torch.log_softmax(head(view.values_BTD[there]), -1, dtype=total.dtype)
            words_NL = target_BL[there]
            log_p_NTL = log_p_NTV.gather(-1, words_NL[:, None].expand(-1, log_p_NTV.shape[1], -1))
            log_p_NL = torch.logsumexp(log_p_NTL, 1) - math.log(log_p_NTV.shape[1])
            total = total - (log_p_NL * (words_NL > END)).sum()
        return total * (self.config.image_words or 0.0)

    def log_likelihoods(self, memory: Memory, target_BKL: Tensor) -> Tensor:
        """log P(y | x) of K targets a sentence, each ending with END, (B, K); 0 for a target of PAD alone.

        The alignment module's <null>s belong to training on pairs: no output that search could write has any.
        """
        readouts_BKLR = self.unroll(memory, target_BKL)[0]
        readouts_BKLR = F.dropout(readouts_BKLR, self.output_dropout, self.training)
        real_BKL = target_BKL != PAD
        words_N = log_likelihoods(readouts_BKLR[real_BKL], self.output.weight, self.output.bias, target_BKL[real_BKL])
        return words_N.new_zeros(real_BKL.shape).masked_scatter(real_BKL, words_N).sum(-1)

    def word_loss(self, readouts_BLR: Tensor, target_BL: Tensor, chosen_BL: Tensor, smoothing: float) -> Loss:
        """The loss of the chosen positions."""
        weight_VR, bias_V = self.output.weight, self.output.bias
        return chunked_cross_entropy(readouts_BLR[chosen_BL], weight_VR, bias_V, target_BL[chosen_BL], smoothing)

    @torch.no_grad()
    def initialize(self) -> None:
        """Weights by `initialization`.

        xavier: Glorot's uniform, zero biases, open forget and selective gates. uniform: one for everything (Wu et al.
        2018). orthogonal: orthogonal recurrent weights, zero biases, a normal for the rest (Meng et al. 2016). An
        image network has drawn its own.
        """
        kind, scale = self.config.initialization, self.config.initialization_scale
        networks = {
            id(weight) for image in self.images.values() if image.network for weight in image.network.parameters()
        }
        for parameter in self.parameters():
            if id(parameter) in networks:
                continue
            if kind == "uniform":
                nn.init.uniform_(parameter, -(scale or 0.05), scale or 0.05)
            elif parameter.dim() == 1:
                nn.init.zeros_(parameter)
            elif kind == "orthogonal":
                nn.init.normal_(parameter, std=scale or 0.01)
            else:
                nn.init.xavier_uniform_(parameter)
        if kind == "xavier":  # Glorot's fan would be the vocabulary: far too small
            for weight in (self.output.weight, *(words.weight for words in self.embeddings)):
                nn.init.normal_(weight, std=1 / math.sqrt(weight.shape[1]))
            open_gates(self)
        elif kind == "orthogonal":
            orthogonalize(self)
        for words in self.embeddings:
            if words.padding_idx is not None:
                words.weight[PAD] = 0

    @property
    def embeddings(self) -> list[nn.Embedding]:
        """The words of every text source, and of the target."""
        return [*(text.words for text in self.texts.values()), self.target_words]

    def parameter_counts(self) -> dict[str, int]:
        """Parameters by part; those that are shared count once."""
        output: set[int] = set()
        counts: dict[str, int] = {}
        for name, parameter in self.named_parameters():
            part = ".".join(name.split(".")[: {"decoder": 2, "encoders": 3}.get(name.split(".")[0], 1)])
            counts[part] = counts.get(part, 0) + (0 if id(parameter) in output else parameter.numel())
            output.add(id(parameter))
        return counts


def open_gates(model: Model) -> None:
    """Forget biases of 1 in every LSTM, and selective gates that let annotations through."""
    for module in model.modules():
        if isinstance(module, LSTMCell):
            module.open_forget_gate()
        elif isinstance(module, SelectiveGate):
            module.open_gate()
        elif isinstance(module, nn.LSTM):
            for layer in range(module.num_layers):
                getattr(module, f"bias_ih_l{layer}")[module.hidden_size : 2 * module.hidden_size] = 1.0


def orthogonalize(model: Model) -> None:
    """An orthogonal matrix for every map from a cell's state to one of its gates."""
    hidden = model.config.hidden
    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            recurrent = [getattr(module, f"weight_hh_l{layer}") for layer in range(module.num_layers)]
        elif isinstance(module, LSTMCell):
            recurrent = [module.gates.weight[:, -hidden:]]
        elif isinstance(module, GRUCell):
            recurrent = [module.gates.weight[:, -hidden:], module.candidate_state.weight]
        else:
            continue
        for weight in recurrent:
            for gate in weight.split(hidden):
                gate.copy_(nn.init.orthogonal_(torch.empty(hidden, hidden)))


def drop_sources(batch: Batch, share: float) -> Batch:
    """The batch without a share of the sources that its sentences have; where all would go, all stay."""
    lengths_NB = torch.stack([source.lengths_B for source in batch.sources.values()])
    kept_NB = (lengths_NB > 0) & (torch.rand(lengths_NB.shape, device=lengths_NB.device) >= share)
    kept_NB = kept_NB | ~kept_NB.any(0)
    hidden = {
        name: replace(source, lengths_B=source.lengths_B * kept)
        for (name, source), kept in zip(batch.sources.items(), kept_NB, strict=True)
    }
    return replace(batch, sources=hidden)


def bag_of_words_steps(targets_B: Tensor, sources_B: Tensor, steps: int, longer: str | None) -> Tensor:
    """How much each step counts in the sum over steps that is to match the source's bag of words, (B, L).

    A source of I tokens has I steps (Kiyono et al. 2018, section 4.1). Where its target has more, J + 1 > I, there is
    no <null>, and `longer` says which count: the first I, all, or all scaled by I / (J + 1).
    """
    all_B = torch.maximum(targets_B, sources_B)
    counted_B = sources_B if longer in (None, "first") else all_B
    position_L = torch.arange(steps, device=targets_B.device)
    steps_BL = (position_L < counted_B[:, None]).to(torch.get_default_dtype())
    return steps_BL * (sources_B.double() / all_B)[:, None] if longer == "scaled" else steps_BL


def build(config: ModelConfig) -> Model:
    """A new model with fresh weights, drawn from torch's default generator."""
    return Model(config)
