"""LSTM and GRU cells with layer normalisation (Ba et al. 2016, supplementary material; as in Nematus).

The product of a cell's input and the product of its state are normalised separately, before they are summed.

Axes: leading ones are free (B, K), H hidden size, I input size.
"""

import torch
from torch import Tensor, nn

from interlinear.models.layers.layer_norm import LayerNorm
from interlinear.models.layers.step_linear import StepInputs, StepLinear
from interlinear.models.recurrent.cells.lstm_gru import CellState, interpolate


class LayerNormLSTMCell(nn.Module):
    """Long short-term memory with layer normalisation (Ba et al. 2016, equations 20 - 22).

        (i, f, g, o) = LN(W x) + LN(U s)
        c' = sigmoid(f) * c + sigmoid(i) * tanh(g)        s' = sigmoid(o) * tanh(LN(c'))

    x is every input beside the state s: word, contexts, and the layer below. A contextual gate's summand is part of W
    x. The bias b of equation 20 is the bias of LN(W x). Sizes are as in `LSTMCell`.
    """

    leaves = ("hidden", "memory")
    gates_count = 4

    def __init__(self, words: int, inputs: int, hidden: int) -> None:
        super().__init__()
        self.words = nn.Linear(words, 4 * hidden, bias=False) if words else None
        self.inputs = StepLinear(inputs, 4 * hidden)
        self.state = StepLinear(hidden, 4 * hidden)
        self.input_norm, self.state_norm = LayerNorm(4 * hidden), LayerNorm(4 * hidden)
        self.memory_norm = LayerNorm(hidden)

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """The word's summand of W x, (..., 4H)."""
        return {} if self.words is None else {self.inputs: self.words(words)}

    def open_forget_gate(self) -> None:
        """Sets the forget bias to 1, as `LSTMCell.open_forget_gate`."""
        bias = self.input_norm.bias
        bias[bias.shape[0] // 4 : bias.shape[0] // 2] = 1.0

    def recurrent_weights(self) -> list[Tensor]:
        """The map of the state, (4H, H)."""
        return [self.state.weight]

    def forward(
        self,
        step: StepInputs,
        inputs: Tensor,
        state: CellState,
        added: Tensor | None = None,
        dropped: Tensor | None = None,
    ) -> CellState:
        """The state after one step; arguments as in `LSTMCell`."""
        hidden, memory = state
        from_state = self.state_norm(step(self.state, hidden if dropped is None else dropped))
        from_inputs = step(self.inputs, inputs)
        from_inputs = self.input_norm(from_inputs if added is None else from_inputs + added)
        i, f, g, o = (from_inputs + from_state).chunk(4, -1)
        memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(self.memory_norm(memory)), memory


class LayerNormGRUCell(nn.Module):
    """Gated recurrent unit with layer normalisation (Ba et al. 2016, supplementary material), in `GRUCell`'s forms.

        (r, z) = sigmoid(LN(W x) + LN(U s))
        cudnn:  n = tanh(LN(W_n x) + r * LN(U_n s))       s' = (1 - z) * n + z * s
        paper:  n = tanh(LN(W_n x) + LN(U_n [r * s]))     s' = (1 - z) * s + z * n

    r and z are normalised together, as one vector of 2H numbers, the candidate n by itself. x is as in
    `LayerNormLSTMCell`.
    """

    leaves = ("hidden",)
    gates_count = 3

    def __init__(self, words: int, inputs: int, hidden: int, form: str) -> None:
        super().__init__()
        self.form = form
        self.hidden = hidden
        self.words = nn.Linear(words, 3 * hidden, bias=False) if words else None
        self.inputs = StepLinear(inputs, 3 * hidden)
        self.state = StepLinear(hidden, 2 * hidden)
        self.candidate_state = StepLinear(hidden, hidden)
        self.input_norm, self.state_norm = LayerNorm(2 * hidden), LayerNorm(2 * hidden)
        self.candidate_input_norm, self.candidate_state_norm = LayerNorm(hidden), LayerNorm(hidden)

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """The word's summand of W x and W_n x, (..., 3H)."""
        return {} if self.words is None else {self.inputs: self.words(words)}

    def recurrent_weights(self) -> list[Tensor]:
        """The maps of the state: of r and z, (2H, H), and of the candidate, (H, H)."""
        return [self.state.weight, self.candidate_state.weight]

    def forward(
        self,
        step: StepInputs,
        inputs: Tensor,
        state: CellState,
        added: Tensor | None = None,
        dropped: Tensor | None = None,
    ) -> CellState:
        """The state after one step; arguments as in `GRUCell`."""
        (hidden,) = state
        dropped = hidden if dropped is None else dropped
        from_inputs = step(self.inputs, inputs)
        from_inputs = from_inputs if added is None else from_inputs + added
        to_gates, to_candidate = from_inputs.split([2 * self.hidden, self.hidden], -1)
        gates = self.input_norm(to_gates) + self.state_norm(step(self.state, dropped))
        candidate = self.candidate_input_norm(to_candidate)
        r, z = torch.sigmoid(gates).chunk(2, -1)
        if self.form == "paper":
            n = torch.tanh(candidate + self.candidate_state_norm(step(self.candidate_state, r * dropped)))
            return (interpolate(hidden, n, z),)
        n = torch.tanh(candidate + r * self.candidate_state_norm(step(self.candidate_state, dropped)))
        return (interpolate(n, hidden, z),)
