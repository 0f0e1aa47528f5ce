"""Encoders of text: they compute the annotations that the decoder attends to.

Axes: B sentences, T source positions, E embedding, H hidden, D annotation size (2H, or H where directions are summed).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from interlinear.batch import InputLengths, TextInput
from interlinear.config import RecurrentArchitecture, RecurrentConfig
from interlinear.devices import to_device
from interlinear.models.layers.dropout import drop_words
from interlinear.models.layers.step_linear import at_least_fp32
from interlinear.models.protocol import EncoderOutput, masked_mean
from interlinear.models.recurrent.cells import StackedCells
from interlinear.models.recurrent.gates import SelectiveGate
from interlinear.text import PAD


class TextEncoder(nn.Module):
    """Word embeddings, a bidirectional recurrent encoder, and a selective gate if the config has one."""

    def __init__(self, config: RecurrentConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(vocabulary, config.embedding, padding_idx=PAD)
        self.recurrent = BidirectionalEncoder(config)
        gated = {"none": None, "sum": config.hidden, "concatenation": 2 * config.hidden}[config.selective_gate]
        self.gate = None if gated is None else SelectiveGate(config.annotation, gated)

    def forward(self, text: TextInput) -> EncoderOutput:
        words_BTE = self.words(text.ids_BT)  # without dropout, for word attention
        entering_BTE = drop_words(words_BTE, self.config.word_dropout, self.training)
        encoded = self.recurrent(F.dropout(entering_BTE, self.config.dropout, self.training), text)
        states_BTD, padding_BT = encoded.states_BTD, text.padding_BT
        if self.gate is not None:
            ends = (encoded.last_forward_BH, encoded.first_backward_BH)
            sentence_BS = torch.cat(ends, -1) if self.config.selective_gate == "concatenation" else sum(ends)
            states_BTD = self.gate(states_BTD, sentence_BS)
        return EncoderOutput(states_BTD, self.summary(encoded, padding_BT), padding_BT, words_BTE)

    def summary(self, encoded: "BidirectionalOutput", padding_BT: Tensor) -> Tensor:
        """The sentence summary chosen by `first_state`, (B, S); the selective gate does not apply to it."""
        if encoded.last_BS is not None:
            return encoded.last_BS
        if self.config.first_state == "mean":
            return masked_mean(encoded.states_BTD, padding_BT)
        if self.config.first_state == "ends":
            return torch.cat([encoded.last_forward_BH, encoded.first_backward_BH], -1)
        return encoded.last_forward_BH if self.config.first_state == "last" else encoded.first_backward_BH


@dataclass(frozen=True)
class BidirectionalOutput:
    """Output of the bidirectional encoder.

    states_BTD: annotations. last_forward_BH, first_backward_BH: the top layer's forward state at the last word and
    backward state at the first. last_BS: the last states (and LSTM memories) of every layer, directions summed and
    layers concatenated; only where the config's `first_state` is "sum".
    """

    states_BTD: Tensor
    last_forward_BH: Tensor
    first_backward_BH: Tensor
    last_BS: Tensor | None


class BidirectionalEncoder(nn.Module):
    """Bidirectional recurrent encoder: h_j = [forward_j; backward_j] (Bahdanau et al. 2015, section 3.2), or their sum
    (Kiyono et al. 2018, equation 4).

    `encoder_stacks`: separate, each direction is a stack of layers of its own, and the top layers are combined; or
    interleaved, the directions are combined after every layer. Padding does not affect the states of real positions:
    the backward direction runs over each sentence reversed by its own length.
    """

    def __init__(self, config: RecurrentArchitecture) -> None:
        super().__init__()
        together = config.encoder_stacks != "interleaved"
        stacks, depth = (1, config.encoder_depth) if together else (config.encoder_depth, 1)
        sizes = [config.embedding] + [config.annotation] * (stacks - 1)
        self.forwards = nn.ModuleList(build_direction(config, size, depth) for size in sizes)
        self.backwards = nn.ModuleList(build_direction(config, size, depth) for size in sizes)
        self.dropout = config.dropout
        self.summed = config.directions == "summed"
        self.needs_last_states = config.first_state == "sum"

    def forward(self, words_BTE: Tensor, text: InputLengths) -> BidirectionalOutput:
        """Encodes a text's embeddings (B, T, E); annotations of padding are finite and have no meaning."""
        lengths_B = text.lengths_B
        position_T = torch.arange(words_BTE.shape[1], device=lengths_B.device)
        mirror_BT = lengths_B[:, None] - 1 - position_T
        mirror_BT = torch.where(mirror_BT >= 0, mirror_BT, position_T)
        states, forward, backward, last = words_BTE, words_BTE, words_BTE, []
        for i, (ahead, back) in enumerate(zip(self.forwards, self.backwards, strict=True)):
            states = F.dropout(states, self.dropout, self.training and i > 0)
            with usable_kernels(states.device):
                if self.needs_last_states:
                    forward, ends = run_with_last_states(ahead, states, text)
                    mirrored, back_ends = run_with_last_states(back, gather_positions(states, mirror_BT), text)
                    last += [one + other for one, other in zip(ends, back_ends, strict=True)]
                else:
                    forward = top_states(ahead, states, text)
                    mirrored = top_states(back, gather_positions(states, mirror_BT), text)
            backward = gather_positions(mirrored, mirror_BT)
            states = forward + backward if self.summed else torch.cat([forward, backward], -1)
        return BidirectionalOutput(
            states, last_states(forward, lengths_B), backward[:, 0], torch.cat(last, -1) if last else None
        )


@contextmanager
def usable_kernels(device: torch.device) -> Iterator[None]:
    """Disables oneDNN for recurrent layers under CPU autocast where its LSTM does not support bf16 on this processor.

    torch chooses oneDNN's LSTM for fp32 inputs, and autocast then casts them to bf16, which raises RuntimeError on
    processors without AVX-512. torch's own loop computes its products in bf16 and its states in fp32.
    """
    if device.type != "cpu" or not torch.is_autocast_enabled("cpu") or onednn_has_half_lstm():
        yield
        return
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


@cache
def onednn_has_half_lstm() -> bool:
    """Whether an LSTM runs under bf16 autocast on this processor. Runs one to find out: torch has no public query."""
    with torch.inference_mode(), torch.random.fork_rng(devices=[]), torch.autocast("cpu", torch.bfloat16):
        try:
            nn.LSTM(1, 1, device="cpu")(torch.zeros(1, 1, 1, device="cpu"))
        except RuntimeError:
            return False
    return True


def top_states(network: nn.Module, inputs_BTI: Tensor, text: InputLengths) -> Tensor:
    """States of the top layer (B, T, H); without meaning at padding."""
    if text.lengths is None and isinstance(network, nn.LSTM | nn.GRU):
        return run_layers(network, inputs_BTI)[-1][1]
    states_BTH: Tensor = network(inputs_BTI)[0]
    return states_BTH


def run_with_last_states(network: nn.Module, inputs_BTI: Tensor, text: InputLengths) -> tuple[Tensor, list[Tensor]]:
    """States of the top layer (B, T, H), and each layer's state (and memory) at each sentence's last word, (B, H)."""
    if isinstance(network, StackedCells):
        states_BTH, layers = network(inputs_BTI)
        return states_BTH, [last_states(layer, text.lengths_B) for layer in layers]
    assert isinstance(network, nn.LSTM | nn.GRU)
    if text.lengths is None:
        layers = run_layers(network, inputs_BTI)
        found = []
        for i, (inputs, states_BTH) in enumerate(layers):
            found.append(last_states(states_BTH, text.lengths_B))
            if isinstance(network, nn.LSTM):
                found.append(last_memory(inputs, states_BTH, text.lengths_B, layer_weights(network, i)))
        return layers[-1][1], found
    # Kernels return the LSTM memory only at the end of a sequence; in a packed one that is the sentence's end.
    # The rows are sorted here, by the lengths on the host: torch would read its order back from the device.
    sorted_lengths, order_B = torch.tensor(text.lengths).sort(descending=True)
    row_B, sorted_B = to_device([order_B.argsort(), order_B], inputs_BTI.device)
    sorted_BTI = inputs_BTI.index_select(0, sorted_B)
    output, ends = network(pack_padded_sequence(sorted_BTI, sorted_lengths, batch_first=True))
    states_BTH, _ = pad_packed_sequence(output, batch_first=True, total_length=inputs_BTI.shape[1])
    leaves = list(ends) if isinstance(ends, Tensor) else [leaf for layer in zip(*ends, strict=True) for leaf in layer]
    return states_BTH.index_select(0, row_B), [leaf.index_select(0, row_B) for leaf in leaves]


def run_layers(network: nn.LSTM | nn.GRU, inputs_BTI: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Inputs and states (B, T, H) of each layer, one by one: torch's kernels for all layers return the top layer's
    states only, and cuDNN's dropout between layers waits for the device whenever torch's generator was seeded."""
    layers: list[tuple[Tensor, Tensor]] = []
    start_1BH = inputs_BTI.new_zeros(1, inputs_BTI.shape[0], network.hidden_size)
    for i in range(network.num_layers):
        inputs_BTI = F.dropout(layers[-1][1], network.dropout, network.training) if layers else inputs_BTI
        weights = layer_weights(network, i)
        if network.num_layers > 1:  # cuDNN wants contiguous weights of a layer; a slice of several layers' is not
            flat = torch.cat([weight.flatten() for weight in weights]).split([weight.numel() for weight in weights])
            weights = [part.view_as(weight) for part, weight in zip(flat, weights, strict=True)]
        options = (True, 1, 0.0, network.training, False, True)  # biases, layers, dropout, one direction, batch first
        if isinstance(network, nn.LSTM):
            states_BTH, _, _ = torch.lstm(inputs_BTI, (start_1BH, start_1BH), weights, *options)
        else:
            states_BTH, _ = torch.gru(inputs_BTI, start_1BH, weights, *options)
        layers.append((inputs_BTI, states_BTH))
    return layers


def layer_weights(network: nn.LSTM | nn.GRU, layer: int) -> list[Tensor]:
    """A layer's maps of inputs and states, and their biases."""
    return [getattr(network, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def last_memory(inputs_BTI: Tensor, states_BTH: Tensor, lengths_B: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """The memory (B, H) of an LSTM layer at each sentence's last word, from the layer's inputs and states.

    Gates depend only on inputs and states, so the gates of all steps are computed at once, and c_t = f_t c_{t-1} + i_t
    g_t is the sum c_n = sum_t i_t g_t f_{t+1} ... f_n, whose products are computed as sums of logarithms.
    """
    weight_ih, weight_hh, bias_ih, bias_hh = weights
    before_BTH = F.pad(states_BTH, (0, 0, 1, -1))
    gates_BTG = F.linear(inputs_BTI, weight_ih, bias_ih) + F.linear(before_BTH, weight_hh, bias_hh)
    i, f, g, _ = at_least_fp32(gates_BTG).chunk(4, -1)
    padding_BT1 = (torch.arange(i.shape[1], device=lengths_B.device) >= lengths_B[:, None])[:, :, None]
    log_f = F.logsigmoid(f).masked_fill(padding_BT1, 0.0)
    log_kept = F.pad(log_f, (0, 0, -1, 1)).flip(1).cumsum(1).flip(1)  # product of all forget gates after step t
    added = (torch.sigmoid(i) * torch.tanh(g)).masked_fill(padding_BT1, 0.0)
    return (added * log_kept.exp()).sum(1).to(states_BTH.dtype)


def last_states(states_BTH: Tensor, lengths_B: Tensor) -> Tensor:
    """The states (B, H) at each sentence's last word; at the first position of an absent one."""
    return gather_positions(states_BTH, (lengths_B[:, None] - 1).clamp(min=0))[:, 0]


def build_direction(config: RecurrentArchitecture, inputs: int, layers: int) -> nn.Module:
    """One direction's stack of layers: (B, T, I) -> (B, T, H)."""
    paper_gru = config.cell == "gru" and config.gru == "paper"  # with an LSTM, `gru` is the form of neural coverage
    if paper_gru or config.layer_norm or config.state_dropout:
        return StackedCells(config, inputs, layers)
    dropout = config.dropout if layers > 1 else 0.0  # torch warns about dropout with a single layer
    network = nn.LSTM if config.cell == "lstm" else nn.GRU
    return network(inputs, config.hidden, layers, batch_first=True, dropout=dropout)


def gather_positions(states_BTD: Tensor, positions_BT: Tensor) -> Tensor:
    """Each row's states at its own positions: (B, T, D) at (B, P) -> (B, P, D)."""
    return states_BTD.gather(1, positions_BT[:, :, None].expand(-1, -1, states_BTD.shape[-1]))
