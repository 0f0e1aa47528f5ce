"""LSTM and GRU cells that compute one step: for the decoder, and for encoders whose equations no fused kernel computes.

A cell's state accumulates over all steps, so it has at least fp32, whatever the precision of the matrix products.

Axes: leading ones are free (B, K), H hidden size, I input size, G gates.
"""

import torch
from torch import Tensor, nn

from interlinear.models.layers.step_linear import StepInputs, StepLinear, at_least_fp32, words_or_bias

CellState = tuple[Tensor, ...]  # hidden state (..., H), and for an LSTM the memory cell (..., H)


class LSTMCell(nn.Module):
    """Long short-term memory; gates in torch's order: input, forget, candidate, output.

    `words`: size of the inputs that are known before the recurrence and enter by `precompute` (0: none).
    `inputs`: size of the inputs of each step.
    """

    leaves = ("hidden", "memory")
    gates_count = 4

    def __init__(self, words: int, inputs: int, hidden: int) -> None:
        super().__init__()
        self.words = nn.Linear(words, 4 * hidden) if words else None
        self.bias = None if words else nn.Parameter(torch.zeros(4 * hidden))
        self.gates = StepLinear(inputs + hidden, 4 * hidden)

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """The summand of the gates that does not depend on the recurrence: (..., 4H), or the bias alone."""
        return {self.gates: words_or_bias(self.words, self.bias, words)}

    def open_forget_gate(self) -> None:
        """Sets the forget bias to 1, so that the untrained cell keeps its memory (Jozefowicz et al. 2015)."""
        bias = self.bias if self.words is None else self.words.bias
        assert bias is not None
        bias[bias.shape[0] // 4 : bias.shape[0] // 2] = 1.0

    def recurrent_weights(self) -> list[Tensor]:
        """The maps of the state, as views of the weights: all gates, (4H, H)."""
        return [self.gates.weight[:, -(self.gates.weight.shape[0] // 4) :]]

    def forward(
        self,
        step: StepInputs,
        inputs: Tensor,
        state: CellState,
        added: Tensor | None = None,
        dropped: Tensor | None = None,
    ) -> CellState:
        """The state after one step.

        `added` (..., 4H): the contextual gate's summand of the gates. `dropped` (..., H): the hidden state after
        dropout, which enters the products in its place.
        """
        hidden, memory = state
        hidden = hidden if dropped is None else dropped
        gates = step(self.gates, torch.cat([inputs, hidden.to(inputs.dtype)], -1))
        i, f, g, o = (gates if added is None else gates + added).chunk(4, -1)
        memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(memory), memory


class GRUCell(nn.Module):
    """Gated recurrent unit in one of two published forms, which differ in where r applies and in the meaning of z.

    y is the word, c the context, s the state, r and z sigmoid gates.

    cudnn:  n = tanh(W y + C c + r * (U s + b))     s' = (1 - z) * n + z * s
    paper:  n = tanh(W y + C c + U [r * s])         s' = (1 - z) * s + z * n      (Wu et al. 2018, equation 10)
    """

    leaves = ("hidden",)
    gates_count = 3

    def __init__(self, words: int, inputs: int, hidden: int, form: str) -> None:
        super().__init__()
        self.form = form
        self.hidden = hidden
        self.words = nn.Linear(words, 3 * hidden) if words else None
        self.bias = None if words else nn.Parameter(torch.zeros(3 * hidden))
        self.gates = StepLinear(inputs + hidden, 2 * hidden)
        self.candidate_inputs = StepLinear(inputs, hidden)
        self.candidate_state = StepLinear(hidden, hidden)
        self.candidate_bias = nn.Parameter(torch.zeros(hidden)) if form == "cudnn" else None

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        gates, candidate = words_or_bias(self.words, self.bias, words).split([2 * self.hidden, self.hidden], -1)
        bias = candidate.new_zeros(self.hidden) if self.candidate_bias is None else self.candidate_bias
        return {self.gates: gates, self.candidate_inputs: candidate, self.candidate_state: bias}

    def recurrent_weights(self) -> list[Tensor]:
        """The maps of the state, as views of the weights: r and z, (2H, H), and the candidate, (H, H)."""
        return [self.gates.weight[:, -self.hidden :], self.candidate_state.weight]

    def forward(
        self,
        step: StepInputs,
        inputs: Tensor,
        state: CellState,
        added: Tensor | None = None,
        dropped: Tensor | None = None,
    ) -> CellState:
        """The state after one step.

        `added` (..., 3H): the contextual gate's summand of r, z and the candidate. `dropped` (..., H): the hidden state
        after dropout, which enters the products in its place; the old state that z weighs is kept whole.
        """
        (hidden,) = state
        dropped = hidden if dropped is None else dropped
        gates = step(self.gates, torch.cat([inputs, dropped.to(inputs.dtype)], -1))
        candidate = step(self.candidate_inputs, inputs)
        if added is not None:
            to_gates, to_candidate = added.split([2 * self.hidden, self.hidden], -1)
            gates, candidate = gates + to_gates, candidate + to_candidate
        r, z = torch.sigmoid(gates).chunk(2, -1)
        if self.form == "paper":
            n = torch.tanh(candidate + step(self.candidate_state, r * dropped))
            return (interpolate(hidden, n, z),)
        n = torch.tanh(candidate + r * step(self.candidate_state, dropped))
        return (interpolate(n, hidden, z),)


def interpolate(start: Tensor, end: Tensor, z: Tensor) -> Tensor:
    """(1 - z) start + z end, in at least fp32: z may have the lower precision of the matrix products."""
    z = at_least_fp32(z)
    return (1 - z) * start + z * end
