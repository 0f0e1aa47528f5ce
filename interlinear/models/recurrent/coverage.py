"""Coverage: a record of past attention that enters the attention energies (Tu et al. 2016).

Each hypothesis has its own coverage. Axes: B sentences, K hypotheses of each, T source positions, C coverage size,
D annotation, H state.
"""

import torch
from torch import Tensor, nn

from interlinear.models.layers.step_linear import product_dtype


class NeuralCoverage(nn.Module):
    """A small GRU without biases at every source position, with a zero initial state (Tu et al. 2016, section 3.1.2).

        C_ij = GRU(C_{i-1,j}; alpha_ij, h_j, s_{i-1})

    The summand of h_j is computed once per sentence, by `annotations`.
    """

    def __init__(self, annotation: int, state: int, size: int, form: str) -> None:
        super().__init__()
        self.size, self.form = size, form
        self.annotation = nn.Linear(annotation, 3 * size, bias=False)
        self.weight = nn.Linear(1, 3 * size, bias=False)
        self.state = nn.Linear(state, 3 * size, bias=False)
        self.gates = nn.Linear(size, 2 * size, bias=False)
        self.candidate = nn.Linear(size, size, bias=False)

    def annotations(self, values: Tensor) -> Tensor:
        """The annotations' summand of the gates, (B, [K,] T, 3C)."""
        share: Tensor = self.annotation(values)
        return share

    def forward(self, coverage_BKTC: Tensor, weights_BKT: Tensor, share_BKT3: Tensor, before_BKH: Tensor) -> Tensor:
        """The coverage after this step's attention, (B, K, T, C)."""
        dtype = product_dtype(self.weight.weight)  # of the matrix products; the coverage itself stays in fp32
        known = (
            share_BKT3 + self.weight(weights_BKT[..., None].to(dtype)) + self.state(before_BKH.to(dtype))[:, :, None]
        )
        gates, candidate = known.split([2 * self.size, self.size], -1)
        covered_BKTC = coverage_BKTC.to(dtype)
        r, z = torch.sigmoid(gates + self.gates(covered_BKTC)).chunk(2, -1)
        if self.form == "paper":
            n = torch.tanh(candidate + self.candidate((r * covered_BKTC).to(dtype)))
            return torch.lerp(coverage_BKTC, n.to(coverage_BKTC.dtype), z.to(coverage_BKTC.dtype))
        n = torch.tanh(candidate + r * self.candidate(covered_BKTC))
        return torch.lerp(n.to(coverage_BKTC.dtype), coverage_BKTC, z.to(coverage_BKTC.dtype))


class LinguisticCoverage(nn.Module):
    """Sum of the attention weights over a predicted fertility of each annotation (Tu et al. 2016, section 3.1.1).

    C_ij = C_{i-1,j} + alpha_ij / Phi_j         Phi_j = N sigmoid(U_f . h_j)
    """

    size = 1

    def __init__(self, annotation: int, max_fertility: float) -> None:
        super().__init__()
        self.max_fertility = max_fertility
        self.fertility = nn.Linear(annotation, 1, bias=False)

    def annotations(self, values: Tensor) -> Tensor:
        """The fertilities Phi_j, (B, [K,] T, 1)."""
        return self.max_fertility * torch.sigmoid(self.fertility(values))

    def forward(self, coverage_BKT1: Tensor, weights_BKT: Tensor, share_BKT1: Tensor, before_BKH: Tensor) -> Tensor:
        """The coverage after this step's attention, (B, K, T, 1)."""
        return coverage_BKT1 + weights_BKT[..., None] / share_BKT1


Coverage = NeuralCoverage | LinguisticCoverage
