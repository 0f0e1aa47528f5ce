"""Gates outside the recurrent cells: the contextual gate and the selective gate.

Axes: leading ones are free (B, K), H hidden, P all gates of a cell together (LSTM 4H, GRU 3H); B sentences,
T source positions, D annotation.
"""

import torch
from torch import Tensor, nn

from interlinear.models.layers.step_linear import StepInputs, StepLinear, words_or_bias


class ContextualGate(nn.Module):
    """Weighs the two contexts inside one cell (Wu et al. 2018, equations 11 and 12).

        o = sigmoid(W_o x + U_o s + C_o^a c^a + C_o^b c^b)
        every gate and the candidate of the cell get  o * C^a c^a + (1 - o) * C^b c^b

    x is the cell's input: the previous word, or the layer below. The paper writes p for o in equation 11.
    """

    def __init__(self, words: int, inputs: int, hidden: int, annotation: int, embedding: int, gates: int) -> None:
        super().__init__()
        self.hidden, self.gates = hidden, gates
        self.fixed: float | None = None  # replaces o by one value, to measure the effect of the gate
        self.words = nn.Linear(words, hidden) if words else None
        self.bias = None if words else nn.Parameter(torch.zeros(hidden))
        self.state = StepLinear(inputs + hidden, hidden)
        # Output rows: the cell's gates, then the contextual gate o.
        self.annotation_context = StepLinear(annotation, (gates + 1) * hidden)
        self.word_context = StepLinear(embedding, (gates + 1) * hidden)

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """The term of o that does not depend on the recurrence, (..., H): from the words, or the bias alone."""
        return {self.state: words_or_bias(self.words, self.bias, words)}

    def forward(
        self, step: StepInputs, inputs: Tensor, hidden: Tensor, annotation_context: Tensor, word_context: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The contexts' summand of the cell's gates, (..., P), and o, (..., H)."""
        parts = [self.gates * self.hidden, self.hidden]
        from_annotations, gate_annotations = step(self.annotation_context, annotation_context).split(parts, -1)
        from_words, gate_words = step(self.word_context, word_context).split(parts, -1)
        own = step(self.state, torch.cat([inputs, hidden.to(inputs.dtype)], -1))
        gate = torch.sigmoid(own + gate_annotations + gate_words).to(from_words.dtype)
        if self.fixed is not None:
            gate = torch.full_like(gate, self.fixed)
        every = gate[..., None, :]  # the same for each of the cell's gates
        shape = (self.gates, self.hidden)
        mixed = torch.lerp(
            from_words.unflatten(-1, shape), from_annotations.to(from_words.dtype).unflatten(-1, shape), every
        )
        return mixed.flatten(-2), gate


class SelectiveGate(nn.Module):
    """Scales each annotation by a gate computed from it and the whole sentence (Zhou et al. 2017, section 3.2).

    h'_i = h_i * sigmoid(W h_i + U s + b)
    """

    def __init__(self, annotation: int, sentence: int) -> None:
        super().__init__()
        self.annotation = nn.Linear(annotation, annotation)
        self.sentence = nn.Linear(sentence, annotation, bias=False)

    def open_gate(self) -> None:
        """Sets the bias to 2, so that the untrained gate passes 0.88 of each annotation instead of half of it."""
        nn.init.constant_(self.annotation.bias, 2.0)

    def forward(self, states_BTD: Tensor, sentence_BS: Tensor) -> Tensor:
        """The gated annotations, (B, T, D)."""
        gated: Tensor = states_BTD * torch.sigmoid(self.annotation(states_BTD) + self.sentence(sentence_BS)[:, None])
        return gated
