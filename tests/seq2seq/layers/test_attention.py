"""The tanh of the energies."""

import pytest
import torch

from seq2seq.layers.attention import tanh_of_sum


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 2e-7), (torch.float64, 4e-16), (torch.bfloat16, 0.0)])
def test_tanh_of_a_sum(dtype: torch.dtype, bound: float) -> None:
    extremes = torch.tensor([0.0, 1e-30, 1e-4, 20.0, 1e4, 1e30, torch.inf])
    x = torch.cat([extremes, -extremes, torch.linspace(-9, 9, 1001)]).to(dtype)
    rows, zero, again = x[:, None], torch.zeros(1, 3, dtype=dtype), x.clone()
    found = tanh_of_sum(rows, zero, zero)
    assert found.shape == (len(x), 3) and torch.equal(rows[:, 0], again) and not zero.any()
    assert (found - torch.tanh(rows + zero + zero)).abs().max() <= bound
    assert tanh_of_sum(torch.full((2,), torch.nan, dtype=dtype), zero[0, :2]).isnan().all()


def test_gradients_are_those_of_tanh() -> None:
    x = torch.randn(7, dtype=torch.float64, requires_grad=True)
    tanh_of_sum(x, torch.zeros(1, dtype=torch.float64)).sum().backward()
    torch.testing.assert_close(x.grad, 1 - torch.tanh(x.detach()) ** 2)
